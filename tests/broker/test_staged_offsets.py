"""Offsets that open transactions have committed, and the ways by which offsets and groups disappear meanwhile."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures.broker.group_requests import Groups
from fixtures.logs.cleaner import compacted, sealed_of
from fixtures.logs.planted_logs import marker
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.kafka.broker.coordinator_log import ProducerEpoch
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.group_log import StoredGroup
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Log, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import (
    CommitChange,
    CommittedOffset,
    ConsumerGroups,
    OffsetsReplay,
    commit_key,
    commit_value,
    delete_commits,
    partition_of,
)
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import build

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
PRODUCER = 7


async def stage(groups: Groups, offset: int, producer_id: int = PRODUCER) -> None:
    """Commit an offset of t-0 in a transaction."""
    topic = m.TxnOffsetCommitRequestTopic("t", partitions=[m.TxnOffsetCommitRequestPartition(0, offset)])
    request = m.TxnOffsetCommitRequest("tx", "g", producer_id, 0, topics=[topic])
    response = await groups.coordinator.offsets.commit_in_transaction(request, 5, ProducerEpoch(producer_id, 0))
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE


def home_of(directory: LogDirectory) -> Log:
    return directory.log(TopicPartition("__consumer_offsets", partition_of("g", 2)))


async def delete_offset(groups: Groups) -> int:
    topic = m.OffsetDeleteRequestTopic("t", [m.OffsetDeleteRequestPartition(0)])
    response = await groups.coordinator.offsets.delete(m.OffsetDeleteRequest("g", [topic]), 0)
    return response.error_code or response.topics[0].partitions[0].error_code


async def delete_group(groups: Groups) -> int:
    response = await groups.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    return int(response.results[0].error_code)


async def delete_topic(groups: Groups) -> int:
    await groups.coordinator.offsets.forget_topic([T])
    return 0


async def delete_without_a_broker(groups: Groups) -> int:
    delete_commits(groups.table.directory, ConsumerGroups(groups.table.directory, print), [T])
    return 0


DELETIONS = [delete_offset, delete_group, delete_topic, delete_without_a_broker]


@pytest.mark.parametrize("delete", DELETIONS)
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("is_restarted", [True, False])
async def test_what_is_deleted_does_not_come_back_with_a_transaction(
    directory: LogDirectory, delete: Callable[[Groups], Awaitable[int]], stored: bool, is_restarted: bool
) -> None:
    groups = Groups(directory)
    if stored:
        assert await groups.commit(10) == ErrorCode.NONE
    await stage(groups, 20)
    await stage(groups, 30, PRODUCER + 1)
    if is_restarted:
        groups = Groups(directory)
        await groups.table.log.load()
    assert await delete(groups) == ErrorCode.NONE
    assert await groups.committed(is_stable_only=True) == -1
    home_of(directory).append(marker(PRODUCER, COMMIT))
    assert await groups.committed(is_stable_only=True) == -1
    assert await Groups(directory).committed(is_stable_only=True) == -1
    await stage(groups, 40, PRODUCER + 1)  # of the same transaction, after the deletion
    home_of(directory).append(marker(PRODUCER + 1, COMMIT))
    assert await groups.committed() == await Groups(directory).committed() == 40


async def listed(groups: Groups) -> list[tuple[str, str, str]]:
    response = await groups.coordinator.admin.list(m.ListGroupsRequest(), 5)
    return [(each.group_id, each.group_type, each.group_state) for each in response.groups]


async def test_a_group_of_staged_offsets_is_listed_and_described(groups: Groups, directory: LogDirectory) -> None:
    """As in Kafka, whose coordinator creates the group with the first of them."""
    await stage(groups, 20)
    for each in (groups, Groups(directory)):
        assert await listed(each) == [("g", "classic", "Empty")]
        described = await each.coordinator.admin.describe(m.DescribeGroupsRequest(["g"]), 6)
        assert (described.groups[0].error_code, described.groups[0].group_state) == (0, "Empty")
    home_of(directory).append(marker(PRODUCER, ABORT))
    assert await listed(groups) == []


async def test_offsets_of_a_group_do_not_expire_while_a_transaction_is_open(
    groups: Groups, directory: LogDirectory
) -> None:
    await stage(groups, 20)
    await groups.coordinator.offsets.expire("g")
    home_of(directory).append(marker(PRODUCER, COMMIT))
    assert await groups.committed() == await Groups(directory).committed() == 20


@pytest.mark.expect_log("no space left", "could not be deleted")
async def test_a_transaction_waits_until_the_offsets_of_a_deleted_topic_are_gone(
    groups: Groups, directory: LogDirectory
) -> None:
    """Otherwise the late deletion would take away what it has committed for the new topic."""
    offsets = groups.coordinator.offsets
    await stage(groups, 20)
    groups.error = OSError(errno.ENOSPC, "no space left")
    await offsets.forget([T])
    topic = m.TxnOffsetCommitRequestTopic("t", partitions=[m.TxnOffsetCommitRequestPartition(0, 1)])
    request = m.TxnOffsetCommitRequest("tx", "g", PRODUCER, 0, topics=[topic])
    with pytest.raises(GroupError) as refused:
        await offsets.commit_in_transaction(request, 5, ProducerEpoch(PRODUCER, 0))
    assert refused.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.error = None
    await offsets.forget(())
    await stage(groups, 1)
    home_of(directory).append(marker(PRODUCER, COMMIT))
    assert await groups.committed() == 1


# --- every history ---------------------------------------------------------------------------------------------------

OFFSETS = TopicPartition("__consumer_offsets", 0)
Step = tuple[str, int, int]
"""What happens, the producer, the partition."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "delete", "stage", "stage", "end", "abort"]), st.integers(1, 3), st.integers(0, 1)
    ),
    max_size=25,
)


def as_kafka(steps: Sequence[Step]) -> dict[TopicPartition, int]:
    """OffsetMetadataManager.replay and replayEndTransactionMarker, in short. Offsets are the numbers of the steps."""
    stored = dict[int, int]()
    staged = dict[int, dict[int, int]]()
    for at, (what, producer_id, partition) in enumerate(steps):
        if what == "commit":
            stored[partition] = at
        elif what == "stage":
            staged.setdefault(producer_id, {})[partition] = at
        elif what == "delete":
            for each in (stored, *staged.values()):
                each.pop(partition, None)
        else:
            for name, commit in staged.pop(producer_id, {}).items():
                if what == "end" and commit > stored.get(name, -1):
                    stored[name] = commit
    return {TopicPartition("t", partition): offset for partition, offset in stored.items()}


def append_step(log: Log, at: int, step: Step) -> None:
    what, producer_id, partition = step
    if what in ("end", "abort"):
        log.append(marker(producer_id, COMMIT if what == "end" else ABORT))
        return
    value = None if what == "delete" else commit_value(CommittedOffset(at, -1, "", 1000))
    fields: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
    }
    record = commit_key("g", TopicPartition("t", partition)), value, (), 1000
    log.append(sealed_of(bytes(build([record], **(fields if what == "stage" else {})))))


def views(path: str) -> list[dict[TopicPartition, int]]:
    """Return the offsets of the group as commands and mounts show them, and as a coordinator has them."""
    directory = LogDirectory.open(path, read_only=True)
    groups = ConsumerGroups(directory, print)
    assert groups.refresh()
    stored, replay = StoredGroup(), OffsetsReplay(directory.log(OFFSETS))
    for change in replay.advance(1 << 20):
        assert isinstance(change, CommitChange)
        stored.note_commit(change)
    return [
        {each.partition: each.offset for each in groups.commits(b"g") or ()},
        {partition: commit.offset for partition, commit in stored.offsets.items()},
    ]


@settings(deadline=None, max_examples=25)
@given(STEPS)
def test_every_history_of_commits_and_transactions_ends_as_in_kafka(steps: list[Step]) -> None:
    """Also after compaction of the partition."""
    with tempfile.TemporaryDirectory() as path:
        with contextlib.closing(LogDirectory.open(path)) as directory:
            log = directory.create_partition(OFFSETS)
            for at, step in enumerate(steps):
                append_step(log, at, step)
        expected = as_kafka(steps)
        assert views(path) == [expected, expected]
        compacted(Path(path), OFFSETS)
        assert views(path) == [expected, expected]
