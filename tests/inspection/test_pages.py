"""Pictures and the page: what is drawn is what was seen, and nothing is fetched."""

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image

from attendo.inspection.inspector import Inspection, Inspector
from attendo.inspection.overlay import GLOW, STRONGEST, enlarged, overlaid
from attendo.inspection.page import inspection_page
from attendo.inspection.pictures import INK, WHITE, heat, labelled, side_by_side, write_pictures


@pytest.fixture(scope="module")
def seen(trained) -> Inspection:
    return Inspector.from_bundle(trained.bundle, device="cpu").inspect(
        "two red seven </script> &amp; <!-- <script four."
    )


def test_a_square_for_each_weight():
    picture = heat(torch.tensor([[0.0, 1.0, 0.25], [1.0, 0.0, 0.0]]), 5)
    assert picture.size == (15, 10)
    assert picture.getpixel((2, 2)) == picture.getpixel((7, 7)) == WHITE
    assert picture.getpixel((7, 2)) == picture.getpixel((2, 7)) == INK
    assert picture.getpixel((12, 2)) == tuple(round((w + i) / 2) for w, i in zip(WHITE, INK, strict=True))


def test_labels_are_outside_of_the_map():
    weights = torch.ones(3, 2)
    short, long = (labelled(weights, ["a"] * 3, [name] * 2, title="t") for name in ("b", "bbbbbbbb"))
    assert long.height > short.height
    assert long.width == short.width
    colours = short.getcolors(100_000)
    assert colours is not None
    assert {colour: count for count, colour in colours}[INK] == 3 * 2 * 26**2


def test_many_weights_have_fewer_pixels_each():
    pieces = ["a"] * 607
    picture = labelled(torch.ones(3, 607), pieces[:3], pieces, title="t")
    colours = picture.getcolors(100_000)
    assert colours is not None
    assert {colour: count for count, colour in colours}[INK] == 3 * 607 * 6**2  # 4000 / 607 = 6.6
    assert 607 * 6 < picture.width < 607 * 6 + 100
    together = side_by_side([torch.rand(5, 3, 307)] * 2, "cross")
    assert 5 * 307 * 2 < together.width < 5 * 307 * 2 + 200


def test_all_heads_side_by_side():
    picture = side_by_side([torch.rand(3, 5, 7), torch.rand(3, 5, 7)], "cross")
    assert picture.width > 3 * 7 * 7
    assert picture.height > 2 * 5 * 7


def test_a_small_picture_is_enlarged_and_a_large_one_shrinks():
    digit = np.arange(28 * 14, dtype=np.uint8).reshape(28, 14)
    large = enlarged(digit, 448)
    assert large.size == (14 * 16, 448)
    assert {large.getpixel((x, y)) for x in range(16, 32) for y in range(48, 64)} == {(14 * 3 + 1,) * 3}
    assert enlarged(np.zeros((500, 1000, 3), dtype=np.uint8), 448).size == (448, 224)


def test_the_colour_is_strongest_where_the_weight_is_largest():
    picture = overlaid(Image.new("RGB", (6, 4), (10, 200, 30)), torch.tensor([[0.1, 0.3, 0.2], [0.1, 0.1, 0.1]]))
    grey = round(0.299 * 10 + 0.587 * 200 + 0.114 * 30)
    assert picture.getpixel((0, 0)) == picture.getpixel((5, 3)) == (grey,) * 3
    for x, share in ((2, STRONGEST), (4, STRONGEST / 2)):
        mixed = tuple(grey + share * (glow - grey) for glow in GLOW)
        assert picture.getpixel((x, 1)) == pytest.approx(mixed, abs=1.5)
    same = overlaid(Image.new("RGB", (2, 2), (7, 7, 7)), torch.full((2, 2), 0.25))
    assert same.getcolors() == [(4, (7, 7, 7))]


def test_the_files(seen, tmp_path):
    written = write_pictures(seen, tmp_path / "maps")
    assert sorted(path.relative_to(tmp_path / "maps").as_posix() for path in written) == sorted(
        [
            *("alignment.png", "encoder.png", "decoder.png", "cross.png"),
            *(f"heads/{kind}.1.{head}.png" for kind in ("encoder", "decoder", "cross") for head in (1, 2)),
        ]
    )
    for path in written:
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert min(picture.size) > 40


def test_the_page_has_all_numbers_and_nothing_from_elsewhere(seen):
    page = inspection_page(seen, name="run & co")
    data = re.search(r'<script type="application/json" id="seen">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    assert json.loads(data[1]) == seen.to_json()
    assert "<" not in data[1]
    without = page.replace(data[1], "")
    assert "run &amp; co" in without
    assert not re.search(r"""\b(?:src|href)=|url\(|@import|fetch\(|import\(""", without)
    assert set(re.findall(r"https?://[^\s\"'<]+", without)) == {"http://www.w3.org/2000/svg"}
    assert without.count("</script>") == 2
    for kind in ("encoder", "decoder", "cross"):
        assert f'data-kind="{kind}"' in without
