"""`topics/<topic>/values` and `records.ndjson` without a kernel: what a look-up freezes, and what reading it gives."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio
from pyfuse3 import EntryAttributes, FUSEError
from trio.testing import MockClock

from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.files.line_index_building import WAIT_S
from offsetfs.fs.files.topic_snapshots import TopicSnapshots
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.views.line_index import LineIndex

pytestmark = pytest.mark.unit

CTX: Any = SimpleNamespace(pid=0)


class World:
    """`orders` with partitions 0 to 10; a batch in each of them is one record."""

    def __init__(self, directory: LogDirectory, options: MountOptions, nursery: trio.Nursery) -> None:
        self.directory = directory
        self.operations = Operations(directory, options, nursery)
        for number in range(11):
            self.directory.create_partition(TopicPartition("orders", number))

    def append(self, partition: int, *values: bytes) -> None:
        log = self.directory.log(TopicPartition("orders", partition))
        for value in values:
            builder = BatchBuilder(1 << 16)
            assert builder.append(None, value, (), 1000 + partition)
            log.append(builder.seal())

    def log_file(self, partition: int) -> str:
        return self.directory.log(TopicPartition("orders", partition)).snapshot().active.log_path

    async def look(self, path: str) -> EntryAttributes:
        entry = await self.operations.lookup(pyfuse3.ROOT_INODE, b"topics", CTX)
        for name in ("orders", *path.split("/")):
            entry = await self.operations.lookup(entry.st_ino, name.encode(), CTX)
        return entry

    async def read(self, inode: int, position: int = 0, size: int = 1 << 20, step: int = 1 << 20) -> bytes:
        """Read in steps, as the kernel does: until nothing comes."""
        opened = await self.operations.open(inode, os.O_RDONLY, CTX)
        data, end = b"", position + size
        try:
            while position < end:
                piece = bytes(await self.operations.read(opened.fh, position, min(step, end - position)))
                if not piece:
                    break
                data, position = data + piece, position + len(piece)
        finally:
            await self.operations.release(opened.fh)
        return data

    async def content(self, path: str) -> bytes:
        return await self.read((await self.look(path)).st_ino)


@pytest.fixture
async def make(nursery: trio.Nursery, tmp_path: Path) -> AsyncIterator[Callable[..., World]]:
    worlds: list[World] = []

    def make_one(**options: Any) -> World:
        worlds.append(World(LogDirectory.open(str(tmp_path)), MountOptions(**options), nursery))
        return worlds[-1]

    yield make_one
    for world in worlds:
        await world.operations.accumulators.close()


@pytest.fixture
def world(make: Callable[..., World]) -> World:
    return make()


async def errno_of(act: Callable[[], Awaitable[object]]) -> int | None:
    try:
        await act()
    except FUSEError as error:
        return int(error.errno)
    return None


async def test_partitions_follow_each_other_by_number_and_empty_ones_add_nothing(world: World) -> None:
    for partition in (10, 2, 0):
        world.append(partition, b"%d:a" % partition, b"%d:b" % partition)
    entry = await world.look("values")
    assert await world.read(entry.st_ino) == b"0:a\n0:b\n2:a\n2:b\n10:a\n10:b\n"
    assert entry.st_size == 26 and entry.st_blocks == 0
    lines = (await world.content("records.ndjson")).splitlines()
    assert [line.split(b",")[1] for line in lines] == [b'"partition":%d' % n for n in (0, 0, 2, 2, 10, 10)]


async def test_every_read_at_every_place_gives_the_bytes_of_the_whole(world: World) -> None:
    for partition in (1, 3, 4):
        world.append(partition, b"x" * partition, b"", b"yz")
    entry = await world.look("values")
    whole = await world.read(entry.st_ino)
    for position, size in itertools.product(range(len(whole) + 2), range(1, len(whole) + 2)):
        assert await world.read(entry.st_ino, position, size) == whole[position : position + size]
    assert await world.read(entry.st_ino, step=1) == whole


async def test_what_is_appended_later_is_in_the_next_look_up_only(world: World) -> None:
    world.append(0, b"a")
    world.append(1, b"b")
    before = await world.look("values")
    world.append(0, b"c")
    world.directory.create_partition(TopicPartition("orders", 11))
    world.append(11, b"d")
    after = await world.look("values")
    assert before.st_ino != after.st_ino
    assert await world.read(before.st_ino) == b"a\nb\n" and await world.read(after.st_ino) == b"a\nc\nb\nd\n"
    assert (await world.operations.getattr(before.st_ino, CTX)).st_size == 4


async def test_the_same_sizes_are_the_same_inode_until_the_kernel_forgets_it(world: World) -> None:
    world.append(0, b"a")
    first, second = await world.look("values"), await world.look("values")
    assert first.st_ino == second.st_ino != (await world.look("records.ndjson")).st_ino
    await world.operations.forget([(first.st_ino, 2)])
    assert await errno_of(lambda: world.operations.getattr(first.st_ino, CTX)) == errno.ESTALE


async def test_a_second_look_up_measures_only_what_was_appended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for partition in range(11):
        world.append(partition, *[b"%d" % number for number in range(20)])
    await world.look("values")
    measured: list[int] = []
    extend = LineIndex.extend

    def counted(map_: LineIndex, *args: Any, **options: Any) -> None:
        before = map_.log_bytes
        extend(map_, *args, **options)
        measured.append(map_.log_bytes - before)

    monkeypatch.setattr(LineIndex, "extend", counted)
    await world.look("values")
    assert measured == []
    world.append(3, b"new")
    await world.look("values")
    assert len(measured) == 1 and 0 < measured[0] < 100


async def test_a_listed_snapshot_is_that_of_a_look_up_and_forgotten_as_often(world: World) -> None:
    world.append(0, b"a")
    listed: list[tuple[bytes, int, int]] = []
    entry = await world.operations.lookup(pyfuse3.ROOT_INODE, b"topics", CTX)
    entry = await world.operations.lookup(entry.st_ino, b"orders", CTX)
    handle = await world.operations.opendir(entry.st_ino, CTX)

    def take(name: bytes, attributes: EntryAttributes, cookie: int) -> bool:
        if name == b"records.ndjson":
            return False  # the reply is full
        listed.append((name, attributes.st_ino, cookie))
        return True

    await world.operations.entries(handle, 0, take)
    await world.operations.releasedir(handle)
    (_, inode, cookie) = listed[-1]
    assert [name for name, *_ in listed] == [
        b"append",
        b"append.ndjson",
        b"first",
        b"latest",
        b"values",
    ] and cookie == 5
    known = world.operations._nodes._nodes.lookup_numbers[Kind.TOPIC_SNAPSHOT]
    assert len(known) == 1 and (await world.look("values")).st_ino == inode
    await world.operations.forget([(inode, 2)])
    assert len(known) == 0


async def test_a_listing_leaves_out_what_must_be_measured_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.append(0, b"a")

    async def unknown(file: GrowingFile) -> None:
        return None

    await world.look("range")
    snapshots = world.operations._nodes._nodes.files[Kind.TOPIC_SNAPSHOT]
    assert isinstance(snapshots, TopicSnapshots) and await snapshots.listed(0, b"values") is not None
    monkeypatch.setattr(GrowingFile, "listed", unknown)
    assert await snapshots.listed(0, b"values") is None


async def test_it_is_read_only(world: World) -> None:
    world.append(0, b"a")
    inode = (await world.look("values")).st_ino
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_TRUNC):
        assert await errno_of(lambda flags=flags: world.operations.open(inode, flags, CTX)) == errno.EPERM  # type: ignore[misc]


async def test_a_partition_that_is_deleted_leaves_the_next_snapshot(world: World) -> None:
    for partition in (0, 1, 2):
        world.append(partition, b"%d" % partition)
    before = await world.look("values")
    world.directory.delete_partition(TopicPartition("orders", 1))
    assert await world.content("values") == b"0\n2\n"
    assert before.st_size == 6
    handle = (await world.operations.open(before.st_ino, 0, CTX)).fh
    try:
        assert bytes(await world.operations.read(handle, 0, 6)) in (b"0\n", b"0\n1\n2\n")  # while its file is there
        assert bytes(await world.operations.read(handle, 4, 2)) == b"2\n"
    finally:
        await world.operations.release(handle)


async def test_a_partition_that_does_not_open_makes_the_look_up_fail(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a topic is not the topic, and no name says which part it is."""
    world.append(0, b"a")
    opened = world.directory.log

    def fails_for_one(name: TopicPartition) -> object:
        if name.partition == 3:
            raise MalformedBatch("no log", path="orders-3")
        return opened(name)

    monkeypatch.setattr(world.directory, "log", fails_for_one)
    assert await errno_of(lambda: world.look("values")) == errno.EUCLEAN
    text = world.operations.mount.error_log.text().decode()
    assert "orders-3: no log" in text


async def test_it_takes_ten_seconds_at_most_and_goes_on_from_there(
    world: World, monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock
) -> None:
    for partition in range(11):
        world.append(partition, b"%d" % partition)
    await world.look("values")  # opens the partitions in threads, over which the clock would jump
    mock_clock.autojump_threshold = 0
    frozen = GrowingFile.frozen
    slow = True

    async def slowly(file: GrowingFile) -> object:
        await trio.sleep(3 if slow else 0)
        return await frozen(file)

    monkeypatch.setattr(GrowingFile, "frozen", slowly)
    begun = trio.current_time()
    assert await errno_of(lambda: world.look("values")) == errno.EAGAIN
    assert trio.current_time() - begun == WAIT_S
    text = world.operations.mount.error_log.text().decode()
    assert "topics/orders/values" in text and "3 of 11 partitions are complete, orders-3 is next" in text
    slow = False
    assert (await world.look("values")).st_size == 23


@pytest.mark.damages
@pytest.mark.parametrize("damaged", [0, 1, 2], ids=["first", "middle", "last"])
async def test_a_read_fails_at_a_damaged_batch_wherever_it_is(make: Callable[..., World], damaged: int) -> None:
    """Also at the end of a partition: the reader must not go on into the next one unnoticed."""
    world = make()
    values = [b"a", b"b", b"c"]
    for partition in (1, 4):
        world.append(partition, *values)
    damage(world, 1, damaged)
    entry = await world.look("values")
    assert entry.st_size == 10
    before = b"".join(value + b"\n" for value in values[:damaged])
    handle = (await world.operations.open(entry.st_ino, 0, CTX)).fh
    if before:
        assert bytes(await world.operations.read(handle, 0, 100)) == before
    assert await errno_of(lambda: world.operations.read(handle, len(before), 100)) == errno.EIO
    assert bytes(await world.operations.read(handle, 4, 100)) == b"a\nb\nc\n" if damaged < 2 else True
    assert bytes(await world.operations.read(handle, 5, 100)) == b"\nb\nc\n"
    await world.operations.release(handle)
    assert "orders-1/0" in world.operations.mount.error_log.text().decode()


@pytest.mark.damages
async def test_damage_at_the_end_of_the_last_partition_is_reported_at_the_end(make: Callable[..., World]) -> None:
    world = make()
    world.append(1, b"a", b"b")
    damage(world, 1, 1)
    world.directory.log(TopicPartition("orders", 9))
    entry = await world.look("values")
    assert await errno_of(lambda: world.read(entry.st_ino)) == errno.EIO
    assert await world.read(entry.st_ino, 0, 2) == b"a\n"


@pytest.mark.damages
async def test_damage_is_skipped_when_asked_for(make: Callable[..., World]) -> None:
    world = make(damage="skip")
    world.append(1, b"a", b"b", b"c")
    world.append(2, b"d")
    damage(world, 1, 2)
    assert await world.content("values") == b"a\nb\nd\n"
    assert world.operations.mount.damage.has_occurred
    assert len(world.directory.log(TopicPartition("orders", 1)).damage) == 1


@pytest.mark.damages
async def test_a_record_that_is_damaged_after_the_look_up_does_not_end_it_early(make: Callable[..., World]) -> None:
    world = make()
    world.append(1, b"a")
    world.append(2, b"b")
    entry = await world.look("values")
    world.append(1, b"c")
    damage(world, 1, 1)
    assert (await world.look("values")).st_size == 4
    assert await world.read(entry.st_ino) == b"a\nb\n"


def damage(world: World, partition: int, number: int) -> None:
    """Change a byte of the records of a batch; all batches of the partition are of the same size."""
    path = world.log_file(partition)
    count = world.directory.log(TopicPartition("orders", partition)).next_offset
    size = os.path.getsize(path) // count
    with open(path, "r+b") as file:
        file.seek(number * size + size - 2)
        file.write(b"\xee")
