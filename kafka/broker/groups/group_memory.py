"""The memory of all groups with members, on one account.

What a member brings (JoinGroup, ConsumerGroupHeartbeat) is kept for its session, which may be half an hour. Kafka
bounds the members of a group (`group.max.size`), and what it can store of one (`max.message.bytes`), but not the sum.

The account grows with each request and is counted again when it is full, so that nothing has to be noted where a member
leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from offsetfs.kafka.broker.groups.consumer_group import ConsumerGroup
from offsetfs.kafka.broker.groups.group import Group, GroupError
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

MEMBER_BYTES_MAX = 1 << 20
"""The bound of a member's data: with more, the record of its group exceeds the default of `max.message.bytes`."""

GROUPS_BYTES_MAX = 64 << 20
"""The bound of all groups together: 10,000 members with subscriptions of 5 kB."""

OBJECT_BYTES = 1 << 10
"""Bytes of a group, a member or an id besides its metadata."""

_RECOUNT_S, _RECOUNT_BYTES = 1.0, GROUPS_BYTES_MAX // 16
"""A full account is counted again after this time, or this growth: with as many members as fit it takes 0.05 s."""


class GroupMemory:
    """The account. `count` returns the bytes of all groups."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._bytes = self._counted_bytes = 0
        self._counted_s = -_RECOUNT_S

    def take(self, size: int, replaced: int | None = None) -> None:
        """Note that `size` bytes are kept for a member, instead of `replaced` if it is known already.

        GROUP_MAX_SIZE_REACHED if that is too much for a member, or for all groups.
        """
        if size > MEMBER_BYTES_MAX:
            raise _full(f"a member has more than {MEMBER_BYTES_MAX} bytes of metadata")
        more = size + OBJECT_BYTES if replaced is None else max(size - replaced, 0)
        if self._bytes + more > GROUPS_BYTES_MAX:
            self._recount()
        if more and self._bytes + more > GROUPS_BYTES_MAX:
            raise _full(f"all groups together have more than {GROUPS_BYTES_MAX} bytes of metadata")
        self._bytes += more

    def _recount(self) -> None:
        now_s = trio.current_time()
        if now_s - self._counted_s >= _RECOUNT_S or self._bytes - self._counted_bytes >= _RECOUNT_BYTES:
            self._bytes = self._counted_bytes = self._count()
            self._counted_s = now_s


def size_of_join(request: m.JoinGroupRequest) -> int:
    """Return the bytes of the metadata that a member brings."""
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in request.protocols)


def size_of(protocols: Mapping[str, bytes]) -> int:
    """Return the bytes of the metadata of a member."""
    return sum(len(name) + len(metadata) for name, metadata in protocols.items())


def size_of_group(group: Group) -> int:
    """Return what a classic group takes."""
    members = sum(
        size_of(member.protocols) + len(member.assignment) + OBJECT_BYTES for member in group.members.values()
    )
    return OBJECT_BYTES * (1 + len(group.pending)) + members


def size_of_consumers(group: ConsumerGroup) -> int:
    """Return what a consumer group takes, without its assignments: those name partitions that there are."""
    return OBJECT_BYTES + sum(sum(map(len, member.topics)) + OBJECT_BYTES for member in group.members.values())


def _full(reason: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_MAX_SIZE_REACHED, message=reason)
