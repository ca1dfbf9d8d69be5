"""Values that a log returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from offsetfs.storage.files import File


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


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Whole batches that follow each other in a segment file, which stays open as long as this object."""

    file: File
    position: int
    size: int
    offset_end: int
    """The offset after the last batch."""
    read_to: int
    """The position up to which the file was just read, so that the page cache has it."""


def remote_note(start: int | None, first: int) -> str | None:
    """Return a sentence on the records between `start`, where a log begins, and `first`, where its files begin."""
    if start is None or start >= first:
        return None
    return f"offsets {start} to {first - 1} are only in the remote storage of its broker, which is not read here"
