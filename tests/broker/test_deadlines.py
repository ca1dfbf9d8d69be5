"""The queue of deadlines of groups and members."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import trio
from trio.testing import MockClock

from offsetfs.kafka.broker.groups.deadlines import DeadlineQueue
from offsetfs.kafka.broker.groups.group import NEVER_S

pytestmark = pytest.mark.unit


@dataclass(slots=True, eq=False)
class Job:
    ends_s: float
    scheduled_s: float = NEVER_S

    def deadline_s(self) -> float:
        return self.ends_s


def test_objects_are_due_once_in_the_order_of_their_deadlines() -> None:
    queue, late, early, same = DeadlineQueue[Job](), Job(3.0), Job(1.0), Job(1.0)
    for job in (late, early, same, early):
        queue.schedule(job)
    assert queue.due(0.5) == []
    assert queue.due(2.0) == [early, same]
    assert queue.due(3.0) == [late]
    assert queue.due(NEVER_S) == []


def test_a_sooner_deadline_replaces_the_former_and_a_later_one_waits_for_it() -> None:
    queue, job = DeadlineQueue[Job](), Job(5.0)
    queue.schedule(job)
    job.ends_s = 2.0
    queue.schedule(job)
    job.ends_s = 9.0
    queue.schedule(job)
    assert queue.due(2.0) == [job]
    queue.schedule(job)
    assert queue.due(5.0) == [] and queue.due(9.0) == [job]


async def test_a_sooner_deadline_wakes_the_waiter(autojump_clock: MockClock) -> None:
    queue = DeadlineQueue[Job]()
    begun_s = trio.current_time()
    queue.schedule(Job(begun_s + 100))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.wait)
        await trio.testing.wait_all_tasks_blocked()
        queue.schedule(Job(begun_s + 10))
    assert trio.current_time() == pytest.approx(begun_s + 10)
