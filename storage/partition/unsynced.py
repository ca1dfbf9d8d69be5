"""The account of a log: what was appended and is not yet on disk, however it came into the log.

    append ──→ active ──roll──→ sealed          waiting for a sync
                  └──────────────┴─ begin ─→ in sync ─ end ─→ on disk, or waiting again

Everything that reports what a power cut may take, or decides when to sync, reads this account: a mount, a broker, the
flusher of the directory. The log changes it under its lock; any thread may read it, and gets an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unsynced:
    """Records that are not yet on disk. `size`: bytes, before compression if they are not yet in a file.

    `since`: when the first of them was appended, in seconds of the monotonic clock; None if none was.
    """

    batches: int = 0
    records: int = 0
    size: int = 0
    since: float | None = None

    def __add__(self, other: Unsynced) -> Unsynced:
        since = min((moment for moment in (self.since, other.since) if moment is not None), default=None)
        return Unsynced(self.batches + other.batches, self.records + other.records, self.size + other.size, since)


_NOTHING = Unsynced()


class UnsyncedAccount:
    """The unsynced records of one log. `appended` and `synced` count batches, so that a caller can wait for its own."""

    __slots__ = ("_batches", "_in_sync", "_records", "_sealed", "_since", "_size", "appended", "synced")

    def __init__(self) -> None:
        self.appended = 0
        self.synced = 0
        self._sealed = self._in_sync = _NOTHING
        self._batches = self._records = self._size = 0  # in the active segment
        self._since: float | None = None

    @property
    def waiting(self) -> Unsynced:
        """The batches that no running sync covers."""
        if not self._batches:
            return self._sealed
        return self._sealed + Unsynced(self._batches, self._records, self._size, self._since)

    @property
    def total(self) -> Unsynced:
        """All that is not yet on disk."""
        return self._in_sync + self.waiting

    def add(self, batches: int, records: int, size: int, now: float) -> None:
        """Count what was appended to the active segment."""
        self.appended += batches
        self._batches += batches
        self._records += records
        self._size += size
        if self._since is None:
            self._since = now

    def seal(self) -> None:
        """Note that the active segment was sealed."""
        self._sealed = self.waiting
        self._batches = self._records = self._size = 0
        self._since = None

    def begin(self, *, sealed_only: bool) -> None:
        """Note that a sync begins."""
        if not sealed_only:
            self.seal()
        self._in_sync, self._sealed = self._in_sync + self._sealed, _NOTHING

    def end(self, *, is_synced: bool) -> None:
        """Note that the sync has ended; otherwise a later one has to cover its records."""
        if is_synced:
            self.synced += self._in_sync.batches
        else:
            self._sealed = self._in_sync + self._sealed
        self._in_sync = _NOTHING

    def clear(self) -> None:
        """Note that what is left in the log is on disk, and the rest was cut."""
        self.synced = self.appended
        self._sealed = self._in_sync = _NOTHING
        self._batches = self._records = self._size = 0
        self._since = None
