"""What is wrong with parallel data: found, explained, and taken out."""
