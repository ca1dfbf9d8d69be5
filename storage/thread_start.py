"""Start of a thread that returns also where memory is short.

`threading.Thread.start` waits until the new thread has reported that it runs. A thread that lacks memory ends before it
does so, and the caller waits forever. Here the caller notices that the thread is gone: the interpreter drops the
argument of a thread when it ends.

A thread either runs all of its work or none of it. It is a daemon thread: the interpreter does not wait for it.
"""

from __future__ import annotations

import _thread
import errno
import mmap
import resource
import time
import weakref
from collections.abc import Callable

START_S_MAX = 10.0
"""The time after which a thread that has not begun is given up."""

POLL_S = 0.01

THREAD_BYTES = 24 << 20
"""The free addresses that a start needs if addresses are limited: a stack, and allocations before the thread runs."""


class ThreadNotStarted(OSError):
    """No thread could be started, and the work has not begun. Remedy: raise `ulimit -v` or `ulimit -u`, or try again
    later.
    """

    def __init__(self) -> None:
        reason = "no thread could be started: the limit of memory (ulimit -v) or of processes (ulimit -u) is reached"
        super().__init__(errno.ENOMEM, reason)


class StartedThread:
    """A thread that `start` has started."""

    __slots__ = ("_begun", "_claim", "_ended", "_work")

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._claim = _thread.allocate_lock()  # the thread takes it, or else the caller that gives the thread up
        self._begun = _thread.allocate_lock()
        self._ended = _thread.allocate_lock()
        self._begun.acquire()
        self._ended.acquire()

    def join(self) -> None:
        """Wait until the work has ended."""
        with self._ended:
            return

    def _run(self) -> None:
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._begun.release()
            self._work()
        finally:
            self._ended.release()

    def _is_withdrawn(self) -> bool:
        """Return whether the work will never begin; then the thread must not be used any more."""
        return self._claim.acquire(blocking=False)

    def _wait(self, argument: weakref.ref[_Argument]) -> None:
        deadline = time.monotonic() + START_S_MAX
        # There is no event for a thread that ends before it runs Python code, so this polls. A thread that starts sets
        # `_begun` at once.
        while not self._begun.acquire(timeout=POLL_S):
            # The reference count of the argument falls to zero when CPython discards the thread, whether or not its
            # function was called.
            is_gone = argument() is None
            if (is_gone or time.monotonic() > deadline) and self._is_withdrawn():
                raise ThreadNotStarted
            if is_gone:  # it has begun, and ended before this thread looked
                return


class _Argument:
    """The argument of a thread: it lives as long as the thread."""

    __slots__ = ("__weakref__", "thread")

    def __init__(self, thread: StartedThread) -> None:
        self.thread = thread


def start(work: Callable[[], None]) -> StartedThread:
    """Return a thread that runs `work`, which handles its own errors; `ThreadNotStarted` when there can be none."""
    # pthread_create may succeed, and the new thread may then fail to allocate its Python state and end without a sign.
    if not _has_addresses():
        raise ThreadNotStarted
    thread = StartedThread(work)
    try:
        argument = _Argument(thread)
        life = weakref.ref(argument)
        _thread.start_new_thread(_run, (argument,))
        # Only the new thread may hold the argument; otherwise the weak reference would never become dead.
        del argument
        thread._wait(life)
    except (RuntimeError, MemoryError) as error:
        # `start_new_thread` may raise after the thread has begun; then its work runs and must not run twice.
        if thread._is_withdrawn():
            raise ThreadNotStarted from error
    return thread


def _run(argument: _Argument) -> None:
    argument.thread._run()


def _has_addresses() -> bool:
    """Whether the stack of a thread can be mapped. A block from malloc proves nothing: it may be a free block."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return True
    try:
        mmap.mmap(-1, THREAD_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ).close()
    except (OSError, MemoryError):
        return False
    return True
