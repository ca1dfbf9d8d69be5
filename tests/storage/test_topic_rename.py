"""Renaming a topic: what has its name follows, what must keep it is refused, and a kill at any step can be finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from fixtures.simulation.simsystem import System, simulated
from fixtures.simulation.simulated_log import append, disk_with_directory, opened, shown

from offsetfs.storage import files
from offsetfs.storage.checkpoint import CLEANER_OFFSETS, LOG_STARTS, META_PROPERTIES
from offsetfs.storage.coordinators.consumer_groups import ConsumerGroups
from offsetfs.storage.coordinators.group_records import CommittedOffset, commit_key, commit_value
from offsetfs.storage.coordinators.offsets_topic import partition_of_group
from offsetfs.storage.coordinators.topic_rename import RENAME_JOURNAL, rename_topic
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.mirror_file import MirroredTopic, MirrorFile
from offsetfs.storage.errors import InvalidCheckpoint, InvalidName, PartitionExists, PolicyViolation, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = pytest.mark.unit

OLD, NEW = [[TopicPartition(topic, number) for number in range(2)] for topic in ("old", "new")]
SETTINGS = {"retention.ms": "-1", "cleanup.policy": "compact,delete"}


@pytest.fixture
def system() -> Iterator[System]:
    with simulated(disk_with_directory()) as system:
        fill()
        yield system


def fill() -> None:
    """Make `old` with two partitions, settings, a log start, cleaner offsets, and commits of two groups."""
    directory = opened()
    directory.create_partition(TopicPartition("__consumer_offsets", 0))
    directory.create_partitions(OLD, SETTINGS)
    for partition in OLD:
        for value in (b"a", b"b", b"c"):
            append(directory.log(partition), (b"k", value + b"%d" % partition.partition))
    directory.log(OLD[0]).flush()
    directory.raise_log_starts({OLD[0]: 1})
    directory.set_cleaner_offsets({OLD[1]: 2})
    for group in ("first", "second"):
        commit(directory, group, OLD[1], len(group) - 4)
    directory.close()


def commit(directory: LogDirectory, group: str, partition: TopicPartition, offset: int) -> None:
    builder = BatchBuilder(1 << 16)
    value = commit_value(CommittedOffset(offset, 3, "note", 1000))
    assert builder.append(commit_key(group, partition), value, (), 1000)
    directory.log(partition_of_group(directory, group, may_create=True)).append(builder.seal())


def rename(old: str = "old", new: str = "new") -> int:
    directory = opened()
    if directory.open_logs():
        directory.close()
        directory = opened()
    try:
        return rename_topic(directory, ConsumerGroups(directory, lambda text: None), old, new)
    finally:
        directory.close()


def state(partitions: list[TopicPartition]) -> list[object]:
    """Return what the directory has of partitions: records, bounds, settings, checkpoints, commits, ids."""
    directory = opened()
    groups = ConsumerGroups(directory, lambda text: None)
    groups.refresh(bytes_max=1 << 30)
    try:
        return [
            [(shown(directory.log(each)), directory.log(each).log_start_offset) for each in partitions],
            directory.settings_of(partitions[0].topic),
            [directory.checkpoints.cleaner_offset(each) for each in partitions],
            [directory.checkpoints.recovery_point(each) for each in partitions],
            [[(group, c.offset) for group in groups.committed_to(each)
              for c in groups.commits(group.encode()) or () if c.partition == each] for each in partitions],
            [directory.topic_id(each) for each in partitions],
        ]  # fmt: skip
    finally:
        directory.close()


def names() -> list[str]:
    directory = opened()
    directory.close()
    return [str(each) for each in directory.partitions() if each.topic in ("old", "new")]


def test_all_that_has_the_name_follows(system: System) -> None:
    before = state(OLD)
    assert before[4] == [[], [("first", 1), ("second", 2)]] and before[2] == [None, 2]
    assert rename() == 2
    assert state(NEW) == before and names() == ["new-0", "new-1"]
    directory = opened()
    assert directory.settings_of("old") == {}
    assert not any(directory.checkpoints.has_recovery_point(each) for each in OLD)
    groups = ConsumerGroups(directory, lambda text: None)
    groups.refresh(bytes_max=1 << 30)
    assert not any(groups.committed_to(each) for each in OLD)
    assert not files.exists(f"{directory.path}/{RENAME_JOURNAL}")
    directory.close()


def killed_at(system: System, number: int, action: Callable[[], object]) -> bool:
    """Let the process die at the `number`-th change of `action`; return whether it makes as many."""
    before = system.disk.clone()
    system.disk = before.clone()
    action()
    history = system.disk.history
    system.disk = before
    for change in history[:number]:
        before.apply(change)
    return number < len(history)


@pytest.mark.long
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_rename_that_dies_at_any_change_can_be_finished(system: System, power: bool) -> None:
    disk, expected = system.disk.clone(), state(OLD)
    number, goes_on = 0, True
    while goes_on:
        system.disk = disk.clone()
        goes_on = killed_at(system, number, rename)
        if power:
            system.disk = system.disk.crash(Random(number))
        found = names()
        assert len(found) == 2 and sorted(name[-1] for name in found) == ["0", "1"], (number, found)
        for name in found:
            partition = TopicPartition.parse(name)
            assert state([partition])[0] == [expected[0][partition.partition]], (number, name)  # type: ignore[index]
            assert state([partition])[1] == SETTINGS, (number, name)
        is_complete = found == ["new-0", "new-1"]
        try:
            assert rename() == 2, number
        except UnknownPartition:
            assert is_complete, number  # the journal was removed already
        assert state(NEW) == expected and names() == ["new-0", "new-1"], number
        number += 1
    assert number > 20


def test_entries_of_a_deleted_topic_of_the_new_name_do_not_count(system: System) -> None:
    directory = opened()
    for name in (LOG_STARTS, CLEANER_OFFSETS):
        path = f"{directory.path}/{name}"
        text = files.read_file(path).decode().splitlines()
        files.replace_file(path, "\n".join(["0", str(int(text[1]) + 1), *text[2:], "new 1 3", ""]).encode())
    directory.close()
    before = state(OLD)
    rename()
    assert state(NEW) == before


@pytest.mark.parametrize(
    ("old", "new", "error", "reason"),
    [
        ("none", "new", UnknownPartition, "no topic none"),
        ("old", "taken", PartitionExists, "the topic taken exists already"),
        ("old", "old", PartitionExists, "the topic old exists already"),
        ("old", "a/b", InvalidName, "character"),
        ("__consumer_offsets", "new", PolicyViolation, "whose name is fixed"),
        ("old", "__transaction_state", PolicyViolation, "whose name is fixed"),
        ("mirrored", "new", PolicyViolation, "mirrored is mirrored"),
    ],
)
def test_a_topic_that_keeps_its_name_is_refused_before_a_change(
    system: System, old: str, new: str, error: type[Exception], reason: str
) -> None:
    directory = opened()
    directory.create_partition(TopicPartition("taken", 0))
    directory.set_mirror(MirrorFile("id", "broker:9092", {"mirrored": MirroredTopic("", {})}))
    directory.create_partition(TopicPartition("mirrored", 0))
    directory.close()
    before = system.disk.tree("logs")
    with pytest.raises(error, match=reason):
        rename(old, new)
    assert system.disk.tree("logs") == before


def test_a_topic_of_a_broker_is_refused(system: System) -> None:
    directory = opened()
    files.replace_file(f"{directory.path}/{META_PROPERTIES}", b"version=1\n")
    directory.close()
    with pytest.raises(PolicyViolation, match="its cluster knows the topic"):
        rename()


def test_an_interrupted_rename_comes_before_another(system: System) -> None:
    directory = opened()
    path = f"{directory.path}/{RENAME_JOURNAL}"
    files.replace_file(path, b'{"version": 0, "from": "old", "to": "new"}')
    directory.close()
    with pytest.raises(PolicyViolation, match="a rename of old to new was interrupted"):
        rename("old", "other")
    assert rename() == 2
    directory = opened()
    files.replace_file(path, b"{")
    directory.close()
    with pytest.raises(InvalidCheckpoint, match="unreadable"):
        rename("new", "old")
