"""The tokenizers of both sides."""

from dataclasses import dataclass

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
            both = Tokenizer.from_json(files["tokenizer.json"])
            return cls(both, both)
        return cls(
            Tokenizer.from_json(files["tokenizer.source.json"]), Tokenizer.from_json(files["tokenizer.target.json"])
        )
