"""The tokenizers of both sides."""

import json
from dataclasses import dataclass

from attendo.text.imported import imported_from_json
from attendo.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenizerPair:
    """Source and target tokenizer; a joint one is both."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        return self.source is self.target

    def files(self) -> dict[str, str]:
        """The files of a folder that keep the pair."""
        if self.joint:
            return {"tokenizer.json": self.source.to_json()}
        return {"tokenizer.source.json": self.source.to_json(), "tokenizer.target.json": self.target.to_json()}

    @classmethod
    def from_files(cls, files: dict[str, str]) -> "TokenizerPair":
        if "tokenizer.json" in files:
            both = tokenizer_from_json(files["tokenizer.json"])
            return cls(both, both)
        return cls(
            tokenizer_from_json(files["tokenizer.source.json"]), tokenizer_from_json(files["tokenizer.target.json"])
        )


def tokenizer_from_json(text: str) -> Tokenizer:
    """A tokenizer that was trained here, or imported."""
    if text.startswith('{"kind": "imported"'):
        return imported_from_json(json.loads(text))
    return Tokenizer.from_json(text)
