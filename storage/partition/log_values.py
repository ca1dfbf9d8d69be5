"""What a log says of what it did and found, and what it asks of whoever keeps it up with another writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Damage:
    """Something unreadable that was found and left where it is, or that recovery cut.

    `offset`: where the damage begins, None where that is not known. `kept`: the path of the file that holds what
    recovery cut; "" where all of it was zeros; None where nothing was cut.
    """

    path: str
    position: int
    offset: int | None
    reason: str
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch came to lie. `timestamp`: its largest, milliseconds."""

    base_offset: int
    last_offset: int
    timestamp: int


class FollowerProtocol(Protocol):
    """What keeps a log up with another writer (storage.partition.follower)."""

    is_gone: bool

    @property
    def is_bounded(self) -> bool: ...

    def look(self, *, is_forced: bool = False) -> None: ...

    def log_end_offset(self) -> int: ...
