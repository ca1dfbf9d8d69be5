"""Consumer groups (KIP-848): members get partitions, hand them over, come back and are fenced as Kafka's do."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from fixtures.broker.consumer_group_requests import Consumers, T, partitions
from fixtures.broker.group_requests import FEW_PARTITIONS, NODE, commit_request, join_request
from trio.testing import MockClock

from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroupState, MemberState
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


@pytest.fixture
async def consumers(directory: LogDirectory) -> Consumers:
    return Consumers(directory)


async def test_a_member_joins_goes_on_and_leaves(consumers: Consumers) -> None:
    joined = await consumers.join("a")
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms) == (0, 1, 5000)
    assert partitions(joined) == [0, 1, 2, 3]
    assert consumers.group.state == ConsumerGroupState.STABLE
    end = consumers.coordinator.table.log.partition_of("g")
    assert end is not None
    before = consumers.directory.log(end).next_offset
    beat = await consumers.beat("a", 1)
    assert (beat.error_code, beat.member_epoch, partitions(beat)) == (0, 1, None)
    assert consumers.directory.log(end).next_offset == before  # nothing is stored for it
    assert (await consumers.beat("a", -1)).member_epoch == -1
    assert (consumers.group.state, consumers.group.epoch) == (ConsumerGroupState.EMPTY, 2)


async def test_a_group_is_the_same_after_a_restart(consumers: Consumers) -> None:
    await consumers.join("a", instance_id="one", rack_id="rack", server_assignor="range")
    await consumers.join("b")
    await consumers.owning("a", 1, 0, 1, 2, 3)
    before = consumers.group
    topics = Topics(consumers.directory, 1, creates=False)
    again = GroupCoordinator(topics, NODE, FEW_PARTITIONS, LogSync())
    await again.table.log.load()
    after = again.table.consumer("g")
    assert after is not None
    for name in ("epoch", "assignment_epoch", "metadata_hash", "members", "targets", "owners", "static", "assignors"):
        assert getattr(after, name) == getattr(before, name), name


async def test_partitions_are_revoked_before_others_get_them(consumers: Consumers) -> None:
    await consumers.join("a")
    second = await consumers.join("b")
    assert (second.member_epoch, partitions(second)) == (2, [])
    assert consumers.group.members["b"].state == MemberState.UNRELEASED
    revoking = await consumers.owning("a", 1, 0, 1, 2, 3)
    assert (revoking.member_epoch, partitions(revoking)) == (1, [0, 1])
    assert partitions(await consumers.owning("b", 2)) is None  # the first one still reads them
    revoked = await consumers.owning("a", 1, 0, 1)
    assert (revoked.member_epoch, partitions(revoked)) == (2, None)
    assert partitions(await consumers.owning("b", 2)) == [2, 3]
    assert consumers.group.state == ConsumerGroupState.STABLE


async def test_a_member_with_another_epoch_is_fenced(consumers: Consumers) -> None:
    await consumers.join("a")
    assert (await consumers.beat("a", 2)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert (await consumers.beat("x", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await consumers.join("b")
    await consumers.owning("a", 1, 0, 1, 2, 3)
    await consumers.owning("a", 1, 0, 1)
    assert (await consumers.owning("a", 1, 0, 1)).member_epoch == 2  # the response may have been lost
    assert (await consumers.owning("a", 1, 2)).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
    ids=str,
)
async def test_requests_that_kafka_refuses(consumers: Consumers, fields: dict[str, Any], code: ErrorCode) -> None:
    given = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": [T], "topic_partitions": [], "member_id": "a"}
    request = m.ConsumerGroupHeartbeatRequest(**{"group_id": "g", **given, **fields})
    response = await consumers.coordinator.consumers.heartbeat(request, 1, "client", "/host")
    assert response.error_code == code
    assert response.error_message
    assert consumers.coordinator.table.names() == []


async def test_the_first_version_makes_the_id_of_a_member(consumers: Consumers) -> None:
    joined = await consumers.join("", version=0)
    assert len(joined.member_id) > 20
    assert list(consumers.group.members) == [joined.member_id]


async def test_a_static_member_comes_back_to_its_partitions(consumers: Consumers) -> None:
    await consumers.join("a", instance_id="one")
    refused = await consumers.join("b", instance_id="one")
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert (await consumers.beat("a", -2, instance_id="one")).member_epoch == -2
    back = await consumers.join("b", instance_id="one")
    assert (back.member_epoch, partitions(back)) == (1, [0, 1, 2, 3])
    assert (await consumers.beat("a", 1, instance_id="one")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert list(consumers.group.members) == ["b"]


async def test_a_group_has_a_largest_size(directory: LogDirectory) -> None:
    consumers = Consumers(directory, ServerSettings(group_consumer_max_size=1, offsets_topic_num_partitions=2))
    await consumers.join("a")
    assert (await consumers.join("b")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (await consumers.beat("a", 1)).error_code == 0


async def test_a_member_without_heartbeats_is_removed(consumers: Consumers, mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consumers.coordinator.run)
        await consumers.join("a")
        await consumers.join("b")
        for _ in range(5):
            mock_clock.jump(10)
            assert (await consumers.beat("b", 2)).error_code == 0
        await consumers.until_members("b")
        nursery.cancel_scope.cancel()


async def test_a_member_that_keeps_its_partitions_is_removed(consumers: Consumers, mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consumers.coordinator.run)
        await consumers.join("a")
        await consumers.join("b")
        await consumers.owning("a", 1, 0, 1, 2, 3)
        mock_clock.jump(2)  # its rebalance time-out is one second
        await consumers.until_members("b")
        assert (await consumers.owning("a", 1, 0, 1, 2, 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert partitions(await consumers.owning("b", 2)) == [0, 1, 2, 3]
        nursery.cancel_scope.cancel()


async def test_new_partitions_and_topics_are_assigned(consumers: Consumers) -> None:
    await consumers.join("a", topics=[T, "later"])
    consumers.directory.create_partitions([TopicPartition(T, 4)])
    more = await consumers.beat("a", 1)
    assert (more.member_epoch, partitions(more)) == (2, [0, 1, 2, 3, 4])
    consumers.directory.create_partitions([TopicPartition("later", 0)])
    later = await consumers.beat("a", 2)
    assert later.member_epoch == 3
    assert len(partitions(later) or []) == 6
    consumers.directory.delete_partition(TopicPartition("later", 0))
    revoking = await consumers.beat("a", 3)
    assert partitions(revoking) == [0, 1, 2, 3, 4]


async def test_a_regular_expression_follows_the_topics(consumers: Consumers) -> None:
    joined = await consumers.join("a", subscribed_topic_regex="t|x.*")
    assert partitions(joined) == [0, 1, 2, 3]
    consumers.directory.create_partitions([TopicPartition("x1", 0), TopicPartition("ax1", 0)])
    more = await consumers.beat("a", joined.member_epoch)
    assert len(partitions(more) or []) == 5
    assert consumers.group.regexes["t|x.*"].topics == {"t", "x1"}
    await consumers.beat("a", -1)
    assert consumers.group.regexes == {}


async def test_commits_of_a_member_need_its_epoch(consumers: Consumers) -> None:
    await consumers.join("a")
    offsets = consumers.coordinator.offsets

    async def commit(member_id: str, epoch: int, version: int = 9) -> int:
        response = await offsets.commit(commit_request(5, epoch, member_id), version)
        return response.topics[0].partitions[0].error_code

    async def fetch(member_id: str | None, epoch: int) -> int:
        wanted = m.OffsetFetchRequestGroup(
            "g", member_id, epoch, [m.OffsetFetchRequestTopics(T, partition_indexes=[0])]
        )
        return (await offsets.fetch(m.OffsetFetchRequest(groups=[wanted]), 9)).groups[0].error_code

    assert await commit("a", 1) == 0
    assert await commit("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert await commit("x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await commit("a", 1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert await fetch("a", 1) == 0
    assert await fetch(None, -1) == 0
    assert await fetch("a", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert await fetch("x", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    await consumers.beat("a", -1)
    assert await commit("", -1) == 0


async def test_an_empty_classic_group_becomes_a_consumer_group_and_back(consumers: Consumers) -> None:
    classic = await consumers.groups.stable()
    refused = await consumers.join("a")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await consumers.groups.commit(7, classic.generation_id, classic.member_id) == 0
    await consumers.groups.leave(classic.member_id)
    assert (await consumers.join("a")).error_code == 0
    assert consumers.coordinator.table.stored("g").metadata is None
    assert await consumers.groups.committed() == 7
    joining = await consumers.coordinator.membership.join(join_request(), 3, "client", "/host")
    assert joining.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    await consumers.beat("a", -1)
    await consumers.groups.stable()
    assert consumers.group is None
    assert await consumers.groups.committed() == 7


async def test_groups_are_described_listed_and_deleted(consumers: Consumers) -> None:
    await consumers.join("a", instance_id="one")
    await consumers.join("b")
    asked = m.ConsumerGroupDescribeRequest(["g", "none"])
    found, missing = (await consumers.coordinator.consumers.describe(asked, 1)).groups
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Reconciling", 2, 2)
    assert found.assignor_name == "uniform"
    first, second = found.members
    assert (first.instance_id, first.member_epoch, first.member_type) == ("one", 1, 1)
    assert [(each.topic_name, each.partitions) for each in first.assignment.topic_partitions] == [(T, [0, 1, 2, 3])]
    assert [(each.topic_name, each.partitions) for each in second.target_assignment.topic_partitions] == [(T, [2, 3])]
    listed = (await consumers.coordinator.admin.list(m.ListGroupsRequest(types_filter=["consumer"]), 5)).groups
    assert [(each.group_id, each.group_state, each.group_type) for each in listed] == [("g", "Reconciling", "consumer")]
    delete = m.DeleteGroupsRequest(["g"])
    assert (await consumers.coordinator.admin.delete(delete, 2)).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    for each in ("a", "b"):
        await consumers.beat(each, -1)
    assert (await consumers.coordinator.admin.delete(delete, 2)).results[0].error_code == 0
    assert consumers.group is None


@pytest.mark.expect_log("could not be stored")
async def test_a_failed_append_changes_nothing(consumers: Consumers) -> None:
    await consumers.join("a")
    consumers.groups.error = OSError(28, "No space left on device")
    assert (await consumers.join("b")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    consumers.groups.error = None
    assert (list(consumers.group.members), consumers.group.epoch) == (["a"], 1)


async def test_a_large_group_rebalances_quickly(consumers: Consumers) -> None:
    consumers.directory.create_partitions([TopicPartition(T, each) for each in range(4, 60)])
    for number in range(30):
        assert (await consumers.join(f"{number:02}")).error_code == 0
    for _ in range(4):
        for member_id, member in list(consumers.group.members.items()):
            reads = [each for found in member.assigned.values() for each in sorted(found)]
            await consumers.owning(member_id, member.epoch, *reads)
    assert consumers.group.state == ConsumerGroupState.STABLE
    assert {sum(map(len, each.assigned.values())) for each in consumers.group.members.values()} == {2}


async def test_records_are_deleted_in_the_order_that_kafka_loads(consumers: Consumers) -> None:
    """A broker does not load a partition in which a member is deleted before its assignment."""
    await consumers.join("a", subscribed_topic_regex="t")
    home = consumers.coordinator.table.log.partition_of("g")
    assert home is not None
    log = consumers.directory.log(home)

    def kinds_from(first: int) -> list[int]:
        batches = log.snapshot().active.batches()
        records = [each for batch in batches for each in batch.records() if each.offset >= first]
        return [int.from_bytes((each.key or b"")[:2], "big") * (1 if each.value else -1) for each in records]

    assert kinds_from(0) == [5, 16, 3, 7, 6, 8]
    first = log.next_offset
    await consumers.beat("a", -1)
    assert kinds_from(first) == [-8, -7, -5, -16, 3]
    first = log.next_offset
    await consumers.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    assert kinds_from(first) == [-6, -3]


async def test_heartbeats_that_wait_share_an_append(consumers: Consumers, monkeypatch: pytest.MonkeyPatch) -> None:
    log = consumers.coordinator.table.log
    append, sizes, found = log._append, list[int](), dict[str, Any]()

    async def counted(*arguments: Any) -> None:
        sizes.append(len(arguments[1]))
        await append(*arguments)

    async def join(member_id: str, **fields: Any) -> None:
        found[member_id] = await consumers.join(member_id, **fields)

    monkeypatch.setattr(log, "_append", counted)
    async with trio.open_nursery() as nursery:
        for each in "abcd":
            nursery.start_soon(join, each)
        nursery.start_soon(lambda: join("x", instance_id="one"))
        nursery.start_soon(lambda: join("y", instance_id="one"))  # one of both is refused, and no other
    assert len(sizes) <= 2  # all but the first one may wait
    codes = sorted((each.error_code for each in found.values()), reverse=True)
    assert codes == [ErrorCode.UNRELEASED_INSTANCE_ID, 0, 0, 0, 0, 0]
    assert consumers.group.epoch == consumers.group.assignment_epoch == len(sizes)
    assert consumers.coordinator.consumers._queues == {}
    assert len(consumers.group.members) == 5


@pytest.mark.expect_log("could not be stored")
async def test_heartbeats_of_an_append_that_fails_get_its_error(consumers: Consumers) -> None:
    await consumers.join("a")
    consumers.groups.error = OSError(28, "No space left on device")
    codes: list[int] = []

    async def join(member_id: str) -> None:
        codes.append((await consumers.join(member_id)).error_code)

    async with trio.open_nursery() as nursery:
        for each in "bcd":
            nursery.start_soon(join, each)
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    assert list(consumers.group.members) == ["a"]


async def test_a_client_that_is_gone_leaves_no_heartbeat_behind(consumers: Consumers) -> None:
    await consumers.join("a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(consumers.join, "b")
        with trio.move_on_after(0):
            await consumers.join("c")
    assert (await consumers.join("d")).error_code == 0
    assert consumers.coordinator.consumers._queues == {}
    assert {"a", "b", "d"} <= consumers.group.members.keys()
