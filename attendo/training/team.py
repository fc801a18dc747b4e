"""Several processes that train one model together, each on its part of every batch.

All run the same loop on the same batches in the same order, and between the gradients and the update they add the
gradients up (torch.distributed, gloo; nccl between GPUs), so that their weights stay the same. Rank 0 leads: it alone
validates, saves and reports, and tells the others what depends on that. Whether attendo started the others or torchrun
started them all makes a difference only in how they meet.
"""

import contextlib
import datetime
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from attendo.errors import ConfigError, TrainingError
from attendo.training.shared_sum import SharedSum, release, reserve

if dist.is_available():
    # For its defaults alone: they name the group that is there when it is imported, as the first step of an optimizer
    # does. A group kept that way keeps its threads, and one that lets go of a tensor when Python has ended aborts.
    import torch.distributed.nn.functional

T = TypeVar("T")

MEETING = "ATTENDO_MEETING"  # the variable by which a leader tells those that it starts which file they meet by
TO_START = datetime.timedelta(seconds=120)
# The leader validates and prepares data while the others wait; one that dies is noticed at once, not by this.
TO_ANSWER = datetime.timedelta(days=7)


class TeamLostError(TrainingError):
    """Another process of the team has ended."""


class Team:
    """The processes that train together, seen from one of them. A team of one talks to nobody.

    `near`: all are on this machine.
    """

    def __init__(self, rank: int = 0, size: int = 1, *, near: bool = False) -> None:
        self.rank = rank
        self.size = size
        self.near = near
        self._sums: dict[int, SharedSum | Tensor] = {}  # by their lengths, kept from step to step

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def from_leader(self, value: T) -> T:
        """What the leader says, on every rank."""
        if self.size == 1:
            return value
        said = [value]
        with self.together():
            dist.broadcast_object_list(said, src=0)
        return said[0]

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Each rank's tensor of the same shape, in the order of the ranks."""
        if self.size == 1:
            return [tensor]
        gathered = [torch.empty_like(tensor) for _ in range(self.size)]
        with self.together():
            dist.all_gather(gathered, tensor)
        return gathered

    def add_gradients(self, parameters: Sequence[Tensor], loss: float) -> float:
        """Every parameter's gradient becomes the sum of all ranks'; returns the sum of the losses.

        A parameter that had a gradient nowhere keeps none. All of it travels in one buffer.
        """
        if self.size == 1:
            return loss
        sizes = [*(parameter.numel() for parameter in parameters), len(parameters), 1]
        present = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
        gradients = [parameter.grad for parameter in parameters]
        *parts, present, total = self._added([*gradients, present, torch.tensor(loss)], sizes, parameters[0].device)
        for part, parameter, there in zip(parts, parameters, present.tolist(), strict=True):
            parameter.grad = part.view_as(parameter) if there else None
        return total.item()

    def put_together(self, parts: Sequence[Tensor | None], *, like: Sequence[Tensor]) -> Sequence[Tensor]:
        """Tensors of which each rank has some, and None in the place of the others'; `like`: their shapes.

        What no rank has is zero. They are good until this is called again.
        """
        if self.size == 1 or not like:
            return [torch.zeros_like(one) if part is None else part for part, one in zip(parts, like, strict=True)]
        whole = self._added(parts, [one.numel() for one in like], like[0].device)
        return [part.view_as(one) for part, one in zip(whole, like, strict=True)]

    def agreed(self, flag: bool) -> bool:
        """What the leader says, like `from_leader`, but faster."""
        if self.size == 1:
            return flag
        said = torch.tensor([flag])
        with self.together():
            dist.broadcast(said, src=0)
        return bool(said.item())

    def _added(self, parts: Sequence[Tensor | None], sizes: list[int], device: torch.device) -> tuple[Tensor, ...]:
        """The sum of every rank's parts, of these sizes and flat, with zeros for None; in memory that all see, if there
        is such. It is each rank's own, until the next of the same length."""
        length = sum(sizes)
        if length not in self._sums:
            self._sums[length] = self._reserved(length, device)
        kept = self._sums[length]
        flat = kept.mine if isinstance(kept, SharedSum) else kept
        for place, part in zip(flat.split(sizes), parts, strict=True):
            if part is None:
                place.zero_()
            else:
                place.view_as(part).copy_(part)
        if isinstance(kept, SharedSum):
            return kept.total(self.meet).split(sizes)
        with self.together():
            dist.all_reduce(kept)
        return kept.split(sizes)

    def _reserved(self, length: int, device: torch.device) -> SharedSum | Tensor:
        path = ""
        if self.near and device.type == "cpu":
            path = self.from_leader(reserve(size=self.size, length=length) if self.leads else "")
        if not path:
            return torch.empty(length, device=device)
        shared = SharedSum(path, rank=self.rank, size=self.size, length=length)
        self.meet()
        release(path)
        return shared

    def meet(self) -> None:
        """Returns when all are here."""
        if self.size > 1:
            with self.together():
                dist.barrier()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What the processes do only with each other: where one is gone, that is the error."""
        try:
            yield
        except RuntimeError as error:  # gloo's only kind
            raise TeamLostError(
                f"process {self.rank + 1} of {self.size} has lost the others: {str(error).splitlines()[0]}"
            ) from error


def rank_in_environment() -> int:
    """Which of the processes that torchrun, or a leader, has started this one is; 0 where nobody has."""
    return int(os.environ["RANK"]) if {"RANK", "WORLD_SIZE"} <= os.environ.keys() else 0


@contextlib.contextmanager
def joined_team() -> Iterator[Team]:
    """The team that the environment names, as torchrun or a leader has set it; a team of one where it names none."""
    size = int(os.environ["WORLD_SIZE"]) if {"RANK", "WORLD_SIZE"} <= os.environ.keys() else 1
    if size == 1:
        yield Team()
        return
    rank = rank_in_environment()
    team = Team(rank, size, near=MEETING in os.environ)
    if team.near:
        store = dist.FileStore(os.environ[MEETING], size)  # type: ignore[attr-defined]
        store.set(_arrival(rank), "")
        with _ending_with_leader(), team.together():
            store.wait(["all"], TO_START)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=TO_ANSWER)
    else:
        if dist.is_initialized():
            raise ConfigError(
                "torch.distributed is in use already, and training in several processes sets it up itself. Leave out "
                "init_process_group."
            )
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
        dist.init_process_group(backend, init_method="env://", timeout=TO_ANSWER)
    try:
        yield team
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def _ending_with_leader() -> Iterator[None]:
    """Ends this process where the one that started it ends meanwhile.

    Once they have met, a connection that breaks tells; until then gloo looks for the leader as long as for any answer.
    """
    leader, met = os.getppid(), threading.Event()

    def watch() -> None:
        while not met.wait(1.0):
            if os.getppid() != leader:
                os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        met.set()


@contextlib.contextmanager
def started_team(size: int, *, threads: int, command: Sequence[str]) -> Iterator[Team]:
    """Leads a team whose other processes run `command` on this machine; they end when this block does.

    A process is started by its command, not by `multiprocessing`, which would run the caller's script again. They meet
    by a file that nobody else can read, and talk by the loopback interface.
    """
    if size == 1:
        yield Team()
        return
    team = Team(0, size, near=True)
    # The file in which they met is touched once more by a process that ends, so the folder goes last.
    with tempfile.TemporaryDirectory(prefix="attendo-") as folder, _followers() as followers:
        meeting = str(Path(folder) / "meeting")
        with _loopback():
            for rank in range(1, size):
                told = {"RANK": rank, "WORLD_SIZE": size, "OMP_NUM_THREADS": threads, MEETING: meeting}
                followers.append(
                    subprocess.Popen(
                        command,
                        env={**os.environ, **{name: str(value) for name, value in told.items()}},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,  # results of the command are the leader's
                        start_new_session=True,  # Ctrl-C is for the leader, which knows what to do
                    )
                )
            store = dist.FileStore(meeting, size)  # type: ignore[attr-defined]
            _await(store, followers)
            with team.together():
                dist.init_process_group("gloo", store=store, rank=0, world_size=size, timeout=TO_ANSWER)
        try:
            yield team
        finally:
            dist.destroy_process_group()


@contextlib.contextmanager
def _followers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A list for the processes that are started; when the block ends, they have ended as well."""
    followers = list[subprocess.Popen[bytes]]()
    try:
        yield followers
    except TeamLostError as error:
        raise TeamLostError(f"{error}. {_ends(followers)}") from None
    finally:
        for follower in followers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                follower.wait(timeout=5)
            follower.kill()
            follower.wait()


def _arrival(rank: int) -> str:
    return f"process {rank} is here"


def _await(store: Any, followers: Sequence[subprocess.Popen[bytes]]) -> None:
    """Until all have arrived. Joining before would wait for one that is dead already, deaf to every signal."""
    ends = time.monotonic() + TO_START.total_seconds()
    while not store.check([_arrival(rank) for rank in range(1, len(followers) + 1)]):
        if any(follower.poll() is not None for follower in followers) or time.monotonic() > ends:
            raise TeamLostError(f"of {len(followers)} processes that were started not all have arrived")
        time.sleep(0.02)
    store.set("all", "")


def _ends(followers: Sequence[subprocess.Popen[bytes]]) -> str:
    codes = []
    for follower in followers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            codes.append(follower.wait(timeout=5))
    if any(code < 0 for code in codes):
        return "It was killed, most often because memory ran out: use fewer --processes, or training.batch_tokens."
    return "What it had to say is on standard error; --processes 1 does without others."


@contextlib.contextmanager
def _loopback() -> Iterator[None]:
    """Processes of one machine need no network; gloo would look for the machine's name in it."""
    variable = "GLOO_SOCKET_IFNAME"
    names = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"} if hasattr(socket, "if_nameindex") else set()
    if variable in os.environ or not names or sys.platform == "win32":
        yield
        return
    os.environ[variable] = names.pop()
    try:
        yield
    finally:
        del os.environ[variable]
