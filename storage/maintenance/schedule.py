"""What is to be done every so often, on a clock that a test can move.

Plain callables, each with the moment when it is due next; whoever has a thread to spare calls `run_due`. One that fails
is reported and comes again at its time: it keeps nothing else from being done. Follows Kafka's KafkaScheduler, but
counts an interval from the end of a run to the beginning of the next, so that a machine that slept has nothing to
catch up with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.storage.clock import Clock

NEVER = math.inf

OnFailure = Callable[[str, Exception], None]
"""Called with the name of what failed, and why."""


@dataclass(slots=True)
class _Task:
    name: str
    run: Callable[[], object]
    wanted: Callable[[], float | None]
    rest_s: float
    not_before: float = -math.inf

    @property
    def due(self) -> float:
        """When it is to be run next, in seconds of the monotonic clock."""
        wanted = self.wanted()
        return NEVER if wanted is None else max(wanted, self.not_before)


class Schedule:
    """Tasks in the order in which they were added. One thread runs them; `next_due` may be asked from any."""

    def __init__(self, clock: Clock, on_failure: OnFailure) -> None:
        self._clock = clock
        self._on_failure = on_failure
        self._tasks: list[_Task] = []

    def every(self, name: str, run: Callable[[], object], seconds: float, *, first_s: float) -> None:
        """Run a task `first_s` seconds from now, and from then on `seconds` after its last end."""
        first = self._clock.monotonic() + min(first_s, seconds)
        self._tasks.append(_Task(name, run, lambda: first, seconds))

    def when(self, name: str, run: Callable[[], object], wanted: Callable[[], float | None], *, rest_s: float) -> None:
        """Run a task at the moment that `wanted` returns (None: not now), but not within `rest_s` of its last end."""
        self._tasks.append(_Task(name, run, wanted, rest_s))

    def next_due(self) -> float:
        """Return when the next task is due, in seconds of the monotonic clock; `NEVER` when none is."""
        return min((task.due for task in self._tasks), default=NEVER)

    def run_due(self) -> list[str]:
        """Run what is due, and return the names of what was run."""
        ran = []
        for task in self._tasks:
            if task.due <= self._clock.monotonic():
                ran.append(task.name)
                self._run(task)
        return ran

    def _run(self, task: _Task) -> None:
        try:
            task.run()
        except Exception as error:  # whatever it was, the others are done, and this one at its next time
            self._on_failure(task.name, error)
        task.not_before = self._clock.monotonic() + task.rest_s
