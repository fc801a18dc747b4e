"""The queue by itself, with work that says what was done together."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from attendo.serving.queue import Batch, Done, Queue


@dataclass(frozen=True)
class Doubling:
    """Doubles numbers, each of which costs itself; `batches` has what was done together."""

    name: str = ""
    heavy: bool = False
    typical: bool = True
    batches: list[list[int]] = field(default_factory=list, compare=False)
    gate: threading.Event = field(default_factory=threading.Event, compare=False)

    def cost(self, item: int) -> int:
        return abs(item)

    def run(self, items: Sequence[int]) -> list[int]:
        assert threading.current_thread() is not threading.main_thread()
        self.gate.wait(5)
        self.batches.append(list(items))
        if -7 in items:
            raise ValueError("no sevens below zero")
        return [2 * item for item in items]


def opened(name: str = "") -> Doubling:
    """One that does not wait."""
    kind = Doubling(name)
    kind.gate.set()
    return kind


def within(
    work: Callable[[Queue], Awaitable[None]], *, batch_cost: int = 100, threads: int = 1, gather: float = 0.02
) -> list[Batch]:
    seen: list[Batch] = []

    async def run() -> None:
        queue = Queue(batch_cost=batch_cost, threads=threads, gather=gather, observe=seen.append)
        async with queue.running():
            await asyncio.wait_for(work(queue), 10)

    asyncio.run(run())
    return seen


def test_requests_that_come_together_are_done_together():
    kind = opened()

    async def work(queue: Queue) -> None:
        found = await asyncio.gather(*(queue.submit(kind, items) for items in ([1, 2], [3], [], [4, 5, 6])))
        assert [one.results for one in found] == [[2, 4], [6], [], [8, 10, 12]]

    seen = within(work)
    assert kind.batches == [[1, 3, 4, 2, 5, 6]]  # they take turns
    assert [(one.items, one.cost) for one in seen] == [(6, 21)]


def test_only_equal_kinds_go_together_and_take_turns():
    first, same, other = opened("a"), opened("a"), opened("b")

    async def work(queue: Queue) -> None:
        found = await asyncio.gather(
            queue.submit(first, [5, 5, 5]), queue.submit(other, [2]), queue.submit(same, [3, 3])
        )
        assert [one.results for one in found] == [[10, 10, 10], [4], [6, 6]]

    within(work, batch_cost=8)
    assert first.batches[0] == [5, 3]  # of both requests of this kind
    assert same.batches == []  # which are run by the first of them
    assert other.batches == [[2]]
    assert all(sum(batch) <= 8 for batch in first.batches)


def test_what_costs_more_than_a_batch_goes_alone():
    kind = opened()

    async def work(queue: Queue) -> None:
        assert (await queue.submit(kind, [3, 50, 4])).results == [6, 100, 8]

    within(work, batch_cost=10)
    assert kind.batches == [[3], [50], [4]]


def test_a_long_request_does_not_hold_up_a_short_one():
    kind = Doubling()
    order: list[str] = []

    async def asked(queue: Queue, name: str, items: list[int]) -> None:
        await queue.submit(kind, items)
        order.append(name)

    async def work(queue: Queue) -> None:
        tasks = [asyncio.create_task(asked(queue, "long", [10] * 40))]
        await asyncio.sleep(0.1)  # its first batch is being done
        tasks += [asyncio.create_task(asked(queue, *other)) for other in (("middle", [20] * 4), ("short", [10]))]
        await asyncio.sleep(0)
        kind.gate.set()
        await asyncio.gather(*tasks)

    within(work, batch_cost=40)
    assert order == ["short", "middle", "long"]
    assert kind.batches[:3] == [[10, 10, 10, 10], [10, 20, 10], [10, 20, 10]]


def test_what_nobody_waits_for_is_dropped():
    kind = Doubling()

    async def work(queue: Queue) -> None:
        going = asyncio.create_task(queue.submit(kind, [10] * 50))
        staying = asyncio.create_task(queue.submit(kind, [1]))
        await asyncio.sleep(0.1)  # the first batch is being done, and is not to be stopped
        assert queue.waiting == 40
        going.cancel()
        await asyncio.sleep(0)
        assert queue.waiting == 0
        kind.gate.set()
        assert (await staying).results == [2]

    within(work, batch_cost=101)
    assert len(kind.batches) == 1


def test_an_item_that_fails_takes_no_other_with_it():
    kind = opened()

    async def work(queue: Queue) -> None:
        found = await asyncio.gather(
            queue.submit(kind, [1, 2]), queue.submit(kind, [3, -7]), queue.submit(kind, [4]), return_exceptions=True
        )
        assert isinstance(found[1], ValueError)
        assert [one.results for one in found if isinstance(one, Done)] == [[2, 4], [8]]

    within(work)


def test_one_thread_is_kept_free_from_what_is_heavy():
    heavy, light = Doubling("heavy", heavy=True), opened("light")

    async def work(queue: Queue) -> None:
        asked = [asyncio.create_task(queue.submit(heavy, [50] * 5)) for _ in range(3)]
        await asyncio.sleep(0.1)
        assert queue.waiting == 13  # two are in the one batch that is being done
        assert (await queue.submit(light, [1])).results == [2]
        heavy.gate.set()
        for one in asked:
            assert (await one).results == [100] * 5

    within(work, threads=2)


def test_the_event_loop_goes_on_while_batches_are_done():
    kind = Doubling()

    async def work(queue: Queue) -> None:
        asked = asyncio.create_task(queue.submit(kind, [1]))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await asyncio.sleep(0)
        assert time.monotonic() - began < 2  # the batch waits longer
        kind.gate.set()
        await asked

    within(work)


def test_the_estimate_grows_with_what_is_ahead():
    kind = Doubling()
    done: list[Batch] = []

    async def work(queue: Queue) -> None:
        assert queue.estimate(10) == 0  # nothing is known yet
        asyncio.get_running_loop().call_later(0.1, kind.gate.set)
        await queue.submit(kind, [10, 10])
        assert queue.estimate(10) == 0  # a small batch tells little
        kind.gate.clear()
        asyncio.get_running_loop().call_later(0.1, kind.gate.set)
        queue.observe = done.append
        await queue.submit(kind, [30, 30])
        speed = 60 / queue.estimate(60)
        assert speed == pytest.approx(60 / done[0].seconds)
        await queue.submit(replace(kind, typical=False), [50, 50])
        assert queue.estimate(60) == 60 / speed
        kind.gate.clear()
        asked = [asyncio.create_task(queue.submit(kind, [100] * n)) for n in (1, 5)]
        await asyncio.sleep(0.1)
        # 100 are being done; of the 500 that wait a new request of 30 is behind as many.
        assert queue.estimate(30) == pytest.approx((100 + 30 + 30) / speed, rel=0.01)
        kind.gate.set()
        await asyncio.gather(*asked)

    within(work)


def test_what_waited_once_goes_ahead():
    first, late, ahead = Doubling("a"), opened("b"), opened("c")
    done: list[str] = []

    async def work(queue: Queue) -> None:
        async def ask(kind: Doubling, **how: bool) -> None:
            await queue.submit(kind, [1], **how)
            done.append(kind.name)

        asked = [asyncio.create_task(ask(first))]
        await asyncio.sleep(0.3)  # it is being done
        asked += [asyncio.create_task(ask(late)), asyncio.create_task(ask(ahead, ahead=True))]
        await asyncio.sleep(0.05)
        first.gate.set()
        await asyncio.gather(*asked)

    within(work)
    assert done == ["a", "c", "b"]
