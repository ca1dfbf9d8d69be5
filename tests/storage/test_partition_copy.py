"""Compaction in a copy of a partition leaves what the cleaner leaves."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.maintenance.partition_copy import begin_compaction, compact_copy, install_compacted
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.unit

USERS = TopicPartition("users", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log directory with a partition whose forty batches overwrite thirteen keys."""
    path = tmp_path / "logs"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(USERS, {"segment.bytes": "2000", "cleanup.policy": "compact"})
    for first in range(40):
        builder = BatchBuilder(1 << 16)
        for number in range(first, first + 9):
            assert builder.append(b"k%d" % (number % 13), b"v%d" % number, (), number)
        log.append(builder.seal())
    directory.close()
    return path


def compact_in_a_copy(path: Path) -> None:
    directory = LogDirectory.open(str(path))
    log = directory.log(USERS)
    dirty = begin_compaction(directory, log)
    assert dirty is not None
    copy = path.parent / "copy"
    shutil.copytree(path / str(USERS), copy, copy_function=os.link)
    install_compacted(directory, log, str(copy), compact_copy(str(path), dirty, str(copy)))
    assert begin_compaction(directory, log) is None
    directory.close()


def compact_with_the_cleaner(path: Path) -> None:
    directory = LogDirectory.open(str(path))
    log = directory.log(USERS)
    while (found := find_dirty_range(log, directory.cleaner_offset(USERS), 5000)).cleanable_bytes:
        directory.set_cleaner_offset(USERS, clean(log, found, now_ms=5000).end_offset)
    directory.close()


def test_the_copy_is_compacted_as_the_log_itself_byte_for_byte(path: Path) -> None:
    other = path.parent / "other"
    shutil.copytree(path, other)
    before = content(path)
    compact_in_a_copy(path)
    compact_with_the_cleaner(other)
    assert content(path) == content(other) != before


def content(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
