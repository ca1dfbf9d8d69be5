"""Builds the indexes of one derived file in threads; a look-up waits for them, ten seconds at most.

Then the look-up fails with EAGAIN, and `.offsetfs/errors` reports the progress and the files that need no whole index.
The build continues, so that a later look-up succeeds.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Protocol

import trio

from offsetfs.fs.fuse_types import FUSEError
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.reporting.error_log import Fault
from offsetfs.storage.errors import WouldBlock

WAIT_S = 10.0
AT_ONCE_BYTES = 16 << 20
"""Bytes of log that a thread reads while a request waits: some milliseconds."""

_STEP_BYTES = 64 << 20


class IndexedView(Protocol):
    """A view whose line indexes are built step by step."""

    @property
    def scanned_bytes(self) -> int: ...

    def refresh(self, *, nowait: bool = False, bytes_max: int | None = None) -> bool:
        """Continue the build by up to `bytes_max` bytes of log; return whether it is complete."""


class Run:
    """A build of indexes that requests can wait for."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.failure: Exception | None = None

    async def finish(self) -> None:
        await self.done.wait()
        if self.failure is not None:
            raise self.failure


class LineIndexBuilding:
    """The build of the line indexes of one file. `path` and `total_bytes()` are for error reports.

    `advice`: the end of the remedy, which names files that need no index.
    """

    def __init__(self, mount: MountContext, path: str, total_bytes: Callable[[], int], advice: str) -> None:
        self._mount = mount
        self._path = path
        self._total_bytes = total_bytes
        self._advice = advice
        self._run: Run | None = None

    @property
    def is_running(self) -> bool:
        """Whether a build runs; it continues when the request that began it has ended."""
        return self._run is not None

    async def _advance(self, view: IndexedView, bytes_max: int) -> bool:
        return self._run is None and await self._mount.executor.answer(refresh, view, bytes_max)

    async def complete(self, view: IndexedView) -> None:
        """Return when the view is complete; EAGAIN when that takes longer than ten seconds."""
        if self._is_complete_now(view):
            return
        with trio.move_on_after(WAIT_S):
            while not await self._advance(view, AT_ONCE_BYTES):
                await self.begin(view).finish()
            return
        done = f"its line indexes are being built, {view.scanned_bytes} of {self._total_bytes()} bytes are read"
        self._mount.error_log.report(Fault(errno.EAGAIN, "lookup", self._path, done, f"ask again{self._advice}"))
        raise FUSEError(errno.EAGAIN)

    def begin(self, view: IndexedView) -> Run:
        """Begin to build the indexes, unless a build runs; return without waiting."""
        if self._run is None:
            self._run = Run()
            self._mount.nursery.start_soon(self._make, view, self._run)
        return self._run

    def _is_complete_now(self, view: IndexedView) -> bool:
        try:
            return self._run is None and view.refresh(nowait=True)
        except WouldBlock:
            return False

    async def _make(self, view: IndexedView, run: Run) -> None:
        """Build all missing indexes. Requests that wait get the error of a failed build."""
        try:
            while not await self._mount.executor.in_thread(functools.partial(view.refresh, bytes_max=_STEP_BYTES)):
                pass
        except Exception as error:
            run.failure = error
        finally:
            self._run = None
            run.done.set()


def refresh(view: IndexedView, bytes_max: int, *, nowait: bool) -> bool:
    """Return `view.refresh` in the form that `ReadExecutor.answer` calls: whether the view is complete."""
    return view.refresh(nowait=nowait, bytes_max=bytes_max)
