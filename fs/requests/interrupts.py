"""Detects in /proc that a process which waits for a reply of the mount has a pending signal.

The kernel keeps a process waiting until the daemon replies, even after SIGKILL, and pyfuse3 does not pass the kernel's
INTERRUPT requests on. /proc shows the signal: it stays pending, because the process cannot handle it. A process that
waits for a reply has the wait channel `request_wait_answer`. This identifies the reader: the process that opened the
file, another of its threads, or a child that inherited the descriptor from a shell.

A reader without a signal is in interruptible sleep (state S); after a signal the kernel puts it into uninterruptible
sleep (state D). So one letter suffices in most cases. A check costs about 12 µs, and `waiting` makes a few per second.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator

_WAITS_HERE = (b"request_wait_answer", b"0", b"")
"""The wait channels of a reader; the kernel shows the latter two if it hides wait channels."""

_FAMILY_MAX = 64
"""The number of threads that one check reads: bounds the cost for a shell with many children."""

_BYTES_MAX = 16 << 10


class ReaderState(enum.Enum):
    """The result of a check."""

    WAITS = "the reader waits and has no pending signal"
    INTERRUPTED = "the reader has a pending signal"
    NOTHING = "no waiting process is visible: it ended, is hidden, or passed the file to an unrelated process"


def check_reader(pid: int, proc: str = "/proc") -> ReaderState:
    """Check the process or thread `pid` (0: hidden), which opened a file with a blocked read."""
    state = _check_thread(pid, proc) if pid > 0 else ReaderState.NOTHING
    if state is not ReaderState.NOTHING or pid <= 0:
        return state
    # A shell opens the redirected file and passes the descriptor to `cat`, which then reads.
    for member, _ in zip(_family(pid, proc), range(_FAMILY_MAX), strict=False):
        member_state = _check_thread(member, proc)
        if member_state is ReaderState.INTERRUPTED:
            return member_state
        state = member_state if state is ReaderState.NOTHING else state
    return state


def _check_thread(pid: int, proc: str) -> ReaderState:
    if _read(f"{proc}/{pid}/wchan") not in _WAITS_HERE:
        return ReaderState.NOTHING
    state = (_read(f"{proc}/{pid}/stat") or b"").rpartition(b")")[2][1:2]
    if state == b"D":  # uninterruptible sleep begins with a signal
        return ReaderState.INTERRUPTED if _has_signal(pid, proc) else ReaderState.WAITS
    return ReaderState.WAITS if state == b"S" else ReaderState.NOTHING


def _has_signal(pid: int, proc: str) -> bool:
    """Whether a signal is pending that is neither blocked nor ignored."""
    status = _read(f"{proc}/{pid}/status") or b""
    masks = status[status.find(b"SigPnd:") :].split(None, 8)[1:8:2]
    if len(masks) < 4:
        return False
    pending, shared, blocked, ignored = (int(mask, 16) for mask in masks)
    # A blocked or ignored signal does not interrupt a read of a pipe either.
    return bool((pending | shared) & ~blocked & ~ignored)


def _family(pid: int, proc: str) -> Iterator[int]:
    """Yield the threads of a process, then those of its children, and so on."""
    processes = [pid]
    for process in processes:  # the loop appends to the list
        try:
            threads = [int(name) for name in os.listdir(f"{proc}/{process}/task")]
        except OSError:
            continue
        yield from threads
        for thread in threads:
            processes += map(int, (_read(f"{proc}/{process}/task/{thread}/children") or b"").split())


def _read(path: str) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(fd, _BYTES_MAX)
    except OSError:  # the process has just ended
        return None
    finally:
        os.close(fd)
