"""Formats numbers, sizes, durations, names and tables for people, the same in every command and in `.offsetfs/stats`.

Figures have about three digits and decimal units, as `ls --si` and `dd` print them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence


def printable(text: str) -> str:
    """Return `text` with everything that is not printable escaped, newlines too.

    File names, mount points and names of processes may hold any byte, and a terminal obeys some of them: a name must
    neither move the cursor nor begin a line of its own.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of equal length as lines, the first column aligned left and all others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


def count(number: float) -> str:
    """Return a number with about three digits: `7`, `1.21 k`, `64.2 M`."""
    for unit in ("", " k", " M", " G"):
        if number < 999.5 or unit == " G":
            break
        number /= 1000
    return f"{number:.3g}{unit}"


def size(number: float) -> str:
    """Return bytes in units of 1000: `7 B`, `1.21 kB`, `64.2 MB`."""
    text = count(number)
    return f"{text}B" if " " in text else f"{text} B"


def duration(seconds: float) -> str:
    """Return a time: `4.2 ms`, `12 s`, `2 h 5 min`, `3 d 4 h`, `12 years`."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = int(seconds) // 60
    if minutes < 120:
        return f"{minutes} min"
    hours = minutes // 60
    if hours < 48:
        return f"{hours} h {minutes % 60} min"
    days = hours // 24
    return f"{days} d {hours % 24} h" if days < 2 * 365 else f"{days // 365:,} years"


def utc_time(milliseconds: int) -> str:
    """Return a time since 1970: `2026-11-21T13:05:07.123Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000)) + f".{milliseconds % 1000:03d}Z"


def most_frequent(counts: Mapping[str, int]) -> str:
    """Return the eight names with the largest counts: `read 12, lookup 3`; `none` without any."""
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:8]
    return ", ".join(f"{name} {count}" for name, count in most) or "none"
