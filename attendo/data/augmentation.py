"""Pictures changed a little, in another way in each epoch: a pure function of seed, epoch and the picture's number.

Suffixes: B pictures, C channels, Y and X pixels down and across.
"""

import functools
import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attendo.data.batching import Indices
from attendo.data.noise_settings import PictureNoise

DRAWS = 10  # numbers for each picture: five for how it moves, five for what is erased
SMALLEST, LARGEST = 0.1, 0.4  # share of a side that an erased rectangle has


@functools.lru_cache(maxsize=2)
def _draws_of_epoch(n_pictures: int, seed: int, epoch: int) -> NDArray[np.float32]:
    """For each picture the numbers in [0, 1) that decide what happens to it: [n_pictures, DRAWS]."""
    key = np.array([seed & (2**64 - 1), epoch], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).random((n_pictures, DRAWS), dtype=np.float32)


def augment(
    pixels_BCYX: Tensor, indices: Indices, noise: PictureNoise, *, n_pictures: int, seed: int, epoch: int
) -> Tensor:
    """The pictures of these numbers among `n_pictures`, changed as `noise` says."""
    draws = torch.from_numpy(_draws_of_epoch(n_pictures, seed, epoch)[indices])
    if noise.moves:
        pixels_BCYX = _moved(pixels_BCYX, draws, noise)
    return _erased(pixels_BCYX, draws, noise.erase) if noise.erase else pixels_BCYX


def _moved(pixels_BCYX: Tensor, draws: Tensor, noise: PictureNoise) -> Tensor:
    """Turned about the middle, made larger or smaller, shifted and flipped, by bilinear interpolation.

    A point p of the new picture, from -1 to 1 from edge to edge, shows the old one at R p / zoom + shift; R turns by an
    angle in pixels, so that pictures that are not square are not distorted. Beyond an edge the edge goes on.
    """
    height, width = pixels_BCYX.shape[2:]
    angle, zoom, right, down, flip = (2 * draws[:, :5] - 1).unbind(dim=1)
    angle = angle * math.radians(noise.rotate)
    zoom = 1 / (1 + zoom * noise.zoom)
    mirror = torch.where(flip < 0, -1.0, 1.0) if noise.flip else torch.ones_like(flip)
    along, across = zoom * angle.cos(), zoom * angle.sin()
    to_x = torch.stack([mirror * along, -across * height / width, 2 * right * noise.shift], dim=1)
    to_y = torch.stack([mirror * across * width / height, along, 2 * down * noise.shift], dim=1)
    grid = F.affine_grid(torch.stack([to_x, to_y], dim=1), list(pixels_BCYX.shape), align_corners=False)
    return F.grid_sample(pixels_BCYX, grid, padding_mode="border", align_corners=False)


def _erased(pixels_BCYX: Tensor, draws: Tensor, share: float) -> Tensor:
    """With probability `share` a rectangle of a picture becomes its mean (Zhong et al. 2020)."""
    height, width = pixels_BCYX.shape[2:]
    chosen, tall, broad, top, left = draws[:, 5:].split(1, dim=1)
    size_y = (height * (SMALLEST + tall * (LARGEST - SMALLEST))).round()
    size_x = (width * (SMALLEST + broad * (LARGEST - SMALLEST))).round()
    first_y, first_x = (top * (height - size_y)).floor(), (left * (width - size_x)).floor()
    y, x = torch.arange(height), torch.arange(width)
    inside_y, inside_x = (y >= first_y) & (y < first_y + size_y), (x >= first_x) & (x < first_x + size_x)
    inside = (inside_y[:, :, None] & inside_x[:, None, :] & (chosen < share)[:, :, None])[:, None]
    return torch.where(inside, pixels_BCYX.mean(dim=(2, 3), keepdim=True), pixels_BCYX)
