"""Sets the commits of a consumer group back or forth: a plan, and its execution in a directory of our own.

A place is the start or the end of the log, an offset, a time, or the place of the same group in another directory: the
record that it reads next there is looked for here, by its timestamp and content. So a group moves to a copy with other
offsets, as MirrorMaker 2 makes them. Kafka's tool for running brokers is kafka-consumer-groups.sh; it takes the plan as
a file of `topic,partition,offset`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from offsetfs.answers.report import Diagnosis, Fact, Measure, Report, Severity, Table, TableColumn
from offsetfs.storage import Log, LogDirectories, LogReader, Record, TopicPartition
from offsetfs.storage.coordinators import ConsumerGroups
from offsetfs.storage.errors import StorageError, sentence

CONTENT_RECORDS = 8
"""The records in a row that must be equal where a group continues by content; fewer at the end of a log."""
CONTENT_SEARCHED_MAX = 1_000_000
"""The records with the same or a later time among which the place is looked for."""

PLAN_COLUMNS = (
    TableColumn("partition", "PARTITION"),
    TableColumn("committed", "COMMITTED", Measure.OFFSET),
    TableColumn("new", "NEW", Measure.OFFSET),
    TableColumn("moved", "MOVED BY", Measure.COUNT),
    TableColumn("lag", "LAG THEN", Measure.COUNT),
)


@dataclass(frozen=True, slots=True)
class PlannedCommit:
    """A commit that a reset makes. `committed`: the present one, None without."""

    partition: TopicPartition
    committed: int | None
    offset: int
    end: int

    def cells(self) -> tuple[str | int | None, ...]:
        moved = None if self.committed is None else self.offset - self.committed
        return str(self.partition), self.committed, self.offset, moved, self.end - self.offset


Place = Callable[[TopicPartition, Log], int | None]
"""Returns the offset at which the group continues in a log; None if there is no such place."""


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The commits of a reset, and the partitions without a place, each with the reason."""

    group: str
    commits: Sequence[PlannedCommit]
    missing: Sequence[Diagnosis]

    def report(self, subject: str, note: str) -> Report:
        """Return the plan as a report. `note`: what was done with it."""
        rows = [commit.cells() for commit in self.commits]
        facts = [Fact("group", "group", self.group), Fact("commits", "commits", len(rows), Measure.COUNT)]
        table = Table("plan", "Plan", PLAN_COLUMNS, rows, shown_max=sys.maxsize)
        return Report("groups", subject, facts=facts, tables=[table], findings=self.missing, notes=[note])

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the offsets that the reset commits."""
        return {commit.partition: commit.offset for commit in self.commits}

    def lines(self) -> Iterator[str]:
        """Yield the lines that `kafka-consumer-groups.sh --reset-offsets --from-file` takes."""
        for commit in self.commits:
            yield f"{commit.partition.topic},{commit.partition.partition},{commit.offset}"


def committed_offsets(opened: LogDirectories, group: str) -> dict[TopicPartition, int]:
    """Return the offsets that a group has committed in a directory."""
    groups = ConsumerGroups(opened, lambda left_out: None)
    groups.refresh(bytes_max=sys.maxsize)
    return {commit.partition: commit.offset for commit in groups.commits(group.encode()) or () if commit.offset >= 0}


def reset_plan(opened: LogDirectories, group: str, partitions: Iterable[TopicPartition], place: Place) -> ResetPlan:
    """Return where a group continues in `partitions`; nothing is changed. Places outside of a log become its ends."""
    before = committed_offsets(opened, group)
    commits: list[PlannedCommit] = []
    missing: list[Diagnosis] = []
    for partition in partitions:
        try:
            log = opened.log(partition)
            wanted = place(partition, log)
            start, end = log.log_start_offset, log.log_end_offset()
        except (StorageError, OSError) as error:
            missing.append(no_place(partition, sentence(error)))
            continue
        if wanted is None:
            missing.append(no_place(partition, "the place of the group is not in this log"))
        else:
            commits.append(PlannedCommit(partition, before.get(partition), min(max(wanted, start), end), end))
    return ResetPlan(group, commits, missing)


def no_place(partition: TopicPartition, evidence: str) -> Diagnosis:
    """Return the finding for a partition that a reset leaves as it is."""
    consequence = "the commit of the group for this partition stays as it is"
    return Diagnosis(Severity.WARNING, "no-place", str(partition), evidence, consequence)


# --- places ----------------------------------------------------------------------------------------------------------


def at_start(_partition: TopicPartition, log: Log) -> int:
    """Return the start of a log."""
    return log.log_start_offset


def at_end(_partition: TopicPartition, log: Log) -> int:
    """Return the end of a log."""
    return log.log_end_offset()


def at_offset(offset: int) -> Place:
    """Return the place that is this offset in each log."""
    return lambda partition, log: offset


def at_time(time_ms: int) -> Place:
    """Return the place of the first record at or after a time; without one, the end of the log."""

    def place(_partition: TopicPartition, log: Log) -> int:
        found = log.find_timestamp(time_ms)
        return log.log_end_offset() if found is None else found[0]

    return place


def by_content(other: LogDirectories, group: str) -> Place:
    """Return the place of the record that the group reads next in another directory, found by time and content."""
    committed = committed_offsets(other, group)

    def place(partition: TopicPartition, log: Log) -> int | None:
        sought = _sought(other, committed, partition)
        found = _found(log, sought.records) if sought.records else None
        return _behind(log, found, len(sought.records)) if found is not None and sought.is_behind else found

    return place


def sought_times(other: LogDirectories, group: str) -> dict[TopicPartition, int]:
    """Return from which time on `by_content` looks for the place of a group in each partition; -1: in the whole log.

    Without partitions that have no record to look for. StorageError, OSError.
    """
    committed = committed_offsets(other, group)
    sought = {partition: _sought(other, committed, partition).records for partition in committed}
    return {partition: records[0].timestamp for partition, records in sought.items() if records}


@dataclass(frozen=True, slots=True)
class _Sought:
    """Records in a row; the place of the group is before the first, or `is_behind` the last one."""

    records: Sequence[Record] = ()
    is_behind: bool = False


def _sought(other: LogDirectories, committed: Mapping[TopicPartition, int], partition: TopicPartition) -> _Sought:
    """Return the records at which a group is in another directory; none if it has no place there."""
    if partition not in committed or not other.has(partition):
        return _Sought()
    source = other.log(partition)
    offset = max(committed[partition], source.log_start_offset)
    following = list(islice(LogReader(source, start=offset).records(), CONTENT_RECORDS))
    return _Sought(following) if following else _Sought(_last_records(source, offset), is_behind=True)


def _last_records(source: Log, end: int) -> list[Record]:
    """Return the last records before `end`, at most `CONTENT_RECORDS`; fewer where offsets have gaps."""
    start = max(source.log_start_offset, end - CONTENT_RECORDS)
    return list(LogReader(source, start=start, stop=end).records())


def _found(log: Log, wanted: Sequence[Record]) -> int | None:
    """Return the offset of the first of these records in a log, where the others follow it: the same one if it fits."""
    if log.log_start_offset <= wanted[0].offset < log.log_end_offset():
        there = list(islice(LogReader(log, start=wanted[0].offset).records(), len(wanted)))
        if len(there) == len(wanted) and there[0].offset == wanted[0].offset and _begins_as(there, wanted):
            return wanted[0].offset
    first = log.find_timestamp(wanted[0].timestamp) if wanted[0].timestamp >= 0 else (log.log_start_offset, 0)
    if first is None:
        return None
    window: deque[Record] = deque()
    for number, record in enumerate(LogReader(log, start=first[0]).records()):
        if number == CONTENT_SEARCHED_MAX:
            return None
        window.append(record)
        if len(window) == len(wanted):
            if _begins_as(window, wanted):
                return window[0].offset
            window.popleft()
    while window:  # what the other log has beyond the end of this one is not copied yet
        if _begins_as(window, wanted):
            return window[0].offset
        window.popleft()
    return None


def _begins_as(records: Iterable[Record], wanted: Sequence[Record]) -> bool:
    """Return whether records are equal to the first ones of those wanted, but for their offsets."""
    return all(
        (mine.timestamp, mine.key, mine.value, mine.headers)
        == (theirs.timestamp, theirs.key, theirs.value, theirs.headers)
        for mine, theirs in zip(records, wanted, strict=False)
    )


def _behind(log: Log, offset: int, count: int) -> int:
    """Return the offset behind `count` records from `offset` on."""
    records = list(islice(LogReader(log, start=offset).records(), count + 1))
    return records[count].offset if len(records) > count else log.log_end_offset()
