"""torch.nn.Transformer in the loop that a tutorial has: shuffled sentences, a fixed number of them in a batch."""

import math
import random
import sys

import torch
from torch import Tensor, nn

from benchmarks.peers.inside.meter import Finished, Meter, Pairs, padded, read_pairs, report_loss
from benchmarks.peers.setting import BOS, EOS, PAD, Setting, Task

LONGEST = 512


class Model(nn.Module):
    positions: Tensor

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        d_model = setting.d_model
        self.embedding = nn.Embedding(setting.vocab_size, d_model, padding_idx=PAD)
        self.transformer = nn.Transformer(
            d_model=d_model,
            nhead=setting.n_heads,
            num_encoder_layers=setting.n_layers,
            num_decoder_layers=setting.n_layers,
            dim_feedforward=setting.d_ff,
            dropout=setting.dropout,
            batch_first=True,
        )
        # As everywhere here: post-norm has no last norm, and there is dropout on sublayers only.
        self.transformer.encoder.norm = self.transformer.decoder.norm = None
        for module in self.transformer.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
            if isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = 0.0
        self.output = nn.Linear(d_model, setting.vocab_size)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(setting.dropout)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        place = torch.arange(LONGEST)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        self.register_buffer("positions", torch.stack((place.sin(), place.cos()), dim=2).flatten(1))
        self.scale = math.sqrt(d_model)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(target_BT.shape[1], dtype=torch.bool)
        return self.output(
            self.transformer(
                self._embedded(source_BS),
                self._embedded(target_BT),
                tgt_mask=causal,
                tgt_is_causal=True,
                src_key_padding_mask=source_BS == PAD,
                tgt_key_padding_mask=target_BT == PAD,
                memory_key_padding_mask=source_BS == PAD,
            )
        )

    def _embedded(self, ids_BT: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids_BT) * self.scale + self.positions[: ids_BT.shape[1]])


def tensors(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    return (
        padded([[*source, EOS] for source, _ in pairs], PAD),
        padded([[BOS, *target] for _, target in pairs], PAD),
        padded([[*target, EOS] for _, target in pairs], -100),
    )


def main() -> None:
    setting, task = Setting(), Task.read(sys.argv[1])
    torch.manual_seed(setting.seed)
    model = Model(setting)
    criterion = nn.CrossEntropyLoss(label_smoothing=setting.label_smoothing)
    betas = (setting.beta1, setting.beta2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=betas, eps=setting.epsilon)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: setting.rate(done + 1))
    pairs, shuffle = read_pairs(task, "train"), random.Random(setting.seed)
    meter = Meter(task)
    try:
        while True:
            shuffle.shuffle(pairs)
            for first in range(0, len(pairs) - task.sentences, task.sentences):
                source_BS, target_BT, gold_BT = tensors(pairs[first : first + task.sentences])
                for ids in (source_BS, target_BT):
                    meter.count(((ids != PAD).sum(1), ids.shape[1]))
                optimizer.zero_grad()
                logits_BTV = model(source_BS, target_BT)
                criterion(logits_BTV.flatten(0, 1), gold_BT.flatten()).backward()
                nn.utils.clip_grad_norm_(model.parameters(), setting.clip_norm)
                optimizer.step()
                schedule.step()
    except Finished:
        pass

    def logits(pairs: Pairs) -> tuple[Tensor, Tensor]:
        source_BS, target_BT, gold_BT = tensors(pairs)
        return model(source_BS, target_BT), gold_BT

    report_loss(task, model, logits)


if __name__ == "__main__":
    main()
