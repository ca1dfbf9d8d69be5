"""The markers that end a transaction in the partitions it has written to.

Markers are on disk on return (with `acks.all=disk`): a transaction whose marker a power loss takes away would stay open
forever, and consumers of committed records would wait at it. A partition may get the marker of a transaction twice; the
second one changes nothing. Follows TransactionMarkerChannelManager and ReplicaManager.appendRecords.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.storage import Log, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import end_marker_batch
from offsetfs.storage.errors import CoordinatorFenced, InvalidProducerEpoch, StorageError, UnknownPartition

_log = logging.getLogger(__name__)

_APPENDS_MAX = 8  # at the same time; those of clients have another limit

GROUP_MAX = 256
"""Markers that one visit of a thread appends, and that are then synced: a request may have a hundred thousand, and
each change of threads, and each sync, costs more than an append."""


class Marker(NamedTuple):
    """The end of a transaction."""

    producer_id: int
    epoch: int
    is_commit: bool
    coordinator_epoch: int
    bumps_epochs: bool = False
    """Whether it has the epoch after that of the transaction's records, as WriteTxnMarkers 2 states it (KIP-1228)."""


class TransactionMarkers:
    """Writes markers to the partitions of one directory."""

    def __init__(self, directory: LogDirectory, syncs: LogSync) -> None:
        self._directory = directory
        self._syncs = syncs
        self._appends = trio.CapacityLimiter(_APPENDS_MAX)

    async def write_all(self, marker: Marker, missing: set[TopicPartition]) -> None:
        """Write a marker to all partitions, except those that are deleted; StorageError, OSError, MemoryError.

        All are tried before an error is raised. Those that need no further attempt are removed from `missing`.
        """
        failures: list[Exception] = []
        ordered = sorted(missing)
        for begin in range(0, len(ordered), GROUP_MAX):
            group = ordered[begin : begin + GROUP_MAX]
            for partition, error in zip(group, await self.write_group([(marker, name) for name in group]), strict=True):
                if isinstance(error, UnknownPartition):
                    pass  # its records are gone, too
                elif isinstance(error, InvalidProducerEpoch | CoordinatorFenced):
                    # As TransactionMarkerRequestCompletionHandler: of a newer coordinator or producer, so the
                    # transaction has ended there.
                    _log.warning("%s: no end of a transaction of producer %d: %s", partition, marker.producer_id, error)
                elif error is not None:
                    failures.append(error)
                    continue
                missing.remove(partition)
        if failures:
            raise failures[0]

    async def write_group(self, markers: Sequence[tuple[Marker, TopicPartition]]) -> list[Exception | None]:
        """Write markers to their partitions, in this order, and sync each log once.

        Returns for each marker the StorageError, OSError or MemoryError that kept it from the disk, or None.
        """
        with trio.CancelScope(shield=True):
            try:
                written = await in_thread(partial(self._append_group, markers), limiter=self._appends)
            except (OSError, MemoryError) as error:  # no thread: nothing was appended
                return [error] * len(markers)
            ends = dict[Log, int](end for end in written if not isinstance(end, Exception))
            failed = dict[Log, Exception]()

            async def sync(log: Log, end: int) -> None:
                try:
                    await self._syncs.sync(log, end)
                except (StorageError, OSError, MemoryError) as error:
                    failed[log] = error

            async with trio.open_nursery() as nursery:
                for end in ends.items():
                    nursery.start_soon(sync, *end)
        return [result if isinstance(result, Exception) else failed.get(result[0]) for result in written]

    def _append_group(self, markers: Sequence[tuple[Marker, TopicPartition]]) -> list[tuple[Log, int] | Exception]:
        """Return for each marker its log and the offset behind it, or the error."""
        written = list[tuple[Log, int] | Exception]()
        for marker in markers:
            try:
                written.append(self._append(*marker))
            except (StorageError, OSError, MemoryError) as error:
                written.append(error)
        return written

    def _append(self, marker: Marker, partition: TopicPartition) -> tuple[Log, int]:
        log = self._directory.writable_log(partition)
        batch = end_marker_batch(
            marker.producer_id,
            marker.epoch,
            is_commit=marker.is_commit,
            coordinator_epoch=marker.coordinator_epoch,
            now_ms=log.clock.now_ms(),
        )
        appended = log.append(batch, checks_producer=True, bumps_epochs=marker.bumps_epochs)
        return log, appended.last_offset + 1
