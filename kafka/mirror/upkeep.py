"""Upkeep of a mirror while it runs: log starts of the source, and records to the disk."""

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
"""A log is written to the disk after so many bytes, too: while more is received, and not all of it at the end."""


class Upkeep:
    """The upkeep of one mirror."""

    def __init__(self, state: MirrorState) -> None:
        self._state = state
        self._has_much = trio.Event()

    async def run(self) -> None:
        """Follow the log starts of the source, and write records to the disk."""
        next_flush = trio.current_time() + timing.FLUSH_S
        while True:
            await trio.sleep(timing.UPKEEP_S)
            with trio.CancelScope(shield=True):
                if not self._state.options.keep:
                    await self.follow_log_starts()
                if trio.current_time() >= next_flush:
                    await in_thread(partial(_flush, [each.log for each in self._state.active()]))
                    next_flush = trio.current_time() + timing.FLUSH_S

    async def flush_large(self) -> None:
        """Write logs to the disk that have got much, while others are appended to."""
        while True:
            await self._has_much.wait()
            self._has_much = trio.Event()
            large = [each for each in self._state.active() if each.unflushed_bytes >= FLUSH_BYTES]
            for each in large:
                each.unflushed_bytes = 0
            with trio.CancelScope(shield=True):
                await in_thread(partial(_flush, [each.log for each in large]))

    def appended(self, partition: MirroredPartition, count: int) -> None:
        """Count bytes that were appended; a log that has got much is written to the disk."""
        partition.appended_bytes += count
        partition.unflushed_bytes += count
        if partition.unflushed_bytes >= FLUSH_BYTES:
            self._has_much.set()

    async def follow_log_starts(self) -> None:
        """Raise the log starts here to those of the source."""
        starts = {
            each.name: min(each.source_start, each.log.next_offset)
            for each in self._state.active()
            if each.log.log_start_offset < min(each.source_start, each.log.next_offset)
        }
        if starts:
            try:
                await in_thread(partial(self._state.directory.raise_log_starts, starts))
            except (StorageError, OSError) as error:
                _log.error("log starts cannot be raised: %s", sentence(error))


def _flush(logs: Iterable[Log]) -> None:
    for each in logs:
        if each.recovery_point < each.next_offset:
            try:
                each.flush()
            except (StorageError, OSError) as error:
                _log.error("%s", sentence(error))
