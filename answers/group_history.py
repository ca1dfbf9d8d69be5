"""How far a consumer group was behind at times between its commits, in records and in seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from offsetfs.storage import Log, LogDirectories, LogView, TopicPartition
from offsetfs.storage.coordinators import seconds_behind
from offsetfs.storage.errors import StorageError, sentence

TIMES_MAX = 60
"""The times at which the lag is looked up."""
LOOKUPS_MAX = 2000
"""The look-ups of one history. Of a group with more partitions there are fewer times, then fewer partitions."""
TIMES_MIN = 8

Number = TypeVar("Number", int, float)
Commits = Iterable[tuple[int, str, int]]
"""Time in milliseconds, partition and offset of commits, in any order."""


@dataclass(frozen=True, slots=True)
class PastLag:
    """The lag at a time: records of all partitions, seconds of the one that was furthest behind. None is not known."""

    time_ms: int
    lag: int | None
    lag_s: float | None


def lag_history(opened: LogDirectories, commits: Commits) -> tuple[list[PastLag], list[str]]:
    """Return the lag at times from the first to the last of some commits, and what was left out.

    A record counts as written at its timestamp. The lag in a partition whose record at the committed offset was removed
    is not known; before its first commit that is left, a partition does not count.
    """
    by_partition: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for time, partition, offset in commits:
        by_partition[partition].append((time, offset))
    names = sorted(by_partition)[: LOOKUPS_MAX // TIMES_MIN]
    unseen = [] if len(names) == len(by_partition) else [f"the past of {len(by_partition) - len(names)} partitions"]
    every = sorted(time for name in names for time, _ in by_partition[name])
    if not every:
        return [], unseen
    count = max(min(TIMES_MAX, LOOKUPS_MAX // len(names)), TIMES_MIN)
    times = sorted({every[0] + (every[-1] - every[0]) * number // (count - 1) for number in range(count)})
    found: list[list[tuple[int | None, float | None]]] = [[] for _ in times]
    for name in names:
        try:
            log = opened.log(TopicPartition.parse(name))
            of_partition = _lags(log, sorted(by_partition[name]), times)
        except (StorageError, OSError) as error:
            unseen.append(f"the past of {name}: {sentence(error)}")
            continue
        for lags, lag in zip(found, of_partition, strict=True):
            if lag is not None:
                lags.append(lag)
    return [
        PastLag(
            time, _unless_unknown(sum, [lag for lag, _ in lags]), _unless_unknown(max, [seconds for _, seconds in lags])
        )
        for time, lags in zip(times, found, strict=True)
    ], unseen


def _lags(
    log: Log, commits: Sequence[tuple[int, int]], times: Sequence[int]
) -> list[tuple[int | None, float | None] | None]:
    """Return records and seconds at each time; None before the first commit."""
    view, end, start = LogView(log), log.log_end_offset(), log.log_start_offset
    lags: list[tuple[int | None, float | None] | None] = []
    for time in times:
        place = bisect_right(commits, (time, 1 << 63))
        if place == 0:
            lags.append(None)
            continue
        committed = commits[place - 1][1]
        if committed < start:
            lags.append((None, None))
            continue
        following = view.find_timestamp(time + 1)
        reached = end if following is None else following[0]
        lags.append((max(reached - committed, 0), seconds_behind(log, committed, reached)))
    return lags


def _unless_unknown(how: Callable[[list[Number]], Number], values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return how(known) if values and len(known) == len(values) else None
