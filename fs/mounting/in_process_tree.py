"""The tree of a mount within this process, without FUSE: one use of it, until all written records are on disk.

    path → Tree → Operations → nodes → LogDirectory

Guarantees: when `run` returns, all written records are on disk, and the log directory is closed. An unfinished line
becomes a record, as when a file of a mount is closed. Paths are resolved by `path_tree`; retention and compaction run
only in a mount.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar, cast

import trio

from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.mounting.path_tree import OnWait, Tree
from offsetfs.fs.options import MountOptions
from offsetfs.storage import AnyLogDirectory
from offsetfs.storage.errors import sentence

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")


class Unsaved(Exception):
    """Written records are not on disk. Each of `sentences` names a partition and the cause."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__("; ".join(sentences))
        self.sentences = tuple(sentences)


def run(
    directory: AnyLogDirectory,
    options: MountOptions,
    work: Callable[[Tree], Awaitable[T]],
    on_wait: OnWait = lambda text: None,
) -> T:
    """Return the result of `work` with the tree of `directory`, when all records that it wrote are on disk.

    Closes the directory, also on an error. Raises what `work` raised, and `Unsaved`. SIGINT, SIGTERM and SIGHUP end
    `work` and raise KeyboardInterrupt; accepted records are on disk then, too. Only for the main thread.
    """
    session = _Session(directory, options, on_wait)
    failures: list[str] = []
    try:
        failures += trio.run(session.run, work)
    finally:
        try:
            directory.close()
        except Exception as error:  # must not hide an earlier error
            failures.append(f"{directory.path} is not closed cleanly: {sentence(error)}")
    if session.error is not None:
        raise session.error
    if failures:
        raise Unsaved(failures)
    return cast(T, session.result)


class _Session:
    """One use of the tree. Keeps the exception of `work`, because a nursery would wrap it in a group."""

    def __init__(self, directory: AnyLogDirectory, options: MountOptions, on_wait: OnWait) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self._directory = directory
        self._options = options
        self._on_wait = on_wait

    async def run(self, work: Callable[[Tree], Awaitable[object]]) -> list[str]:
        """Run `work`, write all buffered records; return sentences about records that are not on disk."""
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
