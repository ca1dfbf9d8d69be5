"""The heartbeats of one group that wait for the append of those before them, and then share the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.broker.groups.group_update import Heartbeat, Matches
from offsetfs.kafka.broker.topics.partitions import ServedTopic
from offsetfs.kafka.protocol import messages as m


@dataclass(slots=True, eq=False)
class WaitingHeartbeat:
    """A heartbeat and what it gets: an error or a response. `listing`: the topics that `matches` is of."""

    beat: Heartbeat
    matches: Matches
    listing: Mapping[str, ServedTopic]
    response: m.ConsumerGroupHeartbeatResponse = field(default_factory=m.ConsumerGroupHeartbeatResponse)
    error: GroupError | None = None


class HeartbeatQueue:
    """The waiting heartbeats of one group, in the order of their arrival."""

    def __init__(self) -> None:
        self._lock = trio.Lock()
        self._waiting: list[WaitingHeartbeat] = []
        self._users = 0

    @property
    def is_unused(self) -> bool:
        """Whether no heartbeat waits or is being answered."""
        return not self._users

    @asynccontextmanager
    async def enter(self, own: WaitingHeartbeat) -> AsyncIterator[list[WaitingHeartbeat]]:
        """Wait for the append before; yield the heartbeats to answer, at most one of each member.

        The list is empty if the task of another heartbeat has answered this one, too.
        """
        self._users += 1
        self._waiting.append(own)
        try:
            async with self._lock:
                yield self._take() if own in self._waiting else []
        finally:
            self._users -= 1
            if own in self._waiting:  # the client is gone
                self._waiting.remove(own)

    def _take(self) -> list[WaitingHeartbeat]:
        """Remove and return the first heartbeat of each member: two of one member are answered in turn.

        The lock is granted in the order of arrival, so that the heartbeat that has it is the first of its member.
        """
        first = {each.beat.member_id: each for each in reversed(self._waiting)}
        batch = [each for each in self._waiting if first[each.beat.member_id] is each]
        self._waiting = [each for each in self._waiting if first[each.beat.member_id] is not each]
        return batch
