"""`--groups`: the committed offsets of the source's consumer groups in `__consumer_offsets` of the mirror."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import trio
from fixtures.broker.running import Running

from offsetfs.common.name_patterns import NamePattern
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import MirrorError, MirrorOptions
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import ConsumerGroups

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
USERS = TopicPartition("users", 0)
OPTIONS = MirrorOptions(topics=(NamePattern("orders"),), groups=(NamePattern("bill.*"),), once=True)


def append(log: Log, count: int) -> None:
    builder = BatchBuilder(1 << 16)
    for number in range(count):
        assert builder.append(None, b"%d" % number, (), 1_795_266_300_000)
    log.append(builder.seal())


async def commit(
    running: Running, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "", epoch: int = -1
) -> None:
    topics = [
        m.OffsetCommitRequestTopic(
            each.topic, partitions=[m.OffsetCommitRequestPartition(each.partition, offset, epoch, metadata)]
        )
        for each, offset in offsets.items()
    ]
    async with ClusterClient([running.address]) as client:
        response = await client.request(m.OffsetCommitRequest(group, topics=topics), max_version=9)
    assert [part.error_code for topic in response.topics for part in topic.partitions] == [0] * len(offsets)


async def mirrored(
    running: Running,
    directory: LogDirectory,
    options: MirrorOptions = OPTIONS,
    on_event: Callable[[str], None] = lambda text: None,
) -> Mirror:
    async with ClusterClient([running.address]) as client:
        found = Mirror(directory, client, "source:9092", options, on_event)
        with trio.fail_after(30):
            await found.begin()
            await found.run()
    return found


def commits(directory: LogDirectory, group: str) -> dict[TopicPartition, int]:
    found = ConsumerGroups(directory, lambda text: None)
    while not found.refresh():
        pass
    return {each.partition: each.offset for each in found.commits(group.encode()) or []}


async def commits_of(directory: LogDirectory, group: str) -> dict[TopicPartition, Any]:
    """Return what a broker that serves the mirror answers to OffsetFetch."""
    async with trio.open_nursery() as nursery:
        served = Running(directory)
        nursery.start_soon(served.run)
        async with ClusterClient([served.address]) as client:
            response = await client.request(m.OffsetFetchRequest(group, None), max_version=7)
        served.broker.stop()
    return {
        TopicPartition(topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions
    }


async def test_offsets_of_the_chosen_groups_and_mirrored_topics_are_taken_over(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), 10)
    append(source.log(USERS), 10)
    await commit(running, "billing", {ORDERS: 7, USERS: 5})
    await commit(running, "others", {ORDERS: 3})
    assert not (await mirrored(running, directory)).has_failed
    assert commits(directory, "billing") == {ORDERS: 7}
    assert commits(directory, "others") == {}


async def test_a_second_run_changes_what_differs_and_nothing_else(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), 10)
    both = TopicPartition("orders", 1)
    append(source.log(both), 10)
    await commit(running, "billing", {ORDERS: 7})
    await commit(running, "billing", {both: 2})
    await mirrored(running, directory)
    names = [each for each in directory.partitions() if each.topic == "__consumer_offsets"]
    ends = {each: directory.log(each).next_offset for each in names}
    await mirrored(running, directory)
    assert ends == {each: directory.log(each).next_offset for each in names}
    await commit(running, "billing", {ORDERS: 9})
    async with ClusterClient([running.address]) as client:
        rows = [m.OffsetDeleteRequestTopic("orders", [m.OffsetDeleteRequestPartition(1)])]
        assert (await client.request(m.OffsetDeleteRequest("billing", rows))).error_code == 0
    await mirrored(running, directory)
    assert commits(directory, "billing") == {ORDERS: 9}


@pytest.mark.parametrize(("metadata", "epoch"), [("restarted by hand", -1), ("node 1", 0)])
async def test_a_commit_whose_metadata_alone_changed_is_taken_over(
    metadata: str, epoch: int, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), 10)
    await commit(running, "billing", {ORDERS: 7}, "node 1")
    await mirrored(running, directory)
    await commit(running, "billing", {ORDERS: 7}, metadata, epoch)
    await mirrored(running, directory)
    found = (await commits_of(directory, "billing"))[ORDERS]
    assert (found.committed_offset, found.metadata, found.committed_leader_epoch) == (7, metadata, epoch)


async def test_an_offset_beyond_the_mirrored_records_becomes_their_end(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), 10)
    async with ClusterClient([running.address]) as client:
        found = Mirror(directory, client, "source:9092", OPTIONS, lambda text: None)
        await found.begin()
        append(source.log(ORDERS), 5)
        await commit(running, "billing", {ORDERS: 15})
        await found.run()
    assert commits(directory, "billing") == {ORDERS: directory.log(ORDERS).next_offset}


async def test_a_pattern_that_matches_no_group_is_reported(running: Running, directory: LogDirectory) -> None:
    await commit(running, "billing", {ORDERS: 0})
    events = list[str]()
    options = replace(OPTIONS, groups=tuple(map(NamePattern, ("billing", "biling", ".*"))))
    assert not (await mirrored(running, directory, options, events.append)).has_failed
    assert events == ["no group that this user may describe matches 'biling'; did you mean billing?"]


async def test_a_mirrored_topic_of_offsets_excludes_it(running: Running, directory: LogDirectory) -> None:
    options = replace(OPTIONS, topics=(NamePattern("orders"), NamePattern("__consumer_offsets")))
    with pytest.raises(MirrorError, match="__consumer_offsets is mirrored, which has the offsets of all groups"):
        await mirrored(running, directory, options)


async def test_a_run_for_other_topics_leaves_the_commits_of_the_first_one(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), 10)
    append(source.log(USERS), 10)
    await commit(running, "billing", {ORDERS: 7})
    await commit(running, "billing", {USERS: 5})
    await mirrored(running, directory)
    await mirrored(running, directory, replace(OPTIONS, topics=(NamePattern("users"),)))
    assert commits(directory, "billing") == {ORDERS: 7, USERS: 5}


async def test_commits_for_another_log_of_the_same_name_are_not_taken_over(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    append(source.log(ORDERS), 10)
    await commit(running, "billing", {ORDERS: 7})
    await mirrored(running, directory)
    source.log(ORDERS).truncate_to(0)
    append(source.log(ORDERS), 2)
    await commit(running, "billing", {ORDERS: 2})
    assert (await mirrored(running, directory)).has_failed
    assert commits(directory, "billing") == {ORDERS: 7}


async def test_a_group_that_is_deleted_while_it_is_read_keeps_its_commits_here(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), 10)
    await commit(running, "billing", {ORDERS: 7})
    await mirrored(running, directory)
    plain = ClusterClient.request

    async def request(self: ClusterClient, message: Any, **options: Any) -> Any:
        if isinstance(message, m.OffsetFetchRequest):
            async with ClusterClient([running.address]) as client:
                response = await plain(client, m.DeleteGroupsRequest(["billing"]))
            assert [each.error_code for each in response.results] == [0]
        return await plain(self, message, **options)

    monkeypatch.setattr(ClusterClient, "request", request)
    await mirrored(running, directory)
    assert commits(directory, "billing") == {ORDERS: 7}


async def test_a_single_run_asks_again_while_a_coordinator_moves(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), 10)
    await commit(running, "billing", {ORDERS: 7})
    plain, left = ClusterClient.request, {m.ListGroupsRequest: 2, m.OffsetFetchRequest: 2}

    async def request(self: ClusterClient, message: Any, **options: Any) -> Any:
        response = await plain(self, message, **options)
        if left.get(type(message)):
            left[type(message)] -= 1
            response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return response

    monkeypatch.setattr(ClusterClient, "request", request)
    assert not (await mirrored(running, directory)).has_failed
    assert (set(left.values()), commits(directory, "billing")) == ({0}, {ORDERS: 7})
