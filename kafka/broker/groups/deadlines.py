"""Deadlines of groups and of the members of consumer groups, in memory alone: a queue of them, and time-outs.

A member of a consumer group has a session, and times until which it has to answer what the group waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import trio
from sortedcontainers import SortedKeyList

from offsetfs.kafka.broker.groups.consumer_group import ConsumerMember, MemberState
from offsetfs.kafka.broker.groups.group import NEVER_S


class Timed(Protocol):
    """An object with a deadline."""

    scheduled_s: float
    """The time at which its queue returns it; `NEVER_S` outside of a queue. Only the queue changes it."""

    def deadline_s(self) -> float:
        """Return the deadline."""


T = TypeVar("T", bound=Timed)


class DeadlineQueue(Generic[T]):
    """Objects in the order of their deadlines. Only the event loop uses it.

    A deadline that becomes later costs nothing until the former one has passed.
    """

    def __init__(self) -> None:
        self._scheduled: SortedKeyList = SortedKeyList(key=lambda timed: timed.scheduled_s)
        self._sooner = trio.Event()

    def schedule(self, timed: T) -> None:
        """Note that a deadline may be sooner. A later one needs no note."""
        deadline_s = timed.deadline_s()
        if deadline_s < timed.scheduled_s:
            self._scheduled.discard(timed)
            timed.scheduled_s = deadline_s
            self._scheduled.add(timed)
            self._sooner.set()

    def due(self, now_s: float) -> list[T]:
        """Remove and return the objects whose deadlines may be over; schedule each of them again."""
        due: list[T] = list(self._scheduled.irange_key(max_key=now_s))
        del self._scheduled[: len(due)]
        for timed in due:
            timed.scheduled_s = NEVER_S
        return due

    async def wait(self) -> None:
        """Wait for the next deadline."""
        while True:
            self._sooner = trio.Event()
            next_s = self._scheduled[0].scheduled_s if self._scheduled else NEVER_S
            with trio.move_on_at(next_s):
                await self._sooner.wait()
                continue
            return


@dataclass(slots=True, eq=False)
class MemberTimer:
    """The time-outs of one member. `revoking_epoch`: the epoch in which it has to give up partitions; -1 for none.

    `rejoins_by_s`: when a member that uses the classic protocol must have sent JoinGroup, or SyncGroup after it.
    """

    group_id: str
    member_id: str
    session_s: float
    session_ends_s: float
    rebalance_s: float = NEVER_S
    revokes_by_s: float = NEVER_S
    rejoins_by_s: float = NEVER_S
    revoking_epoch: int = -1
    scheduled_s: float = NEVER_S

    def deadline_s(self) -> float:
        return min(self.session_ends_s, self.revokes_by_s, self.rejoins_by_s)


class MemberTimers:
    """The time-outs of all members."""

    def __init__(self, session_s: float) -> None:
        """`session_s`: of members of the consumer protocol; those of the classic protocol choose it."""
        self._session_s = session_s
        self._timers: dict[tuple[str, str], MemberTimer] = {}
        self._deadlines = DeadlineQueue[MemberTimer]()

    def note(self, group_id: str, member_id: str, member: ConsumerMember | None) -> None:
        """Begin the session of a member that is new, and the time that it has to give up partitions."""
        key = (group_id, member_id)
        if member is None:
            self._timers.pop(key, None)
            return
        now_s = trio.current_time()
        session_s = self._session_s if member.classic is None else member.classic.session_timeout_ms / 1000
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = MemberTimer(group_id, member_id, session_s, now_s + session_s)
        timer.session_s = session_s
        timer.rebalance_s = session_s if member.rebalance_timeout_ms < 0 else member.rebalance_timeout_ms / 1000
        if member.classic is None:
            timer.rejoins_by_s = NEVER_S
        if member.state is not MemberState.UNREVOKED:
            timer.revokes_by_s, timer.revoking_epoch = NEVER_S, -1
        elif timer.revoking_epoch != member.epoch:
            timer.revokes_by_s, timer.revoking_epoch = now_s + timer.rebalance_s, member.epoch
        self._deadlines.schedule(timer)

    def touch(self, group_id: str, member_id: str) -> None:
        """Extend a session."""
        timer = self._timers.get((group_id, member_id))
        if timer is not None:
            timer.session_ends_s = trio.current_time() + timer.session_s
            self._deadlines.schedule(timer)

    def note_rejoin(self, group_id: str, member_id: str, *, is_joining: bool) -> None:
        """Begin the time in which a member has to send JoinGroup, unless it runs; SyncGroup, if it is joining."""
        timer = self._timers.get((group_id, member_id))
        if timer is not None and (is_joining or timer.rejoins_by_s == NEVER_S):
            timer.rejoins_by_s = trio.current_time() + timer.rebalance_s
            self._deadlines.schedule(timer)

    def note_synced(self, group_id: str, member_id: str) -> None:
        """End the time in which a member has to send SyncGroup."""
        timer = self._timers.get((group_id, member_id))
        if timer is not None:
            timer.rejoins_by_s = NEVER_S

    def schedule(self, timer: MemberTimer) -> None:
        """Look at a timer again at its deadline, if its member is still there."""
        if self._timers.get((timer.group_id, timer.member_id)) is timer:
            self._deadlines.schedule(timer)

    async def run(self, expire: Callable[[MemberTimer], Awaitable[None]]) -> None:
        """Call `expire` with each timer whose deadline has passed, until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                now_s = trio.current_time()
                for timer in self._deadlines.due(now_s):
                    if timer.deadline_s() > now_s:
                        self.schedule(timer)
                    else:
                        nursery.start_soon(expire, timer)
                await self._deadlines.wait()
