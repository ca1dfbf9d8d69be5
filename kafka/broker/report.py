"""The state of a broker at one moment: a copy of its counters, its groups and their lag, for other threads to read."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from offsetfs.common.formatting import most_frequent, size
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.group_lags import LagTimes
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.storage import LogDirectory, TopicPartition, Unsynced
from offsetfs.storage.errors import StorageError
from offsetfs.version import __version__

OTHERS = "(others)"
"""Stands for all groups or topics without samples of their own; no valid name of a topic."""

GROUPS_MAX = 1000
LAGS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group, with Kafka's name of its state, the number of its members and its committed offsets."""

    name: str
    state: str
    members: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """One broker. `lags`: the records behind the committed offsets, by group and topic.

    `lag_seconds`: for how long the next record of the group has been there when the newest one came, in the partition
    where that is the longest; without those whose records have no times.
    """

    version: str
    log_directory: str
    is_read_only: bool
    topics: int
    partitions: int
    metrics: BrokerMetrics
    groups: tuple[GroupSnapshot, ...]
    lags: Mapping[tuple[str, str], int]
    lag_seconds: Mapping[tuple[str, str], float]
    unsynced: Unsynced
    unsynced_age_s: float
    """The age of the oldest batch that is not yet on disk; 0 if there is none."""

    @property
    def groups_by_state(self) -> Mapping[str, int]:
        return Counter(group.state for group in self.groups)

    @property
    def members(self) -> Mapping[str, int]:
        """The number of members by group. The first `GROUPS_MAX` groups by name have entries of their own."""
        return {
            **{group.name: group.members for group in self.groups[:GROUPS_MAX]},
            **({OTHERS: sum(group.members for group in rest)} if (rest := self.groups[GROUPS_MAX:]) else {}),
        }

    def lines(self) -> Iterator[str]:
        """Yield lines for `.offsetfs/stats` of a mount in the same process."""
        metrics = self.metrics
        counts = f"{metrics.connections_accepted} accepted, {metrics.connections_refused} refused"
        traffic = f"{size(metrics.received_bytes)} received, {size(metrics.sent_bytes)} sent"
        requests = {api: counts.requests for api, counts in metrics.apis.items() if counts.requests}
        yield f"broker      {metrics.connections} connections, {counts}; {traffic}"
        yield f"  requests  {sum(requests.values())}: {most_frequent(requests)}"
        yield f"  errors    {sum(sum(counts.errors.values()) for counts in metrics.apis.values())}"
        yield f"  groups    {len(self.groups)}: {most_frequent(self.groups_by_state)}; lag {sum(self.lags.values())}"


class BrokerReporter:
    """Makes the reports of one broker."""

    def __init__(
        self, directory: LogDirectory, metrics: BrokerMetrics, groups: Callable[[], list[GroupSnapshot]]
    ) -> None:
        self._directory = directory
        self._metrics = metrics
        self._groups = groups
        self._times = LagTimes(directory)

    async def report(self) -> BrokerReport:
        """Return the current state. Called on the event loop; logs are opened in a thread."""
        metrics, groups = copy.deepcopy(self._metrics), sorted(self._groups(), key=lambda group: group.name)
        return await in_thread(partial(self._completed, metrics, tuple(groups)))

    def _completed(self, metrics: BrokerMetrics, groups: tuple[GroupSnapshot, ...]) -> BrokerReport:
        names, unsynced = self._directory.partitions(), self._directory.unsynced()
        lags, lag_seconds = self._lags(groups)
        return BrokerReport(
            version=__version__,
            log_directory=self._directory.path,
            is_read_only=self._directory.read_only,
            topics=len({name.topic for name in names}),
            partitions=len(names),
            metrics=metrics,
            groups=groups,
            lags=lags,
            lag_seconds=lag_seconds,
            unsynced=unsynced,
            unsynced_age_s=self._age_s(unsynced),
        )

    def _age_s(self, unsynced: Unsynced) -> float:
        return 0.0 if unsynced.since is None else max(0.0, self._directory.clock.monotonic() - unsynced.since)

    def _lags(self, groups: Iterable[GroupSnapshot]) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], float]]:
        """Return the lag in records and in seconds, by group and topic."""
        ends: dict[TopicPartition, int | None] = {}
        known_ends: dict[TopicPartition, int] = {}
        committed: dict[TopicPartition, dict[str, int]] = {}
        lags: dict[tuple[str, str], int] = {}
        for group in groups:
            for partition, offset in group.offsets.items():
                if partition not in ends:
                    ends[partition] = self._end(partition)
                end = ends[partition]
                if end is None or offset < 0:  # below 0: no offset is committed
                    continue
                key = (group.name, partition.topic)
                if key not in lags and len(lags) >= LAGS_MAX:
                    key = (OTHERS, OTHERS)
                lags[key] = lags.get(key, 0) + max(0, end - offset)
                known_ends[partition] = end
                committed.setdefault(partition, {})[group.name] = offset
        seconds: dict[tuple[str, str], float] = {}
        for (name, partition), behind_s in self._times.seconds(known_ends, committed).items():
            key = (name, partition.topic) if (name, partition.topic) in lags else (OTHERS, OTHERS)
            seconds[key] = max(seconds.get(key, 0.0), behind_s)
        return lags, seconds

    def _end(self, partition: TopicPartition) -> int | None:
        """Return the end offset of a partition; None if it was deleted, or does not open."""
        try:
            with self._directory.borrowed(partition) as log:
                log.refresh()
                return log.next_offset
        except (StorageError, OSError):
            return None
