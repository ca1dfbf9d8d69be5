"""`range/`, `last/`, `first`, `latest` and `by-time` of a topic, without a kernel."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyfuse3
import pytest
import trio
from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.files.topic_ranges import TopicRanges
from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.views.range_view import RangeView

pytestmark = pytest.mark.unit

CTX: Any = SimpleNamespace(pid=0)
BEGIN_MS = 1_795_266_300_000
"""2026-11-21T13:05 UTC."""

SECONDS = {0: (0, 60, 240), 1: (30, 60, 90), 3: (3600, 10)}
"""The times of the records of each partition, after the beginning. The value of each is `<partition>:<seconds>`."""


class World:
    """`orders` with partitions 0, 1 and 3."""

    def __init__(self, directory: LogDirectory, nursery: trio.Nursery, **options: Any) -> None:
        self.directory = directory
        self.operations = Operations(directory, MountOptions(**options), nursery)

    def append(self, partition: int, *seconds: int) -> None:
        name = TopicPartition("orders", partition)
        if not self.directory.has(name):
            self.directory.create_partition(name)
        for second in seconds:
            builder = BatchBuilder(1 << 16)
            assert builder.append(None, b"%d:%d" % (partition, second), (), BEGIN_MS + second * 1000)
            self.directory.log(name).append(builder.seal())

    async def look(self, path: str, above: str = "topics/orders") -> EntryAttributes:
        entry = await self.operations.getattr(pyfuse3.ROOT_INODE, CTX)
        for name in f"{above}/{path}".strip("/").split("/"):
            entry = await self.operations.lookup(entry.st_ino, name.encode(), CTX)
        return entry

    async def content(self, path: str, step: int = 1 << 20) -> str:
        entry = await self.look(path)
        handle = (await self.operations.open(entry.st_ino, os.O_RDONLY, CTX)).fh
        data = b""
        while piece := bytes(await self.operations.read(handle, len(data), step)):
            data += piece
        await self.operations.release(handle)
        assert entry.st_size == len(data)
        return data.decode().replace("\n", " ").strip()

    async def target(self, path: str) -> str:
        return (await self.operations.readlink((await self.look(path)).st_ino, CTX)).decode()

    async def names(self, path: str) -> list[str]:
        handle = await self.operations.opendir((await self.look(path)).st_ino, CTX)
        found: list[str] = []

        def take(name: bytes, *_: object) -> bool:
            found.append(name.decode())
            return True

        await self.operations.entries(handle, 0, take)
        await self.operations.releasedir(handle)
        return found

    async def errno_of(self, path: str) -> int | None:
        try:
            await self.look(path)
        except FUSEError as error:
            return int(error.errno)
        return None

    @property
    def errors(self) -> str:
        return self.operations.mount.error_log.text().decode()


@pytest.fixture
async def world(nursery: trio.Nursery, tmp_path: Path) -> AsyncIterator[World]:
    world = World(LogDirectory.open(str(tmp_path)), nursery)
    for partition, seconds in SECONDS.items():
        world.append(partition, *seconds)
    yield world
    await world.operations.accumulators.close()
    world.directory.close()


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
async def test_a_range_of_times_is_merged_by_time_then_partition(world: World, step: int) -> None:
    assert await world.content("range/2026-11-21T13:05..2026-11-21T13:07", step) == "0:0 1:30 0:60 1:60 1:90"
    assert await world.content("range/2026-11-21T13:05:31..", step) == "0:60 1:60 1:90 0:240 3:3600 3:10"
    assert await world.content("range/..2026-11-21T13:05:31", step) == "0:0 1:30"
    assert await world.content("range/2100-01-01..", step) == ""


async def test_lines_of_json_have_the_same_order(world: World) -> None:
    lines = (await world.content("range/...ndjson")).split()
    assert [line.split('"value":"')[1].split('"')[0] for line in lines] == (await world.content("last/99")).split()
    assert await world.content("last/2.ndjson") == " ".join(lines[-2:])


async def test_last_has_the_newest_of_all_partitions(world: World) -> None:
    assert await world.content("last/1") == "3:10"
    assert await world.content("last/3") == "0:240 3:3600 3:10"
    assert await world.content("last/99") == "0:0 1:30 0:60 1:60 1:90 0:240 3:3600 3:10"
    assert await world.content("last/0") == ""


async def test_a_range_stays_as_it_was_looked_up(world: World) -> None:
    before = await world.look("last/99")
    world.append(1, 4000)
    world.append(5, 4001)
    assert (await world.operations.getattr(before.st_ino, CTX)).st_size == before.st_size
    assert (await world.content("last/2")) == "1:4000 5:4001"
    await world.operations.forget([(before.st_ino, 1)])
    with pytest.raises(FUSEError):
        await world.operations.getattr(before.st_ino, CTX)


@pytest.mark.parametrize("name", ["100..200", "..7.ndjson", "7..2026-11-21"])
async def test_a_range_of_offsets_is_refused_with_that_of_a_partition(world: World, name: str) -> None:
    assert await world.errno_of(f"range/{name}") == errno.EINVAL
    assert f"an offset belongs to one partition; write orders-0/range/{name}, or for the topic times" in world.errors


async def test_names_that_are_no_ranges(world: World) -> None:
    assert await world.errno_of("range/x..y") == errno.EINVAL
    assert await world.errno_of("range/-10..") == errno.EINVAL and "last/10 has the newest 10 records" in world.errors
    assert await world.errno_of("range/7") == await world.errno_of("last/x") == errno.ENOENT


async def test_first_and_latest_are_links_to_the_ends_of_the_topic(world: World) -> None:
    assert (await world.target("first"), await world.target("latest")) == ("../../orders-0/0", "../../orders-3/1")
    world.append(1, 5000)
    assert await world.target("latest") == "../../orders-1/3"
    await world.look("orders-1/3", above="")


async def test_a_topic_without_records_has_no_ends(nursery: trio.Nursery, tmp_path: Path) -> None:
    world = World(LogDirectory.open(str(tmp_path)), nursery)
    world.append(0)
    assert await world.errno_of("first") == await world.errno_of("latest") == errno.ENOENT
    assert await world.content("last/10") == await world.content("range/-1h..") == ""
    assert await world.names("") == ["append", "append.ndjson", "values", "records.ndjson", "by-time", "range", "last"]
    assert await world.names("by-time") == []


async def test_a_time_is_a_link_to_the_first_record_of_any_partition(world: World) -> None:
    assert await world.target("by-time/2026-11-21T13:05:01") == "../../../orders-1/0"
    assert await world.target("by-time/2026-11-21T13:06") == "../../../orders-0/1"
    assert await world.target("by-time/2026/11/21/13/06") == "../../../../../../../orders-0/1"
    assert await world.errno_of("by-time/2100-01-01") == errno.ENOENT
    assert await world.errno_of("by-time/never") == errno.EINVAL


async def test_the_calendar_lists_minutes_with_records_of_any_partition(world: World) -> None:
    assert await world.names("by-time") == ["2026"]
    assert await world.names("by-time/2026/11/21") == ["13", "14"]
    assert await world.names("by-time/2026/11/21/13") == ["05", "06", "09"]
    assert await world.errno_of("by-time/2026/11/20") == errno.ENOENT
    entry = await world.look("by-time/2026/11/21/13")
    assert (await world.operations.getattr(entry.st_ino, CTX)).st_mtime_ns == 1_795_266_000_000_000_000


async def test_every_listed_name_is_found_with_the_same_inode(world: World) -> None:
    assert await world.names("") == [
        "append", "append.ndjson", "first", "latest", "values", "records.ndjson", "by-time", "range", "last"
    ]  # fmt: skip
    for name in await world.names(""):
        entry = await world.look(name)
        assert (await world.operations.getattr(entry.st_ino, CTX)).st_mode == entry.st_mode


async def test_a_measuring_that_takes_long_is_to_be_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> None:
    await world.look("last/99")
    mock_clock.autojump_threshold = 0
    frozen = RangeView.refresh

    async def never(ranges: TopicRanges, *_: object) -> tuple[list[int], list[int]]:
        await trio.sleep_forever()
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(TopicRanges, "_newest_starts", never)
        assert await world.errno_of("last/98") == errno.EAGAIN
    assert "topics/orders/last/98: 0 of 3 partitions are measured, orders-0 is next; ask again" in world.errors
    assert RangeView.refresh is frozen


async def test_a_read_behind_a_lost_record_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = await world.look("last/99")
    monkeypatch.setattr(RangeView, "timed_lines", lambda self, offset: iter(()))
    handle = (await world.operations.open(entry.st_ino, os.O_RDONLY, CTX)).fh
    with pytest.raises(FUSEError) as failure:
        await world.operations.read(handle, 0, 100)
    assert failure.value.errno == errno.EIO
    await world.operations.release(handle)
    assert Kind.TOPIC_RANGE in world.operations._nodes._nodes.files


@pytest.mark.parametrize("directory", ["orders-1", "topics/orders"])
async def test_a_listing_of_by_key_reports_how_a_key_is_looked_up(world: World, directory: str) -> None:
    entry = await world.look("by-key", above=directory)
    handle = await world.operations.opendir(entry.st_ino, CTX)
    await world.operations.releasedir(handle)
    assert (
        f"{directory}/by-key: keys are not listed; `cat {directory}/by-key/KEY` prints the latest value" in world.errors
    )
