"""Settings of groups, and the times in which members must answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import FEW_PARTITIONS, Groups

from offsetfs.kafka.broker.groups.group import CoordinatorLookups, GroupState
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


class Joins:
    """Joins of members that wait, each in a task."""

    def __init__(self, groups: Groups, nursery: trio.Nursery) -> None:
        self.groups = groups
        self._nursery = nursery
        self.results: list[m.JoinGroupResponse] = []

    async def begin(self, member_id: str = "") -> None:
        self._nursery.start_soon(self._join, member_id)
        await trio.testing.wait_all_tasks_blocked()

    async def _join(self, member_id: str) -> None:
        self.results.append(await self.groups.join(member_id))

    @property
    def generations(self) -> list[int]:
        return [each.generation_id for each in self.results]


@pytest.fixture
async def joins(groups: Groups, nursery: trio.Nursery) -> AsyncIterator[Joins]:
    yield Joins(groups, nursery)


# --- group.initial.rebalance.delay.ms


async def test_the_first_rebalance_waits_for_more_members(directory: LogDirectory, nursery: trio.Nursery) -> None:
    groups = Groups(directory, replace(FEW_PARTITIONS, group_initial_rebalance_delay_ms=3000))
    joins = Joins(groups, nursery)
    await joins.begin()
    now = trio.current_time()
    assert groups.group.rebalance_ends_s == pytest.approx(now + 3, abs=1)
    await joins.begin()
    await groups.expire(4)  # the second member has come meanwhile: as long again
    assert not joins.results
    assert groups.group.rebalance_ends_s == pytest.approx(now + 7, abs=1)
    await groups.expire(8)
    await trio.testing.wait_all_tasks_blocked()
    assert joins.generations == [1, 1]


async def test_the_first_rebalance_waits_no_longer_than_a_rebalance(
    directory: LogDirectory, nursery: trio.Nursery
) -> None:
    groups = Groups(directory, replace(FEW_PARTITIONS, group_initial_rebalance_delay_ms=60_000))
    joins = Joins(groups, nursery)
    await joins.begin()
    await groups.expire(11)  # `join_request` has 10 s
    await trio.testing.wait_all_tasks_blocked()
    assert joins.generations == [1]


# --- clients that have looked up the coordinator


def look_up(groups: Groups, *ports: int, keys: tuple[str, ...] = ("g",)) -> None:
    for port in ports:
        request = m.FindCoordinatorRequest(coordinator_keys=list(keys))
        groups.membership.note_lookup(request, ("/host", port))


async def test_several_clients_that_look_up_a_new_group_get_one_generation(groups: Groups, joins: Joins) -> None:
    """Once the first ones had a generation of their own, and learned of the others after three seconds."""
    look_up(groups, 1, 2, 3, 4)
    await joins.begin()
    now = trio.current_time()
    assert groups.group.rebalance_ends_s == pytest.approx(now + 0.2, abs=0.1)
    await joins.begin()
    await groups.expire(0.3)  # the second member has come meanwhile: as long again
    assert not joins.results
    await groups.expire(0.6)
    await trio.testing.wait_all_tasks_blocked()
    assert joins.generations == [1, 1]


async def test_a_new_group_waits_no_longer_once_each_client_has_joined(groups: Groups, joins: Joins) -> None:
    look_up(groups, 1, 2, 3)
    await joins.begin()
    await joins.begin()
    assert not joins.results
    await joins.begin()
    await trio.testing.wait_all_tasks_blocked()
    assert joins.generations == [1, 1, 1]


async def test_a_single_consumer_does_not_wait(groups: Groups) -> None:
    """Its own lookups do not count, nor those for several groups at once, nor those from before its group was empty."""
    look_up(groups, 1, 2, 1)
    look_up(groups, 3, 4, keys=("g", "h"))
    joined = await groups.join()
    look_up(groups, 5, 6)
    await groups.leave(joined.member_id)
    assert (await groups.join()).generation_id == 3


def test_lookups_are_bounded_and_age() -> None:
    lookups = CoordinatorLookups()
    for number in range(2000):
        lookups.note("g", ("/host", number), 10.0)
    assert lookups.count("g", 11.0) == 1000 and lookups.count("g", 15.1) == 0
    for number in range(300):
        lookups.note(f"other {number}", ("/host", 1), 10.0)
    assert lookups.count("g", 11.0) == 0 and lookups.count("other 299", 11.0) == 1


# --- group.max.size


async def test_a_full_group_takes_no_more_members(directory: LogDirectory) -> None:
    groups = Groups(directory, replace(FEW_PARTITIONS, group_max_size=1))
    joined = await groups.stable()
    assert (await groups.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    given = await groups.join(version=4)
    assert (given.error_code, groups.group.pending) == (ErrorCode.GROUP_MAX_SIZE_REACHED, {})
    assert (await groups.join(joined.member_id)).generation_id == joined.generation_id + 1


async def test_a_loaded_group_that_is_too_large_begins_a_rebalance(
    directory: LogDirectory, joins: Joins, nursery: trio.Nursery
) -> None:
    first = await joins.groups.stable()
    await joins.begin()
    await joins.begin(first.member_id)
    await joins.groups.sync(first.member_id, 2, first.member_id)
    again = Groups(directory, replace(FEW_PARTITIONS, group_max_size=1))
    nursery.start_soon(again.coordinator.run)
    with trio.fail_after(30):
        while "g" not in again.table.live or again.group.state != GroupState.PREPARING:
            await trio.sleep(0.001)
    assert (await again.heartbeat(first.member_id, 2)) == ErrorCode.REBALANCE_IN_PROGRESS


# --- group.min.session.timeout.ms, group.max.session.timeout.ms


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.NONE),
        (1_800_000, ErrorCode.NONE),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
async def test_session_timeouts_are_between_kafkas_limits(groups: Groups, session_ms: int, code: ErrorCode) -> None:
    assert (await groups.join(session_ms=session_ms)).error_code == code


async def test_limits_of_session_timeouts_are_settings(directory: LogDirectory) -> None:
    settings = ServerSettings(group_min_session_timeout_ms=10, group_max_session_timeout_ms=20)
    groups = Groups(directory, replace(settings, offsets_topic_num_partitions=2))
    codes = [(await groups.join(session_ms=each)).error_code for each in (9, 21, 20)]
    assert codes == [ErrorCode.INVALID_SESSION_TIMEOUT] * 2 + [ErrorCode.NONE]


# --- members without an id (KIP-394)


async def test_a_member_joins_with_the_id_that_it_gets_first(groups: Groups) -> None:
    given = await groups.join(version=4)
    assert (given.error_code, groups.group.members) == (ErrorCode.MEMBER_ID_REQUIRED, {})
    assert given.member_id.startswith("client-")
    joined = await groups.join(given.member_id, version=4)
    assert (joined.error_code, joined.member_id, joined.generation_id) == (ErrorCode.NONE, given.member_id, 1)


async def test_an_id_that_was_not_given_out_is_unknown(groups: Groups) -> None:
    assert (await groups.join("made up", version=4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    await groups.stable()
    assert (await groups.join("made up", version=4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_ids_of_members_fit_into_records(groups: Groups) -> None:
    joined = await groups.join("", "i" * 32_767, version=5)
    assert len(joined.member_id) < 32_767
    synced = await groups.sync(joined.member_id, 1, joined.member_id, instance_id="i" * 32_767)
    assert synced.error_code == ErrorCode.NONE


# --- time-outs


async def test_a_member_that_does_not_join_again_in_time_is_removed(groups: Groups, joins: Joins) -> None:
    first = await groups.stable(session_ms=60_000)
    await joins.begin()
    await groups.expire(9)
    assert not joins.results
    await groups.expire(11)  # the rebalance time-out is 10 s, the session of the first member goes on
    await trio.testing.wait_all_tasks_blocked()
    assert joins.generations == [2]
    assert first.member_id not in groups.group.members


async def test_a_static_member_that_does_not_join_again_keeps_its_place(groups: Groups, joins: Joins) -> None:
    static = await groups.join("", "static", session_ms=60_000, version=5)
    await groups.sync(static.member_id, 1, static.member_id, instance_id="static")
    await joins.begin()
    await groups.expire(11)
    await trio.testing.wait_all_tasks_blocked()
    assert joins.generations == [2]
    assert static.member_id in groups.group.members and groups.group.leader != static.member_id


async def test_a_member_that_does_not_ask_for_its_assignment_in_time_is_removed(groups: Groups, joins: Joins) -> None:
    first = await groups.stable(session_ms=60_000)
    await joins.begin()
    assert (await groups.join(first.member_id, session_ms=60_000)).generation_id == 2
    await trio.testing.wait_all_tasks_blocked()
    (second,) = joins.results
    groups.group.members[second.member_id].session_timeout_s = 60
    assert (await groups.sync(first.member_id, 2, first.member_id)).error_code == ErrorCode.NONE
    await groups.expire(11)
    assert set(groups.group.members) == {first.member_id}
    assert groups.group.state == GroupState.PREPARING
    assert await groups.heartbeat(first.member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS


async def test_a_heartbeat_prolongs_a_session(groups: Groups) -> None:
    joined = await groups.stable()
    member = groups.group.members[joined.member_id]
    member.seen_s -= 9
    assert await groups.heartbeat(joined.member_id, joined.generation_id) == ErrorCode.NONE
    await groups.expire(9)
    assert joined.member_id in groups.group.members


async def test_the_sessions_of_loaded_members_begin_with_the_load(directory: LogDirectory, groups: Groups) -> None:
    joined = await groups.stable()
    again = Groups(directory)
    await again.table.log.load()
    assert again.group.state == GroupState.STABLE
    assert await again.heartbeat(joined.member_id, joined.generation_id) == ErrorCode.NONE
    await again.expire(9)
    assert joined.member_id in again.group.members
    await again.expire(11)
    assert not again.group.members
