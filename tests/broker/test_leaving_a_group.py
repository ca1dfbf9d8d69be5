"""LeaveGroup is answered when what it changes is stored: a broker that starts then finds no member that has left."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import Groups, assigned
from fixtures.broker.running import Running

from offsetfs.kafka.broker.groups.group import GroupState
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


async def test_the_group_of_the_last_member_that_leaves_is_empty_and_stored(
    running: Running, directory: LogDirectory
) -> None:
    """Once the group was PreparingRebalance for a while after the answer. A broker that ended meanwhile left the
    member, for which the next one waited until its session was over.
    """
    joined = await assigned(running)
    leaving = m.LeaveGroupRequest("g", members=[m.MemberIdentity(joined.member_id)])
    assert (await running.send(13, "LeaveGroup", 4, leaving)).members[0].error_code == ErrorCode.NONE
    stored = Groups(directory)  # a coordinator that starts now
    await stored.table.log.load()
    assert (stored.group.state, stored.group.generation) == (GroupState.EMPTY, joined.generation_id + 1)
    (described,) = (await running.send(15, "DescribeGroups", 5, m.DescribeGroupsRequest(["g"]))).groups
    assert (described.group_state, described.members) == (GroupState.EMPTY, [])


async def test_a_rebalance_goes_on_when_the_last_awaited_member_leaves(groups: Groups) -> None:
    first = await groups.stable()
    joined: list[m.JoinGroupResponse] = []

    async def join() -> None:
        joined.append(await groups.join())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(join)
        await trio.testing.wait_all_tasks_blocked()
        await groups.leave(first.member_id)
    assert [each.generation_id for each in joined] == [first.generation_id + 1]
    assert set(groups.group.members) == {joined[0].member_id}


@pytest.mark.expect_log("could not be stored")
async def test_leaving_is_an_error_if_it_could_not_be_stored(groups: Groups) -> None:
    joined = await groups.stable()
    groups.error = OSError(28, "No space left on device")
    assert (await groups.leave(joined.member_id)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_member_joining_while_the_empty_group_is_stored_is_left_out(groups: Groups) -> None:
    """It is not of the generation that is stored: after a restart it would be a member without an assignment."""
    first = await groups.stable()
    (shard,) = groups.table.log._shards_of("g")
    async with trio.open_nursery() as nursery, shard.lock:
        nursery.start_soon(groups.leave, first.member_id)
        await trio.testing.wait_all_tasks_blocked()
        await groups.join()
    assert len(groups.group.members) == 1
    stored = groups.table.stored("g").metadata
    assert stored is not None and stored.members == []
