"""`python -m attendo`"""

from attendo.cli.main import run

run()
