"""Limits what inflating a batch may cost a process: memory, time and blocks, whatever the compressed bytes declare.

    up to LARGE_BYTES      any number of threads at once: batches of ordinary producers
    above                  SLOTS threads at once, each with one batch of the caller's bound (64 MiB) in memory

A thread waits at most `WAIT_S` for a slot, because the holder of a slot may wait for a lock of that thread: then the
limit is exceeded, and no deadlock lasts. Inside `scope` a thread keeps its slot until the scope ends, because it uses
the inflated bytes until then; elsewhere the slot is free after the inflation.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType

from offsetfs.storage.errors import DecompressionLimit

LARGE_BYTES = 2 << 20
"""The size up to which inflating needs no slot: twice the default of `max.message.bytes`."""

SLOTS = 2
"""The number of threads that hold more than that at once, at most: limits the memory."""

WAIT_S = 30.0
"""The seconds a thread waits for a slot before it continues without a slot: no deadlock lasts longer."""

THREAD_TIME_MAX_S = 10.0
"""Processor time that inflating one batch may take; the largest honest batch takes half a second."""

BLOCK_BYTES_MIN = 1 << 10
"""A stream may have as many blocks as its bound holds of this size, the smallest that snappy-java makes. Each costs a
microsecond, also an empty one."""

BLOCKS_WITHOUT_SLOT = 4096
"""After how many blocks a thread needs a slot: counting them holds the lock of the interpreter."""

BLOCKS_MIN = 64
"""The number of blocks that a stream may have in any case."""

_slots = threading.BoundedSemaphore(SLOTS)


class _OfThread(threading.local):
    """The slot of one thread. `on_wait`: a context that it enters while it waits for a slot."""

    def __init__(self) -> None:
        self.has_slot = False
        self.is_scoped = False
        self.on_wait: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext


_of_thread = _OfThread()


@contextlib.contextmanager
def inflation_scope(on_wait: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Let this thread keep a slot, once it has one, until the scope ends. `on_wait` is entered while it waits."""
    _of_thread.is_scoped, _of_thread.on_wait = True, on_wait
    try:
        yield
    finally:
        _of_thread.is_scoped, _of_thread.on_wait = False, contextlib.nullcontext
        _give_slot_back()


def claim(size: int) -> None:
    """Wait for a slot before a batch of `size` bytes is read, where that is large and this thread is in a scope."""
    # The slot comes before the read, so that waiting threads do not hold the compressed bytes in memory.
    if size > LARGE_BYTES and _of_thread.is_scoped:
        _take_slot()


def _take_slot() -> None:
    if _of_thread.has_slot:
        return
    if not _slots.acquire(blocking=False):
        with _of_thread.on_wait():
            # 24 readers of batches that inflate to a gigabyte took 2.5 GB before inflation was bounded to two threads
            # at a time.
            if not _slots.acquire(timeout=WAIT_S):
                return
    _of_thread.has_slot = True


def _give_slot_back() -> None:
    if _of_thread.has_slot:
        _of_thread.has_slot = False
        _slots.release()


class Inflation:
    """The inflation of one stream, to at most `bytes_max` bytes. A context manager that releases its slot."""

    __slots__ = ("_blocks", "_deadline_s", "_is_large", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._is_large = False
        self._deadline_s = 0.0
        self._blocks = 0

    def __enter__(self) -> Inflation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_large and not _of_thread.is_scoped:
            _give_slot_back()

    @property
    def first_bytes(self) -> int:
        """The bytes that may be inflated before `grow` is called: a byte above the bound, to detect an excess."""
        return min(self.bytes_max, LARGE_BYTES) + 1

    def grow(self, size: int) -> None:
        """Allow `size` bytes in memory: output, and what the codec needs. Waits for a slot above `LARGE_BYTES`.

        Raises `DecompressionLimit` when the stream has taken too much time.
        """
        if size > LARGE_BYTES:
            self._go_on()

    def _go_on(self) -> None:
        if not self._is_large:
            _take_slot()
            self._is_large, self._deadline_s = True, time.thread_time() + THREAD_TIME_MAX_S
        # Processor time and not wall time: on a busy machine an honest batch would be refused.
        elif time.thread_time() > self._deadline_s:
            raise DecompressionLimit(f"inflating takes more than {THREAD_TIME_MAX_S:.0f} s")

    def check(self, size: int) -> None:
        """Raise `DecompressionLimit` when `size` bytes of output are more than the bound."""
        if size > self.bytes_max:
            raise DecompressionLimit(f"inflates to more than {self.bytes_max} bytes")

    def count_block(self) -> None:
        """Count a block or frame of the stream; raise `DecompressionLimit` when there are too many."""
        self._blocks += 1
        # Two million empty snappy blocks held the interpreter's lock for three seconds.
        if self._blocks % BLOCKS_WITHOUT_SLOT == 0:
            self._go_on()
        blocks_max = max(self.bytes_max // BLOCK_BYTES_MIN, BLOCKS_MIN)
        if self._blocks > blocks_max:
            raise DecompressionLimit(f"more than {blocks_max} blocks")
