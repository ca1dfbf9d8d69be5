"""Values that a log returns, and the interface of a follower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage that was found and left in place, or bytes that recovery cut.

    `offset`: where the damage begins, None if unknown. `kept`: the path of the file with the cut bytes; "" if they were
    all zeros; None if nothing was cut.
    """

    path: str
    position: int
    offset: int | None
    reason: str
    kept: str | None = None


class Appended(NamedTuple):
    """The position of an appended batch. `timestamp`: its largest, in milliseconds."""

    base_offset: int
    last_offset: int
    timestamp: int


def remote_note(start: int | None, first: int) -> str | None:
    """Return a sentence on the records between `start`, where a log begins, and `first`, where its files begin."""
    if start is None or start >= first:
        return None
    return f"offsets {start} to {first - 1} are only in the remote storage of its broker, which is not read here"


class FollowerProtocol(Protocol):
    """Updates a log with the changes of another writer (storage.partition.follower)."""

    is_gone: bool

    @property
    def is_bounded(self) -> bool: ...

    def look(self, *, is_forced: bool = False) -> None: ...

    def log_end_offset(self) -> int: ...
