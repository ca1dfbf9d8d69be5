"""The state of a broker at one moment: a copy of its counters, its groups and their lag, for other threads to read."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from offsetfs.common.formatting import most_frequent, size
from offsetfs.common.group_lags import OTHERS, GroupLags, LagReader
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.storage import LogDirectory, TopicPartition, Unsynced
from offsetfs.version import __version__

GROUPS_MAX = 1000


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A group, with Kafka's name of its state, the number of its members and its committed offsets."""

    name: str
    state: str
    members: int
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """One broker."""

    version: str
    log_directory: str
    is_read_only: bool
    topics: int
    partitions: int
    metrics: BrokerMetrics
    groups: tuple[GroupSnapshot, ...]
    lags: GroupLags
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
        lag = sum(self.lags.records.values())
        yield f"  groups    {len(self.groups)}: {most_frequent(self.groups_by_state)}; lag {lag}"


class BrokerReporter:
    """Makes the reports of one broker."""

    def __init__(
        self, directory: LogDirectory, metrics: BrokerMetrics, groups: Callable[[], list[GroupSnapshot]]
    ) -> None:
        self._directory = directory
        self._metrics = metrics
        self._groups = groups
        self._lags = LagReader(directory)

    async def report(self) -> BrokerReport:
        """Return the current state. Called on the event loop; logs are opened in a thread."""
        metrics, groups = copy.deepcopy(self._metrics), sorted(self._groups(), key=lambda group: group.name)
        return await in_thread(partial(self._completed, metrics, tuple(groups)))

    def _completed(self, metrics: BrokerMetrics, groups: tuple[GroupSnapshot, ...]) -> BrokerReport:
        names, unsynced = self._directory.partitions(), self._directory.unsynced()
        return BrokerReport(
            version=__version__,
            log_directory=self._directory.path,
            is_read_only=self._directory.read_only,
            topics=len({name.topic for name in names}),
            partitions=len(names),
            metrics=metrics,
            groups=groups,
            lags=self._lags.lags((group.name, group.offsets) for group in groups),
            unsynced=unsynced,
            unsynced_age_s=self._age_s(unsynced),
        )

    def _age_s(self, unsynced: Unsynced) -> float:
        return 0.0 if unsynced.since is None else max(0.0, self._directory.clock.monotonic() - unsynced.since)
