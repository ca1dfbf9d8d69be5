"""The state of a log: its segments and its three offsets, as an immutable value.

    segments            the segment map; only its active segment grows
    log_start_offset    the first readable offset
    next_offset         the offset of the next record; all lower ones are in the segments
    recovery_point      the offset below which every record is on disk

`Log.state` is replaced by one assignment under the lock of the log, so that a reader that takes it needs no lock and
never sees half a change. A change of the log computes the next state with the methods below, and `Log.publish` puts it
in place. Kafka keeps the same values in fields of UnifiedLog and LocalLog.
"""

from __future__ import annotations

from typing import NamedTuple

from offsetfs.storage.segments.segment_map import Segments


class LogState(NamedTuple):
    """What a log consists of at one moment. `log_start_offset` ≤ `next_offset`, `recovery_point` ≤ `next_offset`."""

    # A named tuple, because each append creates one: that takes 0.12 µs, a frozen dataclass 0.27 µs, of 3.6 µs in all.
    segments: Segments
    log_start_offset: int
    next_offset: int
    recovery_point: int

    def with_segments(self, segments: Segments) -> LogState:
        """Return the state with other segments of the same records. The log start moves with the first segment."""
        return self._replace(segments=segments, log_start_offset=max(self.log_start_offset, segments.first.base_offset))

    def starting_at(self, offset: int) -> LogState:
        """Return the state with the log start raised to `offset`. It never falls and never passes the end."""
        return self._replace(log_start_offset=max(self.log_start_offset, min(offset, self.next_offset)))

    def extended_to(self, next_offset: int) -> LogState:
        """Return the state of a log that ends at `next_offset`, or where it ended before if that is later."""
        return self._replace(next_offset=max(self.next_offset, next_offset))

    def synced_to(self, offset: int) -> LogState:
        """Return the state with the recovery point raised to `offset`; it never falls."""
        return self._replace(recovery_point=max(self.recovery_point, offset))

    def truncated_to(self, next_offset: int, segments: Segments) -> LogState:
        """Return the state of the log after records were cut from its end, durably. It ends at `next_offset`."""
        start = max(min(self.log_start_offset, next_offset), segments.first.base_offset)
        return LogState(segments, start, next_offset, next_offset)
