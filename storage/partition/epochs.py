"""Which leader epoch began at which offset: the partition's `leader-epoch-checkpoint`, and what is asked of it.

Entries (epoch, start offset) rise strictly in epoch and do not fall in offset. Each change is on disk before the method
returns, and a change that cannot be written is not made; whoever goes on writing to the log after that fences it first,
for the file may have it all the same. Follows Kafka's `LeaderEpochFileCache` (KIP-101, KIP-279). Not thread-safe: the
log's lock covers it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

from offsetfs.storage import checkpoint

_epoch_of = itemgetter(0)
_start_of = itemgetter(1)


class LeaderEpochCache:
    """The epochs of one partition."""

    __slots__ = ("_entries", "path")

    def __init__(self, path: str, entries: Iterable[tuple[int, int]]) -> None:
        """Take over what `checkpoint.read_epochs(path)` returned; nothing is written before the first change."""
        self.path = path
        self._entries = tuple(entries)

    @property
    def entries(self) -> tuple[tuple[int, int], ...]:
        """All (epoch, start offset), oldest first."""
        return self._entries

    @property
    def latest(self) -> int | None:
        """The latest epoch; None when there is none."""
        return self._entries[-1][0] if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`, unless the latest entry says so already.

        Entries that contradict it, with a later epoch or start, are dropped: the newer knowledge wins.
        """
        assert epoch >= 0 and start_offset >= 0
        if self._entries and self._entries[-1][0] == epoch and self._entries[-1][1] <= start_offset:
            return
        kept = [entry for entry in self._entries if entry[0] < epoch and entry[1] < start_offset]
        self._replace((*kept, (epoch, start_offset)))

    def truncate_from_end(self, end_offset: int, *, next_offset: int | None = None) -> None:
        """Drop the epochs that begin at or above `end_offset`.

        With `next_offset` the latest begins there when none is left: the log is empty, and its leader is the same.
        """
        kept = self._entries[: bisect_left(self._entries, end_offset, key=_start_of)]
        if not kept and self._entries and next_offset is not None:
            kept = ((self._entries[-1][0], next_offset),)
        if kept != self._entries:
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Let the log begin at `start_offset`: older epochs go, the one that holds it begins there."""
        passed = bisect_right(self._entries, start_offset, key=_start_of)
        if not passed:
            return
        changed = ((self._entries[passed - 1][0], start_offset), *self._entries[passed:])
        if changed != self._entries:
            self._replace(changed)

    def clear(self) -> None:
        """Drop all epochs: the log is emptied."""
        if self._entries:
            self._replace(())

    def flush(self) -> None:
        """Write the file, changed or not. On disk after return."""
        checkpoint.write_epochs(self.path, self._entries)

    def check(self) -> None:
        """Assert what must hold between any two calls; for tests."""
        epochs = [epoch for epoch, _ in self._entries]
        starts = [start for _, start in self._entries]
        assert epochs == sorted(set(epochs)) and starts == sorted(starts)
        assert all(number >= 0 for number in epochs + starts)

    def _replace(self, entries: tuple[tuple[int, int], ...]) -> None:
        checkpoint.write_epochs(self.path, entries)
        self._entries = entries
