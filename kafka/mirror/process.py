"""Runs a mirror: in a process of its own (`offsetfs mirror`), or beside a mount of the same directory (`kafka://`).

own process     begin ── mirror, until SIGTERM, SIGINT or complete ──► log starts ──► the directory is closed
beside a mount  begin, before the mount exists ── mirror, again after errors, until stopped; the mount closes it
"""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.common.task_runner import TaskRunner
from offsetfs.common.threads import in_thread_or_here
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import ClientError
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import MirrorError, MirrorOptions
from offsetfs.kafka.mirror.state import OnEvent
from offsetfs.kafka.mirror.status import MirrorStatus, status_of
from offsetfs.kafka.mirror.survey import Choose, ClusterSurvey, survey
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import StorageError, sentence

_log = logging.getLogger(__name__)

OnProgress = Callable[[MirrorStatus], None]
"""Called every second, in a thread; once more at the end, on the event loop."""

Beside = Callable[[Callable[[], MirrorStatus]], AbstractContextManager[object]]
"""Returns what is entered while the mirror runs; called with a function that returns the current state."""

PROGRESS_S = 1.0
RESTART_S = 10.0
"""The pause before a mirror beside a mount runs again after an error."""


@dataclass(frozen=True, slots=True)
class MirrorSource:
    """The cluster, how to connect to it, and what is mirrored."""

    brokers: Sequence[Address]
    properties: ClientProperties
    options: MirrorOptions

    @property
    def text(self) -> str:
        """The addresses of the brokers."""
        return ",".join(map(address_text, self.brokers))

    def client(self) -> ClusterClient:
        return ClusterClient(self.brokers, self.properties)

    def mirror(self, directory: LogDirectory, client: ClusterClient, on_event: OnEvent) -> Mirror:
        return Mirror(directory, client, self.text, self.options, on_event)


async def cluster_id(source: MirrorSource) -> str:
    """Return the id of the cluster; "" for brokers before 0.10.1. ClientError."""
    async with source.client() as client:
        return (await client.metadata([])).cluster_id or ""


async def surveyed(source: MirrorSource, choose: Choose) -> ClusterSurvey | None:
    """Return what the cluster has of the partitions that are chosen; None after SIGTERM or SIGINT.

    ClientError, and what `choose` raises.
    """
    found: ClusterSurvey | None = None

    async def ask() -> None:
        nonlocal found
        async with source.client() as client:
            found = await survey(client, choose)

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        failure = await _run_until_signal(ask, signals)
    if failure is not None:
        raise failure
    return found


async def answers(source: MirrorSource, on_wait: Callable[[], None]) -> bool:
    """Wait for an answer of the cluster; return False if SIGTERM or SIGINT came before it. ClientError.

    `on_wait` is called every second until then.
    """
    has_answered = False

    async def report_each_second() -> None:
        while True:
            await trio.sleep(PROGRESS_S)
            on_wait()

    async def ask() -> None:
        nonlocal has_answered
        await cluster_id(source)
        has_answered = True

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(report_each_second)
            failure = await _run_until_signal(ask, signals)
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return has_answered


async def mirror(
    directory: LogDirectory,
    source: MirrorSource,
    on_event: OnEvent,
    on_progress: OnProgress = lambda status: None,
    beside: Beside = lambda status: nullcontext(),
) -> bool:
    """Mirror until SIGTERM or SIGINT, or with `once` until complete; closes `directory`.

    Return whether all topics and partitions could be mirrored. ClientError, MirrorError, StorageError, OSError.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        try:
            async with source.client() as client:
                running = source.mirror(directory, client, on_event)
                await running.prepare()
                failure = await _mirror_until_signal(running, directory, signals, on_progress, beside)
                if failure is not None:
                    raise failure
                await _end(running, source.options)
                on_progress(status_of(running))
                return not running.has_failed
        finally:
            with trio.CancelScope(shield=True):
                await in_thread_or_here(directory.close)


async def _mirror_until_signal(
    running: Mirror, directory: LogDirectory, signals: AsyncIterator[int], on_progress: OnProgress, beside: Beside
) -> Exception | None:
    """Mirror, with the background tasks of the directory, until complete or a signal; return its error."""
    tasks = TaskRunner([directory])

    async def run() -> None:
        with beside(partial(status_of, running)):
            await running.begin()
            await running.run()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tasks.run)
        nursery.start_soon(_report, running, on_progress)
        try:
            failure = await _run_until_signal(run, signals)
        finally:
            tasks.stop()
        nursery.cancel_scope.cancel()
    return failure


async def _run_until_signal(run: Callable[[], Awaitable[None]], signals: AsyncIterator[int]) -> Exception | None:
    """Run until complete or a signal; return the error that ended it: a nursery would raise it in a group."""
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:

        async def attempt() -> None:
            nonlocal failure
            try:
                await run()
            except Exception as error:
                failure = error
            nursery.cancel_scope.cancel()

        nursery.start_soon(attempt)
        async for number in signals:
            _log.info("%s: ending", signal.Signals(number).name)
            break
        nursery.cancel_scope.cancel()
    return failure


class MirrorBeside:
    """A mirror in the event loop of a mount, which runs the background tasks of the directory and closes it."""

    def __init__(self, source: MirrorSource, on_event: OnEvent, on_progress: OnProgress) -> None:
        self._source = source
        self._on_event = on_event
        self._on_progress = on_progress
        self._scope: trio.CancelScope | None = None
        self._is_stopped = False
        self.status: MirrorStatus | None = None
        """The state of a second ago at most; None before it runs."""

    async def begin(self, directory: LogDirectory) -> None:
        """Create the topics that are chosen. ClientError, MirrorError, StorageError, OSError."""
        async with self._source.client() as client:
            await self._source.mirror(directory, client, self._on_event).begin()

    async def run(self, directory: LogDirectory) -> None:
        """Mirror until `stop`. After an error it runs again: the mount continues with the records it has."""
        with trio.CancelScope() as self._scope:
            while not self._is_stopped:
                try:
                    await self._run(directory)
                except (ClientError, MirrorError, StorageError, OSError) as error:
                    self._on_event(f"{sentence(error)}; trying again")
                await trio.sleep(RESTART_S)

    async def _run(self, directory: LogDirectory) -> None:
        failures = list[Exception]()
        async with self._source.client() as client:
            running = self._source.mirror(directory, client, self._on_event)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_report, running, self._show)
                try:
                    await running.run()
                except (ClientError, MirrorError, StorageError, OSError) as error:
                    failures.append(error)
                except trio.Cancelled:
                    await _end(running, self._source.options)
                    raise
                nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]

    def _show(self, status: MirrorStatus) -> None:
        self.status = status
        self._on_progress(status)

    def stop(self) -> None:
        """Append nothing more, and let `run` return."""
        self._is_stopped = True
        if self._scope is not None:
            self._scope.cancel()


async def _end(running: Mirror, options: MirrorOptions) -> None:
    """Take over the log starts of the source."""
    with trio.CancelScope(shield=True):
        if not options.keep:
            await running.upkeep.follow_log_starts()


async def _report(running: Mirror, on_progress: OnProgress) -> None:
    while True:
        # It writes a file, which takes long while the disk is busy: records would wait on the event loop.
        await in_thread_or_here(partial(on_progress, status_of(running)))
        await trio.sleep(PROGRESS_S)
