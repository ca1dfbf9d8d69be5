"""Errors and findings of a dump: unreadable data is reported at once, mismatches at the end.

Kafka's DumpLogSegments ends with an exception at the first thing that it cannot read. Here that is one message, and the
dump continues after it. Mismatches found by index and offset checks are not failures: they are listed at the end, in
Kafka's words and order. Paths are printed as given; Kafka makes them
absolute.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from offsetfs.storage.errors import StorageError

Pairs = dict[str, "array[int]"]
"""Two numbers for each finding of a path, in the order of detection."""


class DumpReport:
    """Collects the findings of one run.

    Called at once, without a newline: `say` gets messages that Kafka's tool prints too, `complain` those of its
    exceptions. `is_old`: findings in the form of Kafka 4.1.
    """

    __slots__ = (
        "_complain",
        "_index",
        "_is_old",
        "_offsets",
        "_time_missing",
        "_time_order",
        "_times",
        "say",
        "unreadable",
    )

    def __init__(self, say: Callable[[str], None], complain: Callable[[str], None], *, is_old: bool = False) -> None:
        self._is_old = is_old
        self.say = say
        """Prints a message, such as one of a reader about its file. As in Kafka, that is not a failure."""
        self._complain = complain
        self.unreadable = 0
        """The number of things that could not be read. Kafka's tool would have ended at the first."""
        self._index: Pairs = {}
        self._times: Pairs = {}
        self._time_order: Pairs = {}
        self._time_missing: Pairs = {}
        self._offsets: Pairs = {}

    def cannot_read(self, error: StorageError | OSError) -> None:
        """Report what could not be read, and where."""
        self.unreadable += 1
        if isinstance(error, OSError) and error.strerror:
            self._complain(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
        else:
            self._complain(str(error))

    def ignored(self, path: str) -> None:
        """Report a file of an unknown kind. That is not a failure."""
        self.say(f"Ignoring unknown file {path}")

    # --- findings, in Kafka's words ----------------------------------------------------------------------------------

    def index_mismatch(self, path: str, index_offset: int, log_offset: int) -> None:
        """The batch at an entry's position does not end with the entry's offset."""
        _pairs(self._index, path).extend((index_offset, log_offset))

    def time_mismatch(self, path: str, index_timestamp: int, log_timestamp: int) -> None:
        """The batch that an entry names has another largest timestamp."""
        _pairs(self._times, path).extend((index_timestamp, log_timestamp))

    def time_disorder(self, path: str, timestamp: int, timestamp_before: int) -> None:
        """An entry is not later than the one before it."""
        _pairs(self._time_order, path).extend((timestamp, timestamp_before))

    def time_offset_missing(self, path: str, offset: int, found_offset: int) -> None:
        """No batch ends with an entry's offset; -1 when there is none beyond it either."""
        _pairs(self._time_missing, path).extend((offset, found_offset))

    def gaps(self, path: str) -> array[int]:
        """Return the pairs of offsets of one log that are not consecutive, to be added to."""
        return _pairs(self._offsets, path)

    def findings(self) -> Iterator[str]:
        """Yield the lines that Kafka's tool ends with."""
        for path, pairs in _found(self._index):
            yield f"Mismatches in :{path}"
            yield from (f"  Index offset: {first}, log offset: {second}" for first, second in _backwards(pairs))
        yield from self._time_findings()
        for path, pairs in _found(self._offsets):
            yield f"Non-consecutive offsets in {path}"
            ordered = _backwards(pairs) if self._is_old else sorted(dict(_forwards(pairs)).items())
            yield from (f"  {first} is followed by {second}" for first, second in ordered)

    def _time_findings(self) -> Iterator[str]:
        for path, pairs in _found(self._times):
            yield f"Found timestamp mismatch in :{path}"
            yield from (f"  Index timestamp: {first}, log timestamp: {second}" for first, second in _forwards(pairs))
        for path, pairs in _found(self._time_order):
            yield f"Found out of order timestamp in :{path}"
            for first, second in _forwards(pairs):
                yield f"  Index timestamp: {first}, Previously indexed timestamp: {second}"
        for path, pairs in _found(self._time_missing):
            where = "the log." if self._is_old else f":{path}"
            yield f"The following indexed offsets are not found in {where}"
            yield from (f"Indexed offset: {first}, found log offset: {second}" for first, second in _forwards(pairs))


def _pairs(findings: Pairs, path: str) -> array[int]:
    return findings.setdefault(path, array("q"))


def _found(findings: Pairs) -> Iterator[tuple[str, array[int]]]:
    return ((path, pairs) for path, pairs in findings.items() if pairs)


def _forwards(pairs: array[int]) -> Iterator[tuple[int, int]]:
    return zip(pairs[::2], pairs[1::2], strict=True)


def _backwards(pairs: array[int]) -> Iterator[tuple[int, int]]:
    return zip(reversed(pairs[::2]), reversed(pairs[1::2]), strict=True)
