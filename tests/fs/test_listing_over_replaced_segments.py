"""Listings and streams of a read-only mount go on when another process replaces or removes what they read next."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
from fixtures.logs.planted_logs import PARTITION, batch, plant
from fixtures.spies import no_damage

from offsetfs.fs.files.record_listing import rows
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.options import MountOptions
from offsetfs.fs.partitions import MountedPartition, Partitions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition import follower
from offsetfs.storage.views.ends import newest_start
from offsetfs.storage.views.record_chunk import ReadPosition, read_chunk
from offsetfs.storage.views.view_format import VALUES

pytestmark = [pytest.mark.unit, pytest.mark.damages]

BASES = range(0, 30, 10)


@pytest.fixture
async def partition(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[MountedPartition]:
    """Thirty records in three segments. A log takes in what other processes do when it is forced to."""
    monkeypatch.setattr(follower, "LOOK_INTERVAL_S", 1e6)
    plant(tmp_path, {base: [batch(base, *(b"%d" % (base + n) for n in range(10)))] for base in BASES})
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    partition = Partitions(mount_context(directory, MountOptions(), nursery)).of(PARTITION)
    await partition.open()
    yield partition
    directory.close()


def log_file(path: Path, base_offset: int) -> Path:
    return path / str(PARTITION) / segment_name(base_offset, ".log")


def replace_all(path: Path) -> None:
    for base in BASES:
        copy = log_file(path, base).with_suffix(".cleaned")
        shutil.copy(log_file(path, base), copy)
        copy.replace(log_file(path, base))


def remove_two(path: Path) -> None:
    log_file(path, 10).unlink()
    log_file(path, 0).unlink()


CHANGES = [(replace_all, list(range(30))), (remove_two, [*range(10), *range(20, 30)])]


@pytest.mark.parametrize(("change", "left"), CHANGES)
async def test_a_listing_goes_on(
    partition: MountedPartition, tmp_path: Path, change: Callable[[Path], None], left: list[int]
) -> None:
    listing = rows(partition, 0, 30, no_damage)
    first = next(listing).offset
    change(tmp_path)
    assert [first, *(row.offset for row in listing)] == left


async def test_the_listing_of_a_partition_that_is_deleted_ends(partition: MountedPartition, tmp_path: Path) -> None:
    listing = rows(partition, 0, 30, no_damage)
    next(listing)
    shutil.rmtree(tmp_path / str(PARTITION))
    assert [row.offset for row in listing] == list(range(1, 10))


async def test_the_newest_records_are_found_in_replaced_segments(partition: MountedPartition, tmp_path: Path) -> None:
    replace_all(tmp_path)
    assert newest_start(partition.view, 15) == 15
    remove_two(tmp_path)
    assert newest_start(partition.view, 25) == 20


async def test_a_stream_goes_on_in_replaced_segments(partition: MountedPartition, tmp_path: Path) -> None:
    place, lines = ReadPosition(0), bytearray()
    while (chunk := read_chunk(partition.view, place, VALUES, 1, no_damage)) is not None:
        lines += chunk.data
        place = chunk.following
        if not place.offset % 10:
            replace_all(tmp_path)
    assert [int(line) for line in lines.split()] == list(range(30))
