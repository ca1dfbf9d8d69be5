"""The shared state of one mount: the log directory, options, caches, threads, and the error log."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import trio
from pyfuse3 import FUSEError

from offsetfs.fs import threads
from offsetfs.fs.attributes import Attributes
from offsetfs.fs.batch_cache import BatchCache
from offsetfs.fs.counters import Counters
from offsetfs.fs.error_log import ErrorLog, Fault
from offsetfs.fs.lru import Lru
from offsetfs.fs.nodes import Buffer
from offsetfs.fs.open_indexes import OpenIndexes
from offsetfs.fs.options import MountOptions
from offsetfs.fs.waiting import Waiting
from offsetfs.storage import files
from offsetfs.storage.directory.log_directories import AnyLogDirectory, LogDirectories, left_out
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records import inflation
from offsetfs.storage.records.batch import BatchHeader
from offsetfs.storage.records.record import Record
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.views.line_index import Maps
from offsetfs.storage.views.record_chunk import RecordChunk

_log = logging.getLogger(__name__)

RECORD_BYTES_MAX = 8 << 20
BATCH_BYTES_MAX = 16 << 20
BLOCK_BYTES_MAX = 8 << 20
CHUNK_BYTES_MAX = 8 << 20
OPEN_MAPS_MAX = 64
READ_THREADS = 16
WAITING_THREADS_MAX = 64
"""How many threads that wait to inflate a large batch do not occupy a reading slot. Bounds the threads of a mount."""


T = TypeVar("T")


class Shown(NamedTuple):
    """The content of a record's file, with the record and its batch header."""

    value: bytes
    mtime_ns: int
    record: Record
    header: BatchHeader
    base_offset: int


class Shared:
    """One object per mount. Only the event loop uses the caches."""

    def __init__(self, directory: AnyLogDirectory, options: MountOptions, nursery: trio.Nursery) -> None:
        self.directory = directory
        self.options = options
        self.nursery = nursery
        self.attributes = Attributes(options.uid, options.gid, options.umask)
        self.error_log = ErrorLog()
        self.counters = Counters()
        self.started_s = time.time()
        self.mount_point = ""
        """The mount point; empty before mounting, and without a kernel."""
        self.records: Lru[Shown] = Lru(RECORD_BYTES_MAX)  # by inode, and what it was read from
        self.batches = BatchCache(BATCH_BYTES_MAX)
        self.blocks: Lru[Buffer] = Lru(BLOCK_BYTES_MAX)  # joined lines, see views.py
        self.chunks: Lru[RecordChunk] = Lru(CHUNK_BYTES_MAX)  # joined records, see follow.py
        self.maps: Maps = FilePool(OPEN_MAPS_MAX, finds_held=True)
        files.reclaim_with(self.maps.evict_all)
        self.key_indexes = OpenIndexes()
        self._note_directories()
        self.has_met_damage = False
        """Whether a view left out a damaged place, or a read ended there with an error."""
        self.announce_damage: Callable[[StorageError], None] = lambda error: None
        """Called from any thread with the error of each damaged place, once per place."""
        directory.subscribe_damage(self._report_damage)
        for cut in directory.cuts():
            self.error_log.report(Fault(None, "recovery", cut.path, cut.reason, f"`offsetfs dump {cut.kept}` shows it"))
        self._config_problem: Exception | None = None
        self.wake_duties: Callable[[], None] = lambda: None
        """Called when a request has left work for a background task, so that the task runs early."""
        self.look_for_maps: Callable[[TopicPartition], None] = lambda name: None
        """Called on the event loop when the segments of a partition may have changed."""
        self.hand_over: Callable[[int, bytes], None] = lambda inode, content: None
        """Called with the whole content of an inode before it is read, so that the kernel needs no READ request."""
        self.waiting = Waiting(
            nursery,
            others_write=options.read_only or directory.read_only,
            request_timeout_s=options.request_timeout_s,
        )
        self._limiter = trio.CapacityLimiter(READ_THREADS)
        self._loop = trio.lowlevel.current_trio_token()
        self._waiting_threads = 0

    def _note_directories(self) -> None:
        """Record which log directories are left out, and which partitions are in two of them."""
        if not isinstance(self.directory, LogDirectories):
            return
        for path, error in self.directory.failures.items():
            _log.error("%s", left_out(path, error))
            self.error_log.add(error, "open", path)
        for partition, first, second in self.directory.duplicates():
            fault = Fault(
                errno.EEXIST,
                "open",
                str(partition),
                f"it is in {first} and in {second}",
                "remove one of the two, that of a disk that failed lately; with -o ro the first one is shown",
            )
            _log.error("%s: %s: %s", partition, fault.cause, fault.cure)
            self.error_log.report(fault)

    def refresh_config(self) -> None:
        """Read the changes of `offsetfs config`; record once why a setting that was written there has no effect."""
        problem = self.directory.refresh_config()
        if problem is not None and problem is not self._config_problem:
            self.error_log.add(problem, "config", ".offsetfs/config")
        self._config_problem = problem

    @property
    def is_read_only(self) -> bool:
        return self.options.read_only or self.directory.read_only

    async def answer(self, ask: Callable[..., T], *args: object) -> T:
        """Return `ask(*args, nowait=…)`, called on the event loop if it need not wait, else in a thread."""
        try:
            return ask(*args, nowait=True)
        except WouldBlock:
            return await self.in_thread(functools.partial(ask, *args, nowait=False))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return what `work` returns in a thread. OSError ENOMEM if no thread can be started."""
        return await threads.in_thread(functools.partial(self._bounded, work), limiter=self._limiter)

    def _bounded(self, work: Callable[[], T]) -> T:
        """Do `work` in this thread, one of `READ_THREADS`. While it waits to inflate, another thread may start."""
        with inflation.scope(self._waiting_to_inflate):
            return work()

    @contextlib.contextmanager
    def _waiting_to_inflate(self) -> Iterator[None]:
        self._count_waiting(1)
        try:
            yield
        finally:
            self._count_waiting(-1)

    def _count_waiting(self, count: int) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._loop.run_sync_soon(self._add_waiting, count)

    def _add_waiting(self, count: int) -> None:
        self._waiting_threads += count
        self._limiter.total_tokens = READ_THREADS + min(self._waiting_threads, WAITING_THREADS_MAX)

    def damaged(self, error: StorageError) -> None:
        """Record damage that a view skips, or that makes a read fail. From any thread."""
        self.has_met_damage = True  # also where an opening of the log has recorded the place already
        self.directory.note_damage(error)
        self.error_log.add(error, "read", error.path or "")

    def _report_damage(self, error: StorageError) -> None:
        """Report a damaged place that was not known before. From any thread."""
        self.has_met_damage = True
        self.announce_damage(error)

    def lacking(self, option: str, op: str, path: str) -> FUSEError:
        """Return the error for a missing mount option, and record which one is missing."""
        if not self.is_read_only:
            self.error_log.report(
                Fault(errno.EPERM, op, path, f"the option {option} was not given", f"use -o {option}")
            )
        return self.refusal()

    def refusal(self) -> FUSEError:
        """Return the error for a change that is not possible."""
        return FUSEError(errno.EROFS if self.is_read_only else errno.EPERM)
