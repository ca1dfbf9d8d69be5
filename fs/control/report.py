"""The state of a mount at one moment: a copy of its counters and gauges that other threads may read.

The report contains only partitions that were used since the mount started. The first thousand are separate entries (see
`counters`), the others are summed. A copy costs microseconds per partition and opens no log.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import trio

import offsetfs
from offsetfs.common.group_lags import GroupLags
from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.groups.known_groups import Groups
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.reporting.counters import PartitionCounts, TaskCounts
from offsetfs.fs.reporting.errors import name_of
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import StorageError

if TYPE_CHECKING:  # a mount without a broker does without its modules
    from offsetfs.fs.companion import CompanionReport


@dataclass(frozen=True, slots=True)
class LogReport:
    """The log of a partition that is open."""

    log_start_offset: int
    next_offset: int
    size_bytes: int
    segments: int
    has_failed: bool
    damaged: int
    """Places that cannot be read."""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One partition that was used. `name` is None for the sum of all partitions without their own counters."""

    name: TopicPartition | None
    counts: PartitionCounts
    unsynced_batches: int = 0
    unsynced_bytes: int = 0
    unsynced_age_s: float = 0.0
    log: LogReport | None = None


@dataclass(frozen=True, slots=True)
class CacheReport:
    """A cache. `bytes_max`: its limit."""

    hits: int
    misses: int
    bytes: int
    bytes_max: int

    @property
    def hit_share(self) -> float | None:
        """Return the share of look-ups that found an entry, from 0 to 1. None before the first look-up."""
        total = self.hits + self.misses
        return self.hits / total if total else None


class _Cache(Protocol):
    hits: int
    misses: int
    size: int
    size_max: int


NO_LAGS = GroupLags()


@dataclass(frozen=True, slots=True)
class MountReport:
    """One mount. Times in seconds since 1970, `sync_counts` as in `Durations`."""

    version: str
    mount_point: str
    log_directory: str
    is_read_only: bool
    started_s: float
    taken_s: float
    partitions_count: int
    partitions: tuple[PartitionReport, ...]
    open_files: int
    requests: Mapping[str, int]
    refusals: Mapping[str, int]
    faults: int
    unrecovered: tuple[str, ...]
    """Partitions that are read only because their recovery failed."""
    sync_counts: tuple[int, ...]
    sync_sum_s: float
    sync_failures: int
    buffer_bytes: int
    buffer_bytes_max: int
    caches: Mapping[str, CacheReport]
    tasks: Mapping[str, TaskCounts]
    companion: CompanionReport | None = None
    """The broker or the mirror in the process of the mount."""
    lags: GroupLags = NO_LAGS
    """Of the consumer groups; without any if they were not asked for, are not known yet, or `companion` has them."""


PARTITIONS_AT_ONCE = 50  # half a millisecond; then other tasks of the event loop run


class Reporter:
    """Makes the reports of one mount. Runs on the event loop only."""

    def __init__(
        self, mount: MountContext, accumulators: Accumulators, groups: Groups, open_files: Callable[[], int]
    ) -> None:
        self._mount = mount
        self._groups = groups
        self._accumulators = accumulators
        self._open_files = open_files

    async def report(self, *, has_lags: bool = False) -> MountReport:
        """Return the current state, with the lags of groups if they are asked for."""
        for name in await self._mount.executor.in_thread(self._mount.directory.damaged_partitions):
            self._mount.counters.of(name)  # damage is reported also for a partition without an opened file
        for name in self._accumulators.unsynced_partitions():
            self._mount.counters.of(name)  # a broker in this process may have appended to it
        # The used partitions are read before the existing ones. Otherwise a partition that is created between the two
        # steps would be taken for a removed one.
        used = sorted(self._mount.counters.partitions.items(), key=lambda item: item[0])
        names = await self._mount.executor.in_thread(lambda: set(self._mount.directory.partitions()))
        partitions = await self._partitions(used, names)
        mount, counters = self._mount, self._mount.counters
        companion = None if mount.companion is None else await mount.companion.report()
        has_lags = has_lags and not (companion is not None and companion.has_group_lags)
        memory = self._accumulators.context.memory
        return MountReport(
            version=offsetfs.__version__,
            mount_point=mount.mount_point,
            log_directory=mount.directory.path,
            is_read_only=mount.is_read_only,
            started_s=mount.started_s,
            taken_s=time.time(),
            partitions_count=len(names),
            partitions=tuple(partitions),
            open_files=self._open_files(),
            requests=dict(counters.requests),
            refusals={name_of(number): count for number, count in counters.refusals.items()},
            faults=mount.error_log.count,
            unrecovered=tuple(sorted(map(str, mount.directory.failed))),
            sync_counts=tuple(counters.syncs.counts),
            sync_sum_s=counters.syncs.sum_s,
            sync_failures=counters.sync_failures,
            buffer_bytes=memory.lent_bytes,
            buffer_bytes_max=memory.bytes_max,
            caches=self._caches(),
            tasks={name: dataclasses.replace(counts) for name, counts in counters.tasks.items()},
            companion=companion,
            lags=await self._groups.lags() if has_lags else NO_LAGS,
        )

    def _caches(self) -> dict[str, CacheReport]:
        mount = self._mount
        caches: dict[str, _Cache] = {
            "records": mount.caches.records,
            "batches": mount.caches.batches,
            "blocks": mount.caches.blocks,
        }
        return {name: CacheReport(c.hits, c.misses, c.size, c.size_max) for name, c in caches.items()}

    async def _partitions(
        self, used: list[tuple[TopicPartition, PartitionCounts]], names: set[TopicPartition]
    ) -> list[PartitionReport]:
        counters, reports = self._mount.counters, []
        if self._mount.directory.read_only:
            await self._mount.executor.in_thread(lambda: self._refresh([name for name, _ in used]))
        for index, (name, counts) in enumerate(used):
            if name not in names and not counts.followers:
                counters.forget(name)  # a broker or `offsetfs delete` has removed it
                continue
            reports.append(self._partition(name, counts))
            if index % PARTITIONS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        if counters.others != PartitionCounts():
            reports.append(PartitionReport(None, dataclasses.replace(counters.others)))
        return reports

    def _refresh(self, names: list[TopicPartition]) -> None:
        """Load what another process appended, since reads alone do so otherwise; two stat calls a partition."""
        for name in names:
            log = self._mount.directory.opened(name)
            if log is not None:
                with contextlib.suppress(StorageError, OSError):  # readers report it, with its place
                    log.refresh()

    def _partition(self, name: TopicPartition, counts: PartitionCounts) -> PartitionReport:
        accumulator, copied = self._accumulators.by_partition.get(name), dataclasses.replace(counts)
        if accumulator is None:  # read only, or nothing was appended
            return PartitionReport(name, copied, log=self._log(name))
        unsynced = accumulator.unsynced
        age_s = 0.0 if unsynced.since is None else max(0.0, accumulator.log.clock.monotonic() - unsynced.since)
        return PartitionReport(name, copied, unsynced.batches, unsynced.size, age_s, self._log(name))

    def _log(self, name: TopicPartition) -> LogReport | None:
        log = self._mount.directory.opened(name)
        if log is None:
            return None
        return LogReport(
            log.log_start_offset,
            log.next_offset,
            log.size_bytes,
            len(log.snapshot()),
            log.failure is not None,
            len(log.damage),
        )
