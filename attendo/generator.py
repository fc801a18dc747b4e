"""Text continued: a language model put to work."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attendo.bundle import Bundle
from attendo.data.texts import chunks
from attendo.data.windows import windows_batch
from attendo.decoding.beam import search
from attendo.decoding.greedy import greedy_ids, inferred
from attendo.decoding.sampling import sampled_ids
from attendo.decoding.search import SearchOptions
from attendo.engines.torch_engine import target_log_probs
from attendo.errors import ConfigError, DataError
from attendo.machine import DeviceName, ready
from attendo.models.gpt import GPT
from attendo.nn.cache import DecoderCache
from attendo.reporting import Reporter, Silent
from attendo.text.tokenizer import BOS, EOS, PAD, UNK, Tokenizer

USUAL_LENGTH = 200  # pieces
SCORED_TOKENS = 8192  # positions of windows that are scored at once
FORBIDDEN = (PAD, BOS, UNK)  # ids that a model trained here has never seen follow anything


@dataclass(frozen=True, kw_only=True)
class Generated:
    """What comes after a prompt: its text, the log probability of its pieces, and whether the text ends there."""

    text: str
    log_prob: float
    finished: bool


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """How well a model knows a text: nats per piece, over so many pieces, of so many characters."""

    nats: float
    n_pieces: int
    n_characters: int

    @property
    def bits_per_character(self) -> float:
        return self.nats * self.n_pieces / max(1, self.n_characters) / math.log(2)

    def to_json(self) -> dict[str, Any]:
        return {
            "loss": self.nats,
            "perplexity": math.exp(min(self.nats, 700.0)),
            "bits_per_character": self.bits_per_character,
            "pieces": self.n_pieces,
            "characters": self.n_characters,
        }


class Generator:
    """Continues and scores raw text. `context` is how many ids the model has learned to see at once."""

    def __init__(self, model: GPT, tokenizer: Tokenizer, *, context: int, device: torch.device) -> None:
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.context = context
        self.device = device
        self.forbidden = () if tokenizer.kind == "imported" else FORBIDDEN

    @classmethod
    def from_bundle(cls, bundle: Bundle, *, device: DeviceName = "auto") -> "Generator":
        model = bundle.require("language-model", verb="generate").model()
        assert isinstance(model, GPT)
        return cls(model, bundle.tokenizers.source, context=bundle.config.data.max_length, device=ready(device))

    def generate(
        self, prompt: str, *, options: SearchOptions | None = None, max_length: int = USUAL_LENGTH
    ) -> list[Generated]:
        """The `n_best` continuations of a prompt, each of at most `max_length` pieces; drawn, unless options say else.

        A prompt stands at the beginning of a line. A text longer than the context is continued from the last half of
        what the model can see, again and again.
        """
        options = options or SearchOptions(sample=True)
        begin = self._begin(prompt, max_length)
        found: list[Generated] = []
        for ids, log_prob, finished in self._search(begin, max_length, options):
            while not finished and len(ids) < max_length:
                one = replace(options, n_best=1)
                ((more, more_log_prob, finished),) = self._search([*begin, *ids], max_length - len(ids), one)
                ids, log_prob = [*ids, *more], log_prob + more_log_prob
            found.append(Generated(text=self._text(begin, ids), log_prob=log_prob, finished=finished))
        return found

    def stream(
        self, prompt: str, *, options: SearchOptions | None = None, max_length: int = USUAL_LENGTH
    ) -> Iterator[str]:
        """The first continuation that `generate` draws, or finds with a beam of one, piece by piece as it is found."""
        options = options or SearchOptions(sample=True)
        if not options.sample and options.beam > 1:
            raise ConfigError(
                f"beam = {options.beam}: a beam knows its text when it ends. Stream with sample, or beam 1."
            )
        begin = self._begin(prompt, max_length)
        ids: list[int] = []
        told = ""
        while len(ids) < max_length:
            before = [*begin, *ids]
            room = self._room(before, max_length - len(ids))
            for id_ in self._next_ids(before, room, options):
                ids.append(id_)
                known = self._text(begin, ids).rstrip("\ufffd")  # bytes that are not yet a character
                if len(known) > len(told):
                    yield known[len(told) :]
                    told = known
            if len(begin) + len(ids) < len(before) + room:  # EOS
                break
        text = self._text(begin, ids)
        if len(text) > len(told):
            yield text[len(told) :]

    def score(self, texts: Sequence[str], *, reporter: Reporter | None = None) -> TextScore:
        """Nats per piece over all texts, in windows of the context's length end to end.

        Each piece but the first of a text is told once, from what comes before it in its window: as in training.
        """
        rows: list[np.ndarray[Any, np.dtype[np.uint32]]] = []
        for text in texts:
            parts = self.tokenizer.encode_inside(list(chunks(iter(text.splitlines(keepends=True)))))
            ids = np.array([*self.tokenizer.before, *(id_ for part in parts for id_ in part)], dtype=np.uint32)
            rows += [ids[first : first + self.context + 1] for first in range(0, len(ids) - 1, self.context)]
        if not rows:
            raise DataError("there is nothing to score: a text needs two pieces at least.")
        whole = [row for row in rows if len(row) == self.context + 1]
        n_rows = max(1, SCORED_TOKENS // self.context)
        batches = [np.stack(whole[first : first + n_rows]) for first in range(0, len(whole), n_rows)]
        batches += [row[None] for row in rows if len(row) <= self.context]
        total = 0.0
        with torch.inference_mode():
            for table in (reporter or Silent()).track(batches, "Scoring", len(batches)):
                batch = windows_batch(table).to(self.device)
                assert batch.targets_BT is not None
                hidden_BTD = self.model.hidden(batch.ids_BT)
                log_probs_N = target_log_probs(self.model.output, hidden_BTD.flatten(0, 1), batch.targets_BT.flatten())
                total += log_probs_N.double().sum().item()
        n_pieces = sum(len(row) - 1 for row in rows)
        n_characters = sum(len(text) for text in texts)
        return TextScore(nats=-total / n_pieces, n_pieces=n_pieces, n_characters=n_characters)

    def _begin(self, prompt: str, max_length: int) -> list[int]:
        if max_length < 1:
            raise ConfigError(f"max_length = {max_length}: must be at least 1.")
        return self.encoded(prompt)

    def encoded(self, prompt: str) -> list[int]:
        """The ids of a prompt, after a line end unless it begins with white space of its own.

        A model of others gets it as it is, and begins a text where there is none.
        """
        if self.tokenizer.kind == "imported":
            return self.tokenizer.encode(prompt) or [BOS]
        if prompt[:1].isspace():
            return self.tokenizer.encode(prompt)
        ids = self.tokenizer.encode(f"\n{prompt}")
        # The tokenizer puts a space before every text; before the line end there was none.
        return ids[1:] if len(ids) > 1 and self.tokenizer.pieces(ids[:1]) == ["▁"] else ids

    def _text(self, begin: Sequence[int], ids: Sequence[int]) -> str:
        """What comes after the beginning."""
        return self.tokenizer.decode([*begin, *ids])[len(self.tokenizer.decode(begin)) :]

    def _window(self, ids: Sequence[int]) -> list[int]:
        """What the model is shown of all that came before: half of its context where that is full."""
        return list(ids if len(ids) < self.context else ids[-max(1, self.context // 2) :])

    def _room(self, before: Sequence[int], most: int) -> int:
        """How many ids can come next before the context is full."""
        return min(most, max(1, self.context - len(self._window(before))))

    def _read(self, window: Sequence[int]) -> DecoderCache:
        return self.model.read(torch.tensor([window[:-1]], dtype=torch.int64, device=self.device), self.model.start(1))

    def _search(self, before: Sequence[int], most: int, options: SearchOptions) -> list[tuple[list[int], float, bool]]:
        """(ids, their log probability, whether EOS came) of what may come next, as far as the context reaches."""
        window = self._window(before)
        with torch.inference_mode():
            step = self.model.lean_step()
            (found,) = search(
                lambda ids_N, cache: step(ids_N.to(self.device), cache),
                lambda cache, rows_M: cache.select(rows_M),
                self._read(window),
                bos=window[-1],
                eos=EOS,
                limits=[self._room(before, most)],
                options=options,
                keys=[before],
                forbidden=self.forbidden,
            )
        return [(list(one.ids), math.fsum(one.token_log_probs[: len(one.ids)]), one.finished) for one in found]

    def _next_ids(self, before: Sequence[int], limit: int, options: SearchOptions) -> Iterator[int]:
        """The ids of the first result of `_search`, one by one."""
        window = self._window(before)
        with torch.inference_mode():
            step, cache = self.model.lean_step(), self._read(window)

        def on_device(ids_N: torch.Tensor, cache: DecoderCache) -> tuple[torch.Tensor, DecoderCache]:
            return step(ids_N.to(self.device), cache)

        ids = (
            sampled_ids(
                on_device,
                cache,
                bos=window[-1],
                eos=EOS,
                limit=limit,
                options=options,
                key=before,
                forbidden=self.forbidden,
            )
            if options.sample
            else greedy_ids(on_device, cache, bos=window[-1], eos=EOS, limit=limit, forbidden=self.forbidden)
        )
        yield from inferred(ids)
