"""Attention as PNG: a labelled map of each head, all heads of a kind side by side, and a picture with what was seen.

A row is who looks, a column what is looked at, and the shade grows with the square root of the weight, so that small
weights can be seen. A weight has fewer pixels where there are many of them, so that a long sentence does not make
pictures that nothing can show.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from attendo.alignment.heads import Head
from attendo.inspection.inspector import Inspection
from attendo.inspection.overlay import enlarged, overlaid
from attendo.inspection.reading import Reading, SeenPicture
from attendo.inspection.seen import Seen
from attendo.storage import storage_errors

INK = (22, 60, 130)
TEXT = (27, 31, 39)
MUTED = (91, 100, 114)
EDGE = (216, 220, 228)
WHITE = (255, 255, 255)
CELL, SMALL_CELL = 26, 7
PICTURE, SMALL_PICTURE = 448, 140  # pixels of a picture's longer side
MOST = 4000  # pixels of the weights on a side, as long as each has one
FONT_SIZE = 15
GAP = 14
BAR = 220  # pixels of the longest bar

# Pillow's own font knows ASCII alone; for other letters one of these is used where the machine has it.
FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf")
EASTERN_FONTS = ("NotoSansCJK-Regular.ttc", "wqy-zenhei.ttc", "Arial Unicode.ttf", "msyh.ttc", "PingFang.ttc")
EASTERN = 0x2E80  # the first code point that only those have

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def write_pictures(seen: Seen, folder: Path) -> list[Path]:
    """KIND.png of each kind of attention, and of each head heads/KIND.LAYER.NUMBER.png; of a translation alignment.png,
    of a picture rollout.png and over.png, of a text where each piece says something for its label evidence.png."""
    written = []
    with storage_errors(folder):
        for name, picture in pictures(seen):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            picture.save(folder / name)
            written.append(folder / name)
    return written


def pictures(seen: Seen) -> Iterator[tuple[str, Image.Image]]:
    if isinstance(seen, Inspection):
        title = f"alignment by {seen.view.name}"
        yield "alignment.png", labelled(seen.alignment_TS, *seen.labels("cross"), title=title)
    if isinstance(seen, Reading) and seen.picture is not None:
        yield "rollout.png", beside(seen.picture, _best_label(seen))
        yield "over.png", every_head_over(seen.picture, seen.weights("encoder"))
    if isinstance(seen, Reading) and seen.evidence:
        title = f"{_best_label(seen)}, against (-) and for it (+)"
        yield "evidence.png", bars(seen.positions, seen.evidence_shares, title=title)
    for kind in seen.kinds:
        layers = seen.weights(kind)
        yield f"{kind}.png", side_by_side(layers, kind)
        for layer, weights_HTS in enumerate(layers, start=1):
            for number, weights_TS in enumerate(weights_HTS, start=1):
                head = Head(kind, layer, number)
                yield f"heads/{head}.png", labelled(weights_TS, *seen.labels(kind), title=str(head))


def heat(weights_TS: Tensor, cell: int) -> Image.Image:
    """One square of `cell` pixels for each weight."""
    rows, columns = weights_TS.shape
    shades = weights_TS.clamp(0, 1).sqrt().flatten().tolist()
    picture = Image.new("RGB", (columns, rows))
    picture.putdata([tuple(round(w + s * (i - w)) for w, i in zip(WHITE, INK, strict=True)) for s in shades])
    return picture.resize((columns * cell, rows * cell), Image.Resampling.NEAREST)


def fitting(cell: int, n_weights: int) -> int:
    """Pixels for each of so many weights in a row: those of a cell, or as many as there is room for."""
    return max(1, min(cell, MOST // n_weights))


def labelled(weights_TS: Tensor, rows: Sequence[str], columns: Sequence[str], *, title: str) -> Image.Image:
    """A map with the pieces at its left and, turned, above it; where they are too close, only with every so many."""
    rows, columns = ([label.replace("▁", "_") for label in labels] for labels in (rows, columns))
    use = font("".join((*rows, *columns, title)))
    left = GAP + max(_width(use, row) for row in rows) + 8
    top = GAP + 2 * FONT_SIZE + max(_width(use, column) for column in columns) + 8
    cell = fitting(CELL, max(weights_TS.shape))
    every = math.ceil((FONT_SIZE + 5) / cell)
    map_ = heat(weights_TS, cell)
    size = max(left + map_.width, GAP + _width(use, title)) + GAP, top + map_.height + GAP
    picture = Image.new("RGB", size, WHITE)
    draw = ImageDraw.Draw(picture)
    draw.text((GAP, GAP), title, fill=MUTED, font=use)
    picture.paste(map_, (left, top))
    draw.rectangle((left - 1, top - 1, left + map_.width, top + map_.height), outline=EDGE)
    for number, row in list(enumerate(rows))[::every]:
        middle = top + number * cell + cell // 2
        draw.text((left - 8, middle), row, fill=TEXT, font=use, anchor="rm")
    for number, column in list(enumerate(columns))[::every]:
        label = _turned(use, column)
        picture.paste(label, (left + number * cell + (cell - label.width) // 2, top - 6 - label.height))
    return picture


def bars(names: Sequence[str], shares: Sequence[float], *, title: str) -> Image.Image:
    """A bar for each share, from -1 to 1, to the right of the middle for what is above zero."""
    names = [name.replace("▁", "_") for name in names]
    use = font("".join((*names, title)))
    left, top = GAP + max(_width(use, name) for name in names) + 8, 2 * GAP + FONT_SIZE
    cell = fitting(CELL, len(names))
    size = max(left + 2 * BAR, GAP + _width(use, title)) + GAP, top + cell * len(names) + GAP
    picture = Image.new("RGB", size, WHITE)
    draw, middle = ImageDraw.Draw(picture), left + BAR
    draw.text((GAP, GAP), title, fill=TEXT, font=use)
    for number, (name, share) in enumerate(zip(names, shares, strict=True)):
        y = top + number * cell
        if cell > FONT_SIZE:
            draw.text((left - 8, y + cell // 2), name, fill=TEXT, font=use, anchor="rm")
        end = middle + round(BAR * share)
        draw.rectangle((min(middle, end), y, max(middle, end), y + max(0, cell - 4)), fill=INK if share > 0 else MUTED)
    draw.line((middle, top, middle, top + cell * len(names)), fill=EDGE)
    return picture


def side_by_side(layers: Sequence[Tensor], kind: str) -> Image.Image:
    """All heads of a kind: a row for each layer, a column for each head."""
    n_heads, rows, columns = layers[0].shape
    cell = fitting(SMALL_CELL, max(len(layers) * rows, n_heads * columns))
    return table([[heat(weights_TS, cell) for weights_TS in weights_HTS] for weights_HTS in layers], kind)


def every_head_over(seen: SeenPicture, layers: Sequence[Tensor]) -> Image.Image:
    """What each head looks at in a picture: a row for each layer, a column for each head."""
    small = enlarged(seen.pixels, fitting(SMALL_PICTURE, max(len(layers), len(layers[0]))))
    return table([[overlaid(small, one_RQ) for one_RQ in seen.over(layer_HTT)] for layer_HTT in layers], "encoder")


def beside(seen: SeenPicture, title: str) -> Image.Image:
    """The picture, and what was looked at in it by attention rollout."""
    use = font(title)
    left = enlarged(seen.pixels, PICTURE)
    top = 2 * GAP + FONT_SIZE
    right = GAP + max(2 * left.width + GAP, _width(use, title)) + GAP
    picture = Image.new("RGB", (right, top + left.height + GAP), WHITE)
    ImageDraw.Draw(picture).text((GAP, GAP), title, fill=TEXT, font=use)
    picture.paste(left, (GAP, top))
    picture.paste(overlaid(left, seen.rollout_RQ), (2 * GAP + left.width, top))
    return picture


def table(maps: Sequence[Sequence[Image.Image]], kind: str) -> Image.Image:
    """Pictures of one size with the names of their layers and heads."""
    use = font(kind)
    width, height = max(maps[0][0].width, _width(use, "head 10")), max(maps[0][0].height, FONT_SIZE)
    left, top = GAP + _width(use, "layer 10") + 8, GAP + FONT_SIZE + 8
    size = left + len(maps[0]) * (width + GAP), top + len(maps) * (height + GAP)
    picture = Image.new("RGB", size, WHITE)
    draw = ImageDraw.Draw(picture)
    draw.text((GAP, GAP), kind, fill=MUTED, font=use)
    for number in range(len(maps[0])):
        draw.text((left + number * (width + GAP), GAP), f"head {number + 1}", fill=MUTED, font=use)
    for layer, row in enumerate(maps):
        y = top + layer * (height + GAP)
        draw.text((GAP, y), f"layer {layer + 1}", fill=MUTED, font=use)
        for number, map_ in enumerate(row):
            x = left + number * (width + GAP)
            picture.paste(map_, (x, y))
            draw.rectangle((x - 1, y - 1, x + map_.width, y + map_.height), outline=EDGE)
    return picture


def _best_label(seen: Reading) -> str:
    label, probability = next(iter(seen.probabilities.items()))
    return f"{seen.read}: {label} ({probability:.3f})"


def font(text: str) -> Font:
    """One that can write the text, as far as there is one."""
    last = max(map(ord, text), default=0)
    return _font((*EASTERN_FONTS, *FONTS) if last >= EASTERN else FONTS if last > 127 else ())


@cache
def _font(names: tuple[str, ...]) -> Font:
    for name in names:
        try:
            return ImageFont.truetype(name, FONT_SIZE)
        except OSError:
            continue
    return ImageFont.load_default(FONT_SIZE)


def _width(use: Font, text: str) -> int:
    return round(use.getlength(text))


def _turned(use: Font, text: str) -> Image.Image:
    """Text that reads upwards."""
    label = Image.new("RGB", (max(1, _width(use, text)), FONT_SIZE + 5), WHITE)
    ImageDraw.Draw(label).text((0, 0), text, fill=TEXT, font=use)
    return label.rotate(90, expand=True)
