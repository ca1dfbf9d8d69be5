"""Waiting for partitions to change: blocked readers, and files that are polled. A reader may wait for several at once.

    AppendQueue ── grown ──┐
    rmdir, end of mount ───┼→ Waiting ─→ readers wake, polls are notified
    a look at the log ─────┘   └─ while somebody blocks: his signals, his time

What this mount appends wakes at once. What somebody else changes (a broker that writes the directory below a read-only
mount, retention) is found by looking, a hundred times a second where others write, else five times; and only while
somebody waits. A wake-up says that something has changed, not what: who is woken looks for himself.

A blocked reader is let go, with EINTR, when a signal waits for him (`interrupts`), when he cannot be seen and has
waited for two seconds, and before the kernel's request timeout would end the mount. Everything is on the event loop.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import select
from collections.abc import Hashable, Sequence
from typing import Protocol

import trio
from pyfuse3 import FUSEError, PollHandle

from offsetfs.fs import interrupts

READERS_MAX = 3072
"""How many may be blocked at a time: each keeps a task and a request of the kernel's. Those beyond get EAGAIN."""

LOOK_S = 0.01  # at a log that somebody else writes: as often as it looks at its files at all
SIGNALS_S = 0.2  # from look to look at a blocked reader
LOOKED_AT_ONCE = 8  # readers: a fraction of a millisecond
LOOKS = 20  # in the time from look to look, when there are many: a hundred wake-ups a second
UNSEEN_S = 2.0  # what a reader that cannot be seen waits at most
TIMEOUT_SHARE = 0.5  # of what the kernel lets a request wait before it ends the mount

AGAIN_S = 0.2  # from answer to answer to who polls and has to be asked to look again

READABLE = select.POLLIN | select.POLLRDNORM
WRITABLE = select.POLLOUT | select.POLLWRNORM
ALWAYS_READY = READABLE | WRITABLE
"""What poll(2) is told of a file that nobody has to wait for."""

State = Hashable


class Watched(Protocol):
    """Something that a reader waits for to change: a partition, or the set of partitions of a topic."""

    @property
    def name(self) -> Hashable: ...

    @property
    def state(self) -> State:
        """What changes, as of the last `refresh`."""

    def refresh(self) -> None:
        """Look at the files below, which another process may have changed."""


Observation = tuple[Watched, State]
"""What a reader waits for, and its state when the reader found nothing there."""


def observe(watched: Watched) -> Observation:
    """Return `watched` with its state, after a look at its files."""
    watched.refresh()
    return watched, watched.state


class _Reader:
    """One blocked request."""

    __slots__ = ("code", "pid", "since", "task")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.since = trio.current_time()
        self.task: trio.lowlevel.Task | None = None  # as long as it sleeps
        self.code = 0

    async def sleep(self) -> None:
        """Return when woken; what an Event does, at a third of the cost."""
        self.task = trio.lowlevel.current_task()

        def abort(_: object) -> trio.lowlevel.Abort:
            self.task = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def wake(self, code: int = 0) -> None:
        task, self.task = self.task, None
        if task is not None:
            self.code = code
            trio.lowlevel.reschedule(task)


class _Group:
    """The readers and polls that wait for one partition, or topic. `seen`: its state when they began to."""

    __slots__ = ("polls", "readers", "restless", "seen", "watched")

    def __init__(self, watched: Watched, seen: State) -> None:
        self.watched = watched
        self.seen = seen
        self.readers: set[_Reader] = set()
        self.polls: dict[int, PollHandle] = {}
        self.restless: set[int] = set()

    def wake(self) -> None:
        self.seen = self.watched.state
        readers, self.readers = self.readers, set()
        for reader in readers:
            reader.wake()
        notify_all(self.polls)
        self.restless.clear()

    def wake_restless(self) -> None:
        for handle in self.restless:
            poll = self.polls.pop(handle, None)
            if poll is not None:
                notify(poll)
        self.restless.clear()


def notify(poll: PollHandle) -> None:
    """Wake who polls; the kernel may have let go of him."""
    with contextlib.suppress(OSError):
        poll.notify()


def notify_all(polls: dict[int, PollHandle]) -> None:
    """Wake all who poll, and forget them: they ask again."""
    told = list(polls.values())
    polls.clear()
    for poll in told:
        notify(poll)


class Waiting:
    """All who wait, of one mount."""

    def __init__(self, nursery: trio.Nursery, *, others_write: bool, request_timeout_s: float | None) -> None:
        """`others_write`: the logs may grow without `grown` being called."""
        self._nursery = nursery
        self._own_pid = os.getpid()
        self._others_write = others_write
        self._patience_s = request_timeout_s * TIMEOUT_SHARE if request_timeout_s else math.inf
        self._groups: dict[Hashable, _Group] = {}
        self.followers = 0
        """Open streams, blocked or not."""
        self._known: dict[int, tuple[float, interrupts.Seen]] = {}  # what was seen of a process, and when
        self._rooms: dict[int, PollHandle] = {}  # those who wait to append
        self._polled: dict[int, list[_Group]] = {}  # the last groups of each handle that polls
        self._readers: dict[_Reader, None] = {}  # blocked, in the order in which they are to be looked at
        self._is_looking = False
        self.is_over = False
        """Whether the mount ends: nobody waits any more."""

    @property
    def blocked(self) -> int:
        """How many readers are blocked now."""
        return len(self._readers)

    # --- waking ------------------------------------------------------------------------------------------------------

    def grown(self, name: Hashable) -> None:
        """Wake those who wait for a partition, to which something was appended, or for a topic."""
        group = self._groups.pop(name, None)
        if group is not None:
            group.wake()
        if self._rooms:
            notify_all(self._rooms)

    def close(self) -> None:
        """Let everybody go, now and from now on, with ENODEV: the mount ends."""
        self.is_over = True
        for reader in self._readers:
            reader.wake(errno.ENODEV)
        for name in list(self._groups):
            self._groups.pop(name).wake()
        notify_all(self._rooms)

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def wait(self, seen: Sequence[Observation], pid: int) -> None:
        """Return when one of those in `seen` no longer has that state.

        `pid` opened the file. FUSEError EINTR when the reader is to be let go, EAGAIN when too many wait, ENODEV when
        the mount ends.
        """
        if self.is_over or len(self._readers) >= READERS_MAX:
            raise FUSEError(errno.ENODEV if self.is_over else errno.EAGAIN)
        groups = self._unchanged(seen)
        if groups is None:
            return
        reader = _Reader(pid)
        for group in groups:
            group.readers.add(reader)
        self._readers[reader] = None
        self._begin_looking()
        try:
            await reader.sleep()
        finally:
            del self._readers[reader]
            for group in groups:
                group.readers.discard(reader)
        if reader.code:
            raise FUSEError(reader.code)

    def poll(self, seen: Sequence[Observation], handle: int, poll: PollHandle, *, is_restless: bool = False) -> None:
        """Notify `poll` when one of those in `seen` no longer has that state; it replaces the handle's last one.

        `is_restless`: and else after a fifth of a second.
        """
        groups = None if self.is_over else self._unchanged(seen)
        if groups is None:
            notify(poll)
            return
        self._forget_poll(handle)
        self._polled[handle] = groups
        for group in groups:
            if is_restless:
                group.restless.add(handle)
            group.polls[handle] = poll
        self._begin_looking()

    def poll_room(self, handle: int, poll: PollHandle) -> None:
        """Notify `poll` when there may be room for appends again."""
        self._rooms[handle] = poll
        self._begin_looking()

    def forget(self, handle: int) -> None:
        """A handle was closed: nobody polls it any more."""
        self._rooms.pop(handle, None)
        self._forget_poll(handle)

    def _forget_poll(self, handle: int) -> None:
        for group in self._polled.pop(handle, ()):
            group.polls.pop(handle, None)

    def _unchanged(self, seen: Sequence[Observation]) -> list[_Group] | None:
        """Return the groups to wait in; None when one of the states is another already."""
        if any(watched.state != state for watched, state in seen):
            return None
        return [self._group(watched, state) for watched, state in seen]

    def _group(self, watched: Watched, seen: State) -> _Group:
        """Return the group that waits for `watched`, whose state is still `seen`."""
        group = self._groups.get(watched.name)
        if group is not None and (group.watched is not watched or group.seen != seen):
            self.grown(watched.name)
            group = None
        if group is None:
            group = self._groups[watched.name] = _Group(watched, seen)
        return group

    # --- looking -----------------------------------------------------------------------------------------------------

    def _begin_looking(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._nursery.start_soon(self._look)

    async def _look(self) -> None:
        """Look at the logs and at the readers, as long as somebody waits."""
        begun = trio.current_time()
        next_logs, next_readers, next_polls = begun + LOOK_S, begun + SIGNALS_S, begun + AGAIN_S
        try:
            while (self._groups or self._rooms) and not self.is_over:
                now = trio.current_time()
                with contextlib.suppress(MemoryError):  # the next look sees what this one did not
                    if now >= next_logs:
                        next_logs = now + SIGNALS_S
                        self._look_at_logs()
                        spent = trio.current_time() - now
                        next_logs = now + max(LOOK_S if self._others_write else SIGNALS_S, 20 * spent)
                    if now >= next_polls:
                        next_polls = now + AGAIN_S
                        self._ask_again()
                    if now >= next_readers:
                        next_readers = now + SIGNALS_S
                        next_readers = now + self._look_at_some(now)
                await trio.sleep_until(min(next_logs, next_readers, next_polls))
        finally:
            self._is_looking = False
            self._known.clear()

    def _look_at_logs(self) -> None:
        for name, group in list(self._groups.items()):
            group.watched.refresh()
            if not group.readers and not group.polls:
                del self._groups[name]
            elif group.watched.state != group.seen:
                self.grown(name)

    def _ask_again(self) -> None:
        notify_all(self._rooms)
        for group in self._groups.values():
            group.wake_restless()

    def _look_at_some(self, now: float) -> float:
        """Look at the readers whose turn it is; return after how many seconds to look at the next ones."""
        count = max(LOOKED_AT_ONCE, len(self._readers) // LOOKS)
        for reader in list(itertools.islice(self._readers, count)):
            del self._readers[reader]
            self._readers[reader] = None  # the last one to be looked at again
            self._look_at(reader, now)
        return SIGNALS_S * count / max(len(self._readers), count)

    def _look_at(self, reader: _Reader, now: float) -> None:
        waited = now - reader.since
        if reader.pid == self._own_pid:  # no kernel asks us for it: nobody has to be let go
            return
        seen = self._seen(reader.pid, now)
        is_lost = seen is interrupts.Seen.NOTHING and waited >= UNSEEN_S
        if seen is interrupts.Seen.INTERRUPTED or is_lost or waited >= self._patience_s - SIGNALS_S:
            reader.wake(errno.EINTR)

    def _seen(self, pid: int, now: float) -> interrupts.Seen:
        """Look at a process, once for all who wait in its threads."""
        when, seen = self._known.get(pid, (-math.inf, interrupts.Seen.WAITS))
        if now - when >= SIGNALS_S / 2:
            if len(self._known) >= READERS_MAX:
                self._known.clear()
            seen = interrupts.look(pid)
            self._known[pid] = now, seen
        return seen
