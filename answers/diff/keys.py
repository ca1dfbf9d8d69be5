"""Compares two logs by the latest value of each key: for copies at other offsets, and compacted logs.

A key without a value, or whose latest record is a tombstone, is absent. Records without a key are only counted. Times
are no part of the comparison. Memory: 24 to 100 bytes for each key of `KEYS_MAX`. Logs of more keys are read several
times, for a part of the keys each time.
Keys are compared by 64-bit digests: among 100 million keys two share one with a probability below 0.03 %.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable

from offsetfs.answers.diff.streams import OrderlessDiff, committed_digests
from offsetfs.storage import Log
from offsetfs.storage.records import LATEST_COLUMNS, LatestDiff, RecordDigests, compare_latest, keep_latest

KEYS_MAX = 1 << 21
"""The keys of one log that are kept at once."""


_SLOTS_MIN = 1 << 13
_NO_KEY = 0
"""The digest of a key that is null."""


class _TooManyKeys(Exception):
    pass


class KeyComparison:
    """One comparison; `run` once."""

    def __init__(self, a: Log, b: Log, on_bytes: Callable[[int], None] = lambda count: None) -> None:
        self._a = a
        self._b = b
        self._on_bytes = on_bytes
        self._seed = secrets.token_bytes(16)

    def run(self) -> OrderlessDiff:
        """Compare the latest values of all keys. OSError, `UnknownPartition`."""
        parts = 1
        while True:
            found = OrderlessDiff()
            try:
                compared = [self._compare(found, part, parts) for part in range(parts)]
            except _TooManyKeys:
                parts *= 2
                continue
            for difference in compared:
                found.equal += difference.equal
                found.changed += difference.changed
                found.only_a += difference.only_a
                found.only_b += difference.only_b
            differing = [
                difference for difference in compared if difference.changed or difference.only_a or difference.only_b
            ]
            if differing:  # the same key, whatever the number of parts
                first = min(differing, key=lambda difference: difference.first_key % (1 << 64))
                found.first_a, found.first_b = (
                    None if offset < 0 else offset for offset in (first.first_a, first.first_b)
                )
            return found

    def _compare(self, found: OrderlessDiff, part: int, parts: int) -> LatestDiff:
        return compare_latest(*(self._latest(log, found, part, parts) for log in (self._a, self._b)))

    def _latest(self, log: Log, found: OrderlessDiff, part: int, parts: int) -> array[int]:
        """Return the table of the latest records of the keys of one part, at most three quarters full."""
        table, used = _table(_SLOTS_MIN), 0
        for digests in committed_digests(log, self._seed, found, self._on_bytes, times=False):
            if part == 0:
                found.without_key += digests.keys.count(_NO_KEY)
            while 4 * (used + len(digests.keys)) > 3 * len(table) // LATEST_COLUMNS:
                held = RecordDigests(keys=table[::3], contents=table[1::3], offsets=table[2::3])
                table = _table(2 * len(table) // LATEST_COLUMNS)
                keep_latest(table, 0, held, 0, 1)
            used = keep_latest(table, used, digests, part, parts)
            if used > KEYS_MAX:
                raise _TooManyKeys
        return table


def _table(slots: int) -> array[int]:
    return array("q", bytes(8 * LATEST_COLUMNS * slots))
