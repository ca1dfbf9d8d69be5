"""Periodic tasks on a clock that tests can control.

Plain callables, each with its next due time; a thread calls `run_due`. A task that fails is reported and runs again at
its next time, without affecting other tasks. Follows Kafka's KafkaScheduler, but counts an interval from the end of one
run to the start of the next, so that no runs pile up while the machine sleeps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.storage.clock import Clock

NEVER = math.inf

OnFailure = Callable[[str, Exception], None]
"""Called with the name of the failed task, and its error."""


@dataclass(slots=True)
class _Task:
    name: str
    run: Callable[[], object]
    wanted: Callable[[], float | None]
    rest_s: float
    not_before: float = -math.inf

    @property
    def due(self) -> float:
        """The next due time in seconds of the monotonic clock."""
        wanted = self.wanted()
        return NEVER if wanted is None else max(wanted, self.not_before)


class Schedule:
    """Tasks in the order in which they were added. One thread runs them; any thread may call `next_due`."""

    def __init__(self, clock: Clock, on_failure: OnFailure) -> None:
        self._clock = clock
        self._on_failure = on_failure
        self._tasks: list[_Task] = []

    def every(self, name: str, run: Callable[[], object], seconds: float, *, first_s: float) -> None:
        """Run a task `first_s` seconds from now, and then again `seconds` after each end."""
        first = self._clock.monotonic() + min(first_s, seconds)
        self._tasks.append(_Task(name, run, lambda: first, seconds))

    def when(self, name: str, run: Callable[[], object], wanted: Callable[[], float | None], *, rest_s: float) -> None:
        """Run a task at the time that `wanted` returns (None: not now), but at least `rest_s` after its last end."""
        self._tasks.append(_Task(name, run, wanted, rest_s))

    def next_due(self) -> float:
        """Return when the next task is due, in seconds of the monotonic clock; `NEVER` if none is."""
        return min((task.due for task in self._tasks), default=NEVER)

    def run_due(self) -> list[str]:
        """Run the tasks that are due, and return their names."""
        ran = []
        for task in self._tasks:
            if task.due <= self._clock.monotonic():
                ran.append(task.name)
                self._run(task)
        return ran

    def _run(self, task: _Task) -> None:
        try:
            task.run()
        except Exception as error:  # whatever the error, the other tasks run, and this one again at its next time
            self._on_failure(task.name, error)
        task.not_before = self._clock.monotonic() + task.rest_s
