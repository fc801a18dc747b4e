import torch

from attendo.nn.masks import causal_mask, padding_mask


def test_padding_mask_is_true_at_real_positions() -> None:
    mask = padding_mask(torch.tensor([3, 5, 1]), 5)
    assert mask.shape == (3, 1, 1, 5)
    assert mask[:, 0, 0].tolist() == [
        [True, True, True, False, False],
        [True, True, True, True, True],
        [True, False, False, False, False],
    ]


def test_causal_mask_lets_a_position_see_itself_and_the_past() -> None:
    mask = causal_mask(3)
    assert mask.shape == (1, 1, 3, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_masks_combine() -> None:
    mask = causal_mask(3) & padding_mask(torch.tensor([2, 3]), 3)
    assert mask.shape == (2, 1, 3, 3)
    assert mask[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]
