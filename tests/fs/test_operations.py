"""The handlers without a kernel: what they answer when maps are missing, segments go, and things break."""

from __future__ import annotations

import errno
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio
import trio.testing
from fixtures.logs.log_states import begin_log_at, replace_segments_of
from pyfuse3 import EntryAttributes, FUSEError
from trio.testing import MockClock

from offsetfs.fs.files import growing_file as views
from offsetfs.fs.files import line_index_building as map_making
from offsetfs.fs.files.records import LISTED_XATTR_BYTES_MAX
from offsetfs.fs.mounting.directories import PartitionDirectory
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.segments import segment_names
from offsetfs.storage.views.partition_view import PartitionView

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)
CTX: Any = SimpleNamespace(pid=0)


class World:
    """A log directory with one partition, and the operations on it."""

    def __init__(self, directory: LogDirectory, operations: Operations) -> None:
        self.directory = directory
        self.operations = operations
        self.log: Log = directory.log(PARTITION)

    def append(self, lines: Sequence[bytes]) -> bytes:
        builder = BatchBuilder(1 << 20)
        for line in lines:
            assert builder.append(None, line, (), 1_000)
        self.log.append(builder.seal())
        return b"".join(line + b"\n" for line in lines)

    async def look(self, *names: str) -> EntryAttributes:
        entry = None
        for name in names:
            parent = pyfuse3.ROOT_INODE if entry is None else entry.st_ino
            entry = await self.operations.lookup(parent, name.encode(), CTX)
        assert entry is not None
        return entry

    async def errors(self) -> str:
        opened = await self.operations.open((await self.look(".offsetfs", "errors")).st_ino, 0, CTX)
        return (await self.operations.read(opened.fh, 0, 1 << 20)).decode()


@pytest.fixture
async def world(nursery: trio.Nursery, tmp_path: Path) -> AsyncIterator[World]:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(PARTITION, {"segment.bytes": "1000", "max.message.bytes": "1000"})
    operations = Operations(directory, MountOptions(create=True), nursery)
    yield World(directory, operations)
    await operations.accumulators.close()
    directory.close()


async def errno_of(answer: Awaitable[object]) -> str:
    with pytest.raises(FUSEError) as caught:
        await answer
    return errno.errorcode[caught.value.errno]


# --- maps ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow_maps(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """View maps that are never finished, until the list is cleared."""
    unfinished = [True]
    refresh = PartitionView.refresh

    def slowly(self: PartitionView, *, nowait: bool = False, **how: Any) -> bool:
        if nowait and unfinished:
            raise WouldBlock("slow")
        return not unfinished and refresh(self, nowait=nowait, **how)

    monkeypatch.setattr(PartitionView, "refresh", slowly)
    return unfinished


@pytest.fixture
def on_the_loop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that take a second of the fake clock. A test asks for it by argument: pytest-trio sees no other way."""

    async def slept(work: Callable[[], object]) -> object:
        await trio.sleep(1)
        return work()

    monkeypatch.setattr(world.operations.mount.executor, "in_thread", slept)


async def test_a_look_up_waits_ten_seconds_for_maps_and_the_building_goes_on(
    world: World, slow_maps: list[bool], on_the_loop: None, autojump_clock: MockClock
) -> None:
    world.append([b"a", b"b"])
    begun = trio.current_time()
    assert await errno_of(world.look("orders-0", "values")) == "EAGAIN"
    assert map_making.WAIT_S <= trio.current_time() - begun < map_making.WAIT_S + 3
    assert "EAGAIN lookup orders-0/values: its line indexes are being built, 0 of" in await world.errors()
    slow_maps.clear()
    assert (await world.look("orders-0", "values")).st_size == 4


async def test_a_look_up_answers_as_soon_as_the_maps_are_there(
    world: World, slow_maps: list[bool], on_the_loop: None, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    world.append([b"a", b"b"])

    async def finish() -> None:
        await trio.sleep(5.5)
        slow_maps.clear()

    nursery.start_soon(finish)
    begun = trio.current_time()
    assert (await world.look("orders-0", "values")).st_size == 4
    assert 5 <= trio.current_time() - begun <= 8


async def test_values_is_listed_only_when_its_maps_are_there(
    world: World, slow_maps: list[bool], on_the_loop: None, autojump_clock: MockClock
) -> None:
    world.append([b"a"])
    directory = await world.look("orders-0")
    assert b"values" not in await names(world, directory.st_ino)
    slow_maps.clear()
    assert b"values" in await names(world, directory.st_ino)


async def test_a_listing_starts_what_the_written_segment_lacks_for_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "LISTING_BYTES_MAX", {Kind.VALUES: 100, Kind.RECORDS: 100})
    monkeypatch.setattr("offsetfs.storage.views.partition_view.NOWAIT_BYTES_MAX", 100)
    world.append([b"x" * 500])
    inode = (await world.look("orders-0")).st_ino
    assert not {b"values", b"records.ndjson"} & set(await names(world, inode))
    with trio.fail_after(30):
        while not {b"values", b"records.ndjson"} <= set(await names(world, inode)):
            await trio.lowlevel.checkpoint()
    readers = LogDirectory.open(world.directory.path, read_only=True)
    reader = World(readers, Operations(readers, MountOptions(read_only=True), world.operations.mount.nursery))
    other = (await reader.look("orders-0")).st_ino
    for _ in range(3):
        assert not {b"values", b"records.ndjson"} & set(await names(reader, other)), "a reader begins nothing"
        await trio.testing.wait_all_tasks_blocked()
    readers.close()
    world.log.roll()
    for _ in range(3):
        world.append([b"x" * 800])
    world.log.roll()
    second = World(world.directory, Operations(world.directory, MountOptions(), world.operations.mount.nursery))
    inode = (await second.look("orders-0")).st_ino
    for _ in range(3):
        assert not {b"values", b"records.ndjson"} & set(await names(second, inode)), "sealed segments lack theirs"
        await trio.testing.wait_all_tasks_blocked()


async def test_a_failed_line_index_fails_the_readers_that_wait_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch, on_the_loop: None, autojump_clock: MockClock
) -> None:
    answers = iter((False, OSError(errno.EMFILE, "too many open files")))

    def broken(self: PartitionView, *, nowait: bool = False, **how: Any) -> bool:
        if nowait:
            raise WouldBlock("broken")
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    world.append([b"a"])
    monkeypatch.setattr(PartitionView, "refresh", broken)
    assert await errno_of(world.look("orders-0", "values")) == "EMFILE"
    assert "EMFILE lookup orders-0/values: too many open files; raise the limit of open files" in await world.errors()


async def names(world: World, inode: int) -> list[bytes]:
    """List a directory as the kernel would, but one entry at a time."""
    fh = await world.operations.opendir(inode, CTX)
    listing, place, found = world.operations._listings[fh], 0, []
    while True:
        replied: list[tuple[bytes, int]] = []

        def reply(name: bytes, entry: EntryAttributes, following: int, replied: Any = replied) -> bool:
            assert entry.st_ino != 0
            replied.append((name, following))
            return len(replied) == 1

        await listing.reply(place, reply)
        if not replied:
            break
        found.append(replied[0][0])
        place = replied[0][1]
    await world.operations.releasedir(fh)
    return found


async def test_a_listing_of_one_entry_at_a_time_shows_each_once(world: World) -> None:
    for number in range(40):
        world.append([b"x" * 30] * (number % 3 + 1))
    inode = (await world.look("orders-0")).st_ino
    found = await names(world, inode)
    assert len(found) == len(set(found))
    assert [int(name) for name in found if name.isdigit()] == list(range(world.log.next_offset))
    assert await names(world, pyfuse3.ROOT_INODE) == [b"README", b"topics", b"orders-0"]


# --- retention -----------------------------------------------------------------------------------------------------


async def test_a_cut_head_gets_a_new_inode_and_old_handles_keep_theirs(world: World) -> None:
    operations = world.operations
    parts = [world.append([b"%03d" % number * 60]) for number in range(20)]
    old = await world.look("orders-0", "values")
    handle = await operations.open(old.st_ino, 0, CTX)
    first = world.log.snapshot().first
    world.log.flush()
    replace_segments_of(world.log, world.log.snapshot().without([first]))
    segment_names.remove_from_log(first)
    begin_log_at(world.log, world.log.snapshot().first.base_offset)
    gone = world.log.log_start_offset
    new = await world.look("orders-0", "values")
    assert new.st_ino != old.st_ino
    assert new.st_size == sum(map(len, parts[gone:]))
    assert (await operations.getattr(old.st_ino, CTX)).st_size == sum(map(len, parts))
    assert bytes(await operations.read(handle.fh, 0, 10)) == parts[0][:10], "as long as the files are there"
    segment_names.unlink(first)
    assert bytes(await operations.read(handle.fh, 0, 10)) == parts[0][:10], "as long as the handle is at this segment"
    start = sum(map(len, parts[:gone]))
    assert bytes(await operations.read(handle.fh, start, len(parts[gone]))) == parts[gone]
    world.operations.mount.caches.blocks.clear()
    assert await errno_of(operations.read(handle.fh, 0, 10)) == "ESTALE"
    parts.append(world.append([b"new"]))
    assert (await operations.getattr(old.st_ino, CTX)).st_size == sum(map(len, parts))
    await operations.release(handle.fh)
    assert (await operations.getattr(new.st_ino, CTX)).st_size == sum(map(len, parts[gone:]))


async def test_a_view_without_open_handles_is_forgotten(world: World) -> None:
    for number in range(20):
        world.append([b"%03d" % number * 60])
    old = await world.look("orders-0", "values")
    replace_segments_of(world.log, world.log.snapshot().without([world.log.snapshot().first]))
    begin_log_at(world.log, world.log.snapshot().first.base_offset)
    await world.look("orders-0", "values")
    assert await errno_of(world.operations.getattr(old.st_ino, CTX)) == "ESTALE"


async def test_records_below_the_log_start_are_gone_though_they_were_seen(world: World) -> None:
    world.append([b"a", b"b"])
    entry = await world.look("orders-0", "0")
    begin_log_at(world.log, 1)
    assert await errno_of(world.look("orders-0", "0")) == "ENOENT"
    assert await errno_of(world.operations.open(entry.st_ino, 0, CTX)) == "ENOENT"
    assert (await world.look("orders-0", "1")).st_size == 1


# --- inodes --------------------------------------------------------------------------------------------------------


async def test_an_inode_names_the_same_thing_for_ever(world: World) -> None:
    world.append([b"a"])
    before = {name: (await world.look("orders-0", name)).st_ino for name in ("0", "latest", "values", "info")}
    link = before["latest"]
    world.append([b"b", b"c"])
    after = {name: (await world.look("orders-0", name)).st_ino for name in before}
    assert after["latest"] != link
    assert await world.operations.readlink(link, CTX) == b"0"
    assert await world.operations.readlink(after["latest"], CTX) == b"2"
    assert {**after, "latest": link} == before


@pytest.mark.parametrize("inode", [0, 2**64 - 1, 7 << 60, 1 << 40, 99 << 40 | 1], ids=hex)
async def test_an_inode_that_was_never_given_is_an_error_and_nothing_breaks(world: World, inode: int) -> None:
    await world.look("orders-0")
    for answer in (
        world.operations.getattr(inode, CTX),
        world.operations.open(inode, 0, CTX),
        world.operations.opendir(inode, CTX),
        world.operations.lookup(inode, b"0", CTX),
        world.operations.readlink(inode, CTX),
    ):
        assert await errno_of(answer) in ("ESTALE", "ENOTDIR", "EINVAL", "ENOENT")


async def test_attributes_are_listed_only_if_other_file_systems_can_store_them(world: World) -> None:
    key, headers = b"user.kafka.key", b"user.kafka.headers"
    cases = (
        (b"k" * 2000, b"v" * 100, {key, headers}),
        (b"k" * 2000, b"v" * 2000, {key}),
        (b"k" * 4000, b"v" * 2000, {headers}),
        (b"k" * 65536, b"v" * 65000, set[bytes]()),
    )
    wide = TopicPartition("wide", 0)
    world.directory.create_partition(wide)
    for offset, (record_key, header, expected) in enumerate(cases):
        builder = BatchBuilder(1 << 20)
        assert builder.append(record_key, b"value", (("name", header),), 1_000)
        world.directory.log(wide).append(builder.seal())
        inode = (await world.look("wide-0", str(offset))).st_ino
        names = await world.operations.listxattr(inode, CTX)
        assert {key, headers} & set(names) == expected, offset
        assert len(names) == 12 + len(expected)
        values = [await world.operations.getxattr(inode, name, CTX) for name in names]
        assert sum(map(len, (*names, *values))) <= LISTED_XATTR_BYTES_MAX
        assert await world.operations.getxattr(inode, key, CTX) == record_key
        assert await world.operations.getxattr(inode, headers, CTX) == b"name: %s\n" % header


async def test_the_names_and_values_that_are_listed_have_3072_bytes(world: World) -> None:
    wide = TopicPartition("wide", 0)
    world.directory.create_partition(wide)

    async def listed(offset: int, key_bytes: int) -> tuple[bool, int]:
        builder = BatchBuilder(1 << 20)
        assert builder.append(b"k" * key_bytes, b"value", (), 1_000)
        world.directory.log(wide).append(builder.seal())
        inode = (await world.look("wide-0", str(offset))).st_ino
        names = await world.operations.listxattr(inode, CTX)
        values = [await world.operations.getxattr(inode, name, CTX) for name in names]
        return b"user.kafka.key" in names, sum(map(len, (*names, *values)))

    _, size_bytes = await listed(0, 1)
    fitting = 1 + LISTED_XATTR_BYTES_MAX - size_bytes
    assert await listed(1, fitting) == (True, LISTED_XATTR_BYTES_MAX)
    assert (await listed(2, fitting + 1))[0] is False


async def test_an_attribute_above_the_limit_of_the_kernel_is_e2big_and_not_listed(world: World) -> None:
    builder = BatchBuilder(1 << 20)
    assert builder.append(b"k" * 65537, b"value", (("name", b"v" * 70_000),), 1_000)
    wide = TopicPartition("wide", 0)
    world.directory.create_partition(wide)
    world.directory.log(wide).append(builder.seal())
    inode = (await world.look("wide-0", "0")).st_ino
    assert not {b"user.kafka.key", b"user.kafka.headers"} & set(await world.operations.listxattr(inode, CTX))
    for name in (b"user.kafka.key", b"user.kafka.headers"):
        assert await errno_of(world.operations.getxattr(inode, name, CTX)) == "E2BIG"


# --- what breaks ---------------------------------------------------------------------------------------------------


async def test_an_unexpected_error_is_eio_with_a_traceback_in_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch, expect_log: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: PartitionDirectory, number: int, name: bytes) -> None:
        raise ZeroDivisionError("our mistake")

    monkeypatch.setattr(PartitionDirectory, "lookup", broken)
    expect_log("lookup orders-0/0 failed")
    with caplog.at_level(logging.ERROR):
        assert await errno_of(world.look("orders-0", "0")) == "EIO"
    assert caplog.records[-1].exc_info is not None
    assert "EIO lookup orders-0/0: our mistake; the log of the mount has details" in await world.errors()


async def test_an_error_of_the_engine_is_reported_with_its_location_and_remedy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(offset: int, *, nowait: bool = False, is_inflated: bool = False) -> None:
        raise CorruptBatch("checksum", path="/logs/orders-0/0.log", position=61, offset=offset)

    world.append([b"a"])
    await world.look("orders-0")
    monkeypatch.setattr(world.log, "batch_at", damaged)
    assert await errno_of(world.look("orders-0", "0")) == "EBADMSG"
    line = "EBADMSG lookup orders-0/0: /logs/orders-0/0.log, position 61, offset 0: checksum; "
    assert f"{line}the raw bytes are in `segments/`" in await world.errors()


async def test_what_is_merely_not_there_leaves_no_line(world: World) -> None:
    for name in ("5", "nothing", "by-time/2100-01-01", "range/x"):
        assert await errno_of(world.look("orders-0", *name.split("/"))) == "ENOENT"
    assert await errno_of(world.look("payments-0")) == "ENOENT"
    assert await world.errors() == ""


async def test_a_name_that_no_partition_can_have_explains_itself(world: World) -> None:
    assert await errno_of(world.operations.mkdir(1, b"bad", 0o755, CTX)) == "EINVAL"
    assert "EINVAL mkdir bad: 'bad' is a topic; give TOPIC-PARTITION, such as bad-0" in await world.errors()
