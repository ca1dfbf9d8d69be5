"""Committed offsets that are deleted: with their topic, with their group, by OffsetDelete."""

from __future__ import annotations

import errno

import pytest
import trio
from fixtures.broker.group_requests import Groups, commit_request, join_request
from fixtures.broker.running import Running

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import ConsumerProtocolSubscription
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.coordinators import ConsumerGroups, delete_commits
from offsetfs.storage.directory import LogChange

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)


async def committed(running: Running) -> int:
    request = m.OffsetFetchRequest("g", [m.OffsetFetchRequestTopic("t", [0])])
    response = await running.send(9, "OffsetFetch", 5, request)
    assert response.error_code == ErrorCode.NONE
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


async def commit(running: Running, offset: int) -> int:
    response = await running.send(8, "OffsetCommit", 7, commit_request(offset))
    code: int = response.topics[0].partitions[0].error_code
    return code


async def delete_topic(running: Running) -> int:
    response = await running.send(20, "DeleteTopics", 5, m.DeleteTopicsRequest(topic_names=["t"]))
    code: int = response.responses[0].error_code
    return code


# --- with their topic


@pytest.mark.parametrize("is_request", [True, False], ids=["DeleteTopics", "a mount, or a command"])
async def test_a_topic_takes_its_committed_offsets_with_it(
    running: Running, directory: LogDirectory, is_request: bool
) -> None:
    """Once those of a topic that a command or a mount deleted counted for the next topic of that name."""
    assert await commit(running, 10) == ErrorCode.NONE
    if is_request:
        assert await delete_topic(running) == ErrorCode.NONE
    else:
        await trio.to_thread.run_sync(directory.delete_partition, T)
    directory.create_partitions([T])
    assert await committed(running) == -1
    assert await Groups(directory).committed() == -1  # of a coordinator that starts now
    assert await commit(running, 3) == ErrorCode.NONE
    await trio.sleep(0.02)
    assert await committed(running) == 3


@pytest.mark.expect_log("the process ends here")
async def test_a_deletion_of_a_topic_that_was_interrupted_has_deleted_its_offsets(
    running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the logs were deleted first, so that a second request found no topic, and the offsets stayed."""
    assert await commit(running, 10) == ErrorCode.NONE

    def fail(_partition: TopicPartition) -> None:
        raise OSError(errno.EIO, "the process ends here")

    with monkeypatch.context() as patched:
        patched.setattr(directory, "delete_partition", fail)
        assert await delete_topic(running) != ErrorCode.NONE
    assert await Groups(directory).committed() == -1
    assert await delete_topic(running) == ErrorCode.NONE


@pytest.mark.expect_log("no space left", "could not be deleted")
async def test_offsets_of_a_deleted_topic_count_no_longer_while_the_disk_is_full(
    groups: Groups, directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = groups.coordinator.offsets
    assert await groups.commit(10) == ErrorCode.NONE
    directory.delete_partition(T)
    directory.create_partitions([T])
    offsets.changed(T, LogChange.DELETED)
    groups.error = OSError(errno.ENOSPC, "no space left")
    await offsets.forget(())
    assert "group g: its offsets of deleted topics could not be deleted" in caplog.text
    assert await groups.committed() == -1
    groups.error = None
    await offsets.forget(())
    assert await Groups(directory).committed() == -1


@pytest.mark.expect_log("no space left", "could not be deleted")
async def test_a_later_commit_stays_when_old_offsets_are_deleted_late(groups: Groups, directory: LogDirectory) -> None:
    offsets = groups.coordinator.offsets
    assert await groups.commit(10) == ErrorCode.NONE
    groups.error = OSError(errno.ENOSPC, "no space left")
    await offsets.forget([T])
    groups.error = None
    assert await groups.commit(10) == ErrorCode.NONE
    await offsets.forget(())
    assert await groups.committed() == 10
    assert await Groups(directory).committed() == 10


# --- while no broker runs


def groups_of(directory: LogDirectory) -> ConsumerGroups:
    omissions: list[str] = []
    return ConsumerGroups(directory, omissions.append)


async def test_a_topic_that_is_deleted_without_a_broker_takes_its_offsets_with_it(
    groups: Groups, directory: LogDirectory
) -> None:
    """Once they stayed until they expired, and a new topic of the same name began at them."""
    directory.create_partitions([TopicPartition("other", 0)])
    assert await groups.commit(10) == ErrorCode.NONE
    request = commit_request(7)
    request.topics[0].name = "other"
    await groups.coordinator.offsets.commit(request, 7)
    assert delete_commits(directory, groups_of(directory), [T, TopicPartition("missing", 0)]) == 1
    again = Groups(directory)
    assert await again.committed() == -1
    found = await again.coordinator.offsets.fetch(m.OffsetFetchRequest("g", None), 7)
    assert [each.name for each in found.topics] == ["other"]
    assert delete_commits(directory, groups_of(directory), [T]) == 0


async def test_in_the_directory_of_a_kafka_broker_commits_stay(groups: Groups, directory: LogDirectory) -> None:
    """There a partition that is deleted may have replicas: its broker fetches them again, and the topic goes on."""
    assert await groups.commit(10) == ErrorCode.NONE
    directory.is_brokers = True
    assert delete_commits(directory, groups_of(directory), [T]) == 0
    assert await Groups(directory).committed() == 10


def test_without_commits_nothing_is_created(directory: LogDirectory) -> None:
    assert delete_commits(directory, groups_of(directory), [T]) == 0
    assert directory.partitions() == [T]


# --- with their group


async def test_a_group_is_deleted_before_or_after_a_commit(groups: Groups, directory: LogDirectory) -> None:
    """Once both were answered, and the memory had a commit whose deletion was on disk."""
    assert await groups.commit(1) == ErrorCode.NONE
    async with trio.open_nursery() as nursery:
        nursery.start_soon(groups.commit, 5)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(groups.coordinator.admin.delete, m.DeleteGroupsRequest(["g"]), 2)
    assert await groups.committed() == await Groups(directory).committed()


@pytest.mark.parametrize("version", [0, 1, 3, 4, -1])
async def test_offsets_of_topics_that_no_member_reads_can_be_deleted(
    groups: Groups, directory: LogDirectory, version: int
) -> None:
    """A group of consumers keeps the offsets of its topics only; those of a topic that is not there are not known.

    Some clients write a later version without its fields. Kafka reads the topics of each as version 0 has them.
    """
    directory.create_partitions([TopicPartition("other", 0)])
    subscription = ConsumerProtocolSubscription(topics=["other"], user_data=None)
    fields = b"".join(map(bytes, codec.writer("ConsumerProtocolSubscription", 0)(subscription)))
    metadata = version.to_bytes(2, "big", signed=True) + fields
    request = join_request()
    request.protocols = [m.JoinGroupRequestProtocol("range", metadata)]
    joined = await groups.membership.join(request, 3, "client", "/host")
    await groups.sync(joined.member_id, joined.generation_id, joined.member_id)
    assert await groups.commit(7, joined.generation_id, joined.member_id) == ErrorCode.NONE
    topics = [
        m.OffsetDeleteRequestTopic(name, [m.OffsetDeleteRequestPartition(partition_index=0)])
        for name in ("t", "other", "gone")
    ]
    deleted = await groups.coordinator.offsets.delete(m.OffsetDeleteRequest("g", topics), 0)
    found = [(each.name, each.partitions[0].error_code) for each in deleted.topics]
    assert found == [
        ("t", ErrorCode.NONE),
        ("other", ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),
        ("gone", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert await groups.committed() == -1
