"""Facts about a partition from the names and sizes in its directory, without opening its log.

Opening a log costs a millisecond and memory. A stat costs one listing, or one stat call if nothing changed since the
last one. That matters for ten thousand partitions. Results are conservative: "no" is certain, "maybe" means that the
log must be opened, because only the log knows timestamps, keys and open transactions.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, parse_header
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.units import I64_MAX

TIME_ENTRY_SIZE = 12  # of a time index: a timestamp in 8 bytes, a relative offset in 4


@dataclass(frozen=True, slots=True)
class PartitionStat:
    """The segments of a partition: base offsets, sorted, and the sizes of their `.log` files in bytes."""

    path: str
    changed_ns: int
    bases: tuple[int, ...]
    sizes: tuple[int, ...]

    @classmethod
    def at(cls, path: str, before: PartitionStat | None = None) -> PartitionStat:
        """Stat the directory of a partition; list it only if it changed since `before`. OSError if it is gone.

        The size of the active segment is the one at the last change of names, because closed logs do not grow.
        """
        changed_ns = files.status(path).st_mtime_ns
        if before is not None and before.changed_ns == changed_ns:
            return before
        parsed = [parse_segment_name(name) for name in files.names(path)]
        bases = sorted(parts[0] for parts in parsed if parts is not None and parts[1] == ".log")
        sizes = [files.status(os.path.join(path, segment_name(base, ".log"))).st_size for base in bases]
        return cls(path, changed_ns, tuple(bases), tuple(sizes))

    def may_expire(self, config: LogConfig, log_start_offset: int, now_ms: int) -> bool:
        """Whether retention may have segments to remove."""
        if not self.bases:
            return False
        if len(self.bases) > 1 and self.bases[1] <= log_start_offset:
            return True
        if not config.is_deleted or not self.sizes[0]:
            return False
        if 0 <= config.retention_bytes <= sum(self.sizes) - self.sizes[0]:
            return True
        return config.retention_ms >= 0 and self._first_timestamp() < now_ms - config.retention_ms

    def active_since_ms(self) -> int:
        """Return when the oldest batch of the active segment was written, if known; 2⁶³−1 if the segment is empty."""
        if not self.bases or not files.status(self._log_path(-1)).st_size:
            return I64_MAX
        timestamp = self._first_timestamp(-1)
        return timestamp if timestamp >= 0 else files.status(self._log_path(-1)).st_mtime_ns // 1_000_000

    def latest_ms(self) -> int:
        """Return about when the newest records were written, from cheap sources; -1 if unknown."""
        for number in reversed(range(len(self.bases))):
            if self.sizes[number]:
                return max(self._first_timestamp(number), self._last_indexed_timestamp(number))
        return -1

    def _last_indexed_timestamp(self, number: int) -> int:
        try:
            with files.open_file(os.path.join(self.path, segment_name(self.bases[number], ".timeindex"))) as index:
                entry = index.read(max(index.size() - TIME_ENTRY_SIZE, 0), TIME_ENTRY_SIZE)
        except OSError:
            return -1
        return int.from_bytes(entry[:8], "big", signed=True) if len(entry) == TIME_ENTRY_SIZE else -1

    def _log_path(self, number: int) -> str:
        return os.path.join(self.path, segment_name(self.bases[number], ".log"))

    def _first_timestamp(self, number: int = 0) -> int:
        """Return the timestamp of the first batch of a segment; -1 if it has none."""
        try:
            with files.open_file(self._log_path(number)) as log:
                return parse_header(log.read(0, HEADER_SIZE)).max_timestamp
        except (StorageError, OSError):
            return -1

    def may_be_cleanable(self, config: LogConfig, cleaner_offset: int | None) -> bool:
        """Whether compaction may have something to do: enough of the sealed segments is dirty.

        Kafka's dirty ratio under the assumption that all records can be cleaned. Lags and open transactions only lower
        it.
        """
        if not self.bases:
            return False
        is_sound = (
            cleaner_offset is not None and cleaner_offset <= self.bases[-1]
        )  # otherwise the checkpoint belongs to another log
        first_dirty = cleaner_offset if cleaner_offset is not None and is_sound else 0
        sealed = self.sizes[:-1]
        number = max(bisect_right(self.bases, first_dirty) - 1, 0)
        dirty = sum(sealed[number:])
        if not dirty:
            return False
        is_urgent = config.max_compaction_lag_ms < I64_MAX
        return is_urgent or dirty / sum(sealed) > config.min_cleanable_dirty_ratio
