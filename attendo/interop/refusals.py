"""What an export refuses before anything is computed or written, in a sentence that says what to do instead."""

from pathlib import Path

from attendo.bundle import Bundle
from attendo.errors import BundleError, ForeignError


def require_new(out: Path) -> None:
    """That nothing is in the way."""
    if out.exists():
        raise BundleError(f"{out} exists already. Choose another folder with --out, or remove it first.")


def require_own_tokenizer(bundle: Bundle, target: str) -> None:
    """That the ids are those of the tokenizer's library; an imported one has others, which nobody else would find."""
    if "imported" in (bundle.tokenizers.source.kind, bundle.tokenizers.target.kind):
        raise ForeignError(
            f"--to {target}: {bundle.path} has an imported tokenizer, whose ids others number differently. "
            "Use --to huggingface, which gives everything its old number."
        )
