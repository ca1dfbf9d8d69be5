"""A process that serves one log directory: listeners, signals, shutdown.

    listening ── connections ── SIGTERM, SIGINT → accept nothing more → answer what was read → flush → clean mark

Further signals have no effect. After `serve` has returned, every acknowledged record is on disk and the directory is
marked as cleanly closed, so that a real broker opens it without recovery.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

import trio

from offsetfs.common.addresses import Address, Endpoint
from offsetfs.common.task_runner import TaskRunner
from offsetfs.common.threads import in_thread_or_here
from offsetfs.kafka.broker.broker import Broker
from offsetfs.kafka.broker.connections.listeners import Listener
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.storage import LogDirectory

_log = logging.getLogger(__name__)

_GC_THRESHOLDS = 10_000, 20, 10
"""New objects of each generation of the cycle collector. By default it looks at all objects several times while a
request of 100,000 elements is decoded and answered: 20 to 60 ms each, in which no client gets an answer. With these
values it does once for two million new objects, of which a few are cyclic garbage."""

Ready = Callable[[Sequence[Endpoint], Address | None], None]
"""Called once connections are accepted: the listeners, and the address of the metrics if they are served."""


async def serve(
    directory: LogDirectory,
    settings: ServerSettings,
    listeners: Sequence[Listener],
    ready: Ready,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve `directory` until SIGTERM or SIGINT; closes it. Raises ListenError, and OSError for a failed last flush.

    `beside` runs as long as the broker.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:

        async def wait_for_signal() -> None:
            async for number in signals:
                _log.info("%s: ending", signal.Signals(number).name)
                break

        gc.freeze()  # modules: the collector need not look at them
        gc.set_threshold(*_GC_THRESHOLDS)
        try:
            await serve_until(wait_for_signal, directory, settings, listeners, ready, beside=beside)
        finally:
            await _close(directory, signals)


async def _close(directory: LogDirectory, signals: AsyncIterable[int]) -> None:
    """Close `directory`. Signals have no effect meanwhile: their default would end the process in the middle."""
    failure: Exception | None = None

    async def ignore() -> None:
        async for _ in signals:
            pass

    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ignore)
            try:
                await in_thread_or_here(directory.close)
            except Exception as error:  # raised below: a nursery would put it into a group
                failure = error
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def serve_until(
    wait: Callable[[], Awaitable[None]],
    directory: LogDirectory,
    settings: ServerSettings,
    listeners: Sequence[Listener],
    ready: Ready,
    *,
    beside: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve `directory` until `wait` returns, and answer what was accepted. Leaves it open. Raises ListenError.

    `beside` runs as long as the broker.
    """
    broker = Broker(directory, settings, listeners)
    metrics = None
    try:
        if settings.metrics_listener is not None:
            # A tenth of the start of a broker without metrics, if it were imported above.
            from offsetfs.kafka.broker.exporter import metrics_server

            metrics = metrics_server(broker.reporter, *settings.metrics_listener)
        async with trio.open_nursery() as background:
            tasks = None if directory.read_only else TaskRunner([directory])
            if tasks is not None:
                background.start_soon(tasks.run)
            if beside is not None:
                background.start_soon(beside)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(broker.run)
                    ready([listener.endpoint for listener in listeners], metrics.address if metrics else None)
                    await wait()
                    broker.stop()
            finally:
                if tasks is not None:
                    tasks.stop()
            background.cancel_scope.cancel()
    finally:
        if metrics is not None:
            metrics.close()
