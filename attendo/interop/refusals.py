"""What an export refuses before anything is computed or written, in a sentence that says what to do instead."""

from attendo.bundle import Bundle
from attendo.errors import ForeignError


def require_own_tokenizer(bundle: Bundle, target: str) -> None:
    """That the ids are those of the tokenizer's library; an imported one has others, which nobody else would find."""
    if "imported" in (bundle.tokenizers.source.kind, bundle.tokenizers.target.kind):
        raise ForeignError(
            f"--to {target}: {bundle.path} has an imported tokenizer, whose ids others number differently. "
            "Use --to huggingface, which gives everything its old number."
        )
