"""The markers that end a transaction in the partitions it has written to.

Markers are on disk on return (with `acks.all=disk`): a transaction whose marker a power loss takes away would stay open
forever, and consumers of committed records would wait at it. A partition may get the marker of a transaction twice; the
second one changes nothing. Follows TransactionMarkerChannelManager and ReplicaManager.appendRecords.
"""

from __future__ import annotations

import logging
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

        async def write(partition: TopicPartition) -> None:
            try:
                await self.write(marker, partition)
            except UnknownPartition:
                pass  # its records are gone, too
            except (InvalidProducerEpoch, CoordinatorFenced) as error:
                # As TransactionMarkerRequestCompletionHandler: of a newer coordinator or producer, so the
                # transaction has ended there.
                _log.warning("%s: no end of a transaction of producer %d: %s", partition, marker.producer_id, error)
            except (StorageError, OSError, MemoryError) as error:
                failures.append(error)
                return
            missing.remove(partition)

        async with trio.open_nursery() as nursery:
            for each in sorted(missing):
                nursery.start_soon(write, each)
        if failures:
            raise failures[0]

    async def write(self, marker: Marker, partition: TopicPartition) -> None:
        """Write a marker to one partition; StorageError, OSError, MemoryError."""
        with trio.CancelScope(shield=True):
            log, end = await in_thread(partial(self._append, marker, partition), limiter=self._appends)
            await self._syncs.sync(log, end)

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
