"""The recent errors: the content of `.offsetfs/errors`, at most a thousand different faults with path and remedy.

    2026-11-21T13:05:07.123Z EBADMSG read orders-0/42: …0000.log, position 120: checksum; CURE (3 times)
    when                     errno   op   path         cause                              cure

A repeated fault moves its line to the end and increments its count, because a `grep -r` over a damaged segment must not
displace all other lines. Lines contain no record contents, and control characters in names are escaped. A minus stands
for a missing errno, as of a failed background task, and for a missing path.
"""

from __future__ import annotations

import errno
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.common.formatting import printable, utc_time
from offsetfs.fs.fuse_types import FUSEError
from offsetfs.fs.reporting.errors import cure_of, errno_of, name_of

LINES_MAX = 1000
LINE_LENGTH_MAX = 1000  # characters: a message may quote a name of any length
UNKNOWN_CURE = "the log of the mount has details"


@dataclass(frozen=True, slots=True)
class Fault:
    """One line. `op`: the system call or background task. `path`: in the mount. `cure`: the remedy."""

    errno: int | None
    op: str
    path: str
    cause: str
    cure: str

    def __str__(self) -> str:
        name = "-" if self.errno is None else name_of(self.errno)
        return f"{name} {self.op} {self.path or '-'}: {self.cause}; {self.cure}"


class ErrorLog:
    """A bounded list of faults. Safe for several threads, because each step is one dictionary operation."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lines: OrderedDict[str, tuple[str, int]] = OrderedDict()  # text → (when last, how often)
        self.count = 0
        """The number of faults that were recorded since the mount started, repeated faults included."""

    def add(self, error: BaseException, op: str, path: str) -> int:
        """Record `error`, which `op` raised for `path`; return its errno."""
        number = errno_of(error)
        cause = _text(error)
        if path and not cause.startswith(f"{path}/"):
            cause = cause.removeprefix(path).lstrip(",: ")  # the line names the path already
        self.report(Fault(number, op, path, cause, cure_of(error) or UNKNOWN_CURE))
        return number

    def report(self, fault: Fault) -> None:
        """Record a fault."""
        line = _shortened(str(fault))
        count = self._lines.pop(line, ("", 0))[1] + 1
        self._lines[line] = (utc_time(int(self._now() * 1000)), count)
        self.count += 1
        while len(self._lines) > LINES_MAX:
            self._lines.popitem(last=False)

    def text(self) -> bytes:
        """Return all lines, the newest last."""
        lines = [
            f"{when} {line}" + (f" ({count} times)\n" if count > 1 else "\n")
            for line, (when, count) in list(self._lines.items())
        ]
        return "".join(lines).encode()


def _text(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return str(error) or type(error).__name__


def _shortened(text: str) -> str:
    escaped = printable(text)
    return escaped if len(escaped) <= LINE_LENGTH_MAX else escaped[: LINE_LENGTH_MAX - 1] + "…"


_TAKING_RECORDS = "append, append.ndjson and append.raw of a partition take records"
_NO_NEW_FILE = "no file can be created by name", _TAKING_RECORDS
_FROM_THE_LOG = "sizes, modes, owners, times and attributes follow from the log", "change those of a copy"
_IMPOSSIBLE = {
    "open": ("records and views are read only", _TAKING_RECORDS),
    "create": _NO_NEW_FILE,
    "mknod": _NO_NEW_FILE,
    "symlink": _NO_NEW_FILE,
    "link": _NO_NEW_FILE,
    "setattr": _FROM_THE_LOG,
    "setxattr": _FROM_THE_LOG,
    "removexattr": _FROM_THE_LOG,
    "mkdir": ("directories are partitions", "mkdir orders-0 in the root of the mount makes partition 0 of orders"),
    "rmdir": ("directories are partitions", "with -o delete, rmdir orders-0 in the root of the mount removes one"),
    "unlink": ("its files are not removed one by one", "with -o delete, rmdir removes a partition"),
    "rename": (
        "names are those of records, partitions and topics",
        "after an unmount, `offsetfs rename LOGDIR TOPIC NAME` renames a topic",
    ),
}
"""Cause and remedy of the changes that no mount makes, by request."""


class Refusals:
    """Makes the errors of refused changes: EROFS on a read-only mount, else EPERM."""

    def __init__(self, error_log: ErrorLog, *, is_read_only: bool) -> None:
        self._error_log = error_log
        self._is_read_only = is_read_only

    def impossible(self, op: str, path: str) -> FUSEError:
        """Return the error for a change that no mount makes, and record why."""
        return self.other_way(op, path, *_IMPOSSIBLE[op])

    def other_way(self, op: str, path: str, cause: str, remedy: str) -> FUSEError:
        """Return the error for a change that is made in another way, and record which."""
        if not self._is_read_only:
            self._error_log.report(Fault(errno.EPERM, op, path, cause, remedy))
        return FUSEError(errno.EROFS if self._is_read_only else errno.EPERM)

    def missing_option(self, option: str, op: str, path: str) -> FUSEError:
        """Return the error for a change that needs the mount option `option`, and record which one is missing."""
        return self.other_way(op, path, f"the option {option} was not given", f"use -o {option}")
