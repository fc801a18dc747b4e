"""Gathers the work of many requests into batches, and has them done by threads. It knows neither HTTP nor models.

A request brings items of one kind. Items of equal kinds may be done together, in a batch that costs no more than a
given sum. Requests take turns, one item each, so that a long one does not hold up a short one that comes after it:

    waiting      A₁ A₂ A₃ A₄ …      B₁      C₁ C₂
    one batch    A₁ B₁ C₁ A₂ C₂ A₃

Who was served goes to the end of the line, so that kinds take turns, too.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from attendo.serving.threads import stand_back

Item = TypeVar("Item", contravariant=True)
Result = TypeVar("Result", covariant=True)
T = TypeVar("T")

GATHER_SECONDS = 0.003  # that the first of a batch waits for others, if there is a free thread
_NEWEST = 0.2  # weight of the newest batch in the speed


class Kind(Protocol[Item, Result]):
    """What items have in common that can be done together. It is hashable.

    heavy: its batches may take long, so one thread is kept free from them. typical: the speed of its batches says what
    others will take.
    """

    @property
    def heavy(self) -> bool: ...

    @property
    def typical(self) -> bool: ...

    def cost(self, item: Item) -> int:
        """How much of a batch an item takes; at least 1."""

    def run(self, items: Sequence[Item]) -> Sequence[Result]:
        """The results of some items, in their order. It is called by a thread, and no result depends on the others."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """One that is done: of which kind, how many items, what they cost, and how long it took."""

    kind: Kind[Any, Any]
    items: int
    cost: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The results of a request, in the order of its items, and the seconds until the first item's turn."""

    results: list[T]
    waited: float


class _Ticket:
    """A request's place in the line."""

    def __init__(self, kind: Kind[Any, Any], items: Sequence[Any], now: float) -> None:
        self.kind = kind
        self.items = items
        self.costs = [kind.cost(item) for item in items]
        self.cost_left = sum(self.costs)
        self.taken = 0  # items whose turn has come
        self.missing = len(items)  # results
        self.results: list[Any] = [None] * len(items)
        self.arrived = now
        self.began: float | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def left(self) -> int:
        return len(self.items) - self.taken

    def take(self, now: float) -> int:
        """The place of the item whose turn it is."""
        self.began = now if self.began is None else self.began
        self.cost_left -= self.costs[self.taken]
        self.taken += 1
        return self.taken - 1

    def settle(self, place: int, result: Any) -> None:
        if self.done.done():  # nobody wants it any more
            return
        if isinstance(result, Exception):
            self.done.set_exception(result)
            return
        self.results[place] = result
        self.missing -= 1
        if not self.missing:
            self.done.set_result(None)


class Queue:
    """batch_cost: of a batch at most, unless a single item costs more. threads: batches that are done at once."""

    def __init__(
        self,
        *,
        batch_cost: int,
        threads: int,
        gather: float = GATHER_SECONDS,
        observe: Callable[[Batch], None] = lambda _: None,
    ) -> None:
        self.batch_cost = batch_cost
        self.threads = threads
        self.gather = gather
        self.observe = observe
        self._line: deque[_Ticket] = deque()
        self._under_way = 0  # what the batches that are being done cost
        self._heavy = 0  # how many of them are
        self._speed: float | None = None  # cost per second, of all threads together
        self._something = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Items whose turn has not come."""
        return sum(ticket.left for ticket in tuple(self._line))  # other threads may ask

    def estimate(self, cost: int) -> float:
        """About how many seconds work of this cost would take if it came now; 0 where nothing is known yet.

        As requests take turns, each of those that wait is ahead with at most as much as the new one brings.
        """
        ahead = self._under_way + sum(min(ticket.cost_left, cost) for ticket in self._line)
        return (ahead + cost) / self._speed if self._speed else 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work is done within this block. What is under way at its end is finished by its threads, for nobody."""
        with ThreadPoolExecutor(self.threads, thread_name_prefix="search", initializer=stand_back) as pool:
            lanes = [asyncio.create_task(self._lane(pool)) for _ in range(self.threads)]
            try:
                yield
            finally:
                for lane in lanes:
                    lane.cancel()
                await asyncio.gather(*lanes, return_exceptions=True)

    async def submit(self, kind: Kind[Item, Result], items: Sequence[Item], *, ahead: bool = False) -> Done[Result]:
        """The results of a request's items. If the caller is cancelled, what still waits is dropped.

        ahead: before all that wait, for the rest of a request that has waited once.
        """
        if not items:
            return Done([], 0.0)
        ticket = _Ticket(kind, items, asyncio.get_running_loop().time())
        if ahead:
            self._line.appendleft(ticket)
        else:
            self._line.append(ticket)
        self._something.set()
        try:
            await ticket.done
        finally:
            with contextlib.suppress(ValueError):  # it is not in the line any more
                self._line.remove(ticket)
        assert ticket.began is not None
        return Done(ticket.results, ticket.began - ticket.arrived)

    async def _lane(self, pool: ThreadPoolExecutor) -> None:
        """Has one batch after the other done."""
        loop = asyncio.get_running_loop()
        while True:
            await self._ripe()
            began = loop.time()
            taken, cost = self._take(began)
            kind, items = taken[0][0].kind, [ticket.items[place] for ticket, place in taken]
            self._under_way += cost
            self._heavy += kind.heavy
            try:
                results = await loop.run_in_executor(pool, _run, kind, items)
            finally:
                self._under_way -= cost
                self._heavy -= kind.heavy
                self._something.set()
            batch = Batch(kind, len(items), cost, loop.time() - began)
            self._learn(batch)
            self.observe(batch)
            for (ticket, place), result in zip(taken, results, strict=True):
                ticket.settle(place, result)

    async def _ripe(self) -> None:
        """Until the first in the line has waited for others long enough, or there is a whole batch."""
        loop = asyncio.get_running_loop()
        while True:
            while (first := self._first()) is None:
                self._something.clear()
                await self._something.wait()
            seconds = first.arrived + self.gather - loop.time()
            if seconds <= 0 or sum(ticket.cost_left for ticket in self._line) >= self.batch_cost:
                return
            await asyncio.sleep(seconds)

    def _first(self) -> _Ticket | None:
        """The first in the line that may be served now."""
        full = self._heavy >= max(1, self.threads - 1)
        return next((ticket for ticket in self._line if not (full and ticket.kind.heavy)), None)

    def _take(self, now: float) -> tuple[list[tuple[_Ticket, int]], int]:
        """The next batch, as (request, place of its item), and what it costs."""
        first = self._first()
        assert first is not None  # as it is ripe
        kind = first.kind
        turns = deque(ticket for ticket in self._line if ticket.kind == kind)
        taken: list[tuple[_Ticket, int]] = []
        cost = 0
        while turns:
            ticket = turns.popleft()
            price = ticket.costs[ticket.taken]
            if taken and cost + price > self.batch_cost:
                break
            cost += price
            taken.append((ticket, ticket.take(now)))
            if ticket.left:
                turns.append(ticket)
        served = {ticket for ticket, _ in taken}
        others = [ticket for ticket in self._line if ticket not in served]
        self._line = deque([*others, *(ticket for ticket in self._line if ticket in served and ticket.left)])
        return taken, cost

    def _learn(self, batch: Batch) -> None:
        """From typical batches that are full, or nearly so: small ones take longer than their cost."""
        if not batch.kind.typical or 2 * batch.cost < self.batch_cost:
            return
        speed = self.threads * batch.cost / max(batch.seconds, 1e-6)
        self._speed = speed if self._speed is None else (1 - _NEWEST) * self._speed + _NEWEST * speed


def _run(kind: Kind[Any, Any], items: Sequence[Any]) -> list[Any]:
    """The results, each an exception if its item has one. An item that fails takes no other one with it."""
    try:
        return list(kind.run(items))
    except Exception as error:
        if len(items) == 1:
            return [error]
        return [result for item in items for result in _run(kind, [item])]
