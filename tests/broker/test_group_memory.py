"""The memory of groups: what a member brings, and what all of them keep."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from fixtures.broker.consumer_group_requests import Consumers
from fixtures.broker.group_requests import Groups, join_request

from offsetfs.kafka.broker.groups import group_memory
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.group_memory import GROUPS_BYTES_MAX, MEMBER_BYTES_MAX, OBJECT_BYTES, GroupMemory
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


def joining(group: str, size: int, member_id: str = "") -> m.JoinGroupRequest:
    request = join_request(member_id)
    request.group_id = group
    request.protocols = [m.JoinGroupRequestProtocol("range", bytes(size))]
    return request


async def join(groups: Groups, request: m.JoinGroupRequest) -> int:
    return (await groups.coordinator.membership.join(request, 3, "client", "/host")).error_code


async def test_a_member_brings_a_megabyte_at_most(groups: Groups) -> None:
    assert await join(groups, joining("g", MEMBER_BYTES_MAX)) == FULL
    assert groups.coordinator.table.live == {}
    assert await join(groups, joining("g", MEMBER_BYTES_MAX - len("range"))) == ErrorCode.NONE


async def test_a_member_offers_a_bounded_number_of_assignors(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.kafka.broker.groups.group_membership.PROTOCOLS_MAX", 0)
    assert await join(groups, joining("g", 10)) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    monkeypatch.undo()
    assert await join(groups, joining("g", 10)) == ErrorCode.NONE


async def test_all_groups_together_keep_a_bounded_memory(groups: Groups) -> None:
    size = MEMBER_BYTES_MAX - len("range")
    codes = [await join(groups, joining(f"g{number}", size)) for number in range(70)]
    fitting = GROUPS_BYTES_MAX // (MEMBER_BYTES_MAX + OBJECT_BYTES)
    assert codes == [ErrorCode.NONE] * fitting + [FULL] * (70 - fitting)
    kept = groups.coordinator.table.live
    assert len(kept) == fitting
    group = kept["g0"]
    member_id = next(iter(group.members))
    assert await join(groups, joining("g0", size, member_id)) == ErrorCode.NONE  # a member that comes again
    for each in list(kept.values()):
        await groups.membership.expire(each, trio.current_time() + 60)
    assert await join(groups, joining("later", 100)) == ErrorCode.NONE


async def test_ids_without_a_member_count(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_memory, "GROUPS_BYTES_MAX", 10 * OBJECT_BYTES)
    codes = []
    for _ in range(20):
        response = await groups.coordinator.membership.join(joining("g", 10), 9, "client", "/host")
        codes.append(response.error_code)
    assert codes[0] == ErrorCode.MEMBER_ID_REQUIRED and codes[-1] == FULL
    assert len(groups.coordinator.table.live["g"].pending) <= 10


async def test_subscriptions_of_consumers_count(directory: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    consumers = Consumers(directory)
    monkeypatch.setattr(group_memory, "GROUPS_BYTES_MAX", 4 * OBJECT_BYTES)
    names = [f"{number:0200}" for number in range(10)]
    assert (await consumers.join("a", topics=names)).error_code == ErrorCode.NONE
    assert (await consumers.join("b", topics=names)).error_code == FULL
    monkeypatch.setattr(group_memory, "MEMBER_BYTES_MAX", 1999)
    assert (await consumers.join("c", topics=names)).error_code == FULL


async def test_a_consumer_names_a_bounded_number_of_topics(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers = Consumers(directory)
    monkeypatch.setattr("offsetfs.kafka.broker.groups.consumer_membership.SUBSCRIBED_MAX", 2)
    assert (await consumers.join("a", topics=["t", "u", "v"])).error_code == FULL
    assert (await consumers.join("a", topics=["t", "u"])).error_code == ErrorCode.NONE


async def test_a_full_account_is_counted_again_after_a_while(autojump_clock: trio.testing.MockClock) -> None:
    counts = iter([GROUPS_BYTES_MAX, 0])
    memory = GroupMemory(lambda: next(counts))
    for _ in range(64):
        memory.take(MEMBER_BYTES_MAX - OBJECT_BYTES)
    for _ in range(3):
        with pytest.raises(GroupError):
            memory.take(1)
    await trio.sleep(1)
    memory.take(1)
