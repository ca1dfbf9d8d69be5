"""Writing to all partitions of a topic: where records go, in which order, and what happens when one partition fails."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Awaitable

import pytest
import trio
from fixtures.mounts.fake_appends import Appends, MakeAppends
from fixtures.spies import spy
from trio.testing import MockClock, wait_all_tasks_blocked

from offsetfs.fs.appends.framing import JsonLines, Lines
from offsetfs.fs.appends.handles import AppendHandle
from offsetfs.fs.appends.target import AppendTarget, Sticky
from offsetfs.storage.records.format.partitioner import partition_of

pytestmark = pytest.mark.unit


KIB = 1 << 10


def opened(
    world: Appends,
    count: int,
    framing: type[Lines] = JsonLines,
    flags: int = os.O_WRONLY,
    sticky: Sticky | None = None,
) -> AppendHandle:
    partitions = [world.accumulator(number) for number in range(count)]
    return AppendHandle(AppendTarget(partitions, sticky or Sticky()), flags, framing())


def keyed(count: int, size: int = 60) -> list[tuple[str, str]]:
    return [(f"key-{number % 37}", f"{number:0{size}}") for number in range(count)]


def lines(records: list[tuple[str, str]]) -> bytes:
    return b"".join(json.dumps({"key": key, "value": value}).encode() + b"\n" for key, value in records)


def expected(records: list[tuple[str, str]], number: int, count: int) -> list[bytes]:
    return [value.encode() for key, value in records if partition_of(key.encode(), count) == number]


async def write(handle: AppendHandle, data: bytes) -> None:
    while data:
        data = data[await handle.write(data) :]


async def code_of(call: Awaitable[object]) -> int | None:
    try:
        await call
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize("count", [1, 2, 7, 50])
async def test_each_partition_gets_its_keys_in_order_though_memory_is_for_two_batches(
    appends: MakeAppends, count: int
) -> None:
    world = appends(batch_bytes=KIB, buffer_bytes=2 * KIB)
    handle, records = opened(world, count), keyed(1000)
    with trio.fail_after(60):
        await write(handle, lines(records))
        await handle.flush()
    for number in range(count):
        assert world.log(number).values == expected(records, number, count)


async def test_a_record_above_batch_bytes_makes_a_batch_of_its_own(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    handle, records = opened(world, 3), [("a", "x" * 5000), ("a", "y"), ("b", "z" * 3000)]
    await write(handle, lines(records))
    await handle.flush()
    for number in range(3):
        assert world.log(number).values == expected(records, number, 3)


async def test_records_without_a_key_fill_a_batch_of_one_partition_after_the_other(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB, linger_ms=60_000)
    handle = opened(world, 3, Lines)
    data = b"".join(b"%099d\n" % number for number in range(90))
    await write(handle, data)
    await handle.flush()
    batches = [len(world.log(number).batches) for number in range(3)]
    assert sum(batches) >= 9 and max(batches) - min(batches) <= 1
    assert sorted(value for number in range(3) for value in world.log(number).values) == data.splitlines()


@pytest.mark.parametrize(("linger_ms", "used"), [(0, 3), (60_000, 1)], ids=["each at once", "all in one batch"])
async def test_small_writes_share_a_batch_as_long_as_it_lingers(
    appends: MakeAppends, linger_ms: int, used: int
) -> None:
    world = appends(linger_ms=linger_ms)
    sticky = Sticky()
    for number in range(6):
        await write(opened(world, 3, Lines, sticky=sticky), b"%d\n" % number)
    await world.accumulators.flush_all()
    assert sum(bool(world.log(number).values) for number in range(3)) == used


async def test_lines_before_those_of_a_failed_partition_are_counted_as_written(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.randrange", lambda stop: 0)  # the first batch goes to partition 0
    world = appends(batch_bytes=KIB)
    handle, data = opened(world, 2, Lines), b"".join(b"%0100d\n" % number for number in range(40))
    world.log(1).failure = OSError(errno.EIO, "the disk has failed")
    taken = await handle.write(data)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        await handle.write(data[taken:])
    await handle.flush()
    assert b"".join(value + b"\n" for value in world.log(0).values) == data[:taken] != b""


async def test_a_write_waits_for_the_partition_that_has_no_space(appends: MakeAppends, nursery: trio.Nursery) -> None:
    world = appends(batch_bytes=KIB)
    handle, records = opened(world, 2), keyed(300)
    world.threads.hold()
    nursery.start_soon(write, handle, lines(records))
    await wait_all_tasks_blocked()
    assert world.log(0).values == [] == world.log(1).values
    world.threads.let_go()
    await wait_all_tasks_blocked()
    await handle.flush()
    assert [len(world.log(number).values) for number in (0, 1)] == [len(expected(records, n, 2)) for n in (0, 1)]


async def test_a_nonblocking_write_takes_a_beginning_of_what_it_was_given(appends: MakeAppends) -> None:
    world = appends(batch_bytes=KIB)
    handle, records = opened(world, 2, flags=os.O_WRONLY | os.O_NONBLOCK), keyed(300)
    world.threads.hold()
    data = lines(records)
    taken = await handle.write(data)
    assert 0 < taken < len(data)
    assert await code_of(handle.write(data[taken:])) == errno.EAGAIN
    world.threads.let_go()
    await handle.flush()
    begun = records[: data[:taken].count(b"\n")]
    for number in range(2):
        assert world.log(number).values == expected(begun, number, 2)


async def test_fsync_has_every_touched_partition_on_disk_and_no_other(
    appends: MakeAppends, autojump_clock: MockClock
) -> None:
    world = appends(linger_ms=60_000, flush_ms=None)
    handle, other = opened(world, 4), AppendHandle(world.target(3), os.O_WRONLY)
    records = [(key, value) for key, value in keyed(200) if partition_of(key.encode(), 4) < 3]
    await write(other, b"lingers\n")
    await write(handle, lines(records))
    await handle.fsync()
    assert [world.log(number).synced == world.log(number).next_offset > 0 for number in range(4)] == [True] * 3 + [
        False
    ]


@pytest.mark.expect_log("not written")
async def test_a_partition_that_loses_records_is_reported_and_others_go_on(
    appends: MakeAppends,
) -> None:
    world = appends(linger_ms=60_000)
    handle = opened(world, 2)
    await write(handle, lines(keyed(50)))
    world.log(1).append_failure = OSError(errno.ENOSPC, "full")
    assert await code_of(handle.flush()) == errno.ENOSPC
    world.log(1).append_failure = None
    assert await code_of(handle.write(lines(keyed(1)))) == errno.ENOSPC
    assert world.log(0).values == expected(keyed(50), 0, 2) and world.log(1).values == []
    late = opened(world, 2)
    await write(late, lines(keyed(5)))
    assert await code_of(late.flush()) is None


@pytest.mark.expect_log("sync failed")
async def test_a_sync_that_fails_in_one_partition_fails(appends: MakeAppends) -> None:
    world = appends(flush_ms=None)
    handle = opened(world, 2)
    await write(handle, lines(keyed(50)))
    world.log(0).flush_failure = OSError(errno.EIO, "disk")
    assert await code_of(handle.fsync()) == errno.EIO
    assert world.log(1).synced == world.log(1).next_offset > 0


async def test_unfinished_lines_are_records_after_umount(appends: MakeAppends) -> None:
    world = appends()
    await write(opened(world, 3), b'{"key":"a","value":"v"}')
    await world.accumulators.release_all()
    assert world.log(partition_of(b"a", 3)).values == [b"v"]


async def test_partition_and_offset_of_each_record_are_returned(appends: MakeAppends) -> None:
    world = appends()
    handle = opened(world, 3, flags=os.O_RDWR)
    await write(handle, lines(keyed(30)).replace(b'"value"', b'"timestamp":5,"value"'))
    reported = [tuple(map(int, line.split())) for line in (await handle.read(0, 10_000)).splitlines()]
    wanted = {(n, offset, 5) for n in range(3) for offset in range(len(expected(keyed(30), n, 3)))}
    assert len(reported) == 30 and set(reported) == wanted


@pytest.mark.parametrize("framing", [Lines, JsonLines])
async def test_a_write_asks_the_disk_for_space_once_however_many_partitions_there_are(
    appends: MakeAppends, monkeypatch: pytest.MonkeyPatch, framing: type[Lines]
) -> None:
    handle, asked = opened(appends(), 200, framing), list[object]()
    monkeypatch.setattr(os, "statvfs", spy(asked, lambda path: path, os.statvfs))
    await write(handle, b'{"key": "a", "value')  # the beginning of a line: is there space for it?
    assert len(asked) == 1
    await write(handle, b'": "b"}\n')
