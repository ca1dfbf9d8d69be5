"""The tree of a mount where there is none: one use of it in this process, from opening to everything being on disk.

    path → Tree → Operations → nodes → LogDirectory

Promises: when `run` returns, everything that was written is on disk, and the log directory is closed; an unfinished
line became a record, as when a file of a mount is closed. No /dev/fuse is needed. Leaves to others: what a path is
(path_tree); retention and compaction, which a mount does; who may write (the caller has opened the directory).
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar, cast

import trio

from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.mounting.path_tree import OnWait, Tree
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.log_directories import AnyLogDirectory

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


class Unsaved(Exception):
    """Something that was written is not on disk; each of `sentences` says what. Cure: in the sentences."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("; ".join(sentences))
        self.sentences = tuple(sentences)


def run(
    directory: AnyLogDirectory,
    options: MountOptions,
    work: Callable[[Tree], Awaitable[T]],
    on_wait: OnWait = lambda text: None,
) -> T:
    """Do `work` with the tree of `directory`; return what it returns when all it wrote is on disk.

    Takes the directory over: it is closed when this returns or raises. Raises what `work` raised, `Unsaved`, and
    KeyboardInterrupt when SIGINT, SIGTERM or SIGHUP ended it: what was taken until then is on disk, too. For the main
    thread.
    """
    session = _Session(directory, options, on_wait)
    failures: list[str] = []
    try:
        failures += trio.run(session.run, work)
    finally:
        try:
            directory.close()
        except Exception as error:  # after what is wrong already
            failures.append(f"{directory.path} is not closed cleanly: {error}")
    if session.error is not None:
        raise session.error
    if failures:
        raise Unsaved(failures)
    return cast(T, session.result)


class _Session:
    """One use of the tree. Exceptions are kept, for a nursery would wrap them."""

    def __init__(self, directory: AnyLogDirectory, options: MountOptions, on_wait: OnWait) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self._directory = directory
        self._options = options
        self._on_wait = on_wait

    async def run(self, work: Callable[[Tree], Awaitable[object]]) -> list[str]:
        """Do the work, and write what it left; return sentences about what is not on disk."""
        with trio.open_signal_receiver(*SIGNALS) as signals:
            async with trio.open_nursery() as nursery:
                operations = Operations(self._directory, self._options, nursery)
                with trio.CancelScope() as scope:
                    nursery.start_soon(self._listen, signals, scope)
                    await self._do(work, Tree(operations, self._on_wait))
                await operations.accumulators.release_all()
                failures = await operations.accumulators.close()
                nursery.cancel_scope.cancel()
        return [f"{partition} is not on disk: {error.strerror}" for partition, error in failures.items()]

    async def _do(self, work: Callable[[Tree], Awaitable[object]], tree: Tree) -> None:
        try:
            self.result = await work(tree)
        except Exception as error:
            self.error = error

    async def _listen(self, signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
        async for _ in signals:
            self.error = KeyboardInterrupt()
            scope.cancel()
