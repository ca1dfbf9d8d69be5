"""The open files of a segment, and what the modules that search or open them need of a `Segment`.

`segment` imports those modules. With these interfaces no import leads back to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from offsetfs.storage.files import File
from offsetfs.storage.records.format.batch import Batch, BatchHeader
from offsetfs.storage.records.format.legacy import NO_RUNS
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.settings.config import LogConfig


@dataclass(slots=True, weakref_slot=True, eq=False)
class SegmentFiles:
    """The open files of a segment. They close when the last reader drops them."""

    log: File
    index: OffsetIndex
    time_index: TimeIndex


class NamedSegment(Protocol):
    """A segment as the modules use it that open its files; see `Segment` for what each member is."""

    @property
    def directory(self) -> str: ...

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def config(self) -> LogConfig: ...

    @property
    def log_path(self) -> str: ...

    @property
    def inode(self) -> int | None: ...

    @property
    def read_only(self) -> bool: ...

    @property
    def is_removed(self) -> bool: ...

    @property
    def names_lock(self) -> Lock: ...

    def path(self, suffix: str) -> str: ...


class SearchableSegment(NamedSegment, Protocol):
    """A segment as the searches by offset and by time use it."""

    def open_files(self, *, nowait: bool = False) -> SegmentFiles: ...

    def rebuild_indexes(self, *, nowait: bool = False) -> SegmentFiles: ...

    def is_appended_here(self, position: int) -> bool: ...

    def note_damage(self) -> None: ...

    def end_before(self, offset: int) -> tuple[int, int] | None: ...

    def find(self, offset: int, *, offset_end: int | None = None, nowait: bool = False) -> Batch | None: ...

    def headers(
        self, position: int = 0, *, over_damage: bool = False, runs: tuple[int, ...] = NO_RUNS
    ) -> Iterator[tuple[int, BatchHeader]]: ...
