"""Membership of classic groups: sessions, rebalances, leaders that leave, storage that fails."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import FEW_PARTITIONS, NODE, OLD, Groups, commit_request, join_request

from offsetfs.kafka.broker.groups.group import GroupState
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit


async def test_the_session_of_a_member_that_sends_no_heartbeats_ends(groups: Groups) -> None:
    """Once the answer of a join stayed at its member: it counted as joining, so that its session never ended."""
    joined = await groups.stable()
    await groups.expire(11)
    assert joined.member_id not in groups.group.members
    assert groups.group.state == GroupState.EMPTY


async def test_a_rebalance_waits_for_the_members_that_have_not_joined_again(groups: Groups) -> None:
    first = await groups.stable()
    with trio.move_on_after(0.05) as waited:
        await groups.join()
    assert waited.cancelled_caught  # the first member has to join again
    assert first.member_id in groups.group.members


async def test_a_member_that_asks_again_for_the_generation_keeps_a_session_that_ends(groups: Groups) -> None:
    results: dict[str, m.JoinGroupResponse] = {}

    async def join(name: str) -> None:
        results[name] = await groups.join()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join, "a")
        await trio.testing.wait_all_tasks_blocked()
    joined = results["a"]
    again = await groups.join(joined.member_id)  # in CompletingRebalance: its answer was lost
    assert again.generation_id == joined.generation_id
    await groups.expire(11)
    assert not groups.group.members


async def test_an_unknown_member_that_leaves_causes_no_rebalance(groups: Groups) -> None:
    await groups.stable()
    response = await groups.membership.leave(m.LeaveGroupRequest("g", members=[m.MemberIdentity("no member")]), 4)
    assert response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.group.state == GroupState.STABLE


async def test_a_member_id_that_is_never_used_causes_no_rebalance(groups: Groups) -> None:
    await groups.stable()
    assert (await groups.join(version=5)).error_code == ErrorCode.MEMBER_ID_REQUIRED
    groups.group.members[groups.group.leader or ""].session_timeout_s = 1000
    await groups.expire(11)
    assert not groups.group.pending and groups.group.state == GroupState.STABLE


async def test_a_group_of_which_nothing_was_stored_is_forgotten(groups: Groups) -> None:
    assert (await groups.join(version=5)).error_code == ErrorCode.MEMBER_ID_REQUIRED
    await groups.expire(11)
    assert "g" not in groups.table.live


async def test_the_session_of_a_member_that_waits_for_its_assignment_does_not_end(groups: Groups) -> None:
    """The leader may take longer than a session; the heartbeats begin with the assignment."""
    joined = await groups.join()
    member = groups.group.members[joined.member_id]
    groups.group.leader = "another"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(groups.sync, joined.member_id, joined.generation_id)
        await trio.testing.wait_all_tasks_blocked()
        member.seen_s -= 11
        groups.group.expire(trio.current_time())
        assert joined.member_id in groups.group.members
        groups.group.complete_sync({joined.member_id: b""}, trio.current_time(), 0)
    assert member.seen_s > trio.current_time() - 1


@pytest.mark.expect_log("could not be stored")
async def test_members_join_again_after_an_assignment_could_not_be_stored(groups: Groups) -> None:
    joined = await groups.join()
    groups.error = OSError(28, "No space left on device")
    response = await groups.sync(joined.member_id, joined.generation_id, joined.member_id)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.group.state == GroupState.PREPARING
    assert groups.group.members[joined.member_id].syncing is None


async def test_a_client_that_leaves_during_a_sync_does_not_count_as_waiting(groups: Groups) -> None:
    joined = await groups.join()
    groups.group.leader = "another"
    with trio.move_on_after(0.01):
        await groups.sync(joined.member_id, joined.generation_id)
    assert groups.group.members[joined.member_id].syncing is None


async def test_a_static_member_that_is_replaced_before_the_assignment_gets_one(groups: Groups) -> None:
    """The leader has assigned partitions to the id that was replaced: without a rebalance no member would read them."""
    joined = await groups.join(instance_id="static", version=5)
    replaced = await groups.join(instance_id="static", version=5)
    assert replaced.member_id != joined.member_id
    assert replaced.generation_id == joined.generation_id + 1


@pytest.mark.expect_log("could not be stored")
async def test_a_full_disk_does_not_end_the_expiry_of_sessions(
    directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    groups = Groups(directory, replace(FEW_PARTITIONS, group_min_session_timeout_ms=1))
    await groups.stable(session_ms=20)
    groups.error = OSError(28, "No space left on device")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(groups.coordinator.run)
        with trio.fail_after(30):
            while "No space left" not in caplog.text:
                await trio.sleep(0.001)
        await trio.testing.wait_all_tasks_blocked()
        assert nursery.child_tasks, "the coordinator goes on"
        nursery.cancel_scope.cancel()


async def test_joins_and_commits_of_a_read_only_directory_get_an_error(tmp_path: Path) -> None:
    with_topic = LogDirectory.open(str(tmp_path))
    with_topic.create_partitions([TopicPartition("t", 0)])
    with_topic.close()
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    groups = GroupCoordinator(Topics(directory, 1, creates=False), NODE, ServerSettings(), LogSync())
    try:
        joined = await groups.membership.join(join_request(), OLD, "client", "/host")
        assert joined.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        committed = await groups.offsets.commit(commit_request(1), 5)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await groups.run()  # ends: the sessions are those of the broker that writes
    finally:
        directory.close()


async def test_requests_of_an_earlier_generation_are_refused(groups: Groups) -> None:
    """A member that has missed a rebalance would commit for partitions that others read now."""
    first = await groups.stable()
    again = await groups.join(first.member_id)
    assert (again.generation_id, again.member_id) == (first.generation_id + 1, first.member_id)
    assert (await groups.sync(first.member_id, again.generation_id, first.member_id)).error_code == ErrorCode.NONE

    old = m.HeartbeatRequest("g", first.generation_id, first.member_id)
    assert (await groups.membership.heartbeat(old, 4)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert (await groups.sync(first.member_id, first.generation_id)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert await groups.commit(7, first.generation_id, first.member_id) == ErrorCode.ILLEGAL_GENERATION
    assert await groups.committed() == -1
    assert await groups.commit(7, again.generation_id, first.member_id) == ErrorCode.NONE
    assert await groups.committed() == 7


@pytest.mark.expect_log("could not be stored")
async def test_a_commit_that_could_not_be_stored_is_not_returned(groups: Groups) -> None:
    assert (await groups.commit(3), await groups.committed()) == (ErrorCode.NONE, 3)
    groups.error = OSError(28, "No space left on device")
    assert (await groups.commit(7), await groups.committed()) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, 3)


@pytest.mark.parametrize(
    ("key_type", "code"), [(1, ErrorCode.NONE), (2, ErrorCode.INVALID_REQUEST)], ids=["transactions", "share"]
)
async def test_the_coordinators_of_other_keys(groups: Groups, key_type: int, code: ErrorCode) -> None:
    from offsetfs.kafka.protocol import codec

    request = m.FindCoordinatorRequest(key="tx", key_type=key_type, coordinator_keys=["tx"])
    for version in range(1, 7):
        response = await groups.coordinator.admin.find(request, version)
        assert codec.writer("FindCoordinatorResponse", version)(response)
        found = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id) == (code, 1 if code == ErrorCode.NONE else -1)
