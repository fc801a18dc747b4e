"""Transformers' generate with the very weights of a bundle, on ready-made ids, sorted, 64 at a time.

A bundle with post-norm becomes a MarianMT, one with pre-norm a Pegasus: the same code but for where the norms are. The
table of positions is the bundle's own, since both libraries have theirs in another layout.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

from benchmarks.peers.inside.meter import padded
from benchmarks.peers.setting import BOS, EOS, PAD, UNK

BATCH = 64
EXTRA_LENGTH = 50
LONGEST = 512

PARTS = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "attention_residual.norm": "self_attn_layer_norm",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "cross_attention_residual.norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_residual.norm": "final_layer_norm",
}


def build(about: dict[str, Any], weights: dict[str, Tensor]) -> Any:
    """`about` is the bundle's model settings; see `translating.py` for which of them are possible."""
    pre = about["norm_place"] == "pre"
    config_class, model_class = (
        (PegasusConfig, PegasusForConditionalGeneration) if pre else (MarianConfig, MarianMTModel)
    )
    config = config_class(
        vocab_size=about["target_vocab_size"],
        max_position_embeddings=LONGEST,
        encoder_layers=about["n_encoder_layers"],
        decoder_layers=about["n_decoder_layers"],
        encoder_ffn_dim=about["d_ff"],
        decoder_ffn_dim=about["d_ff"],
        encoder_attention_heads=about["n_heads"],
        decoder_attention_heads=about["n_heads"],
        d_model=about["d_model"],
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
    )
    model = model_class(config).eval()
    state = {}
    for name, tensor in weights.items():
        side, _, rest = name.partition(".")
        if rest.startswith("blocks."):
            _, number, rest = rest.split(".", 2)
            part, _, kind = rest.rpartition(".")
            state[f"model.{side}.layers.{number}.{PARTS[part]}.{kind}"] = tensor
        elif rest.startswith("final_norm."):
            state[f"model.{side}.layer_norm.{rest.rpartition('.')[2]}"] = tensor
    table = sinusoids(about["d_model"], about["sinusoid_layout"])
    shared = weights["encoder.embedding.weight"]
    state |= {"model.shared.weight": shared, "final_logits_bias": weights["output.bias"][None]}
    state |= {f"model.{side}.embed_positions.weight": table for side in ("encoder", "decoder")}
    missing, unexpected = model.load_state_dict(state, strict=False)
    tied = {"lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"}
    if unexpected or set(missing) - tied:
        raise SystemExit(f"weights do not fit: {unexpected} are too many, {missing} are missing")
    model.tie_weights()
    return model


def sinusoids(d_model: int, layout: str) -> Tensor:
    """sin and cos of position / 10000^(2i/d), side by side or one half each."""
    angles = torch.arange(LONGEST)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    waves = (angles.sin(), angles.cos())
    return torch.stack(waves, dim=2).flatten(1) if layout == "interleaved" else torch.cat(waves, dim=1)


def generate(model: Any, sources: list[list[int]], beam: int) -> list[list[int]]:
    """In the order of the sources."""
    found: dict[int, list[int]] = {}
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    with torch.inference_mode():
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            input_ids = padded([[*sources[i], EOS] for i in rows], PAD)
            output = model.generate(
                input_ids=input_ids,
                attention_mask=(input_ids != PAD).long(),
                num_beams=beam,
                do_sample=False,
                early_stopping=beam > 1,
                max_new_tokens=len(sources[rows[0]]) + EXTRA_LENGTH,
                suppress_tokens=[PAD, BOS, UNK],
            )
            for i, ids in zip(rows, output.tolist(), strict=True):
                ids = ids[1:]
                found[i] = ids[: ids.index(EOS)] if EOS in ids else [id for id in ids if id != PAD]
    return [found[i] for i in range(len(sources))]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    sources = [list(map(int, line.split())) for line in Path(job["ids"]).read_text().splitlines()]
    began = time.perf_counter()
    model = build(job["about"], load_file(job["weights"]))
    start = time.perf_counter() - began
    if job["save"] is not None:
        model.save_pretrained(job["save"])
        return
    if job["singles"]:
        spent = []
        for source in [*sources[: job["warm_up"]], *sources[: job["singles"]]]:
            began = time.perf_counter()
            generate(model, [source], job["beam"])
            spent.append(time.perf_counter() - began)
        Path(job["out"]).write_text(json.dumps({"single_seconds": spent[job["warm_up"] :]}))
        return
    generate(model, sources[: job["warm_up"]], job["beam"])
    began = time.perf_counter()
    results = generate(model, sources, job["beam"])
    seconds = time.perf_counter() - began
    Path(job["translations"]).write_text("".join(f"{' '.join(map(str, ids))}\n" for ids in results))
    Path(job["out"]).write_text(json.dumps({"start_seconds": start, "seconds": seconds}))


if __name__ == "__main__":
    main()
