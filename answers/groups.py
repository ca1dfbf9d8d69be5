"""Consumer groups in time: lag in records and seconds, rates, history of commits, commits outside of their partitions.

The history is what compaction has left of `__consumer_offsets`. Commits of open transactions do not count.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from offsetfs.answers.doctor.commits import impossible, topic_id_of
from offsetfs.answers.report import Diagnosis, Fact, Measure, Report, Table, TableColumn, Value
from offsetfs.kafka.protocol.message import id_text
from offsetfs.storage import Log, LogDirectories, TopicPartition
from offsetfs.storage.coordinators import (
    OFFSETS_TOPIC,
    Commit,
    CommitChange,
    ConsumerGroups,
    OffsetsReplay,
    seconds_behind,
)
from offsetfs.storage.errors import StorageError, sentence

RECENT_COMMITS = 16
"""The commits of a partition by which the rate of its group is measured."""
HISTORY_COMMITS = 10_000
"""The commits that the history of one group has at most, the latest ones."""
PAIRS_MAX = 100_000
"""The pairs of group and partition with a history. Bounds the memory."""
_STEP_BYTES = 1 << 20

OnBytes = Callable[[int, int], None]
"""Called with the bytes of `__consumer_offsets` that were read, and their number."""

NOTE = (
    "behind: from the time of the next record that the group reads to that of the newest one; rates are those of the "
    f"last {RECENT_COMMITS} commits"
)

_LAG = (
    TableColumn("lag", "LAG", Measure.COUNT),
    TableColumn("lag_seconds", "BEHIND", Measure.SECONDS),
    TableColumn("rate", "READS", Measure.PER_SECOND),
    TableColumn("written_rate", "WRITTEN", Measure.PER_SECOND),
    TableColumn("caught_up_seconds", "CAUGHT UP IN", Measure.SECONDS),
    TableColumn("committed_ms", "LAST COMMIT", Measure.TIME),
)
GROUP_COLUMNS = (
    TableColumn("group", "GROUP"),
    TableColumn("state", "STATE"),
    TableColumn("members", "MEMBERS", Measure.COUNT),
    TableColumn("partitions", "PARTITIONS", Measure.COUNT),
    *_LAG,
)
PARTITION_COLUMNS = (
    TableColumn("partition", "PARTITION"),
    TableColumn("committed", "COMMITTED", Measure.OFFSET),
    TableColumn("end", "END", Measure.OFFSET),
    *_LAG,
)
MEMBER_COLUMNS = (
    TableColumn("member", "MEMBER"),
    TableColumn("client", "CLIENT"),
    TableColumn("host", "HOST"),
    TableColumn("instance", "INSTANCE"),
    TableColumn("epoch", "EPOCH", Measure.COUNT),
    TableColumn("partitions", "PARTITIONS", Measure.COUNT),
    TableColumn("assignment", "ASSIGNMENT"),
)
HISTORY_COLUMNS = (
    TableColumn("time", "TIME", Measure.TIME),
    TableColumn("partition", "PARTITION"),
    TableColumn("committed", "COMMITTED", Measure.OFFSET),
)


@dataclass(slots=True)
class CommitHistory:
    """Commits in the order of the log: the recent ones of each pair, and those of one group."""

    recent: dict[tuple[str, TopicPartition], deque[tuple[int, int]]] = field(default_factory=dict)
    """Time in milliseconds and offset, by group and partition."""
    of_group: deque[tuple[int, str, int]] = field(default_factory=lambda: deque(maxlen=HISTORY_COMMITS))
    left_out: int = 0

    def add(self, change: CommitChange, group: str | None) -> None:
        """Note a commit, and in `of_group` if it is one of `group`. A deletion ends what was before it."""
        key = (change.group, change.partition)
        if change.commit is None:
            self.recent.pop(key, None)
            return
        if key not in self.recent and len(self.recent) >= PAIRS_MAX:
            self.left_out += 1
            return
        self.recent.setdefault(key, deque(maxlen=RECENT_COMMITS)).append(
            (change.commit.timestamp, change.commit.offset)
        )
        if change.group == group:
            self.of_group.append((change.commit.timestamp, str(change.partition), change.commit.offset))


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group is behind in a partition. None is not known; rates are records a second."""

    partition: TopicPartition
    committed: int
    committed_ms: int
    end: int | None = None
    lag: int | None = None
    lag_s: float | None = None
    rate: float | None = None
    written_rate: float | None = None

    @property
    def caught_up_s(self) -> float | None:
        """The seconds until the group has read all, at these rates; None if it never will, or that is not known."""
        if self.lag == 0:
            return 0.0
        if self.lag is None or self.rate is None or self.written_rate is None or self.rate <= self.written_rate:
            return None
        return self.lag / (self.rate - self.written_rate)

    def cells(self) -> tuple[int | float | None, ...]:
        return self.lag, self.lag_s, self.rate, self.written_rate, self.caught_up_s, self.committed_ms


class UnknownGroup(LookupError):
    """No record names the group; the argument has the names of the groups that there are."""


def groups_report(
    opened: LogDirectories,
    group: str | None = None,
    *,
    on_bytes: OnBytes = lambda done, total: None,
) -> Report:
    """Return the report of all groups, or of one with its partitions and history; `UnknownGroup`."""
    unseen: list[str] = []
    history = _history(opened, group, unseen, on_bytes)
    groups = ConsumerGroups(opened, lambda left_out: unseen.append(f"{OFFSETS_TOPIC}: {left_out}"))
    groups.refresh(bytes_max=1 << 62)
    names = [name.decode(errors="replace") for name in groups.names()]
    if group is not None and group not in names:
        raise UnknownGroup(names)
    if history.left_out:
        unseen.append(f"the history of more than {PAIRS_MAX} pairs of group and partition")
    findings: list[Diagnosis] = []
    reader = _LagReader(opened, history, findings, unseen)
    lags = {name: reader.lags(name, groups.commits(name.encode()) or ()) for name in names if group in (None, name)}
    subject = opened.path if group is None else f"{opened.path}, {group}"
    if group is None:
        facts = [Fact("groups", "groups", len(names), Measure.COUNT)]
        rows = [(name, *_state(groups, name), *_summary(mine)) for name, mine in lags.items()]
        rows.sort(key=lambda row: -(row[4] if isinstance(row[4], int) else -1))
        tables = [Table("groups", "Groups", GROUP_COLUMNS, rows)]
    else:
        facts = _facts(groups, group)
        tables = _tables(lags[group], _members(opened, groups, group), history)
    return Report("groups", subject, facts=facts, tables=tables, findings=findings, unseen=unseen, notes=[NOTE])


def first_offsets(opened: LogDirectories, group: str | None) -> dict[TopicPartition, tuple[int, int | None]]:
    """Return from where on partitions are read for the lag of all groups, or of one.

    The lowest committed offset, and the time of the oldest commit by which a rate is measured; None: none is.
    """
    history = _history(opened, group, [], lambda done, total: None)
    groups = ConsumerGroups(opened, lambda left_out: None)
    groups.refresh(bytes_max=1 << 62)
    offsets: dict[TopicPartition, int] = {}
    times: dict[TopicPartition, int] = {}
    for name in groups.names():
        shown = name.decode(errors="replace")
        for commit in groups.commits(name) or () if group in (None, shown) else ():
            partition, recent = commit.partition, history.recent.get((shown, commit.partition), deque())
            offsets[partition] = min(offsets.get(partition, commit.offset), commit.offset)
            if len(recent) > 1:
                times[partition] = min(times.get(partition, recent[0][0]), recent[0][0])
    return {partition: (offset, times.get(partition)) for partition, offset in offsets.items()}


def _history(opened: LogDirectories, group: str | None, unseen: list[str], on_bytes: OnBytes) -> CommitHistory:
    history, done = CommitHistory(), 0
    partitions = opened.partitions_of(OFFSETS_TOPIC)
    sizes = {partition: opened.directory_of(partition).size_of(partition) for partition in partitions}
    for partition in partitions:
        try:
            replay = OffsetsReplay(opened.log(partition))
            while not replay.is_complete:
                for change in replay.advance(_STEP_BYTES):
                    if isinstance(change, CommitChange):
                        history.add(change, group)
        except (StorageError, OSError) as error:
            unseen.append(f"the history in {partition}: {sentence(error)}")
        done += sizes[partition]
        on_bytes(done, sum(sizes.values()))
    return history


class _LagReader:
    """Reads how far groups are behind. Starts, ends and logs are those after the commits were read."""

    def __init__(
        self, opened: LogDirectories, history: CommitHistory, findings: list[Diagnosis], unseen: list[str]
    ) -> None:
        self._opened = opened
        self._history = history
        self._findings = findings
        self._unseen = unseen

    def lags(self, group: str, commits: Iterable[Commit]) -> list[PartitionLag]:
        return [self._lag(group, commit) for commit in commits]

    def _lag(self, group: str, commit: Commit) -> PartitionLag:
        unknown = PartitionLag(commit.partition, commit.offset, commit.timestamp)
        if not self._opened.has(commit.partition) or commit.offset < 0:
            return unknown
        try:
            log = self._opened.log(commit.partition)
            log.refresh(is_forced=True)
            end, start = log.log_end_offset(), log.log_start_offset
            self._findings += impossible(group, commit, start, end, topic_id_of(self._opened, commit))
            recent = self._history.recent.get((group, commit.partition), deque())
            return PartitionLag(
                commit.partition,
                commit.offset,
                commit.timestamp,
                end,
                max(end - max(commit.offset, start), 0),
                seconds_behind(log, commit.offset, end),
                _rate(recent),
                _written_rate(log, recent, end),
            )
        except (StorageError, OSError) as error:
            self._unseen.append(f"the lag of {group} in {commit.partition}: {sentence(error)}")
            return unknown


def _rate(recent: Sequence[tuple[int, int]]) -> float | None:
    """Return the records a second between the first and the last of some commits."""
    if len(recent) < 2 or recent[-1][0] <= recent[0][0] or recent[-1][1] < recent[0][1]:  # it was set back
        return None
    return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0]) * 1000


def _written_rate(log: Log, recent: Sequence[tuple[int, int]], end: int) -> float | None:
    """Return the records a second that were written from the first of some commits to the last, by their timestamps."""
    if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
        return None
    first, last = log.find_timestamp(recent[0][0]), log.find_timestamp(recent[-1][0])
    written = (end if last is None else last[0]) - (end if first is None else first[0])
    return max(written, 0) / (recent[-1][0] - recent[0][0]) * 1000


def _state(groups: ConsumerGroups, name: str) -> tuple[str | None, int | None]:
    described = groups.state(name.encode()) or {}
    state, members = described.get("state"), described.get("members")
    return (str(state) if state else None), (len(members) if isinstance(members, (list, dict)) else None)


def _summary(lags: Sequence[PartitionLag]) -> tuple[int | float | None, ...]:
    """Return the number of partitions, and sums and maxima of what is known of them."""
    return (
        len(lags),
        _of_known(sum, [lag.lag for lag in lags]),
        _of_known(max, [lag.lag_s for lag in lags]),
        _of_known(sum, [lag.rate for lag in lags]),
        _of_known(sum, [lag.written_rate for lag in lags]),
        None if any(lag.caught_up_s is None for lag in lags) else _of_known(max, [lag.caught_up_s for lag in lags]),
        _of_known(max, [lag.committed_ms for lag in lags]),
    )


def _of_known(how: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return how(known) if known else None


def _facts(groups: ConsumerGroups, group: str) -> list[Fact]:
    described = groups.state(group.encode()) or {}
    state, members = _state(groups, group)
    kind = described.get("type")
    return [
        Fact("type", "type", str(kind) if kind else None),
        Fact("state", "state", state),
        Fact("members", "members", members, Measure.COUNT),
    ]


def _members(
    opened: LogDirectories, groups: ConsumerGroups, group: str
) -> list[tuple[str | None, str | None, str | None, str | None, int | None, int, str]]:
    """Return the rows of the members, those with the most partitions first, as the coordinator has written them.

    Assignments have the form of Kafka's tool, `orders(0,1)`. A topic that is not here has its id in place of a name.
    """
    described: Any = (groups.state(group.encode()) or {}).get("members") or ()
    names = _topic_names(opened) if any("topic_id" in part for row in described for part in row["assignment"]) else {}
    rows = []
    for member in described:
        parts = [
            (
                names.get(name := part.get("topic") or part.get("topic_id") or part["subtopology"], name),
                part["partitions"],
            )
            for part in member["assignment"]
        ]
        rows.append(
            (
                member["member_id"],
                member["client_id"],
                member["client_host"],
                member["instance_id"],
                member.get("epoch"),
                sum(len(numbers) for _, numbers in parts),
                ", ".join(f"{name}({','.join(map(str, sorted(numbers)))})" for name, numbers in sorted(parts)),
            )
        )
    return sorted(rows, key=lambda row: (-row[5], str(row[0])))


def _topic_names(opened: LogDirectories) -> dict[str, str]:
    """Return the names of topics by the texts of their ids."""
    names: dict[str, str] = {}
    for topic, partition in {partition.topic: partition for partition in opened.partitions()}.items():
        with contextlib.suppress(StorageError, OSError):  # a topic without a readable id keeps the id as its name
            topic_id = opened.directory_of(partition).topic_id(partition)
            if topic_id is not None:
                names[id_text(topic_id)] = topic
    return names


def _tables(lags: Sequence[PartitionLag], members: Sequence[Sequence[Value]], history: CommitHistory) -> list[Table]:
    rows = [(str(lag.partition), lag.committed, lag.end, *lag.cells()) for lag in lags]
    rows.sort(key=lambda row: -(row[3] if isinstance(row[3], int) else -1))
    past = sorted(history.of_group, reverse=True)
    return [
        Table("partitions", "Partitions", PARTITION_COLUMNS, rows),
        Table("members", "Members", MEMBER_COLUMNS, members),
        Table("history", "Commits, the newest first", HISTORY_COLUMNS, past),
    ]
