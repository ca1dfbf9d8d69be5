"""Groups with members become consumer groups, and classic ones again (`group.consumer.migration.policy`)."""

from __future__ import annotations

from dataclasses import replace
from struct import pack
from typing import Any

import pytest
import trio
from fixtures.broker.consumer_group_requests import Consumers, T, partitions
from fixtures.broker.group_requests import FEW_PARTITIONS, NODE, commit_request
from trio.testing import MockClock, wait_all_tasks_blocked

from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroupState
from offsetfs.kafka.broker.groups.group import Group, GroupState
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

V = 1  # of the clients' messages


def subscription(*owned: int) -> bytes:
    rows = [ConsumerProtocolSubscriptionTopicPartition(T, list(owned))] if owned else []
    message = ConsumerProtocolSubscription([T], None, rows)
    return pack(">h", V) + b"".join(codec.writer("ConsumerProtocolSubscription", V)(message))


def assignment(*given: int, user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment([ConsumerProtocolAssignmentTopicPartition(T, list(given))], user_data)
    return pack(">h", V) + b"".join(codec.writer("ConsumerProtocolAssignment", V)(message))


def assigned(data: bytes) -> list[int]:
    message = codec.reader("ConsumerProtocolAssignment", V)(memoryview(data), 2)[0]
    return [each for topic in message.assigned_partitions for each in topic.partitions]


class Mixed(Consumers):
    """A group of both kinds of members."""

    @property
    def classic(self) -> Group | None:
        return self.groups.table.live.get("g")

    async def classic_join(
        self, member_id: str = "", *owned: int, instance_id: str | None = None, version: int = 3
    ) -> m.JoinGroupResponse:
        protocols = [m.JoinGroupRequestProtocol("range", subscription(*owned))]
        request = m.JoinGroupRequest("g", 10_000, 20_000, member_id, instance_id, "consumer", protocols)
        return await self.groups.membership.join(request, version, "client", "/host")

    async def classic_sync(self, member_id: str, generation: int) -> list[int]:
        request = m.SyncGroupRequest("g", generation, member_id, None, "consumer", "range")
        response = await self.groups.membership.sync(request, 5)
        assert (response.error_code, response.protocol_name) == (0, "range"), response
        return assigned(response.assignment)

    async def classic_stable(self, instance_id: str | None = None, user_data: bytes | None = None) -> str:
        """Let a member of the classic protocol read all partitions; return its id."""
        joined = await self.classic_join(instance_id=instance_id)
        given = m.SyncGroupRequestAssignment(joined.member_id, assignment(0, 1, 2, 3, user_data=user_data))
        request = m.SyncGroupRequest("g", joined.generation_id, joined.member_id, assignments=[given])
        assert (await self.groups.membership.sync(request, 3)).error_code == 0
        return joined.member_id

    async def until_classic(self) -> Group:
        while self.classic is None:
            await trio.sleep(0.001)
        return self.classic


@pytest.fixture
async def mixed(directory: LogDirectory) -> Mixed:
    return Mixed(directory)


async def test_a_cooperative_consumer_gives_partitions_to_a_newer_member(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    first = await mixed.join("a")
    assert (first.error_code, first.member_epoch, partitions(first)) == (0, 2, [])
    assert mixed.classic is None
    assert await mixed.groups.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await mixed.classic_join(old, 0, 1, 2, 3)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, "")
    assert await mixed.classic_sync(old, 1) == [0, 1]
    assert await mixed.groups.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = await mixed.classic_join(old, 0, 1)
    assert again.generation_id == 2
    assert await mixed.classic_sync(old, 2) == [0, 1]
    assert await mixed.groups.heartbeat(old, 2) == 0
    assert partitions(await mixed.owning("a", 2)) == [2, 3]
    assert mixed.group.state == ConsumerGroupState.STABLE


async def test_an_eager_consumer_has_given_up_its_partitions_when_it_joins(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    await mixed.join("a")
    joined = await mixed.classic_join(old)
    assert joined.generation_id == 2
    assert await mixed.classic_sync(old, 2) == [0, 1]
    assert partitions(await mixed.owning("a", 2)) == [2, 3]


async def test_requests_that_wait_for_the_classic_group_end(mixed: Mixed, nursery: trio.Nursery) -> None:
    old = await mixed.classic_stable()
    found: list[Any] = []

    async def join() -> None:
        found.append(await mixed.classic_join())

    nursery.start_soon(join)
    await wait_all_tasks_blocked()
    assert mixed.classic is not None and mixed.classic.state == GroupState.PREPARING
    assert (await mixed.join("a")).error_code == 0
    while not found:
        await trio.sleep(0.001)
    assert found[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert len(mixed.group.members) == 3
    assert (await mixed.classic_join(found[0].member_id)).error_code == 0
    assert (await mixed.classic_join(old)).error_code == 0


async def test_a_request_waits_while_the_group_is_converted(
    mixed: Mixed, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await mixed.classic_stable()
    codes: list[int] = []
    append = mixed.groups.table.log._append

    async def beat() -> None:
        codes.append(await mixed.groups.heartbeat(old, 1))

    async def slow(*arguments: Any) -> None:
        nursery.start_soon(beat)
        await wait_all_tasks_blocked()
        assert codes == []
        await append(*arguments)

    monkeypatch.setattr(mixed.groups.table.log, "_append", slow)
    await mixed.join("a")
    while not codes:
        await trio.sleep(0.001)
    assert codes == [ErrorCode.REBALANCE_IN_PROGRESS]  # of the consumer group, which knows the member


async def test_the_group_is_classic_again_when_the_last_newer_member_leaves(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    await mixed.join("a")
    await mixed.classic_join(old)
    assert (await mixed.beat("a", -1)).error_code == 0
    assert mixed.group is None
    assert mixed.classic is not None
    assert (mixed.classic.state, mixed.classic.generation) == (GroupState.PREPARING, 2)
    assert await mixed.groups.heartbeat(old, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = await mixed.classic_join(old)
    assert (joined.generation_id, joined.leader) == (3, old)


async def test_the_group_goes_on_when_the_last_classic_member_leaves(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    await mixed.join("a")
    left = await mixed.groups.leave(old)
    assert (left.error_code, left.members[0].error_code) == (0, 0)
    assert (mixed.classic, list(mixed.group.members)) == (None, ["a"])
    assert partitions(await mixed.owning("a", 2)) == [0, 1, 2, 3]


async def test_a_member_of_the_other_protocol_leaves_with_leave_group(mixed: Mixed) -> None:
    """As in Kafka 4.1, where administrators remove members of both protocols with it."""
    old = await mixed.classic_stable()
    await mixed.join("a")
    await mixed.join("b")
    assert (await mixed.groups.leave("a")).members[0].error_code == 0
    assert set(mixed.group.members) == {old, "b"}


async def test_the_end_of_the_last_newer_session_makes_the_group_classic(mixed: Mixed, mock_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mixed.coordinator.run)
        old = await mixed.classic_stable()
        await mixed.join("a")
        for _ in range(5):
            mock_clock.jump(9.5)
            joined = await mixed.classic_join(old)
            await mixed.classic_sync(old, joined.generation_id) if mixed.group else None
        mock_clock.rate = 1
        assert list((await mixed.until_classic()).members) == [old]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("is_syncing", [False, True], ids=["no-join", "no-sync"])
async def test_a_classic_member_that_does_not_follow_is_removed(
    mixed: Mixed, mock_clock: MockClock, is_syncing: bool
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mixed.coordinator.run)
        old = await mixed.classic_stable()
        await mixed.join("a")
        generation = (await mixed.classic_join(old)).generation_id if is_syncing else 1
        for _ in range(3):  # 20 s are the rebalance time-out; the session is kept
            await mixed.groups.heartbeat(old, generation)
            mock_clock.jump(8)
        await mixed.until_members("a")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("policy", "is_upgraded", "is_downgraded"),
    [
        ("disabled", False, False), ("upgrade", True, False), ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)  # fmt: skip
async def test_the_policy_says_which_conversions_there_are(
    directory: LogDirectory, policy: str, is_upgraded: bool, is_downgraded: bool
) -> None:
    upgrades = Mixed(directory, replace(FEW_PARTITIONS, group_consumer_migration_policy=policy))
    old = await upgrades.classic_stable()
    joined = await upgrades.join("a")
    assert joined.error_code == (0 if is_upgraded else ErrorCode.GROUP_ID_NOT_FOUND)
    if not is_upgraded:
        assert "online upgrade is disabled" in joined.error_message
        await upgrades.groups.leave(old)
        await upgrades.join("a")
        await upgrades.classic_join()
    await upgrades.beat("a", -1)
    assert (upgrades.classic is not None) == is_downgraded
    assert (upgrades.group is None) == is_downgraded


@pytest.mark.parametrize("data", ["malformed", "custom"])
async def test_a_group_that_cannot_be_converted_stays_classic(mixed: Mixed, data: str) -> None:
    if data == "malformed":
        await mixed.groups.stable()
    else:
        await mixed.classic_stable(user_data=b"of an assignor")
    refused = await mixed.join("a")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert data in refused.error_message
    assert mixed.group is None


@pytest.mark.expect_log("could not be stored")
async def test_a_conversion_that_cannot_be_stored_changes_nothing(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    mixed.groups.error = OSError(28, "No space left on device")
    assert (await mixed.join("a")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (mixed.group, await mixed.groups.heartbeat(old, 1)) == (None, 0)
    mixed.groups.error = None
    assert (await mixed.join("a")).error_code == 0
    await mixed.classic_join(old)
    mixed.groups.error = OSError(28, "No space left on device")
    assert (await mixed.beat("a", -1)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (mixed.classic, len(mixed.group.members)) == (None, 2)


async def test_a_static_member_changes_its_protocol_and_comes_back(mixed: Mixed) -> None:
    await mixed.classic_stable(instance_id="one")
    newer = await mixed.join("a", instance_id="one")  # a classic static member does not leave
    assert (newer.error_code, partitions(newer)) == (0, [0, 1, 2, 3])
    assert list(mixed.group.members) == ["a"]
    older = await mixed.classic_join(instance_id="one")
    assert older.error_code == 0
    assert mixed.classic is not None
    assert (mixed.classic.state, list(mixed.classic.members)) == (GroupState.STABLE, [older.member_id])
    assert await mixed.classic_sync(older.member_id, older.generation_id) == [0, 1, 2, 3]
    assert (await mixed.beat("a", 1, instance_id="one")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_mixed_group_is_the_same_after_a_restart(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    await mixed.join("a")
    before = mixed.group
    again = GroupCoordinator(Topics(mixed.directory, 1, creates=False), NODE, FEW_PARTITIONS, LogSync())
    await again.table.log.load()
    after = again.table.consumer("g")
    assert after is not None
    assert (after.members, after.targets, after.owners) == (before.members, before.targets, before.owners)
    assert "g" not in again.table.live
    heartbeat = m.HeartbeatRequest("g", 1, old)
    assert (await again.membership.heartbeat(heartbeat, 4)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    await mixed.beat("a", -1)
    third = GroupCoordinator(Topics(mixed.directory, 1, creates=False), NODE, FEW_PARTITIONS, LogSync())
    await third.table.log.load()
    assert list(third.table.live["g"].members) == [old]
    assert third.table.stored("g").newer == {}


async def test_a_classic_member_commits_with_its_generation(mixed: Mixed) -> None:
    old = await mixed.classic_stable()
    await mixed.join("a")
    assert await mixed.groups.commit(5, 1, old) == 0
    assert await mixed.groups.commit(5, 9, old) == ErrorCode.ILLEGAL_GENERATION
    response = await mixed.coordinator.offsets.commit(commit_request(6, 1, "x"), 7)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert await mixed.groups.committed() == 5


async def test_a_new_classic_member_joins_a_consumer_group(mixed: Mixed) -> None:
    await mixed.join("a")
    required = await mixed.classic_join(version=9)
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined = await mixed.classic_join(required.member_id, version=9)
    assert (joined.error_code, joined.generation_id, joined.protocol_type) == (0, 2, "consumer")
    assert await mixed.classic_sync(joined.member_id, 2) == []
    await mixed.owning("a", 1, 0, 1, 2, 3)
    assert await mixed.groups.heartbeat(joined.member_id, 2) == 0  # the other one still reads them
    await mixed.owning("a", 1, 0, 1)
    assert await mixed.groups.heartbeat(joined.member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert (await mixed.classic_join(joined.member_id, version=9)).generation_id == 2
    assert await mixed.classic_sync(joined.member_id, 2) == [2, 3]
    described = m.ConsumerGroupDescribeRequest(["g"])
    (found,) = (await mixed.coordinator.consumers.describe(described, 1)).groups
    assert [each.member_type for each in found.members] == [1, 0]


async def test_a_classic_member_needs_an_assignor_of_the_others(mixed: Mixed) -> None:
    await mixed.join("a")
    await mixed.classic_join()
    request = m.JoinGroupRequest(
        "g", 10_000, 20_000, "", None, "consumer", [m.JoinGroupRequestProtocol("own", subscription())]
    )
    refused = await mixed.groups.membership.join(request, 3, "client", "/host")
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
