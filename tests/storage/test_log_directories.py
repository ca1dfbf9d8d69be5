"""Several log directories served as one: where partitions are, what happens when a directory cannot be opened."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.log_directories import LogDirectories, split_paths
from offsetfs.storage.errors import (
    DuplicatePartition,
    InvalidConfig,
    LogDirectoryLocked,
    NotALogDirectory,
    PartitionExists,
    UnknownPartition,
)
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = pytest.mark.unit

ORDERS = [TopicPartition("orders", number) for number in range(4)]
USERS = TopicPartition("users", 0)

Open = Callable[..., LogDirectories]


def line(value: bytes) -> SealedBatch:
    builder = BatchBuilder(1 << 16, Compression("none"))
    assert builder.append(None, value, (), 1000)
    return builder.seal()


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    made = [tmp_path / "disk1", tmp_path / "disk2"]
    for disk in made:
        disk.mkdir()
    return made


@pytest.fixture
def opened(disks: list[Path]) -> Iterator[Open]:
    """Open both directories, or those given; all are closed at the end."""
    found: list[LogDirectories] = []

    def start(*paths: Path, read_only: bool = False) -> LogDirectories:
        names = [os.fspath(path) for path in paths or disks]
        both = LogDirectories.open(names, lambda path: LogDirectory.open(path, read_only=read_only))
        found.append(both)
        return both

    yield start
    for each in found:
        each.close()


def test_new_partitions_go_into_the_directory_that_has_the_fewest(disks: list[Path], opened: Open) -> None:
    both = opened()
    both.create_partition(USERS)
    both.create_partitions(ORDERS)
    assert {len(directory.partitions()) for directory in both.directories} == {2, 3}
    assert both.partitions() == [*ORDERS, USERS]
    assert both.directory_of(USERS).path == str(disks[0])
    both.create_partition(TopicPartition("more", 0))
    assert [len(directory.partitions()) for directory in both.directories] == [3, 3]


def test_a_topic_has_its_partitions_by_number_without_similar_names(opened: Open) -> None:
    both = opened()
    names = [TopicPartition("orders", number) for number in (10, 2, 0, 1)]
    both.create_partitions([*names, TopicPartition("order", 3), TopicPartition("orders.old", 0)])
    assert both.partitions_of("orders") == sorted(names)
    assert both.partitions_of("orders-") == both.partitions_of("a") == both.partitions_of("z") == []
    found = [directory.partitions_of("orders") for directory in both.directories]
    assert sorted(each for part in found for each in part) == sorted(names)


def test_a_listing_is_the_same_object_until_a_directory_changes(opened: Open) -> None:
    both = opened()
    both.create_partitions(ORDERS)
    listing = both.partitions()
    assert both.partitions() is listing
    both.create_partition(USERS)
    assert both.partitions() == [*ORDERS, USERS]


def test_a_partition_is_served_from_the_directory_that_holds_it(disks: list[Path], opened: Open) -> None:
    both = opened()
    both.create_partitions(ORDERS[:2])
    for partition in ORDERS[:2]:
        both.log(partition).append(line(str(partition).encode()))
    both.flush()
    places = {partition: both.log(partition).path for partition in ORDERS[:2]}
    assert sorted(places.values()) == [str(disks[0] / "orders-0"), str(disks[1] / "orders-1")]
    assert all(log is not None for log in map(both.opened, ORDERS[:2]))
    with pytest.raises(UnknownPartition):
        both.log(USERS)
    both.delete_partition(ORDERS[0])
    assert both.partitions() == [ORDERS[1]] and not both.has(ORDERS[0])


def test_a_partition_that_is_in_any_directory_cannot_be_made_again(opened: Open) -> None:
    both = opened()
    both.create_partitions(ORDERS[:3])
    for partition in ORDERS[:3]:
        with pytest.raises(PartitionExists):
            both.create_partitions([USERS, partition])
    assert not both.has(USERS)


def test_the_settings_of_a_topic_hold_in_every_directory(opened: Open) -> None:
    both = opened()
    both.create_partition(ORDERS[0], {"retention.ms": "1000"})
    both.create_partition(ORDERS[1])
    assert [directory.config_of("orders").retention_ms for directory in both.directories] == [1000, 1000]
    both.configure("orders", {"retention.ms": "2000"})
    assert [both.log(partition).config.retention_ms for partition in ORDERS[:2]] == [2000, 2000]
    with pytest.raises(InvalidConfig):
        both.configure("orders", {"retention.ms": "soon"})
    assert both.config_of("orders").retention_ms == 2000


def filled(disks: list[Path]) -> None:
    """Make orders-0 in the first directory and orders-1 in the second."""
    both = LogDirectories.open([os.fspath(disk) for disk in disks], LogDirectory.open)
    both.create_partitions(ORDERS[:2])
    both.close()


def test_a_directory_that_cannot_be_opened_leaves_the_others_served(disks: list[Path], opened: Open) -> None:
    filled(disks)
    disks[0].rename(disks[0].with_name("gone"))
    left = opened()
    assert list(left.failures) == [str(disks[0])] and isinstance(left.failures[str(disks[0])], NotALogDirectory)
    assert left.partitions() == [ORDERS[1]]
    left.log(ORDERS[1]).append(line(b"x"))


def test_when_no_directory_can_be_opened_the_first_error_is_raised(tmp_path: Path, opened: Open) -> None:
    with pytest.raises(NotALogDirectory, match="missing1"):
        opened(tmp_path / "missing1", tmp_path / "missing2")


def test_a_directory_that_another_process_writes_to_opens_none_of_them(disks: list[Path], opened: Open) -> None:
    filled(disks)
    held = LogDirectory.open(os.fspath(disks[1]))
    try:
        with pytest.raises(LogDirectoryLocked):
            opened()
    finally:
        held.close()
    assert opened().partitions() == ORDERS[:2]  # the first was let go


def test_a_directory_without_answers_leaves_the_others_served(disks: list[Path], opened: Open) -> None:
    filled(disks)
    both = opened(read_only=True)
    assert both.partitions() == ORDERS[:2]
    disks[0].rename(disks[0].with_name("gone"))
    assert both.partitions() == ORDERS[:2]
    assert both.log(ORDERS[1]).next_offset == 0
    assert isinstance(both.failures[str(disks[0])], OSError)


@pytest.mark.damages
def test_a_partition_in_two_directories_is_read_from_the_first_and_not_written(disks: list[Path], opened: Open) -> None:
    filled(disks)
    shutil.copytree(disks[1] / "orders-1", disks[0] / "orders-1")
    reading = opened(read_only=True)
    assert reading.log(ORDERS[1]).path == str(disks[0] / "orders-1")
    assert list(reading.duplicates()) == [(ORDERS[1], str(disks[0]), str(disks[1]))]
    reading.close()
    writing = opened()
    with pytest.raises(DuplicatePartition, match=f"{disks[0]} and in {disks[1]}"):
        writing.log(ORDERS[1])
    assert writing.log(ORDERS[0]).next_offset == 0


def test_a_move_between_directories_shows_the_current_log(disks: list[Path], opened: Open) -> None:
    filled(disks)
    future = disks[1] / f"orders-0.{'0a' * 16}-future"
    future.mkdir()
    both = opened(read_only=True)
    assert both.partitions() == ORDERS[:2] and not list(both.duplicates())
    assert both.log(ORDERS[0]).path == str(disks[0] / "orders-0")
    assert both.future_of(ORDERS[0]) == str(future)
    assert both.future_of(ORDERS[1]) is None


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("/a", ["/a"]),
        ("/a,/b", ["/a", "/b"]),
        (" /a , /b,", ["/a", "/b"]),
        ("/a,/b,/a/", ["/a", "/b"]),
        ("", [""]),
    ],
)
def test_log_directories_are_separated_by_commas(text: str, paths: list[str]) -> None:
    assert split_paths(text) == paths


def test_a_directory_with_a_comma_in_its_name_is_one(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    assert split_paths(str(tmp_path / "a,b")) == [str(tmp_path / "a,b")]
