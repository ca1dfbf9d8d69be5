"""What the files of one mount share: the log directory, options, caches, threads, and the memory of faults."""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import trio
from pyfuse3 import FUSEError

from offsetfs.fs.attributes import Attributes
from offsetfs.fs.batch_cache import BatchCache
from offsetfs.fs.counters import Counters
from offsetfs.fs.lru import Lru
from offsetfs.fs.nodes import Buffer
from offsetfs.fs.notes import Fault, Notes
from offsetfs.fs.open_indexes import OpenIndexes
from offsetfs.fs.options import MountOptions
from offsetfs.fs.waiting import Waiting
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.batch import BatchHeader
from offsetfs.storage.records.record import Record
from offsetfs.storage.segments.open_files import Pool
from offsetfs.storage.views.stretch import Stretch
from offsetfs.storage.views.view_map import Maps

RECORD_BYTES_MAX = 8 << 20
BATCH_BYTES_MAX = 16 << 20
BLOCK_BYTES_MAX = 8 << 20
STRETCH_BYTES_MAX = 8 << 20
OPEN_MAPS_MAX = 64
READ_THREADS = 16

T = TypeVar("T")


class Shown(NamedTuple):
    """A record as its file shows it, and the batch it came in."""

    value: bytes
    mtime_ns: int
    record: Record
    header: BatchHeader
    base_offset: int


class Shared:
    """One for each mount. Caches are touched on the event loop alone."""

    def __init__(self, directory: LogDirectory, options: MountOptions, nursery: trio.Nursery) -> None:
        self.directory = directory
        self.options = options
        self.nursery = nursery
        self.attributes = Attributes(options.uid, options.gid, options.umask)
        self.notes = Notes()
        self.counters = Counters()
        self.started_s = time.time()
        self.mount_point = ""
        """Where it is mounted; nowhere yet, or not by a kernel."""
        self.records: Lru[Shown] = Lru(RECORD_BYTES_MAX)  # by inode, and what it was read from
        self.batches = BatchCache(BATCH_BYTES_MAX)
        self.blocks: Lru[Buffer] = Lru(BLOCK_BYTES_MAX)  # joined lines, see views.py
        self.stretches: Lru[Stretch] = Lru(STRETCH_BYTES_MAX)  # joined records, see follow.py
        self.maps: Maps = Pool(OPEN_MAPS_MAX, finds_held=True)
        self.key_indexes = OpenIndexes()
        self._config_problem: Exception | None = None
        self.wake_duties: Callable[[], None] = lambda: None
        """Called when something was done that leaves a duty behind, sooner than the next is due."""
        self.look_for_maps: Callable[[TopicPartition], None] = lambda name: None
        """Called when the segments of a partition may be others. On the event loop."""
        self.hand_over: Callable[[int, bytes], None] = lambda inode, content: None
        """Called with the whole content of an inode that nobody reads yet, so that no kernel has to ask for it."""
        self.waiting = Waiting(
            nursery,
            others_write=options.read_only or directory.read_only,
            request_timeout_s=options.request_timeout_s,
        )
        self._limiter = trio.CapacityLimiter(READ_THREADS)

    def refresh_config(self) -> None:
        """Take in what `offsetfs config` changed; tell once why something that was written there does not hold."""
        problem = self.directory.refresh_config()
        if problem is not None and problem is not self._config_problem:
            self.notes.add(problem, "config", ".offsetfs/config")
        self._config_problem = problem

    @property
    def is_read_only(self) -> bool:
        return self.options.read_only or self.directory.read_only

    async def answer(self, ask: Callable[..., T], *args: object) -> T:
        """Return `ask(*args, nowait=…)`: here when nothing has to be waited for, else from a thread."""
        try:
            return ask(*args, nowait=True)
        except WouldBlock:
            return await self.in_thread(functools.partial(ask, *args, nowait=False))

    async def in_thread(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    def damaged(self, error: StorageError) -> None:
        """Take note of damage that a view steps over. From any thread."""
        self.notes.add(error, "read", error.path or "")

    def lacking(self, option: str, op: str, path: str) -> FUSEError:
        """Return what to raise when a mount option is missing, and tell which."""
        if not self.is_read_only:
            self.notes.tell(Fault(errno.EPERM, op, path, f"the option {option} was not given", f"use -o {option}"))
        return self.refusal()

    def refusal(self) -> FUSEError:
        """Return what to raise when something would be changed that cannot be."""
        return FUSEError(errno.EROFS if self.is_read_only else errno.EPERM)
