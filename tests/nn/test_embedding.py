import math

import pytest
import torch
from torch import nn

from attendo.nn.embedding import Embedding, OutputProjection
from attendo.nn.positions import ComplexPositions, LearnedPositions

B, T, D, V = 2, 3, 5, 11


def test_embedding_is_scaled_before_positions_are_added() -> None:
    torch.manual_seed(1)
    weight, positions = nn.Parameter(torch.randn(V, D)), LearnedPositions(d_model=D, n_positions=13)
    nn.init.normal_(positions.weight)
    ids = torch.randint(V, (B, T))
    embedding = Embedding(weight=weight, positions=positions, dropout=0.0)
    expected = weight[ids] * math.sqrt(D) + positions.weight[4 : 4 + T]
    torch.testing.assert_close(embedding(ids, offset=4), expected)


def test_positions_are_told_the_ids_and_the_offset() -> None:
    torch.manual_seed(5)
    weight, positions = nn.Parameter(torch.randn(V, 6)), ComplexPositions(vocab_size=V, d_model=6)
    nn.init.normal_(positions.weight)
    ids = torch.randint(V, (B, T))
    embedding = Embedding(weight=weight, positions=positions, dropout=0.0)
    expected = positions(weight[ids] * math.sqrt(6), ids, offset=4)
    torch.testing.assert_close(embedding(ids, offset=4), expected)


def test_embedding_without_positions() -> None:
    torch.manual_seed(2)
    weight, ids = nn.Parameter(torch.randn(V, D)), torch.randint(V, (B, T))
    embedding = Embedding(weight=weight, positions=None, dropout=0.0)
    torch.testing.assert_close(embedding(ids, offset=4), weight[ids] * math.sqrt(D))


def test_embedding_is_dropped_after_positions_were_added() -> None:
    torch.manual_seed(3)
    positions = LearnedPositions(d_model=D, n_positions=211)
    nn.init.ones_(positions.weight)
    embedding = Embedding(weight=nn.Parameter(torch.zeros(V, D)), positions=positions, dropout=0.5)
    assert set(embedding(torch.zeros(B, 211, dtype=torch.long)).unique().tolist()) == {0.0, 2.0}


def test_word_dropout_leaves_out_whole_vectors_and_no_positions() -> None:
    torch.manual_seed(6)
    positions = LearnedPositions(d_model=D, n_positions=997)
    nn.init.ones_(positions.weight)
    weight = nn.Parameter(torch.full((V, D), 1 / math.sqrt(D)))
    embedding = Embedding(weight=weight, positions=positions, dropout=0.0, word_dropout=0.25)
    ids = torch.zeros(B, 997, dtype=torch.long)
    vectors = embedding(ids)
    assert (vectors == vectors[:, :, :1]).all()  # all features of a token, or none
    kept = vectors[:, :, 0] > 1
    torch.testing.assert_close(vectors[:, :, 0], 1 + kept / 0.75)  # as large as ever in the mean
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert (embedding.eval()(ids) == 2).all()


def test_output_projection_is_the_product_with_the_embeddings_and_a_bias() -> None:
    torch.manual_seed(4)
    weight = nn.Parameter(torch.randn(V, D))
    output = OutputProjection(weight=weight)
    nn.init.normal_(output.bias)
    x = torch.randn(B, T, D)
    torch.testing.assert_close(output(x), x @ weight.T + output.bias)
    assert output.weight is weight
    aligned = output.aligned(x[:, 0])
    torch.testing.assert_close(aligned, output(x)[:, 0])
    assert aligned.stride(0) % 16 == 0
