"""The event loop in virtual time, and the processes on it."""

from __future__ import annotations

import asyncio
import gc
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.sim import loop as loop_module
from node.sim.loop import StalledError, VirtualLoop
from node.sim.process import VirtualProcess
from node.sim.process_state import NS_PER_S, PPM
from node.sim.watchdog import watched


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    loop = VirtualLoop()
    yield loop
    loop.close()


def spawn(process: VirtualProcess, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine in a process."""
    process.do(lambda: asyncio.create_task(work()))


# ---------------------------------------------------------------------- time and order


def test_waiting_costs_nothing_and_the_clock_has_moved(loop: VirtualLoop) -> None:
    async def main() -> float:
        await asyncio.sleep(1_000_000)
        return asyncio.get_running_loop().time()

    assert loop.run_until_complete(main()) == 1_000_000
    assert loop.now_ns == 1_000_000 * NS_PER_S


@given(st.lists(st.integers(0, 5), max_size=20))
def test_callbacks_come_by_time_then_in_the_order_they_were_asked_for(delays: list[int]) -> None:
    loop = VirtualLoop()
    seen: list[tuple[int, int]] = []
    for number, delay_s in enumerate(delays):
        loop.call_later(delay_s, seen.append, (delay_s, number))
    loop.call_later(6, loop.stop)
    loop.run_forever()
    loop.close()
    assert seen == sorted(seen)
    assert len(seen) == len(delays)


def test_what_asyncio_builds_on_a_loop_works(loop: VirtualLoop) -> None:
    async def slow(lock: asyncio.Lock, seen: list[float]) -> None:
        async with lock:
            await asyncio.sleep(1)
            seen.append(loop.time())

    async def main() -> list[float]:
        lock, event = asyncio.Lock(), asyncio.Event()
        seen: list[float] = []
        await asyncio.gather(*(slow(lock, seen) for _ in range(3)))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await event.wait()
        seen.append(loop.time())
        loop.call_at(9, event.set)
        await event.wait()
        seen.append(await asyncio.to_thread(loop.time))
        return seen

    assert loop.run_until_complete(main()) == [1, 2, 3, 8, 9]


def test_asyncios_runner_takes_it() -> None:
    async def main() -> float:
        await asyncio.sleep(3)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(main()) == 3


def test_a_cancelled_callback_is_not_called_and_holds_nothing_up(loop: VirtualLoop) -> None:
    seen: list[str] = []
    loop.call_later(1, seen.append, "late").cancel()
    loop.call_soon(seen.append, "soon").cancel()
    loop.call_soon(loop.stop)
    loop.run_forever()
    with pytest.raises(StalledError, match="nothing is left to do at 0 ns"):
        loop.run_forever()
    assert seen == []


def test_time_that_stands_still_is_noticed(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "CALLS_AT_ONE_TIME_MAX", 1000)

    async def main() -> None:
        while True:  # noqa: ASYNC110 - it waits for nothing, that is the point
            await asyncio.sleep(0)

    with pytest.raises(StalledError, match="time stands still"):
        loop.run_until_complete(main())


def test_timers_that_are_always_due_do_not_move_time_either(
    loop: VirtualLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "CALLS_AT_ONE_TIME_MAX", 1000)

    def again() -> None:
        loop.call_later(0, again)

    loop.call_later(1, again)
    with pytest.raises(StalledError, match="time stands still at 1000000000 ns"):
        loop.run_forever()


async def sleeping(loop: VirtualLoop, pause_s: float) -> None:
    """Sleep again and again for 25 s: two calls each, of the timer and of the task."""
    while loop.now_ns < 25 * NS_PER_S:  # noqa: ASYNC110 - that is the point
        await asyncio.sleep(pause_s)


def test_a_loop_that_is_far_too_busy_is_ended() -> None:
    """Nodes that do far too much would take minutes of CPU for each seed."""
    loop = VirtualLoop(calls_per_s_max=2_000)
    with pytest.raises(StalledError, match="4,000 calls a second for 10 s, at 10000"):
        loop.run_until_complete(sleeping(loop, 0.000_5))
    loop.close()


def test_a_loop_may_be_busy_to_its_limit() -> None:
    loop = VirtualLoop(calls_per_s_max=2_010)  # the first call is none of a sleep
    loop.run_until_complete(sleeping(loop, 0.001))
    loop.close()


def _loops_for_ever() -> None:
    while True:
        try:
            sum(range(1000))
        except Exception:
            continue


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that take half a second of CPU time never end."""
    monkeypatch.setattr(loop_module, "watched", partial(watched, limit_s=0.5))


@pytest.mark.usefixtures("impatient")
def test_a_call_that_never_ends_is_noticed(loop: VirtualLoop) -> None:
    """A change of our node by machine that looped for ever in a merge had hung each search."""

    async def main() -> None:
        await asyncio.sleep(1)
        process = VirtualProcess(loop, "n1")
        process.do(lambda: asyncio.create_task(in_a_task()))
        await asyncio.sleep(1)

    async def in_a_task() -> None:
        _loops_for_ever()

    handler = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(StalledError, match=r"test_loop\.py:\d+, in _loops_for_ever \(at 1000"):
        loop.run_until_complete(main())
    assert signal.getsignal(signal.SIGVTALRM) is handler
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.usefixtures("impatient")
def test_many_calls_may_take_long_together(loop: VirtualLoop) -> None:
    async def main() -> float:
        began_s = time.process_time()
        while (took_s := time.process_time() - began_s) < 0.8:  # noqa: ASYNC110 - it is CPU time
            await asyncio.sleep(0.001)
        return took_s

    assert loop.run_until_complete(main()) >= 0.8


@pytest.mark.usefixtures("impatient")
def test_beside_the_main_thread_nothing_is_watched(loop: VirtualLoop) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(loop.run_until_complete, asyncio.sleep(1, "done")).result() == "done"


def test_what_nobody_answers_for_is_noticed(loop: VirtualLoop) -> None:
    with pytest.raises(StalledError, match="nothing is left to do"):
        loop.run_until_complete(asyncio.Event().wait())


def test_there_are_no_sockets(loop: VirtualLoop) -> None:
    with pytest.raises(NotImplementedError):
        loop.run_until_complete(asyncio.open_connection("127.0.0.1", 1))


# ---------------------------------------------------------------------- processes


async def ticker(seen: list[float]) -> None:
    """Note the time each second."""
    while True:
        await asyncio.sleep(1)
        seen.append(asyncio.get_running_loop().time())


def test_a_stopped_process_misses_nothing_and_a_running_one_notices_nothing(
    loop: VirtualLoop,
) -> None:
    one, other = VirtualProcess(loop, "one"), VirtualProcess(loop, "other")
    ones: list[float] = []
    others: list[float] = []
    spawn(one, lambda: ticker(ones))
    spawn(other, lambda: ticker(others))

    async def main() -> None:
        await asyncio.sleep(1.5)
        one.stop()
        one.do(ones.append, -1.0)
        one.stop()
        assert one.stopped
        await asyncio.sleep(3)
        assert ones == [1.0]
        one.resume()
        one.resume()
        await asyncio.sleep(1.1)

    loop.run_until_complete(main())
    assert others == [1, 2, 3, 4, 5]
    assert ones == [1, -1, 4.5, 5.5]


def test_a_stalled_process_goes_on_by_itself(loop: VirtualLoop) -> None:
    process = VirtualProcess(loop, "p")
    seen: list[float] = []

    def work() -> None:
        process.stall(2 * NS_PER_S)
        asyncio.get_running_loop().call_soon(lambda: seen.append(loop.time()))

    process.do(work)
    loop.run_until_complete(asyncio.sleep(3))
    assert seen == [2]


def test_a_signal_does_not_end_a_stall_and_the_end_of_a_stall_is_no_signal(
    loop: VirtualLoop,
) -> None:
    """SIGSTOP and SIGCONT while a process waits for its disk (seed 77000168 of the swarm)."""
    thawed, frozen = VirtualProcess(loop, "thawed"), VirtualProcess(loop, "frozen")
    seen: dict[str, float] = {}

    def work(process: VirtualProcess) -> None:
        process.stall(2 * NS_PER_S)
        loop.call_soon(lambda: seen.setdefault(process.state.name, loop.time()))

    async def main() -> None:
        for process in (thawed, frozen):
            process.do(work, process)
        await asyncio.sleep(1)
        assert not thawed.stopped
        for process in (thawed, frozen):
            process.stop()
            assert process.stopped
        thawed.resume()
        assert not thawed.stopped
        await asyncio.sleep(2)
        assert seen == {"thawed": 2}
        assert frozen.stopped
        frozen.resume()
        await asyncio.sleep(0.1)

    loop.run_until_complete(main())
    assert seen == {"thawed": 2, "frozen": 3}


def test_a_killed_process_does_nothing_more_not_even_clean_up() -> None:
    loop = VirtualLoop()
    process = VirtualProcess(loop, "p")
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(2)
            seen.append("worked")
        finally:
            loop.call_soon(seen.append, "called")
            if loop.is_running():
                seen.append("cleaned up")

    async def main() -> None:
        spawn(process, work)
        await asyncio.sleep(1)
        process.kill()
        process.kill()
        process.do(seen.append, "done")
        gc.collect()
        await asyncio.sleep(5)

    loop.run_until_complete(main())
    assert not process.state.runs
    assert not process.stopped
    loop.close()
    assert seen == []


def test_what_a_process_awaits_of_another_comes_in_its_own_name(loop: VirtualLoop) -> None:
    """A future that the other side sets wakes the waiter when the waiter runs."""
    one, other = VirtualProcess(loop, "one"), VirtualProcess(loop, "other")
    seen: list[float] = []
    future: asyncio.Future[None] = loop.create_future()

    async def wait() -> None:
        await future
        seen.append(loop.time())

    async def give() -> None:
        await asyncio.sleep(1)
        future.set_result(None)

    async def main() -> None:
        spawn(one, wait)
        spawn(other, give)
        await asyncio.sleep(0.5)
        one.stop()
        await asyncio.sleep(2.5)
        one.resume()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop.run_until_complete(main())
    assert seen == [3]


# ---------------------------------------------------------------------- errors


def test_an_error_in_a_process_is_told_to_the_process(loop: VirtualLoop) -> None:
    told: list[str] = []
    process = VirtualProcess(loop, "p", lambda _, context: told.append(repr(context["exception"])))
    process.do(lambda: 1 // 0)
    loop.run_until_complete(asyncio.sleep(1))
    assert told == ["ZeroDivisionError('integer division or modulo by zero')"]


def test_an_error_of_nobody_ends_the_simulation(loop: VirtualLoop) -> None:
    loop.call_later(1, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(asyncio.sleep(2))


def test_an_error_of_nobody_may_be_asked_for(loop: VirtualLoop) -> None:
    told: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: told.append(context))
    loop.call_soon(lambda: 1 // 0)
    loop.run_until_complete(asyncio.sleep(1))
    assert isinstance(told[0]["exception"], ZeroDivisionError)


# ---------------------------------------------------------------------- clocks


def test_a_clock_of_its_own_speed_drives_its_timers(loop: VirtualLoop) -> None:
    fast, slow = VirtualProcess(loop, "fast"), VirtualProcess(loop, "slow")
    fast.set_rate(2 * PPM)
    slow.set_rate(PPM // 2)
    fasts: list[float] = []
    slows: list[float] = []
    spawn(fast, lambda: ticker(fasts))
    spawn(slow, lambda: ticker(slows))
    loop.run_until_complete(asyncio.sleep(4.1))
    assert fasts == [1, 2, 3, 4, 5, 6, 7, 8]
    assert slows == [1, 2]


def test_a_timer_under_way_follows_the_new_speed(loop: VirtualLoop) -> None:
    process = VirtualProcess(loop, "p")
    seen: list[tuple[int, float]] = []

    async def work() -> None:
        await asyncio.sleep(4)
        seen.append((loop.now_ns // NS_PER_S, loop.time()))

    async def main() -> None:
        spawn(process, work)
        await asyncio.sleep(2)
        process.set_rate(PPM // 4)
        await asyncio.sleep(20)

    loop.run_until_complete(main())
    assert seen == [(10, 4.0)]


@given(st.integers(0, 2**32))
def test_clocks_and_their_inverse_agree_and_timers_never_fire_early(seed: int) -> None:
    rng = Random(seed)
    loop = VirtualLoop()
    process = VirtualProcess(loop, "p")
    for _ in range(5):
        loop.now_ns += rng.randrange(10**10)
        before_ns = process.state.local_ns(loop.now_ns)
        process.set_rate(rng.randrange(1, 3 * PPM))
        assert process.state.local_ns(loop.now_ns) == before_ns
        local_ns = before_ns + rng.randrange(10**10)
        due_ns = process.state.global_ns(local_ns)
        assert process.state.local_ns(due_ns) >= local_ns
        assert process.state.local_ns(due_ns - 1) < local_ns or due_ns <= loop.now_ns
    loop.close()


def test_a_clock_does_not_stand_still(loop: VirtualLoop) -> None:
    with pytest.raises(ValueError, match="does not go forward"):
        VirtualProcess(loop, "p").set_rate(0)


# ---------------------------------------------------------------------- determinism


def trace(seed: int) -> list[tuple[int, str, int]]:
    """What a few processes that talk to each other do."""
    loop, rng, seen = VirtualLoop(), Random(seed), list[tuple[int, str, int]]()
    queues = [asyncio.Queue[int]() for _ in range(3)]
    processes = [VirtualProcess(loop, f"p{i}") for i in range(3)]

    async def work(number: int) -> None:
        while True:
            got = await queues[number].get()
            seen.append((loop.now_ns, processes[number].state.name, got))
            await asyncio.sleep(rng.random())
            queues[rng.randrange(3)].put_nowait(got + 1)

    async def main() -> None:
        for number, process in enumerate(processes):
            spawn(process, lambda number=number: work(number))  # type: ignore[misc]
            queues[number].put_nowait(100 * number)
        await asyncio.sleep(10)
        processes[0].stop()
        await asyncio.sleep(10)
        processes[0].resume()
        processes[1].kill()
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    loop.close()
    return seen


def test_the_same_seed_gives_the_same_order() -> None:
    assert trace(5) == trace(5)
    assert len(trace(5)) > 30
    assert trace(5) != trace(6)


# ---------------------------------------------------------------------- in the middle of a callback


def test_what_is_begun_goes_to_its_first_wait_within_the_callback(loop: VirtualLoop) -> None:
    process = VirtualProcess(loop, "n1")
    seen: list[Any] = []

    async def struck() -> None:
        seen.append(("struck", asyncio.current_task() is not None))
        process.set_rate(PPM)  # whose process it is not
        await asyncio.sleep(1)
        seen.append("healed")

    async def node() -> None:
        mine = asyncio.current_task()
        seen.append("before")
        task = loop.begin(struck(), name="strike")
        seen.append(("after", asyncio.current_task() is mine, task.done()))
        process.kill()

    async def main() -> None:
        spawn(process, node)
        await asyncio.sleep(2)

    loop.run_until_complete(main())
    assert seen == ["before", ("struck", True), ("after", True, False), "healed"]


def test_what_is_begun_may_be_over_at_once_and_its_error_is_its_own(loop: VirtualLoop) -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def main() -> str:
        loop.call_soon(seen.append, "later")
        task = loop.begin(fails(), name="fails")
        assert (task.done(), seen) == (True, [])
        return str(task.exception())

    seen: list[str] = []
    assert loop.run_until_complete(main()) == "no"
