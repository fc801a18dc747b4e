"""Encoder-decoders of Hugging Face Transformers, taken over: the same logits, the same searches, and back again.

Each model is tiny, of sizes that are primes where heads permit, with random weights.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from attendo.bundle import weights_of
from attendo.decoding.search import SearchOptions
from attendo.engines.torch_engine import TorchEngine
from attendo.errors import ForeignError
from attendo.interop.architecture import Architecture, Orders
from attendo.interop.bart import BART, MBART
from attendo.interop.blenderbot import BLENDERBOT
from attendo.interop.folder import open_folder
from attendo.interop.m2m100 import M2M100
from attendo.interop.marian import MARIAN
from attendo.interop.pegasus import PEGASUS
from attendo.interop.stacks import SHARED
from attendo.interop.t5 import T5
from attendo.models.encoder_decoder import EncoderDecoder
from attendo.models.settings import TransformerConfig
from attendo.text.tokenizer import BOS
from tests.interop.foreign import (
    Foreign,
    assert_as_generated,
    make_endings_likely,
    randomise,
    taken_over,
    their_order,
)

V, S, T, LIMIT = 31, 13, 7, 23
LENGTHS = torch.tensor([13, 4, 8, 1, 6])
SIZES = {
    "vocab_size": V,
    "d_model": 22,
    "encoder_layers": 3,  # in transformers, generate fails where the decoder has more layers
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 17,
    "decoder_ffn_dim": 17,
    "max_position_embeddings": 67,
    "forced_eos_token_id": None,
}
FAIRSEQ = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
MARIANS = {"pad_token_id": 30, "eos_token_id": 0, "decoder_start_token_id": 30, "bos_token_id": None}
T5_SIZES: dict[str, Any] = {
    "vocab_size": V,
    "d_model": 23,
    "d_kv": 5,
    "d_ff": 17,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
    "bos_token_id": None,
}


def marian(**more: Any) -> Any:
    return transformers.MarianMTModel(transformers.MarianConfig(**SIZES, **MARIANS, **more))


def pegasus(**more: Any) -> Any:
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
    return transformers.PegasusForConditionalGeneration(transformers.PegasusConfig(**SIZES, **ids, **more))


def blenderbot(**more: Any) -> Any:
    config = transformers.BlenderbotConfig(**SIZES, **FAIRSEQ, **more)
    return transformers.BlenderbotForConditionalGeneration(config)


def bart() -> Any:
    return transformers.BartForConditionalGeneration(transformers.BartConfig(**SIZES, **FAIRSEQ))


def mbart() -> Any:
    config = transformers.MBartConfig(**SIZES, **FAIRSEQ, scale_embedding=True)
    return transformers.MBartForConditionalGeneration(config)


def m2m100() -> Any:
    sizes = {**SIZES, "d_model": 26}
    return transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**sizes, **FAIRSEQ))


def t5(**more: Any) -> Any:
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**T5_SIZES, **more))


def t5_v1_1() -> Any:
    model = t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(V, T5_SIZES["d_model"]))
    return model


CASES: dict[str, tuple[Architecture, Any]] = {
    "marian": (MARIAN, lambda: marian(activation_function="swish", scale_embedding=True)),
    "blenderbot": (BLENDERBOT, lambda: blenderbot(scale_embedding=True)),
    "blenderbot-untied": (BLENDERBOT, lambda: blenderbot(tie_word_embeddings=False)),
    "pegasus": (PEGASUS, pegasus),
    "pegasus-untied": (PEGASUS, lambda: pegasus(tie_word_embeddings=False)),
    "bart": (BART, bart),
    "mbart": (MBART, mbart),
    "m2m100": (M2M100, m2m100),
    "t5": (T5, t5),
    "t5-v1.1": (T5, t5_v1_1),
}


def made(name: str, folder: Path, **saving: Any) -> Foreign:
    architecture, build = CASES[name]
    torch.manual_seed(3)
    theirs = build()
    randomise(theirs, by=0.3)
    if hasattr(theirs, "final_logits_bias"):
        theirs.final_logits_bias.copy_(0.3 * torch.randn(1, V))
    make_endings_likely(theirs)
    order = their_order(theirs.config, size=V)
    return taken_over(theirs, architecture, folder, Orders(order, order), **saving)


@pytest.fixture(scope="module", params=CASES)
def foreign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Foreign:
    return made(request.param, tmp_path_factory.mktemp("theirs"))


def architecture_of(foreign: Foreign) -> Architecture:
    return next(one for one, _ in CASES.values() if one.class_name == type(foreign.theirs).__name__)


def batch(foreign: Foreign) -> tuple[Tensor, Tensor, Tensor]:
    """Source [B, S], what of it is real, and target [B, T], in their ids."""
    config = foreign.theirs.config
    torch.manual_seed(1)
    source, target = torch.randint(4, 29, (5, S)), torch.randint(4, 29, (5, T))
    real = torch.arange(S) < LENGTHS[:, None]
    source[~real] = config.pad_token_id
    source[torch.arange(5), LENGTHS - 1] = config.eos_token_id
    target[:, 0] = config.decoder_start_token_id
    return source, real, target


def our_target(foreign: Foreign, target: Tensor) -> Tensor:
    ours = foreign.our_ids(target)
    ours[:, 0] = BOS
    return ours


def test_log_probabilities_over_padded_batches_with_a_cache_and_without(foreign: Foreign) -> None:
    source, real, target = batch(foreign)
    ours, order = foreign.ours, foreign.orders.target
    assert isinstance(ours, EncoderDecoder)
    our_source, our_rows = foreign.our_ids(source), torch.tensor(order.back)
    with torch.no_grad():
        logits = foreign.theirs(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
        expected = logits.log_softmax(-1)
        found = ours(our_source, LENGTHS, our_target(foreign, target))
        torch.testing.assert_close(found[..., our_rows], logits, rtol=0, atol=1e-4)
        torch.testing.assert_close(found.log_softmax(-1)[..., our_rows], expected, rtol=0, atol=1e-4)
        assert found.softmax(-1)[..., list(order.silent)].sum() == 0
        step, cache = ours.lean_step(), ours.encode(our_source, LENGTHS)
        for t in range(T):
            logits, cache = step(our_target(foreign, target)[:, t], cache)
            torch.testing.assert_close(logits.log_softmax(-1)[:, our_rows], expected[:, t], rtol=0, atol=1e-4)


def test_back_again_exactly(foreign: Foreign, tmp_path: Path) -> None:
    architecture = architecture_of(foreign)
    read = json.loads((foreign.folder / "config.json").read_text())
    tensors = architecture.their_weights(foreign.config, weights_of(foreign.ours), foreign.orders, read)
    original = load_file(foreign.folder / "model.safetensors")
    assert tensors.keys() == original.keys()
    for name, tensor in original.items():
        if name == SHARED and foreign.config.tie_embeddings == "none":  # type: ignore[attr-defined]
            assert not tensors[name].any()  # nobody reads it
        elif "embed_positions" in name and foreign.config.positions == "sinusoidal":  # type: ignore[attr-defined]
            torch.testing.assert_close(tensors[name], tensor)  # both compute them
        else:
            assert torch.equal(tensors[name], tensor), name
    config = foreign.theirs.config
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    settings = read | architecture.their_settings(foreign.config, foreign.orders) | ids
    (tmp_path / "config.json").write_text(json.dumps(settings))
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    assert type(loaded) is type(foreign.theirs)
    source, real, target = batch(foreign)
    with torch.no_grad():
        inputs = {"input_ids": source, "attention_mask": real.long(), "decoder_input_ids": target}
        assert torch.equal(loaded(**inputs).logits, foreign.theirs(**inputs).logits)


SEARCHES: dict[str, tuple[SearchOptions, dict[str, Any]]] = {
    "greedy": (SearchOptions(beam=1, no_repeat_ngram=2), {"num_beams": 1}),
    "first": (
        SearchOptions(beam=3, length_penalty="power", alpha=0.7, no_repeat_ngram=2),
        {"num_beams": 3, "length_penalty": 0.7, "early_stopping": True},
    ),
    "heuristic": (
        SearchOptions(beam=5, n_best=3, length_penalty="power", alpha=0.9, stopping="heuristic", no_repeat_ngram=2),
        {"num_beams": 5, "length_penalty": 0.9, "early_stopping": False, "num_return_sequences": 3},
    ),
    "exact": (
        SearchOptions(beam=3, length_penalty="power", alpha=0.4, stopping="exact", no_repeat_ngram=2),
        {"num_beams": 3, "length_penalty": 0.4, "early_stopping": "never"},
    ),
}


# What a target is forced to begin with: <s>, or a language.
FORCED = {"BartForConditionalGeneration": 0, "MBartForConditionalGeneration": 29, "M2M100ForConditionalGeneration": 29}


@pytest.mark.parametrize("search", SEARCHES)
def test_the_same_ids_and_scores_as_generate(foreign: Foreign, search: str) -> None:
    options, theirs = SEARCHES[search]
    if search in ("first", "exact") and architecture_of(foreign) is not MARIAN:
        pytest.skip("a stopping rule knows nothing of the model")
    source, real, _ = batch(foreign)
    order, config = foreign.orders.target, foreign.theirs.config
    never = [id_ for id_ in (order.rows[BOS], order.rows[0], order.rows[3]) if id_ not in (None, config.eos_token_id)]
    forced = FORCED.get(type(foreign.theirs).__name__)
    generated = foreign.theirs.generate(
        input_ids=source,
        attention_mask=real.long(),
        max_new_tokens=LIMIT + 1,
        suppress_tokens=never,
        no_repeat_ngram_size=2,
        do_sample=False,
        forced_bos_token_id=forced,
        return_dict_in_generate=True,
        output_scores=True,
        **theirs,
    )
    before = () if forced is None else (order.back[forced],)
    engine = TorchEngine(foreign.ours, torch.device("cpu"), before=before)  # type: ignore[arg-type]
    sources = [foreign.our_ids(row[kept]).tolist()[:-1] for row, kept in zip(source, real, strict=True)]
    found = engine.search(sources, [LIMIT] * 5, options, prefixes=[before] * 5)
    assert_as_generated(found, generated, order, eos=config.eos_token_id, at_least=3)


def test_half_precision_and_several_files(tmp_path: Path) -> None:
    theirs = marian()
    randomise(theirs)
    theirs.half().save_pretrained(tmp_path / "half", max_shard_size="7KB")
    assert len(list((tmp_path / "half").glob("model-*.safetensors"))) > 1
    order = their_order(theirs.config, size=V)
    foreign = taken_over(theirs.float(), MARIAN, tmp_path / "whole", Orders(order, order))
    opened = open_folder(tmp_path / "half")
    weights = MARIAN.our_weights(MARIAN.our_settings(opened, foreign.orders), opened, foreign.orders)
    expected = weights_of(foreign.ours)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_a_marian_of_two_vocabularies(tmp_path: Path) -> None:
    theirs = marian(share_encoder_decoder_embeddings=False, decoder_vocab_size=37)
    randomise(theirs)
    orders = Orders(*(their_order(theirs.config, size=size) for size in (V, 37)))
    foreign = taken_over(theirs, MARIAN, tmp_path, orders)
    source, real, target = batch(foreign)
    with torch.no_grad():
        expected = theirs(input_ids=source, attention_mask=real.long(), decoder_input_ids=target).logits
        our_source = torch.tensor(orders.source.back)[source]
        found = foreign.ours(our_source, LENGTHS, our_target(foreign, target))
    torch.testing.assert_close(found[..., list(orders.target.back)], expected, rtol=0, atol=1e-4)
    back = MARIAN.their_weights(foreign.config, weights_of(foreign.ours), orders, {})
    original = load_file(tmp_path / "model.safetensors")
    assert back.keys() == original.keys()
    assert all(torch.equal(back[name], original[name]) for name in original)


def test_what_is_tied_may_have_any_of_its_names(tmp_path: Path) -> None:
    marian().save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    order = their_order(transformers.MarianConfig(**MARIANS), size=V)
    orders, shared = Orders(order, order), tensors.pop("model.shared.weight")
    save_file({**tensors, "model.decoder.embed_tokens.weight": shared}, tmp_path / "model.safetensors")
    opened = open_folder(tmp_path)
    weights = MARIAN.our_weights(MARIAN.our_settings(opened, orders), opened, orders)
    assert torch.equal(order.theirs(weights["encoder.embedding.weight"]), shared)


class TestFaults:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        torch.manual_seed(1)
        marian().save_pretrained(tmp_path)
        return tmp_path

    def read(self, folder: Path) -> None:
        opened, order = open_folder(folder), their_order(transformers.MarianConfig(**MARIANS), size=V)
        orders = Orders(order, order)
        MARIAN.our_weights(MARIAN.our_settings(opened, orders), opened, orders)

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            (lambda tensors: tensors.pop("model.decoder.layers.1.fc1.bias"), "lacks the tensor .*layers.1.fc1.bias"),
            (lambda tensors: tensors.update(more=torch.ones(3)), "has the tensor more"),
            (lambda tensors: tensors.update({"final_logits_bias": torch.ones(1, 5)}), r"\(1, 5\) instead of \(1, 31\)"),
            (lambda tensors: tensors.update({"lm_head.weight": torch.ones(V, 22)}), "lm_head.weight .* differ"),
        ],
    )
    def test_tensors(self, folder: Path, change: Any, named: str) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(ForeignError, match=named):
            self.read(folder)

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"activation_function": "mish"}, "activation_function = 'mish'"),
            ({"decoder_attention_heads": 11}, "encoder_attention_heads = 2 and decoder_attention_heads = 11"),
            ({"tie_word_embeddings": False}, "tie_word_embeddings = False"),
            ({"d_model": 23}, "d_model = 23: must be a multiple"),
            ({"d_model": "wide"}, "d_model = 'wide'"),
        ],
    )
    def test_settings(self, folder: Path, change: dict[str, Any], named: str) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ForeignError, match=named):
            self.read(folder)


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"positions": "rotary"}, r"model\.positions = 'rotary'"),
        ({"norm_place": "pre"}, r"model\.norm_place = 'pre', and there it is 'post'"),
        ({"activation": "swiglu"}, r"model\.activation = 'swiglu', for which there is no activation_function"),
        ({"d_key": 7, "d_value": 7}, r"model\.d_key = 7"),
    ],
)
def test_what_a_marian_has_not_is_named(parts: dict[str, Any], named: str) -> None:
    sizes: dict[str, Any] = {"source_vocab_size": V, "target_vocab_size": V, "d_model": 24, "n_heads": 2}
    sizes["sinusoid_layout"] = "halves"
    order = their_order(transformers.MarianConfig(**MARIANS), size=V)
    config = TransformerConfig(**{**sizes, **parts})
    with pytest.raises(ForeignError, match=named):
        MARIAN.their_settings(config, Orders(order, order))
    plain = TransformerConfig(**{**sizes, "d_key": sizes["d_model"] // 2})
    assert MARIAN.their_settings(plain, Orders(order, order))["d_model"] == sizes["d_model"]
