"""MarianMT under Transformers' Seq2SeqTrainer, with its sampler that groups sentences by length."""

import contextlib
import sys
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel, Seq2SeqTrainer, Seq2SeqTrainingArguments

from benchmarks.peers.inside.meter import Finished, Meter, Pairs, padded, read_pairs, report_loss
from benchmarks.peers.setting import BOS, EOS, PAD, Setting, Task


def build(setting: Setting) -> MarianMTModel:
    return MarianMTModel(
        MarianConfig(
            vocab_size=setting.vocab_size,
            max_position_embeddings=512,
            encoder_layers=setting.n_layers,
            decoder_layers=setting.n_layers,
            encoder_ffn_dim=setting.d_ff,
            decoder_ffn_dim=setting.d_ff,
            encoder_attention_heads=setting.n_heads,
            decoder_attention_heads=setting.n_heads,
            d_model=setting.d_model,
            activation_function="relu",
            dropout=setting.dropout,
            attention_dropout=0.0,
            activation_dropout=0.0,
            init_std=setting.d_model**-0.5,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )
    )


def collate(examples: list[dict[str, list[int]]]) -> dict[str, Tensor]:
    input_ids = padded([example["input_ids"] for example in examples], PAD)
    labels = padded([example["labels"] for example in examples], -100)
    # As the library's own collator does it; Trainer's label smoothing needs them.
    starts = torch.full((len(labels), 1), BOS)
    decoder_input_ids = torch.cat((starts, labels[:, :-1].masked_fill(labels[:, :-1] == -100, PAD)), dim=1)
    return {
        "input_ids": input_ids,
        "attention_mask": (input_ids != PAD).long(),
        "labels": labels,
        "decoder_input_ids": decoder_input_ids,
    }


def examples(pairs: Pairs) -> list[dict[str, list[int]]]:
    return [{"input_ids": [*source, EOS], "labels": [*target, EOS]} for source, target in pairs]


def main() -> None:
    setting, task = Setting(), Task.read(sys.argv[1])
    torch.manual_seed(setting.seed)
    model = build(setting)
    betas = (setting.beta1, setting.beta2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=betas, eps=setting.epsilon)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: setting.rate(done + 1))
    meter = Meter(task)

    def count(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:  # noqa: ARG001
        meter.count((kwargs["attention_mask"].sum(1), kwargs["input_ids"].shape[1]))
        ids = kwargs["decoder_input_ids"]
        meter.count(((ids != PAD).sum(1), ids.shape[1]))

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=f"{task.out}/trainer",
            per_device_train_batch_size=task.sentences,
            train_sampling_strategy="group_by_length",
            max_steps=task.updates,
            label_smoothing_factor=setting.label_smoothing,
            max_grad_norm=setting.clip_norm,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
            seed=setting.seed,
        ),
        train_dataset=examples(read_pairs(task, "train")),
        data_collator=collate,
        optimizers=(optimizer, schedule),
    )
    with contextlib.suppress(Finished):
        trainer.train()
    hook.remove()

    def logits(pairs: Pairs) -> tuple[Tensor, Tensor]:
        batch = collate(examples(pairs))
        gold_BT = batch.pop("labels")
        return model(**batch).logits, gold_BT

    report_loss(task, model, logits)


if __name__ == "__main__":
    main()
