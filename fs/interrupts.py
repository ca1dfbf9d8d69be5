"""Whether a process that waits for us has a signal to die of.

The kernel does not let a process go that waits for an answer of the mount, not even for SIGKILL, and pyfuse3 hands on
no word of it. But it shows in /proc: a reader that was sent a signal has it pending, because it cannot take it. Who
waits for an answer stands in `request_wait_answer`, so it can be told whether the process that opened a file is the
one that reads it, or another of its threads, or one of its children, to which a shell has passed the descriptor on.

A reader without a signal sleeps where a signal would wake it; the kernel then puts it to a sleep that nothing ends. So
one letter tells most of the time, and a look costs about 12 µs; `waiting` looks a few times a second.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator

_WAITS_HERE = (b"request_wait_answer", b"0", b"")
"""Where a reader stands; the latter two where the kernel does not tell us."""

_FAMILY_MAX = 64
"""How many threads are looked at for one reader: bounds a look at a shell with many children."""

_BYTES_MAX = 16 << 10


class Seen(enum.Enum):
    """What is seen of a reader."""

    WAITS = "it waits, and has no signal to take"
    INTERRUPTED = "a signal waits for it"
    NOTHING = "no process is seen that waits: it is gone, or hidden, or passed the file on to a stranger"


def look(pid: int, proc: str = "/proc") -> Seen:
    """Return what is seen of the process or thread `pid` (0: hidden), which opened a file that somebody reads now."""
    seen = _look_at(pid, proc) if pid > 0 else Seen.NOTHING
    if seen is not Seen.NOTHING or pid <= 0:
        return seen
    for member, _ in zip(_family(pid, proc), range(_FAMILY_MAX), strict=False):
        found = _look_at(member, proc)
        if found is Seen.INTERRUPTED:
            return found
        seen = found if seen is Seen.NOTHING else seen
    return seen


def _look_at(pid: int, proc: str) -> Seen:
    if _read(f"{proc}/{pid}/wchan") not in _WAITS_HERE:
        return Seen.NOTHING
    state = (_read(f"{proc}/{pid}/stat") or b"").rpartition(b")")[2][1:2]
    if state == b"D":  # the sleep that nothing ends begins with a signal
        return Seen.INTERRUPTED if _has_signal(pid, proc) else Seen.WAITS
    return Seen.WAITS if state == b"S" else Seen.NOTHING


def _has_signal(pid: int, proc: str) -> bool:
    """Whether a signal is pending that is neither blocked nor ignored."""
    status = _read(f"{proc}/{pid}/status") or b""
    masks = status[status.find(b"SigPnd:") :].split(None, 8)[1:8:2]
    if len(masks) < 4:
        return False
    pending, shared, blocked, ignored = (int(mask, 16) for mask in masks)
    return bool((pending | shared) & ~blocked & ~ignored)


def _family(pid: int, proc: str) -> Iterator[int]:
    """Yield the threads of a process, then those of its children, and so on."""
    processes = [pid]
    for process in processes:  # grows meanwhile
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
    except OSError:  # it has just ended
        return None
    finally:
        os.close(fd)
