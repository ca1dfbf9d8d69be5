"""What clients of a broker did and saw, and a check of it in the manner of Jepsen's workload for Kafka.

`anomalies` is a pure function of a `ClientHistory`. Moments are numbers that rise: an operation that ended before
another one began has the smaller number. A topic that is deleted and created again is a new topic here (`brief#2`).

The content of a partition is what any consumer has read of it. A `FullRead` states that the reads of its
session are all records from the first one to the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

NEVER = 1 << 62
"""The end of an operation without an answer."""


class Outcome(Enum):
    """Whether an operation had its effect. UNKNOWN: there was no answer, or an error that leaves it open."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


class Kind(Enum):
    """What can be wrong."""

    LOST_WRITE = "lost write"
    DUPLICATE = "duplicate"
    REORDERING = "reordering"
    ABORTED_READ = "aborted read"
    REFUSED_READ = "refused write that is read"
    PARTIAL_TRANSACTION = "partial transaction"
    COMMIT_WENT_BACK = "committed offset that went back"
    POLL_SKIP = "poll skip"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    TWO_VALUES = "an offset with two values"
    FOREIGN_RECORD = "a record that was not written there"


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of a topic; `topic` has the number of its creation behind `#` if it is created several times."""

    topic: str
    index: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(frozen=True, slots=True)
class Write:
    """A record that was produced. `value` is unique; `number` rises with each record of a producer.

    `offset` is -1 if the answer has none. `source`: the place of the record that this one was made of, by a program
    that reads and writes in one transaction.
    """

    producer: str
    number: int
    partition: Partition
    value: bytes
    began: int
    ended: int = NEVER
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    transaction: str = ""
    source: tuple[Partition, int] | None = None
    is_idempotent: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    """A record that was polled. A session is one consumer between two changes of its position or assignment."""

    session: str
    partition: Partition
    offset: int
    value: bytes
    is_committed: bool = False
    """With isolation.level=read_committed."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a session began to read a partition."""

    session: str
    partition: Partition
    offset: int


@dataclass(frozen=True, slots=True)
class FullRead:
    """A session that read all from the first record to `end`, which was the end at some moment after `began`."""

    session: str
    partition: Partition
    end: int
    began: int
    is_committed: bool = False


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """An offset of a group."""

    group: str
    partition: Partition
    offset: int
    began: int
    ended: int = NEVER


@dataclass(frozen=True, slots=True)
class Commit(GroupOffset):
    """An offset that a group committed; with a transaction, when that ended."""

    outcome: Outcome = Outcome.UNKNOWN


@dataclass(frozen=True, slots=True)
class LookUp(GroupOffset):
    """The committed offset that a group was answered."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that is wrong."""

    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}"


@dataclass(slots=True)
class ClientHistory:
    """All operations of all clients. Reads of a session are in the order in which it polled them."""

    writes: list[Write] = field(default_factory=list)
    transactions: dict[str, Outcome] = field(default_factory=dict)
    """How each transaction ended: NOT_DONE if it was aborted, or never asked to commit."""
    reads: list[Read] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    full_reads: list[FullRead] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    look_ups: list[LookUp] = field(default_factory=list)


def anomalies(history: ClientHistory) -> list[Anomaly]:
    """Return all that is wrong with a history."""
    index = _Index(history)
    checks = (
        _check_values,
        _check_writes,
        _check_duplicates,
        _check_order,
        _check_transactions,
        _check_sources,
        _check_commits,
        _check_sessions,
    )
    return [each for check in checks for each in check(index)]


class _Index:
    """A history by what the checks look for."""

    def __init__(self, history: ClientHistory) -> None:
        self.history = history
        self.writes = {each.value: each for each in history.writes}
        assert len(self.writes) == len(history.writes), "the values of a history have to be unique"
        self.values: dict[tuple[Partition, int], set[bytes]] = defaultdict(set)
        """The values that were read at an offset."""
        self.places: dict[bytes, set[tuple[Partition, int]]] = defaultdict(set)
        """Where a value was read."""
        self.committed_values: dict[bytes, set[tuple[Partition, int]]] = defaultdict(set)
        """Where it was read with read_committed."""
        for each in history.reads:
            place = each.partition, each.offset
            self.values[place].add(each.value)
            self.places[each.value].add(place)
            if each.is_committed:
                self.committed_values[each.value].add(place)
        self.full_reads: dict[Partition, list[FullRead]] = defaultdict(list)
        for full in history.full_reads:
            self.full_reads[full.partition].append(full)

    @cached_property
    def visible(self) -> dict[tuple[Partition, bool], list[int]]:
        """The offsets of a partition that a consumer of an isolation level gets, sorted."""
        found: dict[tuple[Partition, bool], set[int]] = defaultdict(set)
        for each in self.history.reads:
            found[each.partition, False].add(each.offset)
            if each.is_committed:
                found[each.partition, True].add(each.offset)
        return {key: sorted(offsets) for key, offsets in found.items()}

    def is_covered(self, write: Write, *, is_committed: bool) -> bool:
        """Return whether a full read must have seen an acknowledged write."""
        return any(
            each.is_committed == is_committed and (0 <= write.offset < each.end or each.began > write.ended)
            for each in self.full_reads[write.partition]
        )

    def outcome(self, write: Write) -> Outcome:
        """Return whether a write is to be seen by consumers of committed records."""
        if not write.transaction:
            return write.outcome
        ended = self.history.transactions[write.transaction]
        return write.outcome if ended is Outcome.DONE else ended


def _check_values(index: _Index) -> Iterator[Anomaly]:
    """An offset has one value, which was written to this partition, at the offset that the producer was answered."""
    for (partition, offset), values in index.values.items():
        if len(values) > 1:
            yield Anomaly(Kind.TWO_VALUES, f"{partition} at {offset}: {sorted(values)}")
    for write in index.history.writes:
        if write.offset < 0 or write.outcome is not Outcome.DONE:
            continue
        others = index.values.get((write.partition, write.offset), set()) - {write.value}
        if others:
            where = f"{write.partition} at {write.offset}"
            yield Anomaly(Kind.TWO_VALUES, f"{where}: {write.value!r} was acknowledged, {sorted(others)} read")
    for value, places in index.places.items():
        found = index.writes.get(value)
        if found is None or any(partition != found.partition for partition, _ in places):
            yield Anomaly(Kind.FOREIGN_RECORD, f"{value!r} at {_shown(places)}")


def _check_writes(index: _Index) -> Iterator[Anomaly]:
    """A full read has all acknowledged records, with read_committed those of committed transactions; none refused."""
    for write in index.history.writes:
        if write.outcome is Outcome.NOT_DONE and write.value in index.places:
            yield Anomaly(Kind.REFUSED_READ, _described(write))
        if write.outcome is not Outcome.DONE:
            continue
        if write.value not in index.places and index.is_covered(write, is_committed=False):
            yield Anomaly(Kind.LOST_WRITE, _described(write))
        elif (
            not write.transaction
            and write.value not in index.committed_values
            and index.is_covered(write, is_committed=True)
        ):
            yield Anomaly(Kind.LOST_WRITE, f"{_described(write)}, with read_committed")


def _check_duplicates(index: _Index) -> Iterator[Anomaly]:
    for value, places in index.places.items():
        write = index.writes.get(value)
        if write is not None and write.is_idempotent and len(places) > 1:
            yield Anomaly(Kind.DUPLICATE, f"{_described(write)} is at {_shown(places)}")


def _check_order(index: _Index) -> Iterator[Anomaly]:
    """The records of an idempotent producer are in the order in which it sent them."""
    last: dict[tuple[str, Partition], tuple[int, int]] = {}
    for write in sorted(index.history.writes, key=lambda each: (each.producer, each.number)):
        offsets = [offset for partition, offset in index.places.get(write.value, ()) if partition == write.partition]
        if not offsets or not write.is_idempotent:
            continue
        key = write.producer, write.partition
        number, before = last.get(key, (-1, -1))
        if min(offsets) < before:
            yield Anomaly(Kind.REORDERING, f"{_described(write)} at {min(offsets)}, number {number} at {before}")
        last[key] = write.number, min(offsets)


def _check_transactions(index: _Index) -> Iterator[Anomaly]:
    """With read_committed, all records of a transaction are seen or none; none if it was aborted."""
    writes: dict[str, list[Write]] = defaultdict(list)
    for write in index.history.writes:
        if write.transaction:
            writes[write.transaction].append(write)
    for name, parts in writes.items():
        seen = [each for each in parts if each.value in index.committed_values]
        outcome = index.history.transactions[name]
        if outcome is Outcome.NOT_DONE:
            for each in seen:
                yield Anomaly(Kind.ABORTED_READ, _described(each))
            continue
        missing = [
            each
            for each in parts
            if each not in seen and each.outcome is Outcome.DONE and index.is_covered(each, is_committed=True)
        ]
        if missing and seen:
            some = f"{len(seen)} of {len(parts)} records are seen; {_described(missing[0])} is not"
            yield Anomaly(Kind.PARTIAL_TRANSACTION, f"{name} ({outcome.value}): {some}")
        elif missing and outcome is Outcome.DONE:
            yield Anomaly(Kind.LOST_WRITE, f"{name} was committed; {_described(missing[0])} is not seen")


def _check_sources(index: _Index) -> Iterator[Anomaly]:
    """What is made of a record in a transaction with its offset is there once."""
    made: dict[tuple[Partition, int], list[Write]] = defaultdict(list)
    for write in index.history.writes:
        if write.source is not None and write.value in index.committed_values:
            made[write.source].append(write)
    for source, results in made.items():
        if len(results) > 1:
            yield Anomaly(Kind.DUPLICATE, f"made of {_shown([source])}: {', '.join(map(_described, results))}")


def _check_commits(index: _Index) -> Iterator[Anomaly]:
    """A committed offset is never below one that was acknowledged, or looked up, before it was asked for."""
    known: dict[tuple[str, Partition], list[tuple[int, int, int]]] = defaultdict(list)
    for commit in index.history.commits:
        if commit.outcome is Outcome.DONE:
            known[commit.group, commit.partition].append((commit.began, commit.ended, commit.offset))
    for found in index.history.look_ups:
        known[found.group, found.partition].append((found.began, found.ended, found.offset))
    for (group, partition), events in known.items():
        ended = sorted((end, offset) for _, end, offset in events)
        highest = _running_maximum(offset for _, offset in ended)
        ends = [end for end, _ in ended]
        for began, _, offset in sorted(events):
            before = bisect_left(ends, began)
            if before and offset < highest[before - 1]:
                gone = f"{offset} at moment {began}, after {highest[before - 1]}"
                yield Anomaly(Kind.COMMIT_WENT_BACK, f"{group}, {partition}: {gone}")


def _running_maximum(numbers: Iterable[int]) -> list[int]:
    found: list[int] = []
    for each in numbers:
        found.append(max(each, found[-1]) if found else each)
    return found


def _check_sessions(index: _Index) -> Iterator[Anomaly]:
    """A session gets rising offsets, and all of those that its isolation level shows, from where it began."""
    after = {(each.session, each.partition): each.offset - 1 for each in index.history.starts}
    for read in index.history.reads:
        key = read.session, read.partition
        last = after.get(key)
        after[key] = read.offset
        if last is None:
            continue
        where = f"{read.session}, {read.partition}: {read.offset} after {last}"
        if read.offset <= last:
            yield Anomaly(Kind.NON_MONOTONIC_POLL, where)
            continue
        offsets = index.visible[read.partition, read.is_committed]
        skipped = offsets[bisect_right(offsets, last) : bisect_left(offsets, read.offset)]
        if skipped:
            yield Anomaly(Kind.POLL_SKIP, f"{where}, without {skipped[:10]}")


def _described(write: Write) -> str:
    at = f" at {write.offset}" if write.offset >= 0 else ""
    within = f" of {write.transaction}" if write.transaction else ""
    return f"{write.producer} number {write.number}{within} to {write.partition}{at}"


def _shown(places: Iterable[tuple[Partition, int]]) -> str:
    return ", ".join(f"{partition} at {offset}" for partition, offset in sorted(places))
