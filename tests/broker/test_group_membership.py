"""Membership of classic groups: sessions, rebalances, leaders that leave, storage that fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from offsetfs.broker.cluster import BrokerNode
from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.group import GroupState
from offsetfs.broker.group_coordinator import GroupCoordinator
from offsetfs.broker.group_log import StoredOffset
from offsetfs.broker.settings import ServerSettings
from offsetfs.protocol import messages as m
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

NODE = BrokerNode(1, "test", "127.0.0.1", 9092)
OLD = 3
"""The last version of JoinGroup that needs no member id in advance."""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogDirectory]:
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    found = LogDirectory.open(str(tmp_path))
    yield found
    found.close()


def join_request(member_id: str = "", instance_id: str | None = None, session_ms: int = 10_000) -> m.JoinGroupRequest:
    return m.JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequestProtocol("range", b"metadata")],
    )


def commit_request(offset: int, generation: int = -1, member_id: str = "") -> m.OffsetCommitRequest:
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[m.OffsetCommitRequestPartition(0, offset)])
    return m.OffsetCommitRequest("g", generation, member_id, topics=[topic])


class Groups:
    """A coordinator whose storage is replaced, so that only the state machine is run."""

    def __init__(self, directory: LogDirectory) -> None:
        self.coordinator = GroupCoordinator(directory, NODE, ServerSettings())
        self.coordinator._loaded.set()
        self.stored = 0
        self.error: OSError | None = None
        self.coordinator._append = self._append  # type: ignore[method-assign]

    async def _append(self, group: str, changes: Any) -> None:
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        self.stored += 1

    @property
    def group(self) -> Any:
        return self.coordinator._groups["g"]

    async def join(self, *arguments: Any, version: int = OLD, **more: Any) -> m.JoinGroupResponse:
        return await self.coordinator.join(join_request(*arguments, **more), version, "client", "/host")

    async def sync(self, member_id: str, generation: int, *assigned: str) -> m.SyncGroupResponse:
        assignments = [m.SyncGroupRequestAssignment(each, b"for " + each.encode()) for each in assigned]
        request = m.SyncGroupRequest("g", generation, member_id, assignments=assignments)
        return await self.coordinator.sync(request, 3)

    async def stable(self, **more: Any) -> m.JoinGroupResponse:
        joined = await self.join(**more)
        assert (await self.sync(joined.member_id, joined.generation_id, joined.member_id)).error_code == 0
        return joined

    async def expire(self, after_s: float) -> None:
        await self.coordinator._expire(self.group, trio.current_time() + after_s)


@pytest.fixture
def groups(directory: LogDirectory) -> Groups:
    return Groups(directory)


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
    response = await groups.coordinator.leave(m.LeaveGroupRequest("g", members=[m.MemberIdentity("no member")]), 4)
    assert response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert groups.group.state == GroupState.STABLE


async def test_a_member_id_that_is_never_used_causes_no_rebalance(groups: Groups) -> None:
    await groups.stable()
    assert (await groups.join(version=5)).error_code == ErrorCode.MEMBER_ID_REQUIRED
    groups.group.members[groups.group.leader].session_timeout_s = 1000
    await groups.expire(11)
    assert not groups.group.pending and groups.group.state == GroupState.STABLE


async def test_a_group_of_which_nothing_was_stored_is_forgotten(groups: Groups) -> None:
    assert (await groups.join(version=5)).error_code == ErrorCode.MEMBER_ID_REQUIRED
    await groups.expire(11)
    assert "g" not in groups.coordinator._groups


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
        groups.group.complete_sync({joined.member_id: b""}, trio.current_time())
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


@pytest.mark.expect_log("expiry of its members failed")
async def test_a_full_disk_does_not_end_the_expiry_of_sessions(
    groups: Groups, caplog: pytest.LogCaptureFixture
) -> None:
    await groups.stable(session_ms=20)
    groups.error = OSError(28, "No space left on device")
    with trio.move_on_after(0.3) as ended:
        await groups.coordinator.run()
    assert ended.cancelled_caught
    assert "No space left" in caplog.text


async def test_joins_and_commits_of_a_read_only_directory_get_an_error(tmp_path: Path) -> None:
    with_topic = LogDirectory.open(str(tmp_path))
    with_topic.create_partitions([TopicPartition("t", 0)])
    with_topic.close()
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    groups = GroupCoordinator(directory, NODE, ServerSettings())
    groups._loaded.set()
    try:
        joined = await groups.join(join_request(), OLD, "client", "/host")
        assert joined.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        committed = await groups.commit(commit_request(1), 5)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        await groups.run()  # ends: the sessions are those of the broker that writes
    finally:
        directory.close()


async def test_requests_of_an_earlier_generation_are_refused(groups: Groups, directory: LogDirectory) -> None:
    """A member that has missed a rebalance would commit for partitions that others read now."""
    directory.create_partition(TopicPartition("t", 0))
    first = await groups.stable()
    again = await groups.join(first.member_id)
    assert (again.generation_id, again.member_id) == (first.generation_id + 1, first.member_id)
    assert (await groups.sync(first.member_id, again.generation_id, first.member_id)).error_code == ErrorCode.NONE
    stored = groups.stored

    old = m.HeartbeatRequest("g", first.generation_id, first.member_id)
    assert (await groups.coordinator.heartbeat(old, 4)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert (await groups.sync(first.member_id, first.generation_id)).error_code == ErrorCode.ILLEGAL_GENERATION
    committed = await groups.coordinator.commit(commit_request(7, first.generation_id, first.member_id), 7)
    assert committed.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
    assert groups.stored == stored
    committed = await groups.coordinator.commit(commit_request(7, again.generation_id, first.member_id), 7)
    assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert groups.stored == stored + 1


@pytest.mark.expect_log("could not be stored")
async def test_a_commit_that_could_not_be_stored_is_not_returned(groups: Groups, directory: LogDirectory) -> None:
    directory.create_partition(TopicPartition("t", 0))
    wanted = m.OffsetFetchRequest("g", [m.OffsetFetchRequestTopic("t", [0])])

    async def committed(offset: int) -> tuple[int, int]:
        response = await groups.coordinator.commit(commit_request(offset), 7)
        fetched = await groups.coordinator.fetch_offsets(wanted, 7)
        return response.topics[0].partitions[0].error_code, fetched.topics[0].partitions[0].committed_offset

    assert await committed(3) == (ErrorCode.NONE, 3)
    groups.error = OSError(28, "No space left on device")
    assert await committed(7) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, 3)


async def test_a_transactional_producer_gets_an_error_for_its_coordinator(groups: Groups) -> None:
    from offsetfs.protocol import codec

    request = m.FindCoordinatorRequest(key_type=1, coordinator_keys=["transaction"])
    for version in range(1, 7):
        response = await groups.coordinator.find(request, version)
        assert codec.writer("FindCoordinatorResponse", version)(response)


async def test_a_deleted_topic_takes_its_committed_offsets_with_it(groups: Groups) -> None:
    """A topic that is created again under its name would be read from the old offsets."""
    kept, deleted = TopicPartition("kept", 0), TopicPartition("deleted", 0)
    groups.coordinator._offsets["g"] = {each: StoredOffset(7, -1, "", 0) for each in (kept, deleted)}
    await groups.coordinator.forget_topic("deleted")
    assert list(groups.coordinator._offsets["g"]) == [kept]
    assert groups.stored == 1
