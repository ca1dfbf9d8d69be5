"""Where memory lacks for a batch that was accepted, it is written later; no record is lost or doubled."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
from fixtures.mounts.fake_appends import Appends, appends_in
from trio.testing import MockClock

from offsetfs.fs.appends.append_queue import SHORTAGE_S
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = [
    pytest.mark.unit,
    pytest.mark.expect_log("accepted records wait, because there is no memory to write them"),
]

NOW = 1_795_253_676_000
WAITS_S = 50 * SHORTAGE_S

Make = Callable[..., Appends]


class Writer:
    """A writer that keeps what is reported to it."""

    wants_offsets = True
    code: int | None = None

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def failed(self, code: int) -> None:
        self.code = code

    def acknowledged(self, offset: int, count: int, timestamp: int, partition: int) -> None:
        self.offsets += range(offset, offset + count)

    async def release(self) -> None:
        """Nothing is unfinished."""


@pytest.fixture
async def make(nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    async with appends_in(nursery, tmp_path, monkeypatch) as make:
        made: list[Appends] = []

        def keep(**options: object) -> Appends:
            made.append(make(**options))
            return made[-1]

        yield keep
        for world in made:  # a test that failed must not wait for memory forever
            world.log().append_failure = world.log().flush_failure = None


def write(world: Appends, writer: Writer, line: bytes) -> None:
    assert world.accumulator().split(line, 0, len(line), NOW, writer) == len(line)
    world.accumulator().seal()


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, "no memory")])
@pytest.mark.parametrize("is_first", [True, False])
async def test_an_append_that_lacks_memory_is_tried_again(
    make: Make, autojump_clock: MockClock, error: Exception, is_first: bool
) -> None:
    world, writer = make(linger_ms=60_000), Writer()
    if not is_first:
        write(world, writer, b"before\n")
        await world.accumulator().sync()
    world.log().append_failure = error
    write(world, writer, b"one\n")
    await trio.sleep(WAITS_S)
    write(world, writer, b"two\n")
    assert (writer.code, b"one" in world.log().values) == (None, False)
    world.log().append_failure = None
    await world.accumulator().sync()
    assert world.log().values == [b"before"] * (not is_first) + [b"one", b"two"]
    assert writer.offsets == list(range(world.log().next_offset))
    assert world.log().synced == world.log().next_offset


async def test_a_sync_of_each_batch_that_lacks_memory_appends_the_batch_once(
    make: Make, autojump_clock: MockClock
) -> None:
    world, writer = make(flush_ms=0, linger_ms=60_000), Writer()
    world.log().flush_failure = MemoryError()
    write(world, writer, b"one\n")
    await trio.sleep(WAITS_S)
    world.log().flush_failure = None
    await world.accumulator().drain()
    assert (world.log().values, writer.code, writer.offsets) == ([b"one"], None, [0])


async def test_a_batch_that_cannot_be_sealed_is_sealed_later(
    make: Make, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seal(builder: BatchBuilder, *, is_compressed: bool = True) -> None:
        raise MemoryError

    world, writer = make(linger_ms=60_000, topic={"compression.type": "gzip"}), Writer()
    with monkeypatch.context() as patch:
        patch.setattr(BatchBuilder, "seal", seal)
        write(world, writer, b"x" * 100_000 + b"\n")
        await trio.sleep(WAITS_S)
    await world.accumulator().drain()
    assert (world.log().values, writer.code) == ([b"x" * 100_000], None)


async def test_the_end_of_the_mount_waits_for_memory(
    make: Make, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    world, writer = make(linger_ms=60_000), Writer()
    world.log().append_failure = MemoryError()
    write(world, writer, b"one\n")

    async def free() -> None:
        await trio.sleep(WAITS_S)
        world.log().append_failure = None

    nursery.start_soon(free)
    assert await world.accumulators.close() == {}
    assert (world.log().values, world.log().synced) == ([b"one"], 1)


async def test_any_other_error_still_fails_the_writers(
    make: Make, autojump_clock: MockClock, expect_log: Callable[[str], None]
) -> None:
    expect_log("1 record was not written")
    world, writer = make(linger_ms=60_000), Writer()
    world.log().append_failure = MemoryError()
    write(world, writer, b"one\n")
    await trio.sleep(SHORTAGE_S)
    world.log().append_failure = OSError(errno.EIO, "disk")
    await world.accumulator().drain()
    assert (world.log().values, writer.code) == ([], errno.EIO)
