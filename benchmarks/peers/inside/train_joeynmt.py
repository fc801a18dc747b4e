"""JoeyNMT, by its own `train`.

Forced by it: dropout also inside the attention and the feed-forward network, epsilon 1e-8.
"""

import contextlib
import sys
from pathlib import Path
from typing import Any

import joeynmt.training
import torch
import yaml
from joeynmt.__main__ import main as joeynmt_main
from torch import Tensor

from benchmarks.peers.inside.meter import Finished, Meter, Pairs, padded, report_loss
from benchmarks.peers.setting import Setting, Task


def config(setting: Setting, task: Task) -> dict[str, Any]:
    side = {"level": "word", "voc_file": f"{task.data}/vocabulary.txt", "max_length": 300}
    stack = {
        "type": "transformer",
        "num_layers": setting.n_layers,
        "num_heads": setting.n_heads,
        "embeddings": {"embedding_dim": setting.d_model, "scale": True, "dropout": setting.dropout},
        "hidden_size": setting.d_model,
        "ff_size": setting.d_ff,
        "dropout": setting.dropout,
        "layer_norm": "post",
    }
    return {
        "name": "joeynmt",
        "joeynmt_version": "2.3.0",
        "model_dir": f"{task.out}/model",
        "use_cuda": False,
        "random_seed": setting.seed,
        "data": {
            "train": f"{task.data}/train",
            "dev": f"{task.data}/few",
            "dataset_type": "plain",
            "src": {"lang": "source", **side},
            "trg": {"lang": "target", **side},
        },
        "testing": {"beam_size": 5, "beam_alpha": 1.0, "max_output_length": 100, "eval_metrics": []},
        "training": {
            "overwrite": True,
            "optimizer": "adam",
            "adam_betas": [setting.beta1, setting.beta2],
            "learning_rate": setting.rate(1),
            "scheduling": "noam",
            "learning_rate_min": 0.0,  # below it, where a warm-up begins, it would end the training
            "learning_rate_factor": setting.factor,
            "learning_rate_warmup": setting.warmup,
            "label_smoothing": setting.label_smoothing,
            "clip_grad_norm": setting.clip_norm,
            "normalization": "tokens",
            "loss": "crossentropy",
            "batch_size": task.sentences,
            "batch_type": "sentence",
            "epochs": 1000,
            "updates": task.updates,
            "validation_freq": 1_000_000,
            "logging_freq": 100,
        },
        "model": {
            "initializer": "xavier_uniform",
            "init_gain": 1.0,
            "bias_initializer": "zeros",
            "embed_initializer": "normal",
            "embed_init_weight": setting.d_model**-0.5,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }


def main() -> None:
    setting, task = Setting(), Task.read(sys.argv[1])
    path = Path(task.out) / "joeynmt.yaml"
    path.write_text(yaml.safe_dump(config(setting, task)))
    meter = Meter(task)
    models: list[Any] = []
    manager = joeynmt.training.TrainManager
    train_step = manager._train_step

    def counted(self: Any, batch: Any) -> Any:
        models[:] = [self.model]
        meter.count((batch.src_length, batch.src.shape[1]), (batch.trg_mask[:, 0].sum(1), batch.trg.shape[1]))
        return train_step(self, batch)

    manager._train_step = counted
    sys.argv = ["joeynmt", "train", str(path), "--skip-test"]
    with contextlib.suppress(Finished):
        joeynmt_main()
    model = models[0]

    def logits(pairs: Pairs) -> tuple[Tensor, Tensor]:
        # Its four control tokens come first, as attendo's do, if in another order: all other ids are attendo's.
        pad, bos, eos = model.pad_index, model.bos_index, model.eos_index
        source_BS = padded([[*source, eos] for source, _ in pairs], pad)
        target_BT = padded([[bos, *target] for _, target in pairs], pad)
        gold_BT = padded([[*target, eos] for _, target in pairs], -100)
        found, *_ = model._encode_decode(
            src=source_BS,
            trg_input=target_BT,
            src_mask=(source_BS != pad)[:, None],
            src_length=(source_BS != pad).sum(1),
            trg_mask=(target_BT != pad)[:, None],
        )
        return torch.as_tensor(found), gold_BT

    report_loss(task, model, logits)


if __name__ == "__main__":
    main()
