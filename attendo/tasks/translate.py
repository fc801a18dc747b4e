"""Pairs of text → a translator."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attendo.alignment.fitting import fit_view
from attendo.bundle import Bundle, load_weights, plain_json
from attendo.data.both_directions import BothDirections
from attendo.data.cooccurrence import related_vectors, take_over
from attendo.data.loader import Pairs
from attendo.data.prepare import Prepared, open_prepared, prepare
from attendo.data.store import PairStore
from attendo.doctor.glance import explained, glance
from attendo.engines.choice import open_engine
from attendo.engines.ctranslate2_limits import representable
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import Interrupted
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import TranslationConfig
from attendo.models.transformer import Transformer
from attendo.plan import check_settings, misfit, resolve
from attendo.recipe import DataConfig, RunConfig, TokenizerConfig
from attendo.reporting import Reporter
from attendo.tasks.diversity import diversified
from attendo.tasks.task import Judge, Task, Teach, Verdict
from attendo.text.corpus import UnequalError, languages_of
from attendo.training.loop import Validation
from attendo.translator import Translator
from attendo.validation import Validator, validation_in_words

FINAL_BEAM = 5


def settle(data: DataConfig, start: Bundle | None) -> DataConfig:
    """With the languages that the files' names tell, or the bundle to start from."""
    if data.languages is not None:
        return data
    return replace(data, languages=languages_of(data.files()) or (start.languages if start else None))


def prepare_pairs(
    data: DataConfig, tokenizer: TokenizerConfig, start: Bundle | None, cache: Path, reporter: Reporter
) -> Prepared:
    """Tokenises the pairs, and says what a quick look at them finds."""
    try:
        prepared = prepare(
            data.files(),
            data.valid_files(),
            tokenizers=None if start is None else start.tokenizers,
            kind=tokenizer.kind,
            vocab_size=tokenizer.vocab_size,
            joint=tokenizer.joint,
            max_length=data.max_length,
            cache=cache,
            reporter=reporter,
        )
    except UnequalError as error:
        raise explained(error) from None
    glance(data.files(), reporter)
    return prepared


def enrich(prepared: Prepared, config: RunConfig, beside: Path, teach: Teach, reporter: Reporter) -> Prepared:
    if not config.training.diversify:
        return prepared
    return diversified(prepared, config, beside=beside, teach=teach, reporter=reporter)


def pairs_of(prepared: Prepared, config: RunConfig) -> Pairs:
    training = config.training
    pairs = prepared.resampled(training.bpe_dropout, config.seed).pairs
    return BothDirections(pairs, training.both_directions, config.seed) if training.both_directions else pairs


def inherit(model: nn.Module, start: Bundle, _: object) -> None:
    load_weights(model, start.weights(), where=str(start.path))


def begin(model: nn.Module, prepared: Prepared, config: RunConfig) -> None:
    """Gives the embeddings vectors of what stands near their pieces, if the settings say so."""
    if config.training.embeddings == "random":
        return
    assert isinstance(model, EncoderDecoder)
    assert isinstance(prepared.pairs, PairStore)
    source, target, output = model.tables()
    vectors = related_vectors(
        prepared.pairs,
        source_size=len(source),
        target_size=len(target),
        shared=source is target,
        d_model=source.shape[1],
    )
    for weight, vectors_VD in zip((source, target, output), (*vectors, vectors[1]), strict=True):
        take_over(weight, vectors_VD)


def announce(config: RunConfig, facts: Mapping[str, Any]) -> str:
    pairs, tokens, model = facts["pairs"], facts["tokens_per_epoch"], config.model
    assert isinstance(model, TranslationConfig)
    dropped = pairs["dropped_empty"] + pairs["dropped_long"]
    vocabulary = (
        f"{model.source_vocab_size:,} pieces for both sides"
        if config.tokenizer.joint
        else f"{model.source_vocab_size:,} source and {model.target_vocab_size:,} target pieces"
    )
    return (
        f"Pairs: {pairs['kept']:,} for training, {pairs['held_out']:,} for validation; {dropped:,} dropped "
        f"({pairs['dropped_empty']:,} with an empty side, {pairs['dropped_long']:,} longer than "
        f"{config.data.max_length} pieces).\n"
        f"{_added(facts)}"
        f"Vocabulary: {vocabulary}. Tokens per epoch: {tokens['source'] + tokens['target']:,}.\n"
        f"Model: {facts['parameters']['total']:,} parameters, "
        f"{model.n_encoder_layers}+{model.n_decoder_layers} layers, d_model {model.d_model}."
    )


def _added(facts: Mapping[str, Any]) -> str:
    if (added := facts.get("diversified")) is None:
        return ""
    return f"Added: {added['pairs']:,} pairs that {added['helpers']} helpers made of them.\n"


class TranslationJudge(Judge):
    """Translates the validation pairs, and scores that."""

    def __init__(self, model: nn.Module, prepared: Prepared, config: RunConfig, device: torch.device) -> None:
        assert isinstance(model, EncoderDecoder)
        translator = Translator(
            TorchEngine(model, device, before=prepared.tokenizers.target.before),
            prepared.tokenizers,
            max_length=config.data.max_length,
            languages=config.data.languages,
        )
        training = config.training
        self.model, self.config, self.pairs = model, config, prepared.facts["pairs"]
        self.validator = Validator(
            translator, prepared.valid, metric=training.stop_metric, beam=training.validation_beam
        )

    def validate(self, model: nn.Module) -> Validation:
        return self.validator.validate(model)

    def in_words(self, entry: Mapping[str, Any]) -> str:
        return validation_in_words(entry)

    def verdict(self, reporter: Reporter) -> Verdict:
        scores, perplexity, samples = self.validator.final(beam=FINAL_BEAM, reporter=reporter)
        validation, baseline = scores.to_json(), self.validator.baseline
        return Verdict(
            score=scores.bleu.score if self.config.training.stop_metric == "bleu" else -perplexity,
            scores={
                "beam": FINAL_BEAM,
                "validation": validation,
                "perplexity": perplexity,
                "baseline_bleu": baseline,
            },
            summary={
                **{
                    name: f"{validation[key]['score']:.2f} ({validation[key]['signature']})"
                    for name, key in (("BLEU", "bleu"), ("chrF", "chrf"), ("TER", "ter"))
                },
                "training pairs": f"{self.pairs['kept']:,}",
                "validation pairs": f"{self.pairs['held_out']:,}",
            },
            samples=[{**sample.to_json(), "bleu": f"{sample.bleu:.1f}"} for sample in samples],
            words=f"Validation, beam {FINAL_BEAM}: BLEU {scores.bleu.score:.1f}, chrF {scores.chrf.score:.1f}, "
            f"TER {scores.ter.score:.1f} ({{weights}}). Copying the source: BLEU {baseline:.1f}.",
        )

    def more(self, bundle: Bundle, reporter: Reporter) -> dict[str, Any]:
        if isinstance(self.model, Transformer):
            _, alignment = fit_view(
                self.model,
                bundle.tokenizers,
                list(zip(self.validator.sources, self.validator.references, strict=True)),
                reporter,
            )
            bundle.write("alignment.json", plain_json(alignment))
        return self._int8(bundle, reporter)

    def _int8(self, bundle: Bundle, reporter: Reporter) -> dict[str, Any]:
        """What a fast engine scores in int8. Whatever keeps it from that is told, and takes nothing else away."""
        if representable(self.config.model):
            return {}
        try:
            engine = open_engine([bundle], precision="int8", reporter=reporter)
            found = self.validator.bleu_by(engine, precision="int8", beam=FINAL_BEAM)
        except Interrupted:
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            reporter.say(f"The model could not be scored in int8: {reason}")
            return {}
        return {"int8": {"bleu": found.to_json()}}


TASK = Task(
    starts_from=("translate", "denoise"),
    check=check_settings,
    settle=settle,
    prepare=prepare_pairs,
    reopen=open_prepared,
    resolve=resolve,
    examples=pairs_of,
    inherit=inherit,
    begin=begin,
    announce=announce,
    enrich=enrich,
    warn=misfit,
    judge=TranslationJudge,
)
