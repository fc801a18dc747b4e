"""From text files to a store, once."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attendo.data import prepare as prepare_module
from attendo.data.prepare import Prepared, held_out_share, prepare
from attendo.errors import DataError, StorageError
from attendo.reporting import Silent
from attendo.text.corpus import CorpusFiles, held_out

NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
ZAHLEN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
N_PAIRS = 211


def pairs() -> list[tuple[str, str]]:
    """Distinct sources, 200 and some more."""
    digits = [[(i * 7) % 10, i // 10 % 10, i // 100, i % 3] for i in range(N_PAIRS)]
    return [(" ".join(NUMBERS[d] for d in row), " ".join(ZAHLEN[d] for d in row)) for row in digits]


class Listener(Silent):
    """Remembers what was said and what was read."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.tracked: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def track(self, items: Any, what: str, total: int | None = None) -> Any:
        self.tracked.append(what)
        return super().track(items, what, total)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(lines: list[tuple[str, str]], name: str = "train") -> CorpusFiles:
    for side, language in enumerate(("en", "de")):
        Path(f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in lines), encoding="utf-8")
    return CorpusFiles(source=f"{name}.en", target=f"{name}.de")


def run(
    files: CorpusFiles, valid_files: CorpusFiles | None = None, reporter: Listener | None = None, **changes: Any
) -> Prepared:
    arguments: dict[str, Any] = {
        "tokenizers": None,
        "kind": "bpe",
        "vocab_size": 307,
        "joint": True,
        "max_length": 31,
        "cache": Path("runs/.cache"),
        "reporter": reporter or Listener(),
    }
    return prepare(files, valid_files, **{**arguments, **changes})


def texts(prepared: Prepared) -> list[tuple[str, str]]:
    store, tokenizers = prepared.store, prepared.tokenizers
    return [
        (tokenizers.source.decode(store.source[i].tolist()), tokenizers.target.decode(store.target[i].tolist()))
        for i in range(len(store))
    ]


def files_in(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


class TestWhatIsKept:
    def test_every_pair_is_in_training_or_held_out_in_the_order_of_the_files(self):
        prepared = run(write(pairs()))
        held_out = set(prepared.valid)
        assert len(held_out) == 21  # a tenth
        assert texts(prepared) == [pair for pair in pairs() if pair not in held_out]

    def test_counts(self):
        lines = pairs()
        lines[17:17] = [("", "eins"), ("one", "   "), ("\u3000", "zwei")]
        lines[101:101] = [("one " * 40, "eins"), ("one", "eins " * 40)]
        prepared = run(write(lines))
        assert prepared.facts["pairs"] == {
            "read": N_PAIRS + 5,
            "kept": N_PAIRS - 21,
            "held_out": 21,
            "dropped_empty": 3,
            "dropped_long": 2,
        }
        assert len(prepared.store) == N_PAIRS - 21
        assert len(prepared.valid) == 21

    def test_of_few_pairs_a_tenth_is_held_out_and_of_many_two_in_a_hundred(self):
        for n, expected in ((100, 10), (4_000, 400), (5_000, 500), (20_000, 500), (30_000, 600), (90_000, 1000)):
            hashes = np.arange(n, dtype=np.uint64)
            assert held_out(hashes, share=held_out_share(n)).sum() == expected

    def test_the_limit_is_inclusive_and_in_pieces(self):
        files = write(pairs())
        longest = int(max(side.lengths().max() for side in _sides(run(files))))
        assert run(files, max_length=longest).facts["pairs"]["dropped_long"] == 0
        assert run(files, max_length=longest - 1).facts["pairs"]["dropped_long"] > 0

    def test_tokens_per_epoch_count_eos(self):
        prepared = run(write(pairs()))
        n = len(prepared.store)
        assert prepared.facts["tokens_per_epoch"] == {
            "source": len(prepared.store.source.ids) + n,
            "target": len(prepared.store.target.ids) + n,
        }

    def test_held_out_sources_are_never_in_training(self):
        repeated = [(source, target + again) for source, target in pairs() for again in ("", " noch", " einmal")]
        prepared = run(write(repeated), vocab_size=400)
        held_out = {source for source, _ in prepared.valid}
        assert prepared.valid
        assert not held_out & {source for source, _ in texts(prepared)}

    def test_pieces_are_learned_from_training_pairs_alone(self):
        lines = pairs()
        held_out = set(run(write(lines)).valid)
        marked = [(s, t + "ʒ") if (s, t) in held_out else (s, t) for s, t in lines]  # sources decide who is held out
        prepared = run(write(marked))
        assert {target[-1] for _, target in prepared.valid} == {"ʒ"}
        assert "ʒ" not in "".join(prepared.tokenizers.target.pieces(range(prepared.tokenizers.target.vocab_size)))

    def test_a_pair_with_an_empty_side_is_never_held_out(self):
        for n in range(1, 30):
            lines = [*pairs()[:40], *((f"word{i}", "") for i in range(n))]
            assert len(run(write(lines), cache=Path(f"cache{n}")).valid) == 4

    def test_the_reverse_direction(self):
        files = write(pairs())
        prepared = run(CorpusFiles(source=files.source, target=files.target, reverse=True))
        assert set(texts(prepared)) | set(prepared.valid) == {(target, source) for source, target in pairs()}

    def test_separate_tokenizers(self):
        prepared = run(write(pairs()), joint=False)
        assert not prepared.tokenizers.joint
        assert prepared.tokenizers.source != prepared.tokenizers.target
        assert set(texts(prepared)) | set(prepared.valid) == set(pairs())

    def test_a_joint_tokenizer_stays_one_also_from_the_cache(self):
        files = write(pairs())
        assert run(files).tokenizers.joint
        assert run(files).tokenizers.joint

    def test_given_tokenizers_are_used_as_they_are(self):
        first = run(write(pairs()))
        other = [(source.upper(), target.upper()) for source, target in pairs()]
        prepared = run(write(other, "other"), tokenizers=first.tokenizers, vocab_size=None, max_length=99)
        assert prepared.tokenizers == first.tokenizers
        assert set(texts(prepared)) | set(prepared.valid) == set(other)

    def test_the_size_of_the_vocabulary_is_chosen_where_none_is_given(self):
        prepared = run(write(pairs()), vocab_size=None)
        assert prepared.facts["words"] == 8 * N_PAIRS
        assert prepared.facts["vocab_size"] == 560

    def test_everything_is_memory_mapped(self):
        for side in _sides(run(write(pairs()))):
            assert isinstance(side.ids, np.memmap)
            assert isinstance(side.ends, np.memmap)

    def test_the_same_bytes_every_time_whatever_the_chunks(self, monkeypatch):
        files = write(pairs())
        run(files)
        before = files_in("runs")
        shutil.rmtree("runs")
        monkeypatch.setattr(prepare_module, "CHUNK", 13)
        run(files)
        assert files_in("runs") == before


class TestGivenValidation:
    def test_all_pairs_train_and_the_given_ones_validate(self):
        valid = [("eleven", "elf"), ("twelve", "zwölf"), ("one", "eins")]
        prepared = run(write(pairs()), write(valid, "valid"))
        assert prepared.valid == valid
        assert texts(prepared) == pairs()
        assert prepared.facts["validation"] == "valid.en"

    def test_empty_and_long_pairs_are_dropped_and_counted(self):
        valid = [("eleven", ""), ("twelve", "zwölf"), ("one " * 40, "eins"), ("one", "eins " * 40)]
        prepared = run(write(pairs()), write(valid, "valid"))
        assert prepared.valid == [("twelve", "zwölf")]
        assert prepared.facts["validation_dropped"] == 3
        assert prepared.facts["pairs"]["held_out"] == 1

    def test_a_broken_validation_file_is_found_before_the_long_work(self):
        valid = write(pairs()[:20], "valid")
        Path("valid.de").write_bytes(b"gut\n" * 19 + b"\xff\n")
        listener = Listener()
        with pytest.raises(DataError, match=r"valid\.de, line 20"):
            run(write(pairs()), valid, listener)
        assert listener.tracked == []
        assert not Path("runs").exists()


class TestCache:
    def test_is_reused_while_nothing_changed(self):
        files = write(pairs())
        first = run(files)
        listener = Listener()
        second = run(files, reporter=listener)
        assert listener.tracked == []  # nothing was read again
        assert "earlier run" in listener.said[0]
        assert (second.folder, second.valid, second.facts) == (first.folder, first.valid, first.facts)
        assert second.tokenizers == first.tokenizers
        assert texts(second) == texts(first)

    def test_is_reused_when_the_files_were_moved(self):
        files = write(pairs())
        first = run(files)
        Path("train.en").rename("moved.en")
        listener = Listener()
        assert run(CorpusFiles(source="moved.en", target=files.target), reporter=listener).folder == first.folder
        assert listener.tracked == []

    @pytest.mark.parametrize(
        "change",
        [
            lambda _: run(write([*pairs()[:-1], ("one", "zwei")])),
            lambda files: run(CorpusFiles(source=files.source, target=files.target, reverse=True)),
            lambda files: run(files, write(pairs()[:5], "valid")),
            lambda files: run(files, kind="characters"),
            lambda files: run(files, vocab_size=311),
            lambda files: run(files, vocab_size=None),
            lambda files: run(files, joint=False),
            lambda files: run(files, max_length=29),
            lambda files: run(files, tokenizers=run(files, vocab_size=311).tokenizers),
        ],
        ids=["file", "direction", "validation", "kind", "size", "size chosen", "joint", "max_length", "tokenizers"],
    )
    def test_is_not_reused_when_something_changed(self, change: Callable[[CorpusFiles], Prepared]):
        files = write(pairs())
        before = run(files).folder
        assert change(files).folder != before

    def test_is_not_reused_when_the_validation_file_changed(self):
        files = write(pairs())
        first = run(files, write(pairs()[:5], "valid"))
        second = run(files, write(pairs()[:6], "valid"))
        assert len(first.valid) == 5
        assert len(second.valid) == 6

    def test_is_built_again_when_damaged(self):
        files = write(pairs())
        first = run(files)
        before = texts(first)
        with (first.folder / "target.ids").open("r+b") as file:
            file.truncate(100)
        listener = Listener()
        assert texts(run(files, reporter=listener)) == before
        assert listener.tracked == ["Reading", "Learning pieces", "Tokenising"]


class TestErrors:
    def test_an_undecodable_line_leaves_nothing_behind(self):
        lines = [pair for _ in range(25) for pair in pairs()]
        files = write(lines)
        content = Path("train.de").read_bytes().split(b"\n")
        content[4999] = b"gr\xfcn"
        Path("train.de").write_bytes(b"\n".join(content))
        with pytest.raises(DataError, match=r"train\.de, line 5000: byte 3 "):
            run(files)
        assert not Path("runs").exists()

    def test_a_file_that_breaks_while_it_is_tokenised_leaves_nothing_behind(self, monkeypatch):
        files = write(pairs())
        monkeypatch.setattr(prepare_module, "CHUNK", 13)

        class Breaks(Listener):
            def track(self, items: Any, what: str, total: int | None = None) -> Any:
                for i, item in enumerate(super().track(items, what, total)):
                    if what == "Tokenising" and i == 97:
                        assert list(Path("runs/.cache").glob(".*.partial"))
                        raise DataError("broken")
                    yield item

        with pytest.raises(DataError, match="broken"):
            run(files, reporter=Breaks())
        assert not Path("runs").exists()

    @pytest.mark.parametrize("n", [1, 2, 10])
    def test_too_few_pairs(self, n):
        with pytest.raises(DataError, match=f"of {n} read .* At least 10 and 1 are needed"):
            run(write(pairs()[:n]))
        assert not Path("runs").exists()

    def test_no_pair_within_the_limit(self):
        with pytest.raises(DataError, match=r"0 pairs are left for training .* 211 were longer than 1 pieces"):
            run(write(pairs()), max_length=1)
        assert not Path("runs").exists()

    def test_a_full_disk_is_said_in_words_and_leaves_nothing_behind(self, monkeypatch):
        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("attendo.data.store.StoreWriter.append", full)
        with pytest.raises(StorageError, match="the disk is full"):
            run(write(pairs()))
        assert not Path("runs").exists()


def _sides(prepared: Prepared) -> tuple[Any, Any]:
    return prepared.store.source, prepared.store.target
