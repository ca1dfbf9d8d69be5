"""A registry that is asked in a thread of its own: readers wait for a short time, and never while it is slow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from offsetfs.schemas.background_registry import WAITING_MAX, BackgroundRegistry
from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion
from offsetfs.schemas.registry_client import RETRY_S
from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.registry_schemas import UNKNOWN_S

pytestmark = pytest.mark.unit

LONG_S = 600.0


def version(number: int) -> SchemaVersion:
    return SchemaVersion("orders-value", number, number, "", "AVRO", (), '"string"', "http://registry")


class Fake:
    """A registry whose answers wait for the test."""

    url = "http://registry"

    def __init__(self) -> None:
        self.catalog = SchemaCatalog()
        self.answers = threading.Semaphore(0)
        self.asked: list[object] = []
        self.newest = 1
        self.lacks = {404}
        self.failure = ""
        self.breaks = False

    def with_id(self, number: int) -> SchemaVersion | None:
        return self._answered(number, lambda: None if number in self.lacks else version(number))

    def latest(self, subject: str, *, is_fresh: bool = False) -> SchemaVersion | None:
        assert is_fresh
        return self._answered(subject, lambda: version(self.newest))

    def _answered(self, question: object, answer: Callable[[], SchemaVersion | None]) -> SchemaVersion | None:
        self.asked.append(question)
        assert self.answers.acquire(timeout=LONG_S)
        if self.failure:
            raise RegistryError(self.failure)
        if self.breaks:
            raise ZeroDivisionError("zero")
        return answer()


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def fake() -> Fake:
    return Fake()


def background(fake: Any, wait_s: float = LONG_S, clock: Clock | None = None) -> BackgroundRegistry:
    return BackgroundRegistry(fake, wait_s=wait_s, now=clock or Clock())


def answered(registry: BackgroundRegistry, fake: Fake) -> None:
    """Give an answer, and wait until it is there."""
    before = registry.changes()
    fake.answers.release()
    with registry._changed:
        assert registry._changed.wait_for(lambda: registry._changes != before, LONG_S)


def test_an_answer_in_time_is_returned_and_kept(fake: Fake) -> None:
    registry = background(fake)
    fake.answers.release(2)
    assert registry.with_id(7) == version(7) and registry.with_id(7) == version(7)
    assert registry.with_id(404) is None and registry.with_id(404) is None
    assert fake.asked == [7, 404]


def test_while_a_question_takes_long_no_reader_waits_and_the_answer_counts_when_it_comes(fake: Fake) -> None:
    registry = background(fake, wait_s=0.01)
    for number in (7, 7, 8):
        with pytest.raises(RegistryError, match=f"^the registry http://registry has not answered yet for id {number}$"):
            registry.with_id(number)
    registry._wait_s = LONG_S  # and still nobody waits
    for number in (7, 8, 9):
        with pytest.raises(RegistryError, match="has not answered yet"):
            registry.with_id(number)
    changes = registry.changes()
    answered(registry, fake)
    assert registry.changes() != changes and registry.with_id(7) == version(7)
    answered(registry, fake)
    answered(registry, fake)
    assert [registry.with_id(number) for number in (8, 9)] == [version(8), version(9)]
    assert fake.asked == [7, 8, 9]


def test_an_event_loop_does_not_wait(fake: Fake) -> None:
    registry = background(fake)
    with registry.not_waiting(), pytest.raises(RegistryError, match="has not answered yet"):
        registry.with_id(7)
    fake.answers.release()
    assert registry.with_id(7) == version(7)  # this thread waits again
    with registry.not_waiting():
        assert registry.with_id(7) == version(7)


def test_a_schema_that_is_registered_later_is_found_after_some_seconds(fake: Fake) -> None:
    clock = Clock()
    registry = background(fake, clock=clock)
    fake.answers.release()
    assert registry.with_id(404) is None
    clock.seconds = UNKNOWN_S - 0.1
    changes = registry.changes()
    assert registry.with_id(404) is None and fake.asked == [404]
    clock.seconds, fake.lacks = UNKNOWN_S, set()
    assert registry.changes() != changes  # readers of unknown schemas look again
    fake.answers.release()
    assert registry.with_id(404) == version(404) and fake.asked == [404, 404]


def test_a_failure_counts_for_a_while(fake: Fake) -> None:
    clock = Clock()
    registry = background(fake, clock=clock)
    fake.failure = "cannot be reached"
    fake.answers.release()
    for _ in range(2):
        with pytest.raises(RegistryError, match="cannot be reached"):
            registry.with_id(7)
    changes = registry.changes()
    fake.failure, clock.seconds = "", RETRY_S
    assert registry.changes() != changes  # whoever was refused asks again
    fake.answers.release()
    assert registry.with_id(7) == version(7)


def test_the_newest_version_is_asked_for_again_without_a_wait(fake: Fake) -> None:
    clock = Clock()
    registry = background(fake, clock=clock)
    fake.answers.release()
    assert registry.latest("orders-value") == version(1)
    fake.newest, clock.seconds = 2, RETRY_S
    assert registry.latest("orders-value") == version(1)
    answered(registry, fake)
    assert registry.latest("orders-value") == version(2)
    assert len(fake.asked) == 2


def test_questions_that_wait_are_bounded(fake: Fake) -> None:
    registry = background(fake)
    with registry.not_waiting():
        for number in range(WAITING_MAX + 2):
            with pytest.raises(RegistryError, match=r"has not answered yet|1000 questions wait for the registry"):
                registry.with_id(number)
        with pytest.raises(RegistryError, match="1000 questions wait for the registry, which is slow"):
            registry.with_id(-1)
    fake.answers.release(2 * WAITING_MAX)


def test_an_answer_that_breaks_is_a_reason(fake: Fake) -> None:
    registry = background(fake)
    fake.breaks = True
    fake.answers.release()
    with pytest.raises(RegistryError, match=r"the answer of the registry http://registry cannot be used: .*zero"):
        registry.with_id(-1)
