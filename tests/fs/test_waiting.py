"""A waiting reader is woken by growth, deletion and the end, released on interrupts, and costs nothing afterwards."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from pyfuse3 import FUSEError, PollHandle
from trio.testing import MockClock

from offsetfs.fs.requests import interrupts, waiting
from offsetfs.fs.requests.interrupts import ReaderState
from offsetfs.fs.requests.waiting import Waiting
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

READER = 4711


class FakePartition:
    """A partition that grows at the check whose number is set."""

    def __init__(self, number: int = 0) -> None:
        self.name = TopicPartition("orders", number)
        self.is_gone = False
        self.looks = 0
        self.log: Any = SimpleNamespace(log_start_offset=0, next_offset=0)
        self.grows_at_look = math.inf

    @property
    def state(self) -> tuple[int, int, bool]:
        return self.log.log_start_offset, self.log.next_offset, self.is_gone

    def refresh(self) -> None:
        self.looks += 1
        if self.looks >= self.grows_at_look:
            self.log.next_offset = 1


class FakePoll:
    def __init__(self) -> None:
        self.notified = 0

    def notify(self) -> None:
        self.notified += 1

    @property
    def handle(self) -> PollHandle:
        """This object, as the type that `Waiting` takes."""
        return cast(PollHandle, self)


Make = Callable[..., Waiting]


@pytest.fixture
def make(nursery: trio.Nursery) -> Make:
    def make_waiting(*, others_write: bool = False, request_timeout_s: float | None = None) -> Waiting:
        return Waiting(nursery, others_write=others_write, request_timeout_s=request_timeout_s)

    return make_waiting


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[int, ReaderState]:
    """What is seen of each reader; others wait."""
    known: dict[int, ReaderState] = {}
    monkeypatch.setattr(interrupts, "check_reader", lambda pid: known.get(pid, ReaderState.WAITS))
    return known


class Outcome:
    """How a wait ended, and when: `code` None as long as it goes on, 0 when woken."""

    def __init__(self) -> None:
        self.code: int | None = None
        self.at = math.nan

    async def wait(self, who: Waiting, partition: FakePartition, pid: int = READER) -> None:
        try:
            await who.wait([(partition, partition.state)], pid)
            self.code = 0
        except FUSEError as error:
            self.code = error.errno
        self.at = trio.current_time()


async def begun(nursery: trio.Nursery, who: Waiting, partition: FakePartition, pid: int = READER) -> Outcome:
    outcome = Outcome()
    nursery.start_soon(outcome.wait, who, partition, pid)
    await trio.testing.wait_all_tasks_blocked()
    return outcome


async def test_growth_wakes_the_readers_that_wait_for_it_and_no_others(
    nursery: trio.Nursery, make: Make, seen: dict[int, ReaderState], autojump_clock: MockClock
) -> None:
    who, grows, other = make(), FakePartition(0), FakePartition(1)
    outcomes = [await begun(nursery, who, grows) for _ in range(3)]
    elsewhere = await begun(nursery, who, other)
    grows.log.next_offset = 5
    who.grown(grows.name)
    await trio.testing.wait_all_tasks_blocked()
    assert [each.code for each in outcomes] == [0, 0, 0] and elsewhere.code is None and who.blocked == 1
    who.close()
    await trio.testing.wait_all_tasks_blocked()
    assert elsewhere.code == errno.ENODEV and who.blocked == 0


async def test_a_reader_of_several_partitions_is_woken_once_by_the_first(
    nursery: trio.Nursery, make: Make, seen: dict[int, ReaderState]
) -> None:
    who, first, second = make(), FakePartition(0), FakePartition(1)
    ends = []

    async def wait() -> None:
        await who.wait([(each, each.state) for each in (first, second)], READER)
        ends.append(trio.current_time())

    nursery.start_soon(wait)
    await trio.testing.wait_all_tasks_blocked()
    other = await begun(nursery, who, first)
    second.log.next_offset = 1
    who.grown(second.name)
    await trio.testing.wait_all_tasks_blocked()
    assert len(ends) == 1 and who.blocked == 1 and other.code is None
    who.grown(first.name)
    await trio.testing.wait_all_tasks_blocked()
    assert len(ends) == 1 and other.code == 0


async def test_a_poll_of_several_partitions_is_notified_by_each(make: Make) -> None:
    who, first, second = make(), FakePartition(0), FakePartition(1)
    poll, closed = FakePoll(), FakePoll()
    for handle, each in ((1, poll), (2, closed)):
        who.poll([(partition, partition.state) for partition in (first, second)], handle, each.handle)
    who.forget(2)
    second.log.next_offset = 1
    who.grown(second.name)
    assert (poll.notified, closed.notified) == (1, 0)


async def test_no_reader_waits_for_a_change_that_has_already_happened(make: Make) -> None:
    who, partition = make(), FakePartition()
    before = partition.state
    partition.log.log_start_offset = partition.log.next_offset = 3
    with trio.fail_after(30):
        await who.wait([(partition, before)], READER)


CHANGES: dict[str, Callable[[FakePartition], None]] = {
    "retention": lambda partition: setattr(partition.log, "log_start_offset", 1),
    "another writer in this process": lambda partition: setattr(partition.log, "next_offset", 1),
    "deletion": lambda partition: setattr(partition, "is_gone", True),
}


@pytest.mark.parametrize(("spent", "checks"), [(0.0001, 100), (0.05, 1)])
async def test_checks_take_at_most_a_twentieth_of_the_time_of_the_event_loop(
    nursery: trio.Nursery,
    make: Make,
    seen: dict[int, ReaderState],
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    spent: float,
    checks: int,
) -> None:
    monkeypatch.setattr(waiting, "LoopWatch", lambda: SimpleNamespace(seconds=lambda: spent))
    who, partition = make(others_write=True), FakePartition()
    await begun(nursery, who, partition)
    await trio.sleep(1.005)
    assert partition.looks == pytest.approx(checks, abs=1)
    who.close()


@pytest.mark.parametrize("name", CHANGES)
async def test_growth_without_a_notification_is_found_by_polling(
    nursery: trio.Nursery, make: Make, seen: dict[int, ReaderState], autojump_clock: MockClock, name: str
) -> None:
    who, partition = make(), FakePartition()
    outcome = await begun(nursery, who, partition)
    CHANGES[name](partition)
    await trio.sleep(0.25)
    assert outcome.code == 0


async def test_a_log_with_another_writer_is_polled_only_while_a_reader_waits(
    nursery: trio.Nursery, make: Make, seen: dict[int, ReaderState], autojump_clock: MockClock
) -> None:
    who, partition = make(others_write=True), FakePartition()
    await trio.sleep(1)
    assert partition.looks == 0
    partition.grows_at_look = 50
    start = trio.current_time()
    outcome = await begun(nursery, who, partition)
    await trio.sleep(1)
    assert outcome.code == 0 and outcome.at - start == pytest.approx(0.5, abs=0.05)
    looks = partition.looks
    await trio.sleep(5)
    assert partition.looks <= looks + 1


ENDINGS = {
    "a signal": (READER, ReaderState.INTERRUPTED, None, 0.2, errno.EINTR),
    "it cannot be seen": (READER, ReaderState.NOTHING, None, 2.0, errno.EINTR),
    "the kernel waits no longer": (READER, ReaderState.WAITS, 20.0, 10.0, errno.EINTR),
    "nothing": (READER, ReaderState.WAITS, None, math.inf, None),
    "it is this process": (os.getpid(), ReaderState.NOTHING, None, math.inf, None),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_when_a_blocked_reader_is_let_go(
    nursery: trio.Nursery, make: Make, seen: dict[int, ReaderState], autojump_clock: MockClock, name: str
) -> None:
    pid, look, timeout_s, after_s, code = ENDINGS[name]
    seen[pid] = look
    outcome, start = await begun(nursery, make(request_timeout_s=timeout_s), FakePartition(), pid), trio.current_time()
    await trio.sleep(60)
    assert outcome.code == code
    assert code is None or outcome.at - start == pytest.approx(after_s, abs=0.3)


async def test_each_of_many_is_looked_at_five_times_a_second(
    nursery: trio.Nursery, make: Make, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    looks: dict[int, int] = {}

    def look(pid: int) -> ReaderState:
        looks[pid] = looks.get(pid, 0) + 1
        return ReaderState.WAITS

    monkeypatch.setattr(interrupts, "check_reader", look)
    who, partition = make(), FakePartition()
    for number in range(100):
        await begun(nursery, who, partition, 1000 + number)
    await trio.sleep(2)
    assert len(looks) == 100 and 8 <= min(looks.values()) <= max(looks.values()) <= 12


async def test_readers_beyond_the_limit_of_a_mount_get_eagain(
    make: Make, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(waiting, "READERS_MAX", 2)
    who, partition = make(), FakePartition()
    outcomes = [await begun(nursery, who, partition, os.getpid()) for _ in range(3)]
    assert [each.code for each in outcomes] == [None, None, errno.EAGAIN]


async def test_a_poll_is_notified_once_and_the_last_one_of_a_handle_counts(make: Make) -> None:
    who, partition = make(), FakePartition()
    first, second, closed = FakePoll(), FakePoll(), FakePoll()
    who.poll([(partition, partition.state)], 1, first.handle)
    who.poll([(partition, partition.state)], 1, second.handle)
    who.poll([(partition, partition.state)], 2, closed.handle)
    who.forget(2)
    for offset in (1, 2):
        partition.log.next_offset = offset
        who.grown(partition.name)
    assert (first.notified, second.notified, closed.notified) == (0, 1, 0)


async def test_a_poll_after_a_change_is_notified_at_once(make: Make) -> None:
    who, partition, poll = make(), FakePartition(), FakePoll()
    before = partition.state
    partition.log.next_offset = 1
    who.poll([(partition, before)], 1, poll.handle)
    assert poll.notified == 1


async def test_a_restless_poll_is_asked_again_after_a_while(make: Make, autojump_clock: MockClock) -> None:
    who, partition = make(), FakePartition()
    restless, patient = FakePoll(), FakePoll()
    who.poll([(partition, partition.state)], 1, restless.handle, is_restless=True)
    who.poll([(partition, partition.state)], 2, patient.handle)
    await trio.sleep(1)
    assert (restless.notified, patient.notified) == (1, 0)


async def test_a_poll_for_free_space_is_notified_of_written_batches(make: Make) -> None:
    who, poll = make(), FakePoll()
    who.poll_space(1, poll.handle)
    who.space_freed()
    who.space_freed()
    assert poll.notified == 1
