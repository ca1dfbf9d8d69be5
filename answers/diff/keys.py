"""Compares two logs by the latest value of each key: for copies at other offsets, and compacted logs.

A key without a value, or whose latest record is a tombstone, is absent. Times are no part of the comparison. Memory:
about 200 bytes for each key of `KEYS_MAX`. Logs of more keys are read several times, for a part of the keys each time.
Keys are compared by 64-bit digests: among 100 million keys two share one with a probability below 0.03 %.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from offsetfs.answers.diff.streams import OrderlessDiff, committed_digests
from offsetfs.storage import Log
from offsetfs.storage.records import NO_KEY, NULL_VALUE

KEYS_MAX = 1 << 21
"""The keys of one log that are kept at once."""


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
        passes = 1
        while True:
            found = OrderlessDiff()
            try:
                first = None
                for part in range(passes):
                    first = min(filter(None, [first, self._compare(found, part, passes)]), default=None)
            except _TooManyKeys:
                passes *= 2
                continue
            if first is not None:
                _, key = first
                found.first_a, found.first_b = self._latest(self._a, found, key), self._latest(self._b, found, key)
            return found

    def _compare(self, found: OrderlessDiff, part: int, passes: int) -> tuple[int, int] | None:
        """Count the keys of one part; return a key that differs, and a number to choose the same one always."""
        a, b = (self._values(log, found, part, passes) for log in (self._a, self._b))
        both = a.keys() & b.keys()
        equal = sum(1 for key in both if a[key] == b[key])
        found.equal += equal
        found.changed += len(both) - equal
        found.only_a += len(a) - len(both)
        found.only_b += len(b) - len(both)
        differing = (key for key in a.keys() | b.keys() if a.get(key) != b.get(key))
        return min(((abs(key), key) for key in differing), default=None)

    def _values(self, log: Log, found: OrderlessDiff, part: int, passes: int) -> dict[int, int]:
        values: dict[int, int] = {}
        for digests in committed_digests(log, self._seed, found, self._on_bytes, times=False):
            pairs = zip(digests.keys, digests.contents, strict=True)
            values.update(pairs if passes == 1 else (pair for pair in pairs if pair[0] % passes == part))
            if len(values) > KEYS_MAX:
                raise _TooManyKeys
        values.pop(NO_KEY, None)
        return {key: content for key, content in values.items() if not content & NULL_VALUE}

    def _latest(self, log: Log, found: OrderlessDiff, key: int) -> int | None:
        """Return the offset of the latest record of a key."""
        latest = None
        for digests in committed_digests(log, self._seed, found, self._on_bytes, times=False):
            if key in digests.keys:
                latest = next(
                    offset
                    for offset, digest in zip(reversed(digests.offsets), reversed(digests.keys), strict=True)
                    if digest == key
                )
        return latest
