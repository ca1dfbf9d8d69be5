"""A registry that is asked in a thread of its own, so that no reader waits long for it.

    registry = BackgroundRegistry(RegistrySchemas(settings))
    registry.with_id(7)      waits `WAIT_S` at most; `RegistryError` if there is no answer yet

The question goes on, and `changes` counts when its answer is there: whoever was refused asks again then. While a
question takes longer than `WAIT_S`, others do not wait at all. A failure counts for `RETRY_S`, that the registry has no
such schema for `UNKNOWN_S`, and the newest version of a subject is asked for again after `RETRY_S`; the previous one
counts until the answer is there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion
from offsetfs.schemas.registry_client import RETRY_S
from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.registry_schemas import UNKNOWN_S, RegistrySchemas, open_registry

WAIT_S = 2.0
"""The time that a reader waits for an answer."""

WAITING_MAX = 1000
"""Questions that wait: protects memory."""

ANSWERS_MAX = 10_000
"""Answers that are kept: protects memory."""

_Ask = Callable[[], SchemaVersion | None]


class _Answer(NamedTuple):
    found: SchemaVersion | None
    failure: str
    at: float
    may_change: bool
    """Another version of the subject may be the newest one later."""

    @property
    def is_refusal(self) -> bool:
        """Whether it is to be asked for again, because it is no schema."""
        return bool(self.failure) or (self.found is None and not self.may_change)

    def is_old(self, now: float) -> bool:
        """Return whether it no longer counts."""
        if not (self.is_refusal or self.may_change):
            return False
        return now - self.at >= (RETRY_S if self.failure or self.may_change else UNKNOWN_S)


class BackgroundRegistry:
    """The schemas of one registry, as `RegistrySchemas`. Thread-safe."""

    def __init__(
        self, registry: RegistrySchemas, *, wait_s: float | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`wait_s`: None is `WAIT_S`."""
        self._registry = registry
        self._wait_s, self._now = WAIT_S if wait_s is None else wait_s, now
        self._answers: dict[str, _Answer] = {}
        self._questions: deque[tuple[str, _Ask, bool]] = deque()
        self._asked: set[str] = set()  # those in the queue, and the one that waits for its answer
        self._is_slow = False
        self._is_running = False
        self._changes = 0
        self._changed = threading.Condition()
        self._patience = threading.local()

    @property
    def catalog(self) -> SchemaCatalog:
        """See `RegistrySchemas.catalog`."""
        return self._registry.catalog

    def has(self, version: SchemaVersion) -> bool:
        """Return whether a schema is of this registry."""
        return self._registry.has(version)

    def with_id(self, number: int) -> SchemaVersion | None:
        """See `RegistrySchemas.with_id`."""
        return self._answer(f"id {number}", lambda: self._registry.with_id(number))

    def with_guid(self, guid: str) -> SchemaVersion | None:
        """See `RegistrySchemas.with_guid`."""
        return self._answer(f"GUID {guid}", lambda: self._registry.with_guid(guid))

    def latest(self, subject: str) -> SchemaVersion | None:
        """Return the newest version of a subject, as it was up to `RETRY_S` ago. `RegistryError`."""
        return self._answer(
            f"subject {subject}", lambda: self._registry.latest(subject, is_fresh=True), may_change=True
        )

    @contextlib.contextmanager
    def not_waiting(self) -> Iterator[None]:
        """Let this thread wait for no answer: it is an event loop, or asks again later."""
        before = self._wait()
        self._patience.seconds = 0.0
        try:
            yield
        finally:
            self._patience.seconds = before

    def changes(self) -> int:
        """Return a number that is another one when a question may have another answer than before."""
        with self._changed:
            now = self._now()
            due = [name for name, answer in self._answers.items() if answer.is_refusal and answer.is_old(now)]
            for name in due:
                del self._answers[name]
            self._changes += bool(due)
            return self._changes

    def _wait(self) -> float:
        return float(getattr(self._patience, "seconds", self._wait_s))

    def _answer(self, name: str, ask: _Ask, *, may_change: bool = False) -> SchemaVersion | None:
        with self._changed:
            answer = self._answers.get(name)
            is_old = answer is not None and answer.is_old(self._now())
            if answer is None or is_old:
                self._ask(name, ask, may_change)
            if answer is None or (answer.is_refusal and is_old):
                answer = self._waited(name)
            if answer.failure:
                raise RegistryError(answer.failure)
            return answer.found

    def _ask(self, name: str, ask: _Ask, may_change: bool) -> None:
        if name in self._asked:
            return
        if len(self._questions) >= WAITING_MAX:
            raise RegistryError(f"{WAITING_MAX} questions wait for the registry, which is slow")
        if not self._is_running:
            try:
                threading.Thread(target=self._run, name="schema-registry", daemon=True).start()
            except RuntimeError as error:
                raise RegistryError(f"the registry {self._registry.url} cannot be asked: {error}") from error
            self._is_running = True
        self._asked.add(name)
        self._questions.append((name, ask, may_change))

    def _waited(self, name: str) -> _Answer:
        seconds = 0.0 if self._is_slow else self._wait()
        if not (seconds and self._changed.wait_for(lambda: name not in self._asked, seconds)):
            self._is_slow = self._is_slow or seconds > 0
            raise RegistryError(f"the registry {self._registry.url} has not answered yet for {name}")
        answer = self._answers.get(name)  # None: dropped for others meanwhile
        if answer is None:
            raise RegistryError(f"the registry {self._registry.url} is asked for too many schemas")
        return answer

    def _run(self) -> None:
        """Ask one question after another."""
        while True:
            with self._changed:
                if not self._questions:
                    self._is_running = False
                    return
                name, ask, may_change = self._questions.popleft()
            found, failure = None, ""
            try:
                found = ask()
            except RegistryError as error:
                failure = str(error)
            except Exception as error:  # readers must not wait for a thread that has ended
                failure = f"the answer of the registry {self._registry.url} cannot be used: {error}"
            with self._changed:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                self._answers[name] = _Answer(found, failure, self._now(), may_change)
                self._asked.discard(name)
                self._is_slow = False
                self._changes += 1
                self._changed.notify_all()


def open_background_registry(word: str | None) -> BackgroundRegistry | None:
    """Return the registry of a URL or a properties file; None for None. `InvalidConfig`; OSError of the file."""
    registry = open_registry(word)
    return None if registry is None else BackgroundRegistry(registry)
