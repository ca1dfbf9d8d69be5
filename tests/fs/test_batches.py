"""Large compressed batches: several are sealed at once, and order, bounds and failures are those of all batches."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.mounts.fake_appends import Appends, FakeWriter, appends_in
from trio.testing import wait_all_tasks_blocked

from offsetfs.fs.appends import batches
from offsetfs.fs.appends.append_queue import COMPRESSED_QUEUED_MAX
from offsetfs.fs.appends.batches import AHEAD_MAX, AppendBatch
from offsetfs.fs.options import MountOptions
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.unit

NOW = 1_795_253_676_000
BATCH_BYTES = 128 << 10
LINE = 60_000
"""Two lines fill a batch."""


class Sealing:
    """Threads that seal: each ends when the test says so."""

    def __init__(self) -> None:
        self.gates: dict[AppendBatch, trio.Event] = {}  # in the order in which they were queued
        self.is_over = False

    async def in_thread(self, work: Callable[..., object], *, limiter: trio.CapacityLimiter) -> object:
        await trio.lowlevel.checkpoint()
        batch = getattr(work, "__self__", None)
        gate = self.gates.get(batch) if isinstance(batch, AppendBatch) else None
        if gate is not None and not self.is_over:
            with trio.move_on_after(10):  # so that a test that fails ends
                await gate.wait()
        return work()

    async def end(self, *numbers: int) -> None:
        for number in numbers:
            list(self.gates.values())[number].set()
            await wait_all_tasks_blocked()


World = tuple[Appends, Sealing]


@pytest.fixture
async def appends(nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    async with appends_in(nursery, tmp_path, monkeypatch) as make:
        threads = Sealing()
        monkeypatch.setattr(batches, "in_thread", threads.in_thread)
        seal_ahead = AppendBatch.seal_ahead

        def noted(batch: AppendBatch, *means: Any) -> None:
            threads.gates[batch] = trio.Event()
            seal_ahead(batch, *means)

        monkeypatch.setattr(AppendBatch, "seal_ahead", noted)
        world = make(topic={"compression.type": "zstd"}, batch_bytes=BATCH_BYTES, linger_ms=0)
        yield world, threads
        threads.is_over = True
        for gate in threads.gates.values():
            gate.set()


def take(world: Appends, writer: FakeWriter, numbers: range) -> int:
    data = b"".join(b"%0*d\n" % (LINE, number) for number in numbers)
    return world.accumulator().split(data, 0, len(data), NOW, writer) // (LINE + 1)


def held(world: Appends) -> list[int]:
    return [int(value[-9:]) for value in world.log().values]


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.fs.appends.append_queue.COMPRESSED_QUEUED_MAX", 3)


def test_some_wait_for_compression_and_leave_memory_to_others() -> None:
    options = MountOptions()
    assert len(os.sched_getaffinity(0)) >= AHEAD_MAX
    assert 2 * AHEAD_MAX <= COMPRESSED_QUEUED_MAX <= options.buffer_bytes // options.batch_bytes // 2


async def test_the_second_is_compressed_while_the_first_is_and_waits_for_its_turn(appends: World) -> None:
    world, threads = appends
    take(world, FakeWriter(), range(4))
    await wait_all_tasks_blocked()
    assert len(threads.gates) == 2
    await threads.end(1)
    assert held(world) == []
    await threads.end(0)
    await world.accumulator().drain()
    assert held(world) == [0, 1, 2, 3] and len(world.log().batches) == 2


async def test_a_partition_takes_what_is_compressed_and_one_batch_more(appends: World) -> None:
    world, threads = appends
    assert take(world, FakeWriter(), range(20)) == 6
    await wait_all_tasks_blocked()
    assert not world.accumulator().has_space
    await threads.end(1, 2)
    assert not world.accumulator().has_space, "the first is still there"
    await threads.end(0)
    assert world.accumulator().has_space and held(world) == [0, 1, 2, 3, 4, 5]


async def test_drain_waits_for_what_is_compressed(appends: World, nursery: trio.Nursery) -> None:
    world, threads = appends
    take(world, FakeWriter(), range(4))
    drained = trio.Event()

    async def drain() -> None:
        await world.accumulator().drain()
        drained.set()

    nursery.start_soon(drain)
    await wait_all_tasks_blocked()
    await threads.end(0)
    assert not drained.is_set()
    await threads.end(1)
    assert drained.is_set() and held(world) == [0, 1, 2, 3]
    assert world.accumulators.context.memory.lent_bytes == 0


@pytest.mark.expect_log("not written")
async def test_the_buffer_of_a_lost_batch_is_reused_after_its_compression(
    appends: World,
) -> None:
    world, threads = appends
    writer, buffers = FakeWriter(), world.accumulators.context.memory
    take(world, writer, range(4))
    await wait_all_tasks_blocked()
    world.log().append_failure = OSError(errno.ENOSPC, "full")
    await threads.end(0)
    await world.accumulator().drain()
    assert writer.code == errno.ENOSPC and buffers.lent_bytes == BATCH_BYTES
    world.log().append_failure = None
    await threads.end(1)
    assert buffers.lent_bytes == 0
    take(world, FakeWriter(), range(4, 6))
    await wait_all_tasks_blocked()
    await threads.end(2)
    await world.accumulator().drain()
    assert held(world) == [4, 5], "nothing follows the gap, and the partition goes on"


@pytest.mark.expect_log("not written")
async def test_a_failed_compression_is_reported_like_a_failed_write(
    appends: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, threads = appends

    def seal(builder: BatchBuilder) -> None:
        raise OSError(errno.EIO, "compression failed")

    monkeypatch.setattr(BatchBuilder, "seal", seal)
    writer = FakeWriter()
    take(world, writer, range(2))
    await wait_all_tasks_blocked()
    await threads.end(0)
    assert writer.code == errno.EIO and held(world) == []
