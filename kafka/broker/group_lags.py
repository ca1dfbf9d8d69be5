"""Lag of consumer groups for the report of a broker: in records, and in seconds with few reads.

The times of the records at which groups are, and of the newest ones, are remembered: an unchanged commit of an
unchanged partition costs nothing. A report reads at most `READS_MAX` batches, first for partitions that it has not
measured for the longest time; the others keep the seconds that were measured last.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetfs.storage import Log, LogDirectory, TopicPartition, coordinators
from offsetfs.storage.errors import StorageError

READS_MAX = 1000


@dataclass(slots=True)
class _Measured:
    """A partition when it was measured. `following`: committed offset and time of the next record, by group."""

    turn: int = 0
    end: int = -1
    newest_ms: int | None = None
    following: dict[str, tuple[int, int | None]] = field(default_factory=dict)

    def is_of(self, end: int, committed: Mapping[str, int]) -> bool:
        behind = {group: offset for group, offset in committed.items() if offset < end}
        return not behind or (
            self.end == end
            and behind.keys() <= self.following.keys()
            and all(self.following[group][0] == offset for group, offset in behind.items())
        )


class LagTimes:
    """Measures the seconds that groups are behind, and remembers times. Any thread."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._measured: dict[TopicPartition, _Measured] = {}
        self._turn = 0
        self._reads = 0
        self._lock = threading.Lock()

    def seconds(
        self, ends: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, Mapping[str, int]]
    ) -> dict[tuple[str, TopicPartition], float]:
        """Return the seconds by group and partition; none where they are not known. `committed`: offsets by group."""
        with self._lock:
            self._turn += 1
            self._reads = 0
            self._measured = {
                partition: self._measured.get(partition, _Measured())
                for partition, groups in committed.items()
                if any(offset < ends[partition] for offset in groups.values())
            }
            for partition in sorted(self._measured, key=lambda name: self._measured[name].turn):
                known = self._measured[partition]
                if self._reads < READS_MAX and not known.is_of(ends[partition], committed[partition]):
                    self._measure(partition, ends[partition], committed[partition])
            found = {}
            for partition, groups in committed.items():
                for group, offset in groups.items():
                    seconds = 0.0 if offset >= ends[partition] else self._known_seconds(partition, group)
                    if seconds is not None:
                        found[group, partition] = seconds
            return found

    def _known_seconds(self, partition: TopicPartition, group: str) -> float | None:
        measured = self._measured[partition]
        _, following_ms = measured.following.get(group, (-1, None))
        return coordinators.behind_s(following_ms, measured.newest_ms)

    def _measure(self, partition: TopicPartition, end: int, committed: Mapping[str, int]) -> None:
        known = self._measured[partition]
        if known.end > end:  # cut, or created again: other records have these offsets
            known.following = {}
        known.following = {group: place for group, place in known.following.items() if group in committed}
        known.turn = self._turn
        try:
            with self._directory.borrowed(partition) as log:
                if known.end != end:
                    self._reads += 1
                    known.end, known.newest_ms = end, coordinators.newest_record_ms(log, end)
                for group, offset in committed.items():
                    if offset < end and known.following.get(group, (-1, None))[0] != offset and self._reads < READS_MAX:
                        known.following[group] = offset, self._next_ms(log, offset)
        except (StorageError, OSError):  # readers of the partition get the error
            known.following, known.newest_ms = {}, None

    def _next_ms(self, log: Log, offset: int) -> int | None:
        self._reads += 1
        return coordinators.next_record_ms(log, offset)
