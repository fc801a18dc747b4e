"""Looking inside a translation: what a model saw, considered and doubted while it made it.

Suffixes: T target pieces and EOS, S source pieces and EOS, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attendo.alignment.fitting import view_of
from attendo.alignment.heads import Head
from attendo.alignment.links import Line, View, linked, owners, piece_links
from attendo.alignment.maps import Maps, attention_maps, translator_of
from attendo.bundle import Bundle
from attendo.data.batch import make_batch
from attendo.decoding.search import Ids, SearchOptions, make_hypothesis
from attendo.drafting import EXTRA_LENGTH, Drafter, Links, one_line
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import ConfigError, DataError
from attendo.inspection.seen import ALTERNATIVES, Choice, Seen, quietened, rounded
from attendo.inspection.tree import BeamTree, Node
from attendo.machine import DeviceName, ready
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import AttentionKind, TranslationConfig
from attendo.reporting import Reporter, Silent
from attendo.text.corpus import trim
from attendo.text.pair import TokenizerPair
from attendo.text.tokenizer import BOS, CONTROLS, EOS, Tokenizer
from attendo.text.words import word_spans


@dataclass(frozen=True)
class Word:
    """A word of a sentence: where it stands in the text, the pieces that touch it, and those that speak for it."""

    text: str
    start: int
    end: int
    pieces: tuple[int, ...]
    own: tuple[int, ...]  # those with a letter or digit, where it has any


@dataclass(frozen=True)
class Side:
    """A sentence on one side: its text, its pieces and EOS, its words."""

    text: str
    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    words: tuple[Word, ...]

    @classmethod
    def of(cls, text: str, ids: Ids, tokenizer: Tokenizer) -> "Side":
        spans, of_piece = tokenizer.places(text, ids), owners(tokenizer, Line(text), text, ids)
        words = tuple(
            Word(
                text[start:end],
                start,
                end,
                tuple(i for i, (first, last) in enumerate(spans) if first < end and last > start),
                tuple(i for i, owner in enumerate(of_piece) if owner == number),
            )
            for number, (start, end) in enumerate(word_spans(text))
        )
        return cls(text, tuple(ids), (*tokenizer.pieces(ids), CONTROLS[EOS]), words)

    def owners(self) -> list[int | None]:
        """The word that each piece speaks for."""
        found: list[int | None] = [None] * len(self.ids)
        for number, word in enumerate(self.words):
            for piece in word.own:
                found[piece] = number
        return found


@dataclass(frozen=True)
class Token:
    """A piece of the target, EOS included, and the likeliest pieces at its place, best first."""

    chosen: Choice
    alternatives: tuple[Choice, ...]


@dataclass(frozen=True, kw_only=True)
class Inspection(Seen):
    """What there is to see of one sentence. `tree` is the search, where the model chose the target itself."""

    source: Side
    target: Side
    log_prob: float
    score: float
    view: View
    tokens: tuple[Token, ...]
    tree: BeamTree | None
    target_tokenizer: Tokenizer

    @property
    def alignment_TS(self) -> Tensor:
        """The weights that say what belongs together, of all pieces and EOS on both sides."""
        return self.view.weights(self.maps)[0].float().cpu()

    def word_weights(self) -> list[list[float]]:
        """How much each target word looks at each source word: target words × source words."""
        weights = self.alignment_TS.tolist()
        return [
            [
                sum(weights[t][s] for t in target.own for s in source.pieces) / max(1, len(target.own))
                for source in self.source.words
            ]
            for target in self.target.words
        ]

    def links(self) -> Links:
        """(source word, target word): those that belong together."""
        pieces = piece_links(self.alignment_TS[None], [len(self.source.ids)], [len(self.target.ids)])[0]
        if not pieces:
            return ()
        return tuple(sorted(set(linked(pieces, self.source.owners(), self.target.owners()))))

    def labels(self, kind: AttentionKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        source, target = self.source.pieces, self.target.pieces
        match kind:
            case "encoder":
                return source, source
            case "decoder":
                return target, (CONTROLS[BOS], *target[:-1])
            case "cross":
                return target, source

    @property
    def missing(self) -> str | None:
        """What a model that is no Transformer does not have, in words."""
        return None if "encoder" in self.kinds else "This model has no self-attention, only that to the source."

    def spelled(self, node: Node) -> str:
        """The text of a path in the tree."""
        assert self.tree is not None
        return one_line(self.target_tokenizer.decode([one.id for one in self.tree.path(node)]))

    def to_json(self, *, maps: bool = True) -> dict[str, Any]:
        """Everything as plain values, weights to four decimals; `maps`: those of all heads, too."""
        return {
            "source": {"text": self.source.text, "pieces": list(self.source.pieces)},
            "target": {"text": self.target.text, "pieces": list(self.target.pieces)},
            "log_prob": self.log_prob,
            "score": self.score,
            "without_heads": [str(head) for head in self.without],
            "words": {"source": _words(self.source), "target": _words(self.target)},
            "alignment": {
                "from": self.view.name,
                "read": self.view.read,
                "weights": rounded(self.alignment_TS),
                "word_weights": [[round(weight, 4) for weight in row] for row in self.word_weights()],
                "words": [list(link) for link in self.links()],
            },
            "attention": self.attention() if maps else None,
            "tokens": [
                {**token.chosen.to_json(), "alternatives": [one.to_json() for one in token.alternatives]}
                for token in self.tokens
            ],
            "beam": None if self.tree is None else self._beam(self.tree),
        }

    def _beam(self, tree: BeamTree) -> dict[str, Any]:
        pieces = self.target_tokenizer.pieces([node.id for node in tree.nodes])
        best = {node.number for node in tree.best_path()} | {0}
        runner_up = tree.runner_up()
        return {
            "width": tree.options.beam,
            "nodes": [
                {
                    "id": node.number,
                    "parent": node.parent,
                    "step": node.step,
                    "piece": piece,
                    "log_prob": node.log_prob,
                    "total": node.total,
                    "score": node.score,
                    "rank": node.rank,
                    "state": node.state,
                    "best": node.number in best,
                }
                for node, piece in zip(tree.nodes, pieces, strict=True)
            ],
            "hypotheses": [self._path(node) for node in tree.finished()],
            "runner_up": None
            if runner_up is None
            else {
                **self._path(runner_up.node),
                "finished": runner_up.node.state == "finished",
                "parts_at": runner_up.parted[0].step,
                "best_piece": pieces[runner_up.parted[0].number],
                "best_log_prob": runner_up.parted[0].log_prob,
                "piece": pieces[runner_up.parted[1].number],
                "log_prob_there": runner_up.parted[1].log_prob,
                "behind_from": runner_up.behind_from,
            },
        }

    def _path(self, node: Node) -> dict[str, Any]:
        return {"node": node.number, "text": self.spelled(node), "log_prob": node.total, "score": node.score}


class Inspector:
    """A bundle opened up: the model in torch, and the view of its attention that aligns best."""

    def __init__(
        self,
        model: EncoderDecoder,
        tokenizers: TokenizerPair,
        *,
        view: View,
        max_length: int,
        device: torch.device,
        language: str = "",
    ) -> None:
        self.model = model.to(device)
        self.tokenizers = tokenizers
        self.view = view
        self.device = device
        longest = TorchEngine(model, device).longest_target
        self.drafter = Drafter(tokenizers, max_length=max_length, longest_target=longest, language=language)

    @classmethod
    def from_bundle(
        cls, bundle: Bundle, *, device: DeviceName = "auto", reporter: Reporter | None = None
    ) -> "Inspector":
        chosen, model = ready(device), translator_of(bundle)
        return cls(
            model,
            bundle.tokenizers,
            view=view_of(bundle, model.to(chosen), reporter or Silent()),
            max_length=bundle.config.data.max_length,
            device=chosen,
            language=bundle.languages[0] if bundle.languages else "",
        )

    def sentences(self, text: str) -> list[str]:
        """The text as the model reads it: a sentence at a time, without markup."""
        (draft,) = self.drafter.drafts([text])
        return [sentence.core.read for sentence in draft.sentences]

    def sizes(self, source: str, target: str = "") -> tuple[int, int]:
        """How many pieces the two sides have."""
        return len(self.tokenizers.source.encode(source)), len(self.tokenizers.target.encode(target))

    def inspect(
        self,
        sentence: str,
        *,
        target: str | None = None,
        options: SearchOptions | None = None,
        without: Sequence[Head | str] = (),
    ) -> Inspection:
        """What the model makes of one sentence.

        target: a translation to look at; without it, the one that the model finds by the options. without: heads that
        are switched off, as in `without_heads`.
        """
        options = options or SearchOptions()
        if options.sample or options.diversity_groups > 1:
            raise ConfigError("a search is looked at as one beam: leave out sampling and diversity groups.")
        model, heads = quietened(self.model, without)
        text = trim(sentence)
        source_ids = self.tokenizers.source.encode(text)
        if not source_ids:
            raise DataError("there are no words to look at. Give a sentence.")
        tree: BeamTree | None = None
        if target is None:
            tree = BeamTree(options, BOS)
            before = self.tokenizers.target.before
            engine = TorchEngine(model, self.device, before=before)
            found = engine.watched(source_ids, self._limit(source_ids), options, tree, prefix=before)[0]
            target_ids: Ids = found.ids
            target_text = one_line(self.tokenizers.target.decode(target_ids))
        else:
            target_text = trim(target)
            target_ids = self.tokenizers.target.encode(target_text)
        maps = attention_maps(model, make_batch([source_ids], [target_ids]).to(self.device))
        tokens = self._tokens(model, maps, target_ids)
        hypothesis = make_hypothesis(
            target_ids, [token.chosen.log_prob for token in tokens], limit=len(target_ids) + 1, options=options
        )
        return Inspection(
            source=Side.of(text, source_ids, self.tokenizers.source),
            target=Side.of(target_text, target_ids, self.tokenizers.target),
            log_prob=hypothesis.log_prob,
            score=hypothesis.score,
            maps=maps,
            view=self.view,
            tokens=tokens,
            tree=tree,
            target_tokenizer=self.tokenizers.target,
            without=heads,
        )

    def _limit(self, source_ids: Ids) -> int:
        longest = self.drafter.longest_target
        usual = len(source_ids) + EXTRA_LENGTH
        return usual if longest is None else min(usual, longest)

    def _tokens(self, model: EncoderDecoder, maps: Maps, target_ids: Ids) -> tuple[Token, ...]:
        """How sure each piece is, and what else could stand there: nothing, where the target has to begin so."""
        with torch.inference_mode():
            log_probs_TV = model.output(maps.result[0]).float().log_softmax(dim=-1).cpu()
        best = log_probs_TV.topk(min(ALTERNATIVES, log_probs_TV.shape[1]), dim=-1)
        names = [*self.tokenizers.target.pieces(range(self.tokenizers.target.vocab_size)), *hidden_names(model.config)]
        tokens = tuple(
            Token(
                Choice(names[id_], log_probs_V[id_].item()),
                tuple(Choice(names[other], value) for other, value in zip(ids, values, strict=True)),
            )
            for id_, log_probs_V, ids, values in zip(
                [*target_ids, EOS], log_probs_TV, best.indices.tolist(), best.values.tolist(), strict=True
            )
        )
        given = [Choice(names[id_], 0.0) for id_ in self.tokenizers.target.before]
        return (*(Token(one, (one,)) for one in given), *tokens[len(given) :])


def hidden_names(config: TranslationConfig) -> list[str]:
    """What the ids are called that come after the tokenizer's: BART's mask, or the sentinels of T5."""
    return ["<mask>"] if config.n_extra == 1 else [f"<sentinel_{number}>" for number in range(config.n_extra)]


def _words(side: Side) -> list[dict[str, Any]]:
    return [
        {"text": word.text, "start": word.start, "end": word.end, "pieces": list(word.pieces)} for word in side.words
    ]
