"""Static members (KIP-345): one that restarts takes its place without a rebalance; the one before is fenced."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import Groups

from offsetfs.kafka.broker.groups.group import GroupState
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit

STATIC = "one"


async def stable(groups: Groups) -> m.JoinGroupResponse:
    """Return what a static member, which leads a group, got from its join."""
    joined = await groups.join("", STATIC, version=5)
    synced = await groups.sync(joined.member_id, joined.generation_id, joined.member_id, instance_id=STATIC)
    assert synced.error_code == ErrorCode.NONE
    return joined


async def test_a_restarting_static_leader_gets_the_generation_at_once(groups: Groups) -> None:
    joined = await stable(groups)
    with trio.fail_after(5):
        again = await groups.join("", STATIC, version=9)
    assert (again.error_code, again.generation_id, again.skip_assignment) == (0, joined.generation_id, True)
    assert again.member_id == again.leader != joined.member_id
    assert [each.member_id for each in again.members] == [again.member_id]
    synced = await groups.sync(again.member_id, again.generation_id, instance_id=STATIC)
    assert synced.assignment == b"for " + joined.member_id.encode()  # that of the place, without a rebalance
    assert groups.group.state == GroupState.STABLE


async def test_before_version_9_a_static_leader_that_restarts_is_not_named_as_leader(groups: Groups) -> None:
    """It would assign partitions, and no member would ask for them."""
    joined = await stable(groups)
    again = await groups.join("", STATIC, version=8)
    assert (again.error_code, again.generation_id, again.skip_assignment) == (0, joined.generation_id, False)
    assert (again.leader, again.members) == (joined.member_id, [])


async def test_the_new_id_of_a_static_member_is_stored_when_it_is_answered(groups: Groups) -> None:
    await stable(groups)
    again = await groups.join("", STATIC, version=9)
    stored = groups.table.stored("g").metadata
    assert stored is not None
    assert [(each.member_id, each.group_instance_id) for each in stored.members] == [(again.member_id, STATIC)]


async def test_the_former_id_of_a_static_member_is_fenced(groups: Groups) -> None:
    joined = await stable(groups)
    await groups.join("", STATIC, version=9)
    old, generation = joined.member_id, joined.generation_id
    assert await groups.heartbeat(old, generation, STATIC) == ErrorCode.FENCED_INSTANCE_ID
    assert (await groups.join(old, STATIC, version=9)).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert (await groups.sync(old, generation, instance_id=STATIC)).error_code == ErrorCode.FENCED_INSTANCE_ID
    leaving = m.LeaveGroupRequest("g", members=[m.MemberIdentity(old, STATIC)])
    assert (await groups.membership.leave(leaving, 4)).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert await groups.commit(1, generation, old, STATIC) == ErrorCode.FENCED_INSTANCE_ID
    assert await groups.heartbeat(old, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.committed() == -1


async def test_an_unknown_static_member_is_not_fenced(groups: Groups) -> None:
    joined = await stable(groups)
    code = await groups.heartbeat(joined.member_id, joined.generation_id, "another")
    assert code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_administrator_removes_a_static_member_by_its_instance_id(groups: Groups) -> None:
    await stable(groups)
    leaving = m.LeaveGroupRequest("g", members=[m.MemberIdentity("", STATIC), m.MemberIdentity("", "another")])
    response = await groups.membership.leave(leaving, 4)
    assert [each.error_code for each in response.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert groups.group.state == GroupState.EMPTY


async def test_an_id_of_a_dynamic_member_does_not_make_a_second_member_of_an_instance(groups: Groups) -> None:
    await stable(groups)
    given = await groups.join(version=9)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert (await groups.join(given.member_id, STATIC, version=9)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(groups.group.members) == 1


async def test_a_waiting_request_of_a_static_member_that_restarts_ends_as_fenced(groups: Groups) -> None:
    first = await groups.stable()  # has to join again before the others get their generation
    results: list[int] = []

    async def join() -> None:
        results.append((await groups.join("", STATIC, version=5)).error_code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(join)
        await trio.testing.wait_all_tasks_blocked()
        assert results == [ErrorCode.FENCED_INSTANCE_ID]
        assert (await groups.join(first.member_id)).error_code == ErrorCode.NONE
    assert results == [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE]


@pytest.mark.expect_log("could not be stored")
async def test_a_static_member_keeps_its_former_id_if_the_new_one_could_not_be_stored(groups: Groups) -> None:
    joined = await stable(groups)
    groups.error = OSError(28, "No space left on device")
    assert (await groups.join("", STATIC, version=9)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await groups.heartbeat(joined.member_id, joined.generation_id, STATIC) == ErrorCode.NONE
