"""The whole model against independent implementations with the same weights: torch.nn.Transformer, and Hugging Face's
Marian (post-norm) and M2M100 (pre-norm). Logits and the gradient of a loss for every parameter, to 1e-5 in fp32.

A reference is read by one function that gives a tensor for each of our parameters' names; applied to the weights it
fills our model, applied to the gradients it says what ours must be.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attendo.models.settings import TransformerConfig
from attendo.models.transformer import Transformer, build
from attendo.nn.names import NormPlace
from attendo.nn.positions import SinusoidalPositions
from tests.models.references import Tensors, filled, moved

B, S, T, H, V = 5, 11, 7, 3, 31
D, D_FF = 39, 17  # d_model must be a multiple of the heads there
N_ENCODER_LAYERS, N_DECODER_LAYERS = 2, 3
PAD = 1
SOURCE_LENGTHS = torch.tensor([11, 4, 8, 1, 6])
TARGET_LENGTHS = torch.tensor([3, 7, 5, 6, 1])

Read = Callable[[Tensor], Tensor]  # weight -> the weight, or its gradient


def weight_of(parameter: Tensor) -> Tensor:
    return parameter.detach()


def gradient_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def padded_batch() -> tuple[Tensor, Tensor, Tensor]:
    """Source, target and labels, [B, S], [B, T], [B, T]; nothing but padding is PAD."""
    torch.manual_seed(1)
    source, target = torch.randint(2, V, (B, S)), torch.randint(2, V, (B, T + 1))
    source[torch.arange(S) >= SOURCE_LENGTHS[:, None]] = PAD
    target[torch.arange(T + 1) > TARGET_LENGTHS[:, None]] = PAD
    return source, target[:, :-1], target[:, 1:]


def loss(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD)


def ours(weights: Tensors, **settings: Any) -> Transformer:
    config = TransformerConfig(
        source_vocab_size=V,
        target_vocab_size=V,
        n_encoder_layers=N_ENCODER_LAYERS,
        n_decoder_layers=N_DECODER_LAYERS,
        d_model=D,
        d_ff=D_FF,
        n_heads=H,
        **settings,
    )
    return filled(build(config).eval(), weights)


def assert_close(actual: Tensor, expected: Tensor, name: str) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, msg=lambda words: f"{name}: {words}")


def assert_gradients(model: Transformer, expected: Tensors) -> None:
    for name, parameter in model.named_parameters():
        assert_close(gradient_of(parameter), expected[name], name)
        if not name.endswith("key.bias"):  # it moves all scores of a row alike, which softmax does not see
            assert expected[name].abs().max() > 1e-4, f"{name}: too small to tell anything"


# torch.nn.Transformer


class TorchReference(nn.Module):
    """What torch leaves to its users: embeddings, sinusoids, masks and the output."""

    def __init__(self, norm_place: NormPlace) -> None:
        super().__init__()
        self.transformer = nn.Transformer(
            d_model=D,
            nhead=H,
            num_encoder_layers=N_ENCODER_LAYERS,
            num_decoder_layers=N_DECODER_LAYERS,
            dim_feedforward=D_FF,
            dropout=0.0,
            batch_first=True,
            norm_first=norm_place == "pre",
        )
        if norm_place == "post":  # torch adds final norms there too, which the paper does not have
            self.transformer.encoder.norm = None
            self.transformer.decoder.norm = None
        self.source = nn.Embedding(V, D)
        self.target = nn.Embedding(V, D)
        self.output = nn.Linear(D, V)

    def embed(self, embedding: nn.Embedding, ids_BT: Tensor) -> Tensor:
        table = torch.zeros(ids_BT.shape[1], D)
        for position in range(len(table)):
            for i in range(D):
                angle = position / 10000 ** (i // 2 * 2 / D)
                table[position, i] = math.cos(angle) if i % 2 else math.sin(angle)
        return embedding(ids_BT) * math.sqrt(D) + table

    def memory(self, source_BS: Tensor) -> Tensor:
        return self.transformer.encoder(self.embed(self.source, source_BS), src_key_padding_mask=source_BS == PAD)

    def forward(self, source_BS: Tensor, target_BT: Tensor) -> Tensor:
        hidden = self.transformer.decoder(
            self.embed(self.target, target_BT),
            self.memory(source_BS),
            tgt_mask=torch.ones(T, T).triu(1).bool(),
            memory_key_padding_mask=source_BS == PAD,
        )
        return self.output(hidden)


def linear(ours: str, theirs: nn.Module, read: Read) -> Tensors:
    """A layer with weight and bias, of whatever kind."""
    return {f"{ours}.{name}": read(parameter) for name, parameter in theirs.named_parameters(recurse=False)}


def torch_attention(ours: str, theirs: nn.MultiheadAttention, read: Read) -> Tensors:
    tensors = linear(f"{ours}.output", theirs.out_proj, read)
    for kind, packed in [("weight", theirs.in_proj_weight), ("bias", theirs.in_proj_bias)]:
        for name, part in zip(["query", "key", "value"], read(packed).chunk(3), strict=True):
            tensors[f"{ours}.{name}.{kind}"] = part
    return tensors


def from_torch(reference: TorchReference, read: Read) -> Tensors:
    tensors = {
        "encoder.embedding.weight": read(reference.source.weight),
        "decoder.embedding.weight": read(reference.target.weight),
        **linear("output", reference.output, read),
    }
    sides = {"encoder": reference.transformer.encoder, "decoder": reference.transformer.decoder}
    for side, stack in sides.items():
        if stack.norm is not None:
            tensors |= linear(f"{side}.final_norm", stack.norm, read)
        for n, layer in enumerate(stack.layers):
            block = f"{side}.blocks.{n}"
            tensors |= torch_attention(f"{block}.attention", layer.self_attn, read)
            tensors |= linear(f"{block}.attention_residual.norm", layer.norm1, read)
            if side == "decoder":
                tensors |= torch_attention(f"{block}.cross_attention", layer.multihead_attn, read)
                tensors |= linear(f"{block}.cross_attention_residual.norm", layer.norm2, read)
            last_norm = layer.norm3 if side == "decoder" else layer.norm2
            tensors |= linear(f"{block}.feed_forward_residual.norm", last_norm, read)
            tensors |= linear(f"{block}.feed_forward.inner", layer.linear1, read)
            tensors |= linear(f"{block}.feed_forward.outer", layer.linear2, read)
    return tensors


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_place", ["post", "pre"])
def test_equals_torch(norm_place: NormPlace) -> None:
    torch.manual_seed(3)
    reference = TorchReference(norm_place)
    moved(reference)
    model = ours(from_torch(reference, weight_of), norm_place=norm_place, tie_embeddings="none")
    source, target, labels = padded_batch()

    memory = model.encoder(source, (source != PAD)[:, None, None, :])
    real = source != PAD
    assert_close(memory[real], reference.memory(source)[real], "memory")

    logits, expected = model(source, SOURCE_LENGTHS, target), reference(source, target)
    assert_close(logits, expected, "logits")
    loss(logits, labels).backward()
    loss(expected, labels).backward()
    assert_gradients(model, from_torch(reference, gradient_of))


# Hugging Face


def hugging_face() -> Any:
    return pytest.importorskip("transformers", reason="transformers is not installed: no reference to compare with")


HUGGING_FACE_SIZES = {
    "vocab_size": V,
    "d_model": D,
    "encoder_layers": N_ENCODER_LAYERS,
    "decoder_layers": N_DECODER_LAYERS,
    "encoder_attention_heads": H,
    "decoder_attention_heads": H,
    "encoder_ffn_dim": D_FF,
    "decoder_ffn_dim": D_FF,
    "max_position_embeddings": 53,
    "scale_embedding": True,
    "pad_token_id": PAD,
    "eos_token_id": 0,
    "attn_implementation": "eager",
}


def from_hugging_face(reference: Any, read: Read) -> Tensors:
    tensors = {"encoder.embedding.weight": read(reference.lm_head.weight)}
    for side, stack in {"encoder": reference.model.encoder, "decoder": reference.model.decoder}.items():
        assert stack.embed_tokens.weight is reference.lm_head.weight
        if hasattr(stack, "layer_norm"):
            tensors |= linear(f"{side}.final_norm", stack.layer_norm, read)
        for n, layer in enumerate(stack.layers):
            block = f"{side}.blocks.{n}"
            attentions = {"attention": "self_attn"} | ({"cross_attention": "encoder_attn"} if side == "decoder" else {})
            for name, their_name in attentions.items():
                attention = layer.get_submodule(their_name)
                tensors |= linear(f"{block}.{name}.query", attention.q_proj, read)
                tensors |= linear(f"{block}.{name}.key", attention.k_proj, read)
                tensors |= linear(f"{block}.{name}.value", attention.v_proj, read)
                tensors |= linear(f"{block}.{name}.output", attention.out_proj, read)
                tensors |= linear(
                    f"{block}.{name}_residual.norm", layer.get_submodule(f"{their_name}_layer_norm"), read
                )
            tensors |= linear(f"{block}.feed_forward.inner", layer.fc1, read)
            tensors |= linear(f"{block}.feed_forward.outer", layer.fc2, read)
            tensors |= linear(f"{block}.feed_forward_residual.norm", layer.final_layer_norm, read)
    return tensors


def assert_equals_hugging_face(model: Transformer, reference: Any, *, bias: Callable[[], Tensor]) -> None:
    source, target, labels = padded_batch()
    output = reference(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target, use_cache=False
    )
    real = source != PAD
    memory = model.encoder(source, real[:, None, None, :])
    assert_close(memory[real], output.encoder_last_hidden_state[real], "memory")

    logits = model(source, SOURCE_LENGTHS, target)
    real = target != PAD
    assert_close(logits[real], output.logits[real], "logits")
    loss(logits, labels).backward()
    loss(output.logits, labels).backward()
    assert_gradients(model, {**from_hugging_face(reference, gradient_of), "output.bias": bias()})


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_equals_marian(activation: str) -> None:
    transformers = hugging_face()
    torch.manual_seed(4)
    config = transformers.MarianConfig(
        **HUGGING_FACE_SIZES, activation_function=activation, decoder_start_token_id=PAD, forced_eos_token_id=0
    )
    reference = transformers.MarianMTModel(config).eval()
    moved(reference)
    reference.final_logits_bias = torch.randn(1, V).requires_grad_()  # a buffer there, so that it has no gradient
    weights = from_hugging_face(reference, weight_of) | {"output.bias": reference.final_logits_bias.detach()[0]}
    model = ours(weights, norm_place="post", sinusoid_layout="halves", activation=activation)
    assert_equals_hugging_face(model, reference, bias=lambda: gradient_of(reference.final_logits_bias)[0])


def test_equals_m2m100() -> None:
    transformers = hugging_face()
    torch.manual_seed(5)
    config = transformers.M2M100Config(**HUGGING_FACE_SIZES, activation_function="relu", decoder_start_token_id=2)
    reference = transformers.M2M100ForConditionalGeneration(config).eval()
    moved(reference)
    model = ours(from_hugging_face(reference, weight_of) | {"output.bias": torch.zeros(V)}, norm_place="pre")
    # Its sinusoids have other frequencies and count from the padding id on, so its table takes the place of ours.
    for embedding in [model.encoder.embedding, model.decoder.embedding]:
        assert isinstance(embedding.positions, SinusoidalPositions)
        embedding.positions.table = reference.model.encoder.embed_positions.weights[PAD + 1 :].clone()
    bias_gradient = output_bias_gradient(model)
    assert_equals_hugging_face(model, reference, bias=lambda: bias_gradient)  # it has no bias


def output_bias_gradient(model: Transformer) -> Tensor:
    """Σ softmax(logits) - onehot(label), averaged over the real positions."""
    source, target, labels = padded_batch()
    real = labels != PAD
    with torch.no_grad():
        probs = model(source, SOURCE_LENGTHS, target).softmax(-1)[real]
    return (probs - F.one_hot(labels[real], V)).mean(0)
