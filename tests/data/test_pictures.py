"""Pictures from folders, IDX and NPZ files; the store; and how they are changed. Sizes are primes."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from attendo.data.augmentation import augment
from attendo.data.noise_settings import PictureNoise
from attendo.data.picture_store import ChangedPictures, PictureSet, open_pictures, prepare_pictures
from attendo.data.pictures import find_pictures, fitted, read_picture
from attendo.errors import DataError
from attendo.reporting import Silent

N, HEIGHT, WIDTH = 23, 7, 11


def some_pixels(n: int = N, channels: int = 0) -> np.ndarray:
    shape = (n, HEIGHT, WIDTH, channels) if channels else (n, HEIGHT, WIDTH)
    return np.random.Generator(np.random.Philox(key=7)).integers(0, 256, shape, dtype=np.uint8)


def write_idx(folder: Path, name: str, pixels: np.ndarray, labels: np.ndarray, *, packed: bool) -> Path:
    images = struct.pack(">HBB3I", 0, 8, 3, *pixels.shape) + pixels.tobytes()
    numbers = struct.pack(">HBBI", 0, 8, 1, len(labels)) + labels.astype(np.uint8).tobytes()
    ending = ".gz" if packed else ""
    for what, content in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", numbers)):
        (folder / f"{name}-{what}{ending}").write_bytes(gzip.compress(content) if packed else content)
    return folder / f"{name}-images-idx3-ubyte{ending}"


@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read_as_they_are_described(tmp_path, packed):
    pixels, labels = some_pixels(), np.arange(N) % 5 + 2
    path = write_idx(tmp_path, "train", pixels, labels, packed=packed)
    for found in (find_pictures(path), find_pictures(tmp_path)):
        assert found.labels == ("2", "3", "4", "5", "6")
        assert np.array_equal(found.label_of, np.arange(N) % 5)
        assert np.array_equal(np.stack(list(found)), pixels)


@pytest.mark.parametrize("channels", [0, 3])
def test_npz_files_are_read(tmp_path, channels):
    pixels, labels = some_pixels(channels=channels), np.array(["cat", "dog"])[np.arange(N) % 2]
    np.savez_compressed(tmp_path / "some.npz", images=pixels, labels=labels)
    found = find_pictures(tmp_path / "some.npz")
    assert found.labels == ("cat", "dog")
    assert np.array_equal(np.stack(list(found)), pixels)


def test_a_folder_for_each_label_is_read(tmp_path):
    pixels = some_pixels()
    for i, one in enumerate(pixels):
        folder = tmp_path / ("odd" if i % 2 else "even") / "deep"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(folder / f"{i:02d}.png")
    (tmp_path / "odd" / "notes.txt").write_text("not a picture")
    (tmp_path / "empty").mkdir()
    found = find_pictures(tmp_path)
    assert found.labels == ("even", "odd")
    assert np.array_equal(np.stack(list(found)), np.concatenate((pixels[0::2], pixels[1::2])))
    before = found.fingerprint
    Image.fromarray(pixels[1]).save(tmp_path / "even" / "deep" / "00.png")
    assert find_pictures(tmp_path).fingerprint != before


def test_colours_are_kept_and_sizes_are_fitted(tmp_path):
    Image.fromarray(some_pixels(1, channels=3)[0]).save(tmp_path / "colour.png")
    picture = read_picture(tmp_path / "colour.png")
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert np.array_equal(fitted(picture, height=HEIGHT, width=WIDTH, n_channels=3), picture.transpose(2, 0, 1))
    assert fitted(picture, height=5, width=13, n_channels=1).shape == (1, 5, 13)


def test_what_is_no_picture_is_named(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"not a picture")
    with pytest.raises(DataError, match=r"broken\.png cannot be read as a picture"):
        read_picture(tmp_path / "broken.png")
    with pytest.raises(DataError, match="there is no picture"):
        read_picture(tmp_path / "missing.png")
    with pytest.raises(DataError, match="does not exist"):
        find_pictures(tmp_path / "missing")
    with pytest.raises(DataError, match="must have a folder for each label"):
        find_pictures(tmp_path)
    (tmp_path / "a-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03\0\0")
    with pytest.raises(DataError, match="cannot be read as an IDX file"):
        find_pictures(tmp_path / "a-images-idx3-ubyte")
    np.savez(tmp_path / "a.npz", images=some_pixels())
    with pytest.raises(DataError, match="must hold the arrays images and labels, and holds images"):
        find_pictures(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", images=some_pixels().astype(np.float32), labels=np.arange(N))
    with pytest.raises(DataError, match="must be uint8"):
        find_pictures(tmp_path / "b.npz")


def test_parts_of_data_are_no_labels(tmp_path):
    for part in ("train", "val"):
        for label in ("cat", "dog"):
            (tmp_path / part / label).mkdir(parents=True)
            Image.fromarray(some_pixels()[0]).save(tmp_path / part / label / "one.png")
    with pytest.raises(
        DataError, match=r"folders train, val, which are parts of the data .* Give one of them, .*train,"
    ):
        find_pictures(tmp_path)
    assert find_pictures(tmp_path / "train").labels == ("cat", "dog")


def test_a_store_keeps_what_was_read_and_is_found_again(tmp_path):
    pixels, labels = some_pixels(101), np.arange(101) % 3
    np.savez(tmp_path / "some.npz", images=pixels, labels=labels)

    def prepared():
        return prepare_pictures(
            str(tmp_path / "some.npz"), None, size=None, n_channels=None, cache=tmp_path / ".cache", reporter=Silent()
        )

    first = prepared()
    again = prepared()
    assert first.folder == again.folder
    assert open_pictures(tmp_path / "elsewhere") is None
    assert len(first.train) + len(first.valid) == 101
    assert len(first.valid) == 5
    both = np.concatenate((first.train.pixels, first.valid.pixels))[:, 0]
    assert {one.tobytes() for one in both} == {one.tobytes() for one in pixels}
    by_pixels = {one.tobytes(): label for one, label in zip(pixels, labels, strict=True)}
    assert all(
        by_pixels[one[0].tobytes()] == label for one, label in zip(again.valid.pixels, again.valid.labels, strict=True)
    )
    assert first.facts["size"] == [1, HEIGHT, WIDTH]
    assert first.facts["mean"] == pytest.approx([first.train.pixels.mean()])
    assert first.facts["deviation"] == pytest.approx([first.train.pixels.std()])


def test_validation_pictures_of_their_own_keep_the_numbers_of_the_labels(tmp_path):
    np.savez(tmp_path / "train.npz", images=some_pixels(), labels=np.array(["a", "b", "c"])[np.arange(N) % 3])
    np.savez(tmp_path / "valid.npz", images=some_pixels(6), labels=np.array(["b", "c"])[np.arange(6) % 2])
    np.savez(tmp_path / "strange.npz", images=some_pixels(6), labels=np.array(["b", "d"])[np.arange(6) % 2])

    def prepared(valid):
        train, cache = str(tmp_path / "train.npz"), tmp_path / ".cache"
        return prepare_pictures(
            train, str(tmp_path / valid), size=(5, 13), n_channels=3, cache=cache, reporter=Silent()
        )

    found = prepared("valid.npz")
    assert found.valid.labels.tolist() == [1, 2, 1, 2, 1, 2]
    assert found.train.pixels.shape == (N, 3, 5, 13)
    with pytest.raises(DataError, match="label d"):
        prepared("strange.npz")


def changed(noise: PictureNoise, *, seed: int = 1) -> ChangedPictures:
    pictures = PictureSet(some_pixels()[:, None], np.arange(N, dtype=np.int64))
    return ChangedPictures(pictures, 5, noise, seed)


def test_what_happens_to_a_picture_depends_on_seed_epoch_and_its_number_alone():
    noise = PictureNoise(shift=0.2, rotate=20.0, zoom=0.1, flip=True, erase=0.5)
    pictures = changed(noise)
    whole = pictures.batch(np.arange(N), 3).pixels_BCYX
    some = pictures.batch(np.array([5, 2, 19]), 3)
    assert torch.equal(some.pixels_BCYX, whole[[5, 2, 19]])
    assert some.labels_B.tolist() == [5, 2, 19]
    for other in (pictures.batch(np.arange(N), 4), changed(noise, seed=2).batch(np.arange(N), 3)):
        assert (other.pixels_BCYX != whole).flatten(1).any(dim=1).sum() > N // 2
    sources, targets = pictures.lengths(0)
    assert sources.tolist() == [5] * N
    assert targets.tolist() == [0] * N


def augmented(pixels: torch.Tensor, **noise) -> torch.Tensor:
    n = len(pixels)
    return augment(pixels, np.arange(n), PictureNoise(**noise), n_pictures=n, seed=1, epoch=0)


def test_nothing_changes_where_nothing_is_asked():
    pixels = torch.from_numpy(some_pixels()[:, None].astype(np.float32))
    assert torch.equal(augmented(pixels), pixels)


def test_flipping_turns_half_of_the_pictures():
    pixels = torch.from_numpy(some_pixels(101)[:, None].astype(np.float32))
    found = augmented(pixels, flip=True)
    turned = torch.tensor([torch.allclose(a, b.flip(-1), atol=1e-2) for a, b in zip(found, pixels, strict=True)])
    same = torch.tensor([torch.allclose(a, b, atol=1e-2) for a, b in zip(found, pixels, strict=True)])
    assert (turned ^ same).all()
    assert 35 < turned.sum() < 66


def test_shifts_move_by_at_most_what_is_allowed():
    """A bright dot in the middle is found within 0.2 of the size from where it was, in many places."""
    pixels = torch.zeros(101, 1, 21, 41)
    pixels[:, :, 10, 20] = 200.0
    found = augmented(pixels, shift=0.2)
    places = found.flatten(1).argmax(1)
    down, right = places // 41 - 10, places % 41 - 20
    assert down.abs().max() in (4, 5)
    assert right.abs().max() in (8, 9)
    assert len(places.unique()) > 50


def test_rotation_turns_about_the_middle_without_distortion():
    """A dot right of the middle of a picture that is not square stays as far from the middle as it was."""
    pixels = torch.zeros(101, 1, 41, 61)
    pixels[:, :, 19:22, 44:47] = 200.0
    found = augmented(pixels, rotate=30.0)
    weight = found[:, 0] / found.sum(dim=(1, 2, 3))[:, None, None]
    y = (weight.sum(2) * torch.arange(41)).sum(1) - 20
    x = (weight.sum(1) * torch.arange(61)).sum(1) - 30
    torch.testing.assert_close((y**2 + x**2).sqrt(), torch.full((101,), 15.0), rtol=0, atol=0.1)
    angles = torch.atan2(y, x).rad2deg()
    assert 25 < angles.max() <= 30.5
    assert -30.5 <= angles.min() < -25


def test_erasing_makes_a_rectangle_grey_in_some_pictures():
    pixels = torch.from_numpy(some_pixels(101)[:, None].astype(np.float32))
    found = augmented(pixels, erase=0.5)
    differs = (found != pixels)[:, 0]
    some = differs.flatten(1).any(1)
    assert 35 < some.sum() < 66
    for b in some.nonzero()[:, 0].tolist():
        rows, columns = differs[b].any(1).nonzero()[:, 0], differs[b].any(0).nonzero()[:, 0]
        inside = found[b, 0, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert torch.allclose(inside, pixels[b].mean().expand_as(inside))
