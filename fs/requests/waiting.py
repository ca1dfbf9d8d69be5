"""Blocks readers, and notifies polls, until partitions change. A reader may wait for several partitions at once.

    ChangeFeed ─── grown ──┐
    rmdir, end of mount ───┼→ Waiting ─→ readers wake, polls are notified
    a check of the log ────┘   └─ while a reader is blocked: its signals, its time

An append by this process wakes its readers at once. Changes of other processes (a broker that writes the directory
of a read-only mount) and retention are found by polling, and only while a reader waits: a hundred times a second if
others write, else five times. A wake-up reports that something changed, not what: the reader checks the state again.

A blocked read ends with EINTR if its process has a pending signal (`interrupts`), or if the process is not visible for
two seconds. It also ends before the kernel's request timeout, which would end the mount. All runs on the event loop.
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

from offsetfs.common.loop_watch import LoopWatch
from offsetfs.fs.fuse_types import FUSEError, PollHandle
from offsetfs.fs.requests import interrupts

READERS_MAX = 3072
"""The maximum number of blocked readers: each takes a task and a request of the kernel. Further readers get EAGAIN."""

LOG_CHECK_S = 0.01  # the interval of checks of a log that another process writes
READER_CHECK_S = 0.2  # the interval of checks of a blocked reader, and of a log that only this mount writes
READERS_PER_STEP_MIN = 8  # a check takes 12 µs, so a step takes a fraction of a millisecond
STEPS_MAX = 20  # steps in READER_CHECK_S, however many readers wait: at most a hundred wake-ups a second
INVISIBLE_S = 2.0  # the longest wait of a reader whose process is not visible
TIMEOUT_SHARE = 0.5  # of the kernel's request timeout, after which it ends the mount

RESTLESS_S = 0.2  # a restless poll is notified after this time, even without a change

READABLE = select.POLLIN | select.POLLRDNORM
WRITABLE = select.POLLOUT | select.POLLWRNORM
ALWAYS_READY = READABLE | WRITABLE
"""The events of poll(2) for a file that never blocks."""

State = Hashable


class Watched(Protocol):
    """An object whose change a reader waits for: a partition, or the set of partitions of a topic."""

    @property
    def name(self) -> Hashable: ...

    @property
    def state(self) -> State:
        """The state as of the last `refresh`."""

    def refresh(self) -> None:
        """Read the files again, which another process may have changed."""


Observation = tuple[Watched, State]
"""A watched object, and its state when the reader found no data."""


def observe(watched: Watched) -> Observation:
    """Refresh `watched`; return it with its state."""
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
        """Return after `wake`. A trio.Event does the same at three times the cost."""
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
    """The readers and polls that wait for one partition or topic. `seen`: its state when they started to wait."""

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
    """Notify a poll. OSError is ignored: the kernel may have dropped the poll already."""
    with contextlib.suppress(OSError):
        poll.notify()


def notify_all(polls: dict[int, PollHandle]) -> None:
    """Notify all polls and forget them: the kernel sends a poll again."""
    pending = list(polls.values())
    polls.clear()
    for poll in pending:
        notify(poll)


class Waiting:
    """The blocked readers and the polls of one mount."""

    def __init__(self, nursery: trio.Nursery, *, others_write: bool, request_timeout_s: float | None) -> None:
        """`others_write`: the logs may grow without `grown` being called."""
        self._nursery = nursery
        self._own_pid = os.getpid()
        self._others_write = others_write
        self._patience_s = request_timeout_s * TIMEOUT_SHARE if request_timeout_s else math.inf
        self._groups: dict[Hashable, _Group] = {}
        self.followers = 0
        """Open streams, blocked or not."""
        self._known: dict[int, tuple[float, interrupts.ReaderState]] = {}  # by process: its last check
        self._append_polls: dict[int, PollHandle] = {}  # polls of append files that wait for free buffers
        self._polled: dict[int, list[_Group]] = {}  # the last groups of each handle that polls
        self._readers: dict[_Reader, None] = {}  # blocked readers, in the order of their next check
        self._is_checking = False
        self.is_over = False
        """Whether the mount ends: no reader may block any more."""

    @property
    def blocked(self) -> int:
        """The number of readers that are blocked now."""
        return len(self._readers)

    # --- waking ------------------------------------------------------------------------------------------------------

    def grown(self, name: Hashable) -> None:
        """Wake the readers and polls of a partition that has changed, or of a topic."""
        group = self._groups.pop(name, None)
        if group is not None:
            group.wake()

    def space_freed(self) -> None:
        """Notify the polls of append files: buffers are free again."""
        if self._append_polls:
            notify_all(self._append_polls)

    def close(self) -> None:
        """End all waits with ENODEV, now and from now on: the mount ends."""
        self.is_over = True
        for reader in self._readers:
            reader.wake(errno.ENODEV)
        for name in list(self._groups):
            self._groups.pop(name).wake()
        notify_all(self._append_polls)

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def wait(self, seen: Sequence[Observation], pid: int) -> None:
        """Return when an object in `seen` no longer has that state.

        `pid` opened the file. FUSEError EINTR if the wait must end early, EAGAIN if too many readers wait, ENODEV if
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
        self._begin_checks()
        try:
            await reader.sleep()
        finally:
            del self._readers[reader]
            for group in groups:
                group.readers.discard(reader)
        if reader.code:
            raise FUSEError(reader.code)

    def poll(self, seen: Sequence[Observation], handle: int, poll: PollHandle, *, is_restless: bool = False) -> None:
        """Notify `poll` when an object in `seen` no longer has that state. It replaces the handle's previous poll.

        `is_restless`: notify after a fifth of a second even without a change.
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
        self._begin_checks()

    def poll_space(self, handle: int, poll: PollHandle) -> None:
        """Notify `poll` when there may be free buffers for appends again."""
        self._append_polls[handle] = poll
        self._begin_checks()

    def forget(self, handle: int) -> None:
        """Forget the polls of a closed handle."""
        self._append_polls.pop(handle, None)
        self._forget_poll(handle)

    def _forget_poll(self, handle: int) -> None:
        for group in self._polled.pop(handle, ()):
            group.polls.pop(handle, None)

    def _unchanged(self, seen: Sequence[Observation]) -> list[_Group] | None:
        """Return the groups to wait in. None if one of the states has changed already."""
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

    # --- checks ------------------------------------------------------------------------------------------------------

    def _begin_checks(self) -> None:
        if not self._is_checking:
            self._is_checking = True
            self._nursery.start_soon(self._check)

    async def _check(self) -> None:
        """Check the logs and the readers, as long as a reader or poll waits."""
        begun = trio.current_time()
        next_logs, next_readers, next_polls = begun + LOG_CHECK_S, begun + READER_CHECK_S, begun + RESTLESS_S
        try:
            while (self._groups or self._append_polls) and not self.is_over:
                now = trio.current_time()
                with contextlib.suppress(MemoryError):  # the next check repeats this one
                    if now >= next_logs:
                        next_logs = now + READER_CHECK_S
                        watch = LoopWatch()
                        self._check_logs()
                        spent = watch.seconds()
                        # Checks take at most a twentieth of the time of the event loop.
                        next_logs = now + max(LOG_CHECK_S if self._others_write else READER_CHECK_S, 20 * spent)
                    if now >= next_polls:
                        next_polls = now + RESTLESS_S
                        self._notify_restless()
                    if now >= next_readers:
                        next_readers = now + READER_CHECK_S
                        next_readers = now + self._check_some_readers(now)
                await trio.sleep_until(min(next_logs, next_readers, next_polls))
        finally:
            self._is_checking = False
            self._known.clear()

    def _check_logs(self) -> None:
        for name, group in list(self._groups.items()):
            group.watched.refresh()
            if not group.readers and not group.polls:
                del self._groups[name]
            elif group.watched.state != group.seen:
                self.grown(name)

    def _notify_restless(self) -> None:
        notify_all(self._append_polls)
        for group in self._groups.values():
            group.wake_restless()

    def _check_some_readers(self, now: float) -> float:
        """Check the next few readers; return the seconds until the next check."""
        count = max(READERS_PER_STEP_MIN, len(self._readers) // STEPS_MAX)
        for reader in list(itertools.islice(self._readers, count)):
            del self._readers[reader]
            self._readers[reader] = None  # moves it to the end of the order
            self._check_reader(reader, now)
        return READER_CHECK_S * count / max(len(self._readers), count)

    def _check_reader(self, reader: _Reader, now: float) -> None:
        waited = now - reader.since
        if reader.pid == self._own_pid:  # a read without a kernel, inside this process, cannot be interrupted
            return
        seen = self._state_of(reader.pid, now)
        is_lost = seen is interrupts.ReaderState.NOTHING and waited >= INVISIBLE_S
        if seen is interrupts.ReaderState.INTERRUPTED or is_lost or waited >= self._patience_s - READER_CHECK_S:
            reader.wake(errno.EINTR)

    def _state_of(self, pid: int, now: float) -> interrupts.ReaderState:
        """Check a process; the result is shared by all readers of its threads."""
        when, seen = self._known.get(pid, (-math.inf, interrupts.ReaderState.WAITS))
        if now - when >= READER_CHECK_S / 2:
            if len(self._known) >= READERS_MAX:
                self._known.clear()
            seen = interrupts.check_reader(pid)
            self._known[pid] = now, seen
        return seen
