"""Upkeep of a running mirror: log starts of the source, and flushes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.mirror import timing
from offsetfs.kafka.mirror.partition import MirroredPartition
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError, sentence

_log = logging.getLogger(__name__)

FLUSH_BYTES = 64 << 20
"""The appended bytes after which a log is flushed, while the mirror receives more, and not only at the end."""


class Upkeep:
    """The upkeep of one mirror."""

    def __init__(self, state: MirrorState) -> None:
        self._state = state
        self._has_large = trio.Event()

    async def run(self) -> None:
        """Follow the log starts of the source, and flush the logs."""
        next_flush = trio.current_time() + timing.FLUSH_S
        while True:
            await trio.sleep(timing.UPKEEP_S)
            with trio.CancelScope(shield=True):
                if not self._state.options.keep:
                    await self.follow_log_starts()
                if trio.current_time() >= next_flush:
                    await in_thread(partial(_flush, [partition.log for partition in self._state.active()]))
                    next_flush = trio.current_time() + timing.FLUSH_S

    async def flush_large(self) -> None:
        """Flush logs with many unflushed bytes, while others are appended to."""
        while True:
            await self._has_large.wait()
            self._has_large = trio.Event()
            large = [partition for partition in self._state.active() if partition.unflushed_bytes >= FLUSH_BYTES]
            for partition in large:
                partition.unflushed_bytes = 0
            with trio.CancelScope(shield=True):
                await in_thread(partial(_flush, [partition.log for partition in large]))

    def appended(self, partition: MirroredPartition, count: int) -> None:
        """Count appended bytes; a log with many unflushed bytes is flushed soon."""
        partition.appended_bytes += count
        partition.unflushed_bytes += count
        if partition.unflushed_bytes >= FLUSH_BYTES:
            self._has_large.set()

    async def follow_log_starts(self) -> None:
        """Raise the log starts here to those of the source."""
        starts = {
            partition.name: min(partition.source_start, partition.log.next_offset)
            for partition in self._state.active()
            if partition.log.log_start_offset < min(partition.source_start, partition.log.next_offset)
        }
        if starts:
            try:
                await in_thread(partial(self._state.directory.raise_log_starts, starts))
            except (StorageError, OSError) as error:
                _log.error("log starts cannot be raised: %s", sentence(error))


def _flush(logs: Iterable[Log]) -> None:
    for log in logs:
        if log.recovery_point < log.next_offset:
            try:
                log.flush()
            except (StorageError, OSError) as error:
                _log.error("%s", sentence(error))
