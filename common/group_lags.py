"""Lag of consumer groups for the metrics of a broker or a mount: in records, and in seconds with few reads.

The times of the records at which groups are, and of the newest ones, are remembered: an unchanged commit of an
unchanged partition costs nothing. A report reads at most `READS_MAX` batches, first for partitions that it has not
measured for the longest time; the others keep the seconds that were measured last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from offsetfs.storage import AnyLogDirectory, Log, TopicPartition, coordinators
from offsetfs.storage.errors import StorageError

OTHERS = "(others)"
"""Stands for all groups or topics without samples of their own; no valid name of a topic."""

LAGS_MAX = 10_000
"""The pairs of group and topic with lags of their own."""
READS_MAX = 1000


@dataclass(frozen=True, slots=True)
class GroupLags:
    """How far groups are behind, by group and topic. `records`: the records after the committed offsets.

    `seconds`: for how long the next record of the group has been there when the newest one came, in the partition
    where that is the longest; without those whose records have no times.
    """

    records: Mapping[tuple[str, str], int] = field(default_factory=dict)
    seconds: Mapping[tuple[str, str], float] = field(default_factory=dict)


LAG_METRICS: tuple[tuple[str, str, Callable[[GroupLags], Mapping[tuple[str, str], float]]], ...] = (
    (
        "offsetfs_broker_group_lag",
        "Records behind the committed offsets of a consumer group.",
        lambda lags: lags.records,
    ),
    (
        "offsetfs_broker_group_lag_seconds",
        "Seconds from the next record of a consumer group to the newest one, in its slowest partition.",
        lambda lags: lags.seconds,
    ),
)
"""Name, text and samples of the metrics. A mount without a broker has them under the same names."""


class LagReader:
    """Reads the lags of groups in a log directory, again and again. Any thread."""

    def __init__(self, directory: AnyLogDirectory) -> None:
        self._directory = directory
        self._times = LagTimes(directory)

    def lags(self, groups: Iterable[tuple[str, Mapping[TopicPartition, int]]]) -> GroupLags:
        """Return the lags of groups, each with its committed offsets."""
        ends: dict[TopicPartition, int | None] = {}
        known_ends: dict[TopicPartition, int] = {}
        committed: dict[TopicPartition, dict[str, int]] = {}
        records: dict[tuple[str, str], int] = {}
        for group, offsets in groups:
            for partition, offset in offsets.items():
                if partition not in ends:
                    ends[partition] = self._end(partition)
                end = ends[partition]
                if end is None or offset < 0:  # below 0: no offset is committed
                    continue
                key = (group, partition.topic)
                if key not in records and len(records) >= LAGS_MAX:
                    key = (OTHERS, OTHERS)
                records[key] = records.get(key, 0) + max(0, end - offset)
                known_ends[partition] = end
                committed.setdefault(partition, {})[group] = offset
        seconds: dict[tuple[str, str], float] = {}
        for (group, partition), behind_s in self._times.seconds(known_ends, committed).items():
            key = (group, partition.topic) if (group, partition.topic) in records else (OTHERS, OTHERS)
            seconds[key] = max(seconds.get(key, 0.0), behind_s)
        return GroupLags(records, seconds)

    def _end(self, partition: TopicPartition) -> int | None:
        """Return the end offset of a partition; None if it was deleted, or does not open."""
        try:
            with self._directory.directory_of(partition).borrowed(partition) as log:
                log.refresh()
                return log.next_offset
        except (StorageError, OSError):
            return None


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

    def __init__(self, directory: AnyLogDirectory) -> None:
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
            with self._directory.directory_of(partition).borrowed(partition) as log:
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
