"""eole, by its own `train`.

Forced by it: the norm before each sublayer, since its decoder has no other; dropout also inside the feed-forward
network. In its favour: the entropy of the attention, which it logs unless told not to, is switched off.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

import eole.trainer
import torch
import yaml
from eole.bin.main import main as eole_main
from torch import Tensor

from benchmarks.peers.inside.meter import Finished, Meter, Pairs, padded, report_loss
from benchmarks.peers.setting import Setting, Task

BUCKET = 29_000  # examples sorted together by each of its two workers; its own 262,144 would be nine times the corpus


def config(setting: Setting, task: Task) -> dict[str, Any]:
    return {
        "seed": setting.seed,
        "share_vocab": True,
        "src_vocab": f"{task.data}/pieces.txt",
        "src_vocab_size": setting.vocab_size,
        "tgt_vocab_size": setting.vocab_size,
        "vocab_size_multiple": 1,
        "overwrite": True,
        "report_every": 100,
        "n_sample": 0,
        "data": {
            "corpus": {
                "path_src": f"{task.data}/train.source",
                "path_tgt": f"{task.data}/train.target",
                "transforms": [],
            }
        },
        "training": {
            "model_path": f"{task.out}/model",
            "compute_dtype": "fp32",
            "train_steps": task.updates,
            "valid_steps": 1_000_000,
            "save_checkpoint_steps": 1_000_000,
            "batch_size": setting.batch_tokens,
            "batch_type": "tokens",
            "bucket_size": BUCKET,
            "normalization": "tokens",
            "optim": "adam",
            "adam_beta1": setting.beta1,
            "adam_beta2": setting.beta2,
            "adam_eps": setting.epsilon,
            "learning_rate": setting.factor,
            "decay_method": "noam",
            "warmup_steps": setting.warmup,
            "max_grad_norm": setting.clip_norm,
            "label_smoothing": setting.label_smoothing,
            "dropout": [setting.dropout],
            "attention_dropout": [0.0],
            "param_init_method": "xavier_uniform",
            "log_attention_entropy": False,
        },
        "model": {
            "architecture": "transformer",
            "hidden_size": setting.d_model,
            "layers": setting.n_layers,
            "heads": setting.n_heads,
            "transformer_ff": setting.d_ff,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "add_qkvbias": True,
            "add_ffnbias": True,
            "embeddings": {
                "word_vec_size": setting.d_model,
                "position_encoding": True,
                "position_encoding_type": "SinusoidalInterleaved",
            },
        },
    }


def main() -> None:
    setting, task = Setting(), Task.read(sys.argv[1])
    path = Path(task.out) / "eole.yaml"
    path.write_text(yaml.safe_dump(config(setting, task)))
    meter = Meter(task)
    seen: dict[str, Any] = {}
    process_batch = eole.trainer.BatchProcessor.process_batch

    def counted(self: Any, batch: dict[str, Any], *rest: Any, **named: Any) -> Any:
        seen.update(model=self.model, loss=self.train_loss)
        meter.count((batch["srclen"], batch["src"].shape[1]), (batch["tgtlen"] - 1, batch["tgt"].shape[1] - 1))
        return process_batch(self, batch, *rest, **named)

    eole.trainer.BatchProcessor.process_batch = counted
    sys.argv = ["eole", "train", "--config", str(path)]
    with contextlib.suppress(Finished):
        eole_main()
    model, vocabs = seen["model"], seen["loss"].vocabs
    ids, specials = vocabs["src"].tokens_to_ids, vocabs["specials"]
    bos, eos, pad = (ids[specials[name]] for name in ("bos_token", "eos_token", "pad_token"))

    def logits(pairs: Pairs) -> tuple[Tensor, Tensor]:
        rows = [([ids[str(id)] for id in source], [ids[str(id)] for id in target]) for source, target in pairs]
        source_BS = padded([source for source, _ in rows], pad)
        target_BT = padded([[bos, *target, eos] for _, target in rows], pad)
        gold_BT = padded([[*target, eos] for _, target in rows], -100)
        hidden_BTD, *_ = model(source_BS, target_BT, torch.tensor([len(source) for source, _ in rows]))
        return model.generator(hidden_BTD), gold_BT

    report_loss(task, model, logits)


if __name__ == "__main__":
    main()
