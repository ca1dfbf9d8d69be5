"""A process that mirrors a cluster into a log directory: signals, background tasks, the end.

mirroring ── SIGTERM, SIGINT, or complete ──► log starts ──► the directory is closed, with the mark of a clean shutdown
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Sequence
from functools import partial

import trio

from offsetfs.client.cluster import ClusterClient
from offsetfs.client.properties import ClientProperties
from offsetfs.mirror.mirror import Mirror, OnEvent
from offsetfs.mirror.options import MirrorOptions
from offsetfs.runtime.addresses import Address, address_text
from offsetfs.runtime.task_runner import TaskRunner
from offsetfs.runtime.threads import in_thread_or_here
from offsetfs.storage import LogDirectory

_log = logging.getLogger(__name__)

OnProgress = Callable[[Mirror], None]
"""Called every second with the mirror, whose partitions say how far they are."""

PROGRESS_S = 1.0


async def mirror(
    directory: LogDirectory,
    brokers: Sequence[Address],
    properties: ClientProperties,
    options: MirrorOptions,
    on_event: OnEvent,
    on_progress: OnProgress = lambda mirror: None,
) -> bool:
    """Mirror until SIGTERM or SIGINT, or with `once` until all is here; closes `directory`.

    Return whether all topics and partitions could be mirrored. ClientError, MirrorError, StorageError, OSError.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        try:
            async with ClusterClient(brokers, properties) as client:
                found = Mirror(directory, client, ",".join(map(address_text, brokers)), options, on_event)
                tasks = TaskRunner([directory])
                failures = list[Exception]()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(tasks.run)
                    nursery.start_soon(partial(_report, found, on_progress))

                    async def run() -> None:
                        try:
                            await found.run()
                        except Exception as error:  # raised below: a nursery would put it into a group
                            failures.append(error)
                        nursery.cancel_scope.cancel()

                    nursery.start_soon(run)
                    try:
                        async for number in signals:
                            _log.info("%s: ending", signal.Signals(number).name)
                            break
                    finally:
                        tasks.stop()
                    nursery.cancel_scope.cancel()
                if failures:
                    raise failures[0]
                with trio.CancelScope(shield=True):
                    if not options.keep:
                        await found.follow_log_starts()
                on_progress(found)
                return not found.has_failed
        finally:
            with trio.CancelScope(shield=True):
                await in_thread_or_here(directory.close)


async def _report(found: Mirror, on_progress: OnProgress) -> None:
    while True:
        on_progress(found)
        await trio.sleep(PROGRESS_S)
