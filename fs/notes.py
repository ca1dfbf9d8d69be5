"""What `.offsetfs/errors` shows: the last thousand different faults, each with its place and its cure.

A line says when, the errno a caller got, where (path, position, offset), what is wrong and what helps. The same fault
again only moves its line to the end and counts: a `grep -r` over a damaged segment must not push everything else out.
Lines hold no record contents, and control characters in names are escaped.
"""

from __future__ import annotations

import errno
import time
from collections import OrderedDict
from collections.abc import Callable

from offsetfs.fs.errors import cure_of, errno_of

LINES_MAX = 1000
LINE_LENGTH_MAX = 1000  # characters: a message may quote a name of any length


class Notes:
    """A bounded memory of faults. Safe to use from several threads: each step is one dictionary operation."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lines: OrderedDict[str, tuple[str, int]] = OrderedDict()  # text → (when last, how often)

    def add(self, error: BaseException, what: str = "") -> int:
        """Remember `error`, met while doing `what`; return its errno."""
        number = errno_of(error)
        name = errno.errorcode.get(number, str(number))
        place = f"{what}: {_text(error)}" if what else _text(error)
        cure = cure_of(error)
        self.say(f"{name} {place}; {cure}" if cure else f"{name} {place}")
        return number

    def say(self, text: str) -> None:
        """Remember a line of our own."""
        line = _printable(text)
        count = self._lines.pop(line, ("", 0))[1] + 1
        self._lines[line] = (_stamp(self._now()), count)
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


def _printable(text: str) -> str:
    escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return escaped if len(escaped) <= LINE_LENGTH_MAX else escaped[: LINE_LENGTH_MAX - 1] + "…"


def _stamp(seconds: float) -> str:
    milliseconds = int(seconds * 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03d}Z"
