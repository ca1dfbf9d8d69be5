"""The leader epochs of a partition and their start offsets: its `leader-epoch-checkpoint`.

Entries (epoch, start offset) rise strictly in epoch and do not fall in offset. Each change is durable before the method
returns. A change that cannot be written is not made in memory; the caller must mark the log as failed, because the file
may contain it. Follows Kafka's `LeaderEpochFileCache` (KIP-101, KIP-279). Not thread-safe: the log's lock protects it.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import itemgetter

from offsetfs.storage import checkpoint
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.format.batch_header import MAGIC
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_map import Segments

_epoch_of = itemgetter(0)
_start_of = itemgetter(1)


class LeaderEpochCache:
    """The epochs of one partition."""

    __slots__ = ("_entries", "path")

    def __init__(self, path: str, entries: Iterable[tuple[int, int]]) -> None:
        """Take the result of `checkpoint.read_epochs(path)`; nothing is written before the first change."""
        self.path = path
        self._entries = tuple(entries)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """All (epoch, start offset), oldest first."""
        return self._entries

    @property
    def latest(self) -> int | None:
        """The latest epoch, or None."""
        return self._entries[-1][0] if self._entries else None

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int] | None:
        """Return (epoch, end offset) of the latest epoch that is not above `epoch`; None where that is unknown.

        An epoch below the first known one ends where the first begins. As `LeaderEpochFileCache.endOffsetFor`.
        """
        if epoch == self.latest:
            return epoch, log_end
        following = bisect_right(self._entries, epoch, key=_epoch_of)
        if epoch < 0 or following == len(self._entries):
            return None
        return self._entries[following - 1][0] if following else epoch, self._entries[following][1]

    def epoch_of(self, offset: int) -> int:
        """Return the epoch of the record at `offset`; -1 where that is unknown."""
        following = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[following - 1][0] if following else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`, unless the latest entry says the same.

        Contradicting entries, with a later epoch or start, are dropped, because the new information is more recent.
        """
        assert epoch >= 0 and start_offset >= 0
        if self._entries and self._entries[-1][0] == epoch and self._entries[-1][1] <= start_offset:
            return
        kept = [entry for entry in self._entries if entry[0] < epoch and entry[1] < start_offset]
        self._replace((*kept, (epoch, start_offset)))

    def assign_rising(self, epochs: Sequence[int], start_offsets: Sequence[int]) -> None:
        """Record the epochs of consecutive batches; an epoch that is not above the latest changes nothing."""
        latest = -1 if self.latest is None else self.latest
        if max(epochs) <= latest:
            return
        for epoch, offset in zip(epochs, start_offsets, strict=True):
            if epoch > latest:
                self.assign(epoch, offset)
                latest = epoch

    def truncate_from_end(self, end_offset: int, *, next_offset: int | None = None) -> None:
        """Drop the epochs that begin at or above `end_offset`.

        With `next_offset`, the latest epoch begins there if none is left: the log is empty, but has the same leader.
        """
        kept = self._entries[: bisect_left(self._entries, end_offset, key=_start_of)]
        if not kept and self._entries and next_offset is not None:
            kept = ((self._entries[-1][0], next_offset),)
        if kept != self._entries:
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Let the log begin at `start_offset`: drop older epochs; the one that contains it begins there."""
        passed = bisect_right(self._entries, start_offset, key=_start_of)
        if not passed:
            return
        changed = ((self._entries[passed - 1][0], start_offset), *self._entries[passed:])
        if changed != self._entries:
            self._replace(changed)

    def clear(self) -> None:
        """Drop all epochs, because the log was emptied."""
        if self._entries:
            self._replace(())

    def reload(self) -> None:
        """Read the file again, which another process writes. An unreadable one changes nothing."""
        with contextlib.suppress(StorageError, OSError):
            self._entries = tuple(checkpoint.read_epochs(self.path))

    def check(self) -> None:
        """Assert the invariants between two calls; for tests."""
        epochs = [epoch for epoch, _ in self._entries]
        starts = [start for _, start in self._entries]
        assert epochs == sorted(set(epochs)) and starts == sorted(starts)
        assert all(number >= 0 for number in epochs + starts)

    def _replace(self, entries: tuple[tuple[int, int], ...]) -> None:
        checkpoint.write_epochs(self.path, entries)
        self._entries = entries


def latest_epoch(segments: Segments) -> int:
    """Return the epoch of the last v2 batch of the log, or -1: for a log whose `leader-epoch-checkpoint` is empty.

    A broker empties the file while a topic's message format is older than v2, and a damaged file counts as empty. The
    log may hold earlier v2 batches, and epochs never fall, so appends continue with the latest epoch. Kafka gets its
    epoch from the controller instead.

    Reads the headers of one index interval in each segment of v0 and v1, and those of one segment that begins or ends
    with v2. A segment that does neither is taken to have old formats only, because it may have many messages.
    """
    for segment in reversed(list(segments)):
        epoch = _latest_of(segment, segment.last_indexed_position())
        if epoch < 0 and _begins_with_v2(segment):
            epoch = _latest_of(segment, 0)
        if epoch >= 0:
            return epoch
    return -1


def _begins_with_v2(segment: Segment) -> bool:
    try:
        return any(header.magic == MAGIC for _, header in islice(segment.headers(), 1))
    except StorageError:
        return False


def _latest_of(segment: Segment, position: int) -> int:
    """Return the last epoch from `position` on, up to the first unreadable header."""
    latest = -1
    try:
        for _, header in segment.headers(position):
            latest = header.leader_epoch if header.leader_epoch >= 0 else latest
    except StorageError:
        return latest  # a scan of headers cannot continue after damage
    return latest
