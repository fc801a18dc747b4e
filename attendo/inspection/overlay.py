"""What a model looked at, laid over the picture itself.

The stronger the colour over a patch, the larger its weight: none for the smallest, most for the largest. A small
picture is enlarged without smoothing, so that each of its pixels is seen.

Suffixes: R and Q patches down and across.
"""

from PIL import Image
from torch import Tensor

from attendo.data.pictures import Picture
from attendo.inspection.rollout import stretched

GLOW = (255, 122, 0)
STRONGEST = 0.75  # how much of the colour covers the patch that is looked at most


def enlarged(pixels: Picture, size: int) -> Image.Image:
    """The picture in colours, its longer side about so many pixels; larger by a whole number, or smaller."""
    picture = Image.fromarray(pixels).convert("RGB")
    longer = max(picture.size)
    if longer <= size:
        times = size // longer
        return picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    return picture.resize(
        (max(1, picture.width * size // longer), max(1, picture.height * size // longer)), Image.Resampling.LANCZOS
    )


def overlaid(picture: Image.Image, weights_RQ: Tensor) -> Image.Image:
    """The picture without its colours, under those of the weights."""
    rows, columns = weights_RQ.shape
    shares = (STRONGEST * 255 * stretched(weights_RQ)).round().flatten().int().tolist()
    cover = Image.new("L", (columns, rows))
    cover.putdata(shares)
    grey = picture.convert("L").convert("RGB")
    grey.paste(Image.new("RGB", picture.size, GLOW), mask=cover.resize(picture.size, Image.Resampling.NEAREST))
    return grey
