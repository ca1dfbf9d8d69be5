"""A mount that writes keeps the maps of what it rolls, and of what compaction leaves, and of nothing else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from fixtures.logs.log_states import replace_segments_of
from trio.testing import MockClock

from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.mounting import line_index_upkeep as map_keeping
from offsetfs.fs.mounting.line_index_upkeep import GrowingFiles, LineIndexUpkeep
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.options import MountOptions
from offsetfs.fs.partitions import Partitions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import MAP_SUFFIXES, TopicPartition, segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.view_format import VALUES, JsonFormat

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


class World:
    """A partition, and the keeper of its maps."""

    def __init__(self, directory: LogDirectory, options: MountOptions, nursery: trio.Nursery) -> None:
        self.log: Log = directory.log(PARTITION)
        self.mount = mount_context(directory, options, nursery)
        self.partition = Partitions(self.mount).of(PARTITION)
        self.growing = (
            GrowingFile(self.mount, self.partition, Kind.VALUES, VALUES),
            GrowingFile(self.mount, self.partition, Kind.RECORDS, JsonFormat(PARTITION)),
        )
        self.keeper = LineIndexUpkeep(self.mount, lambda name: GrowingFiles(self.partition, self.growing))

    def roll(self, size: int = 5000) -> int:
        """Append, roll, and return the base offset of the segment that was sealed."""
        builder = BatchBuilder(1 << 20)
        assert builder.append(b"key", b"x" * size, (), 1000)
        self.log.append(builder.seal())
        base = self.log.snapshot().active.base_offset
        self.log.roll()
        return base

    @property
    def maps(self) -> list[str]:
        return sorted(name for name in os.listdir(self.log.path) if name.endswith(MAP_SUFFIXES))

    async def kept(self, *bases: int) -> bool:
        """Wait for the maps of these segments; whether there are no others."""
        expected = sorted(segment_name(base, suffix) for base in bases for suffix in MAP_SUFFIXES)
        with trio.move_on_after(30):
            while self.maps != expected or self.keeper._is_running:
                await trio.lowlevel.checkpoint()
        return self.maps == expected


async def started(path: Path, options: MountOptions, nursery: trio.Nursery) -> World:
    directory = LogDirectory.open(str(path))
    if not directory.has(PARTITION):
        directory.create_partition(PARTITION)
    world = World(directory, options, nursery)
    await world.partition.open()
    return world


@pytest.fixture
async def world(nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(map_keeping, "SEGMENT_BYTES_MIN", 1000)
    monkeypatch.setattr(map_keeping, "PAUSE_SECONDS", 0.01)
    world = await started(tmp_path, MountOptions(), nursery)
    yield world
    world.mount.directory.close()


async def test_a_segment_that_is_rolled_gets_its_maps(world: World) -> None:
    old = world.roll()
    world.keeper.check(PARTITION)
    first, second = world.roll(), world.roll()
    world.keeper.check(PARTITION)
    assert await world.kept(first, second), f"not those of {old}, which was there before"
    world.keeper.check(PARTITION)
    third = world.roll()
    world.keeper.check(PARTITION)
    assert await world.kept(first, second, third)
    for segment in list(world.log.snapshot())[1:-1]:
        for growing in world.growing:
            assert LineIndex.load(segment, world.mount.caches.line_indexes, growing.view_format) is not None


async def test_line_indexes_are_built_after_a_pause_in_writing(
    world: World, monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(map_keeping, "PAUSE_SECONDS", 10)
    world.keeper.check(PARTITION)
    base = world.roll()
    for _ in range(5):
        world.keeper.check(PARTITION)
        await trio.sleep(9)
        assert world.maps == []
    await trio.sleep(2)
    assert await world.kept(base)


async def test_small_segments_get_none(world: World) -> None:
    world.keeper.check(PARTITION)
    world.roll(10)
    large = world.roll()
    world.keeper.check(PARTITION)
    assert await world.kept(large)


async def test_what_a_view_has_in_memory_is_only_written_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.keeper.check(PARTITION)
    builder = BatchBuilder(1 << 20)
    assert builder.append(b"key", b"x" * 5000, (), 1000)
    world.log.append(builder.seal())
    for growing in world.growing:
        await growing.lookup()
    monkeypatch.setattr(LineIndex, "extend", lambda *a, **k: pytest.fail("measured"))
    world.log.roll()
    world.keeper.check(PARTITION)
    assert await world.kept(0)


async def test_a_segment_that_replaces_another_gets_its_maps(world: World) -> None:
    first = world.roll()
    world.keeper.check(PARTITION)
    segment = world.log.snapshot().first
    again = type(segment)(segment.directory, first, segment.config, segment.pool)
    replace_segments_of(world.log, world.log.snapshot().plus(again))
    world.keeper.check(PARTITION)
    assert await world.kept(first)


async def test_a_segment_that_is_gone_meanwhile_is_passed_over(world: World) -> None:
    world.keeper.check(PARTITION)
    world.roll()
    gone, left = world.log.snapshot().first, world.roll()
    world.keeper.check(PARTITION)
    gone.ending = ".deleted"
    assert await world.kept(left)
    gone.ending = ""


async def test_a_mount_of_committed_records_keeps_none(nursery: trio.Nursery, tmp_path: Path) -> None:
    world = await started(tmp_path, MountOptions(isolation="read_committed"), nursery)
    world.keeper.check(PARTITION)
    world.roll(2 << 20 >> 3)
    world.keeper.check(PARTITION)
    assert not world.keeper._is_running and world.maps == []
    world.mount.directory.close()
