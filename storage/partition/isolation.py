"""What a reader is shown of a log: all records, or only those that are committed.

The isolation levels are those of Kafka's consumers (KIP-98). With read_committed a reader sees what lies below the last
stable offset and is of no aborted transaction; both only ever grow, so what was shown once is shown for good. Control
batches are no records and are not visible.
"""

from __future__ import annotations

from typing import Final, Literal

from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import BatchHeader
from offsetfs.storage.segments.time_search import FoundRecord, VisibilityFilter, shows_data

READ_UNCOMMITTED: Final = "read_uncommitted"
READ_COMMITTED: Final = "read_committed"


class LogView:
    """A log as readers of one isolation level see it. With `nowait` everything raises `WouldBlock` as the log does."""

    __slots__ = ("_on_damage", "is_committed_only", "log", "shows")

    def __init__(self, log: Log, *, is_committed_only: bool = False, on_damage: OnDamage | None = None) -> None:
        """`on_damage`: called with each batch that a search by time skips; by default the log records it."""
        self.log = log
        self._on_damage = on_damage
        self.is_committed_only = is_committed_only
        self.shows: VisibilityFilter = self._shows_committed if is_committed_only else shows_data

    @property
    def isolation(self) -> Literal["read_uncommitted", "read_committed"]:
        """The isolation level, as Kafka's consumers name it."""
        return READ_COMMITTED if self.is_committed_only else READ_UNCOMMITTED

    def end_offset(self, *, nowait: bool = False) -> int:
        """Return the offset at which the view ends for now; never inside a batch."""
        return self.log.last_stable_offset(nowait=nowait) if self.is_committed_only else self.log.next_offset

    def _shows_committed(self, header: BatchHeader, *, nowait: bool = False) -> bool:
        return not header.is_control and self.log.transactions.is_committed(header, nowait=nowait)

    def find_timestamp(self, timestamp: int, *, nowait: bool = False) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record shown with a timestamp ≥ `timestamp`; see `Log`."""
        found = self.find_record(timestamp, nowait=nowait)
        return None if found is None else (found.offset, found.timestamp)

    def find_record(self, timestamp: int, *, nowait: bool = False) -> FoundRecord | None:
        """Return the first record shown with a timestamp ≥ `timestamp`, and its batch; see `Log.find_timestamp`."""
        end = self.end_offset(nowait=nowait)
        found = self.log.find_record(timestamp, shows=self.shows, on_damage=self._on_damage, nowait=nowait)
        return found if found is not None and found.offset < end else None
