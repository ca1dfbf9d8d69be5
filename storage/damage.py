"""What was found unreadable in a log, and where: told with the log, in `info` and by the commands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """Something unreadable that was found and left where it is, or set aside."""

    path: str
    position: int
    offset: int
    reason: str
