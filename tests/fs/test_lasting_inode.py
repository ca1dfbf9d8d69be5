"""The inode of `values` that stat shows: the same in each mount, and another one when the beginning was removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
from fixtures.logs.planted_logs import sealed

from offsetfs.fs.files.growing_file import GrowingFile
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.options import MountOptions
from offsetfs.fs.partitions import Partitions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.views.view_format import VALUES, JsonFormat

pytestmark = pytest.mark.unit

NAMES = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("users", 0)]
ORDERS = NAMES[0]


@pytest.fixture
def path(tmp_path: Path) -> str:
    directory = LogDirectory.open(os.fspath(tmp_path))
    for name in NAMES:
        directory.create_partition(name)
        for number in range(10):
            directory.log(name).append(sealed(b"record %d" % number))
    directory.close()
    return os.fspath(tmp_path)


async def inodes(path: str, nursery: trio.Nursery, names: list[TopicPartition] = NAMES) -> dict[tuple[str, Kind], int]:
    """Return what stat shows in a new mount that looks at the partitions in this order."""
    directory, found = LogDirectory.open(path), {}
    mount = mount_context(directory, MountOptions(), nursery)
    partitions = Partitions(mount)
    for name in names:
        partition = partitions.of(name)
        await partition.open()
        for kind, view_format in ((Kind.VALUES, VALUES), (Kind.RECORDS, JsonFormat(name))):
            growing = GrowingFile(mount, partition, kind, view_format)
            await growing.lookup()
            found[str(name), kind] = (await growing.attributes(0)).st_ino
    directory.close()
    return found


async def test_each_file_has_its_inode_in_all_mounts(path: str, nursery: trio.Nursery) -> None:
    first = await inodes(path, nursery)
    assert len(set(first.values())) == 2 * len(NAMES)
    assert await inodes(path, nursery, NAMES[::-1]) == first
    directory = LogDirectory.open(path)
    directory.log(ORDERS).append(sealed(b"more"))
    directory.close()
    assert await inodes(path, nursery) == first


async def test_a_log_start_that_moved_while_nothing_was_mounted_gives_another_inode(
    path: str, nursery: trio.Nursery
) -> None:
    first = await inodes(path, nursery)
    directory = LogDirectory.open(path)
    directory.log(ORDERS).delete_records(5)
    directory.close()
    second = await inodes(path, nursery)
    assert {name for name in first if first[name] != second[name]} == {
        ("orders-0", Kind.VALUES),
        ("orders-0", Kind.RECORDS),
    }
    assert not set(second.values()) & {first["orders-0", Kind.VALUES], first["orders-0", Kind.RECORDS]}


@pytest.mark.damages
async def test_a_compaction_or_a_new_topic_gives_another_inode(path: str, nursery: trio.Nursery) -> None:
    first = await inodes(path, nursery, [ORDERS])
    directory = LogDirectory.open(path)
    directory.set_cleaner_offset(ORDERS, 7)
    directory.close()
    second = await inodes(path, nursery, [ORDERS])
    (Path(path) / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: 5L6g3nShT-eMCtK--X86sw\n")
    third = await inodes(path, nursery, [ORDERS])
    assert len({*first.values(), *second.values(), *third.values()}) == 6


async def test_a_log_start_that_moves_in_a_mount_gives_the_inode_of_the_next_mount(
    path: str, nursery: trio.Nursery
) -> None:
    directory = LogDirectory.open(path)
    mount = mount_context(directory, MountOptions(), nursery)
    partition = Partitions(mount).of(ORDERS)
    await partition.open()
    growing = GrowingFile(mount, partition, Kind.VALUES, VALUES)
    await growing.lookup()
    partition.log.delete_records(5)
    await growing.lookup()
    after = (await growing.attributes(1)).st_ino
    directory.close()
    assert (await inodes(path, nursery))["orders-0", Kind.VALUES] == after
