"""Compares two logs by the contents of records in order, whatever their offsets: for copies of MirrorMaker 2.

Both logs are read once, side by side; where one begins later, it is searched in the other first. Where they differ,
the next record that both have is searched among the next `WINDOW` records of each, so memory is bounded. Records that
were moved further than that count as missing in both.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Callable, Iterator

from offsetfs.answers.diff.streams import OrderlessDiff, committed_digests
from offsetfs.storage import Log
from offsetfs.storage.records import RecordDigests

WINDOW = 4096
PROBE = 8
"""The records of a beginning that are searched in the other log."""


class ContentComparison:
    """One comparison; `run` once."""

    def __init__(
        self, a: Log, b: Log, on_bytes: Callable[[int], None] = lambda count: None, *, times: bool = True
    ) -> None:
        """`times`: whether the timestamps of records must be equal."""
        self._logs = a, b
        self._on_bytes = on_bytes
        self._times = times
        self._seed = secrets.token_bytes(16)
        self._found = OrderlessDiff()

    def run(self) -> OrderlessDiff:
        """Compare all committed records. OSError, `UnknownPartition`."""
        found = self._found
        a, b = (_Window(self._digests(log)) for log in self._logs)
        self._align(a, b)
        while a.fill() and b.fill():
            same = a.common(b)
            found.equal += same
            a.drop(same)
            b.drop(same)
            if not same:
                self._step(a, b)
        found.behind_b, found.behind_a = a.count_rest(), b.count_rest()
        return found

    def _digests(self, log: Log) -> Iterator[RecordDigests]:
        return committed_digests(log, self._seed, self._found, self._on_bytes, times=self._times)

    def _align(self, a: _Window, b: _Window) -> None:
        """Skip what only one log has before the first record of the other."""
        if not (a.fill() and b.fill()) or a.contents[0] == b.contents[0]:
            return
        found, (log_a, log_b) = self._found, self._logs
        before = _place_of(b.contents[:PROBE], self._digests(log_a))
        if before is not None:
            found.before_a = before
            a.skip(before)
            return
        before = _place_of(a.contents[:PROBE], self._digests(log_b))
        if before is not None:
            found.before_b = before
            b.skip(before)

    def _step(self, a: _Window, b: _Window) -> None:
        """Skip up to the nearest record that both have."""
        found = self._found
        if not found.only_a and not found.only_b:
            found.first_a, found.first_b = a.offsets[0], b.offsets[0]
        skip_a, skip_b = _nearest(a.contents, b.contents)
        found.only_a += skip_a
        found.only_b += skip_b
        a.drop(skip_a)
        b.drop(skip_b)


def _nearest(a: array[int], b: array[int]) -> tuple[int, int]:
    """Return how many to skip of both, so that the next are equal and the sum is least; all if none are."""
    places: dict[int, int] = {}
    for place, content in enumerate(b):
        places.setdefault(content, place)
    best = len(a), len(b)
    for place, content in enumerate(a):
        if place >= sum(best):
            break
        if content in places and place + places[content] < sum(best):
            best = place, places[content]
    return best


def _place_of(probe: array[int], digests: Iterator[RecordDigests]) -> int | None:
    """Return the number of records before those of `probe`."""
    before, seen = 0, array("q")
    for batch in digests:
        seen += batch.contents
        at = 0
        while (at := _index(seen, probe[0], at)) + len(probe) <= len(seen):
            if seen[at : at + len(probe)] == probe:
                return before + at
            at += 1
        before, seen = before + at, seen[at:]
    return None


def _index(numbers: array[int], number: int, start: int) -> int:
    """Return where a number is next, the length if nowhere."""
    try:
        return numbers.index(number, start)
    except ValueError:
        return len(numbers)


class _Window:
    """The next records of a log."""

    def __init__(self, digests: Iterator[RecordDigests]) -> None:
        self._digests = digests
        self.contents, self.offsets = array("q"), array("q")

    def fill(self) -> bool:
        """Read on until the window is full; False at the end of the log."""
        while len(self.contents) < WINDOW and (batch := next(self._digests, None)) is not None:
            self.contents += batch.contents
            self.offsets += batch.offsets
        return bool(self.contents)

    def common(self, other: _Window) -> int:
        """Return how many records at the beginning are equal."""
        low, high = 0, min(len(self.contents), len(other.contents))
        if self.contents[:high] == other.contents[:high]:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self.contents[low:middle] == other.contents[low:middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def drop(self, count: int) -> None:
        """Step over the first records."""
        self.contents, self.offsets = self.contents[count:], self.offsets[count:]

    def skip(self, count: int) -> None:
        """Step over any number of records."""
        while count and self.fill():
            part = min(count, len(self.contents))
            self.drop(part)
            count -= part

    def count_rest(self) -> int:
        """Step over all records that are left, and return their number."""
        count = 0
        while self.fill():
            count += len(self.contents)
            self.drop(len(self.contents))
        return count
