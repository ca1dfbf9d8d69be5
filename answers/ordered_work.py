"""Work in several threads whose results come in the order of the tasks, in bounded memory.

    tasks ──► thread ──► slot 0: results …      ──► the caller, slot by slot
          ──► thread ──► slot 1: results … (full: the thread waits)

Threads take tasks in order, so the slot that the caller reads always has a thread: no deadlock. Where no thread can be
started, the caller does the work itself.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from offsetfs.storage.thread_start import StartedThread, ThreadNotStarted, start

THREADS_MAX = 8
"""More gain nothing: a part of the work holds the lock of the interpreter."""
RESULTS_MAX = 8
"""Results of a task that wait for the caller."""
SLOTS_PER_THREAD = 4
"""Tasks that are begun or done and wait for the caller, for each thread."""

Task = TypeVar("Task")
Result = TypeVar("Result")


class _Slot(Generic[Result]):
    """The results of one task that the caller has not taken."""

    __slots__ = ("error", "is_done", "results")

    def __init__(self) -> None:
        self.results: deque[Result] = deque()
        self.is_done = False
        self.error: Exception | None = None


class OrderedWork(Generic[Task, Result]):
    """One run over some tasks. The tasks are asked for by the threads, one thread at a time."""

    def __init__(self, tasks: Iterable[Task], work: Callable[[Task], Iterator[Result]]) -> None:
        self._tasks = iter(tasks)
        self._work = work
        self._slots: deque[_Slot[Result]] = deque()
        self._changed = threading.Condition()
        self._is_ending = False
        self._is_exhausted = False
        self._slots_max = 0
        self._taking = threading.Lock()

    def results(self, threads: int | None = None) -> Generator[Result, None, None]:
        """Yield the results in the order of the tasks; the first error of a task is raised in its place.

        `threads`: as many as the processors of this process if it is left out. Closing the iterator ends the work.
        """
        count = min(threads or len(os.sched_getaffinity(0)), THREADS_MAX)
        self._slots_max = count * SLOTS_PER_THREAD
        running = _started(self._run, count)
        try:
            if not running:
                for task in self._tasks:
                    yield from self._work(task)
                return
            while (result := self._next()) is not None:
                yield from result
        finally:
            with self._changed:
                self._is_ending = True
                self._changed.notify_all()
            for thread in running:
                thread.join()

    def _next(self) -> list[Result] | None:
        """Return results of the first slot, as soon as it has some; None at the end of all."""
        with self._changed:
            while True:
                if self._slots:
                    slot = self._slots[0]
                    if slot.results:
                        taken = list(slot.results)
                        slot.results.clear()
                        self._changed.notify_all()
                        return taken
                    if slot.is_done:
                        if slot.error is not None:
                            raise slot.error
                        self._slots.popleft()
                        self._changed.notify_all()
                        continue
                elif self._is_exhausted:
                    return None
                self._changed.wait()

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            task, slot = taken
            try:
                for result in self._work(task):
                    if not self._put(slot, result):
                        return
            except Exception as error:
                slot.error = error
            finally:
                with self._changed:
                    slot.is_done = True
                    self._changed.notify_all()

    def _take(self) -> tuple[Task, _Slot[Result]] | None:
        with self._taking:
            with self._changed:
                while len(self._slots) >= self._slots_max and not self._is_ending:
                    self._changed.wait()
                if self._is_ending or self._is_exhausted:
                    return None
            slot: _Slot[Result] = _Slot()
            try:
                task = next(self._tasks)
            except StopIteration:
                self._exhaust(None)
                return None
            except Exception as error:
                slot.error, slot.is_done = error, True
                self._exhaust(slot)
                return None
            with self._changed:
                self._slots.append(slot)
                self._changed.notify_all()
            return task, slot

    def _exhaust(self, slot: _Slot[Result] | None) -> None:
        with self._changed:
            if slot is not None:
                self._slots.append(slot)
            self._is_exhausted = True
            self._changed.notify_all()

    def _put(self, slot: _Slot[Result], result: Result) -> bool:
        """Hand a result to the caller; False if it wants no more."""
        with self._changed:
            while len(slot.results) >= RESULTS_MAX and not self._is_ending:
                self._changed.wait()
            if self._is_ending:
                return False
            slot.results.append(result)
            self._changed.notify_all()
            return True


def _started(run: Callable[[], None], count: int) -> list[StartedThread]:
    """Start up to `count` threads: as many as the limits of memory and of processes allow."""
    threads: list[StartedThread] = []
    for _ in range(count):
        try:
            threads.append(start(run))
        except ThreadNotStarted:
            break
    return threads
