import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from attendo.training import shared_sum
from attendo.training.shared_sum import SharedSum
from attendo.training.team import MEETING, Team, TeamLostError, joined_team, rank_in_environment, started_team

SECONDS = 120  # more than any of this takes; a team that waits for ever is a failure, not a hang


def follower(tmp_path: Path, body: str) -> list[str]:
    """A command that joins the team and does `body` with it."""
    script = tmp_path / "follower.py"
    script.write_text(
        "import torch\nfrom attendo.training.team import joined_team\n"
        "with joined_team() as team:\n" + textwrap.indent(textwrap.dedent(body), "    ")
    )
    return [sys.executable, str(script)]


def test_a_team_of_one_talks_to_nobody() -> None:
    team, parameter = Team(), torch.zeros(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    assert team.leads
    assert team.from_leader("word") == "word"
    assert torch.equal(team.gather(torch.ones(3))[0], torch.ones(3))
    assert [part.tolist() for part in team.put_together([None, parameter.grad], like=[parameter] * 2)] == [
        [0, 0],
        [1, 1],
    ]
    assert team.add_gradients([parameter], 1.5) == 1.5
    assert torch.equal(parameter.grad, torch.ones(2))
    with started_team(1, threads=1, command=["must not be run"]) as alone:
        assert alone.size == 1


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_are_added_up_and_absent_ones_stay_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """In memory that all see, where there is such, and by gloo."""
    folder = tmp_path / "shared"
    if shared:
        folder.mkdir()
    monkeypatch.setattr(shared_sum, "FOLDER", folder)
    command = follower(
        tmp_path,
        """
        everywhere, here, there, nowhere = (torch.zeros(2, 3, requires_grad=True) for _ in range(4))
        everywhere.grad, there.grad = torch.full((2, 3), float(team.rank + 1)), torch.full((2, 3), 5.0)
        total = team.add_gradients([everywhere, here, there, nowhere], 0.25)
        assert total == 1.0 + 2 * 0.25, total
        assert torch.equal(everywhere.grad, torch.full((2, 3), 6.0)), everywhere.grad
        assert nowhere.grad is None
        for again in range(5):
            everywhere.grad = torch.full((2, 3), float(again * team.rank))
            team.add_gradients([everywhere, here, there, nowhere], 0.0)
            assert team.agreed(False)
            assert everywhere.grad.unique().tolist() == [3.0 * again + 7]
        mine = torch.full((2, 3), float(team.rank))
        for _ in range(3):
            parts = [None, mine, None] if team.rank == 1 else [None, None, mine[:, 0]]
            team.put_together(parts, like=[mine, mine, mine[:, 0]])
        assert team.from_leader("nothing") == {"word": 1}
        team.gather(torch.tensor([team.rank, 7]))
        """,
    )
    everywhere, here, there, nowhere = (torch.zeros(2, 3, requires_grad=True) for _ in range(4))
    everywhere.grad, here.grad = torch.full((2, 3), 1.0), torch.full((2, 3), 3.0)
    with started_team(3, threads=1, command=command) as team:
        assert team.add_gradients([everywhere, here, there, nowhere], 1.0) == 1.5
        assert torch.equal(everywhere.grad, torch.full((2, 3), 1.0 + 2.0 + 3.0))
        assert torch.equal(here.grad, torch.full((2, 3), 3.0))
        assert torch.equal(there.grad, torch.full((2, 3), 10.0))  # type: ignore[arg-type]
        assert nowhere.grad is None
        for again in range(5):
            everywhere.grad = torch.full((2, 3), 7.0)
            team.add_gradients([everywhere, here, there, nowhere], 0.0)
            assert everywhere.grad.unique().tolist() == [3.0 * again + 7]
            everywhere.grad.zero_()  # it is each rank's own
            assert team.agreed(True)
        for again in range(3):
            mine = torch.full((2, 3), 4.0 + again)
            whole = team.put_together([mine, None, None], like=[mine, mine, mine[:, 0]])
            assert [part.tolist() for part in whole] == [mine.tolist(), [[1.0] * 3] * 2, [2.0] * 2]
        assert all(isinstance(one, SharedSum) == shared for one in team._sums.values())
        assert team.from_leader({"word": 1}) == {"word": 1}
        gathered = team.gather(torch.tensor([0, 7]))
    assert [tensor.tolist() for tensor in gathered] == [[0, 7], [1, 7], [2, 7]]
    assert not torch.distributed.is_initialized()
    assert not list(folder.glob("*"))


def test_the_folder_in_which_they_met_outlives_the_others(tmp_path: Path) -> None:
    """The last word of torch's FileStore is written there when a process ends, perhaps after the leader has done."""
    said, place = tmp_path / "said", tmp_path / "meetings"
    place.mkdir()
    command = follower(
        tmp_path,
        f"""
        import os, pathlib, time
        team.meet()
        time.sleep(1)
        (pathlib.Path(os.environ["{MEETING}"]).parent / "late").write_text("late")
        pathlib.Path({str(said)!r}).write_text("written")
        """,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(place))
        with started_team(2, threads=1, command=command) as team:
            team.meet()
    assert said.read_text() == "written"
    assert not list(place.iterdir())


def test_without_room_there_is_no_shared_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(shared_sum, "FOLDER", tmp_path)
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert shared_sum.reserve(size=2, length=7) == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_team_that_has_ended_leaves_no_threads(tmp_path: Path) -> None:
    """One that let go of a tensor when Python has ended would abort the process. In a process of its own, in which the
    optimizer's first step imports what it needs, as in training."""
    follow = follower(tmp_path, "team.meet()\n")
    lead = tmp_path / "leader.py"
    lead.write_text(
        textwrap.dedent(f"""
        import contextlib
        import time
        import torch
        from pathlib import Path
        from attendo.training.team import started_team

        def threads():
            found = []
            for path in Path("/proc/self/task").glob("*/comm"):
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    found.append(path.read_text())
            return found

        parameter = torch.zeros(2, requires_grad=True)
        parameter.grad = torch.ones(2)
        with started_team(2, threads=1, command={follow!r}) as team:
            torch.optim.Adam([parameter]).step()
            team.meet()
            assert any("gloo" in name for name in threads())
        ends = time.monotonic() + 10  # a thread that was waited for may still be seen for a moment
        while any("gloo" in name for name in threads()):
            assert time.monotonic() < ends, threads()
            time.sleep(0.01)
        """)
    )
    subprocess.run([sys.executable, str(lead)], check=True, timeout=SECONDS)


def test_a_process_that_dies_is_an_error_that_says_so(tmp_path: Path) -> None:
    command = follower(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with (
        pytest.raises(TeamLostError, match=r"process 1 of 2 has lost the others.*memory ran out.*--processes"),
        started_team(2, threads=1, command=command) as team,
    ):
        team.from_leader("word")


def test_a_process_that_dies_while_all_meet_is_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arriving = tmp_path / "arriving.py"
    arriving.write_text(
        "import os, signal\n"
        "import torch.distributed as dist\n"
        "from attendo.training.team import MEETING, _arrival\n"
        "store = dist.FileStore(os.environ[MEETING], 2)\n"
        "store.set(_arrival(1), '')\n"
        "store.wait(['all'])\n"  # before, it would not have arrived
        "store.set('met', '')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def closed(*_: object, store: Any, **__: object) -> None:
        store.wait(["met"])
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(torch.distributed, "init_process_group", closed)
    with (
        pytest.raises(TeamLostError, match=r"process 1 of 2 has lost the others: Connection closed.*memory ran out"),
        started_team(2, threads=1, command=[sys.executable, str(arriving)]),
    ):
        pytest.fail("there is no team")


def test_followers_end_with_their_leader(tmp_path: Path) -> None:
    waiting = follower(tmp_path, "team.from_leader('')\nteam.from_leader('')\n")
    leader = tmp_path / "leader.py"
    leader.write_text(
        "import os, signal, sys\n"
        "from attendo.training.team import started_team\n"
        f"with started_team(2, threads=1, command={waiting!r}) as team:\n"
        "    team.from_leader('once')\n"
        "    print('ready', flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The follower has inherited the pipes: reading them to their end waits for it as well.
    ended = subprocess.run([sys.executable, str(leader)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == -9
    assert ended.stdout == "ready\n"
    assert "TeamLostError" in ended.stderr


def test_followers_end_with_a_leader_that_never_joins(tmp_path: Path) -> None:
    """Killed between the arrival of all and their meeting."""
    waiting = follower(tmp_path, "pass")
    leader = tmp_path / "leader.py"
    leader.write_text(
        "import os, signal\n"
        "import torch.distributed as dist\n"
        "from attendo.training.team import started_team\n"
        "dist.init_process_group = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"with started_team(2, threads=1, command={waiting!r}):\n"
        "    pass\n"
    )
    # The follower has inherited the pipes: reading them to their end waits for it as well.
    ended = subprocess.run([sys.executable, str(leader)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == -9


def test_a_process_that_dies_before_it_joins_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    before = dict(os.environ)
    command = [sys.executable, "-c", "import sys; sys.exit('no torch here')"]
    with (
        pytest.raises(TeamLostError, match=r"not all have arrived\. What it had to say.*--processes 1"),
        started_team(3, threads=1, command=command),
    ):
        pytest.fail("there is no team")
    assert dict(os.environ) == before


def test_half_an_environment_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.delenv("RANK", raising=False)
    assert rank_in_environment() == 0
    with joined_team() as team:
        assert team.size == 1
