"""Counters and measurements of a broker: connections, bytes, requests by API, records by topic.

Plain numbers that only the event loop changes. A connection counts around the handler of an API, so that handlers
know nothing of it, except for two hooks: `waiting` marks the time in which a request waits for other clients, and
`produced` and `fetched` count by topic. As in Kafka's `ErrorsPerSec`, each error code in a response counts.

Of Kafka's phases of a request (`RequestMetrics`) there are three. Handling: from the decoded request to the response,
the disk included, without waiting. Waiting: Fetch waits for records, JoinGroup and SyncGroup for other members.
Queue: there is none, because a request is handled when it is read; instead, the delay of the event loop is measured.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ParamSpec, TypeVar

import trio

from offsetfs.common.durations import Durations
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.schemas import SchemaField, schema

TOPICS_MAX = 1000
"""Topics with counters of their own; all others share one set."""

DELAY_INTERVAL_S = 0.25

_P = ParamSpec("_P")
_R = TypeVar("_R")

_waited_s: ContextVar[float] = ContextVar("waited_s", default=0.0)
"""The time that the request of this task has waited for other clients."""


@contextmanager
def waiting() -> Iterator[None]:
    """Measure a wait of a handler for other clients, in the task that the handler was called in."""
    started_s = time.perf_counter()
    try:
        yield
    finally:
        _waited_s.set(_waited_s.get() + time.perf_counter() - started_s)


@dataclass(slots=True)
class ApiCounts:
    """The counters of one API. `handling` does not include `waits`, which has no entry for a request without a wait."""

    requests: int = 0
    """Begun; those whose client left before the response are included."""
    errors: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """The responses that contained an error code, by code."""
    handling: Durations = field(default_factory=Durations)
    waits: Durations = field(default_factory=Durations)
    codes: Callable[[object], list[int]] = field(default=lambda response: [], repr=False, compare=False)
    """Returns the error codes in a response."""

    def begin(self) -> float:
        """Count a request; return when its handling begins. The task of the request calls it."""
        self.requests += 1
        _waited_s.set(0.0)
        return time.perf_counter()

    def fail(self) -> None:
        """Count a handler that raised an error."""
        self.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1

    def end(self, response: object, begun_s: float) -> None:
        """Count the response to a request whose handling began at `begun_s`."""
        elapsed_s, waited_s = time.perf_counter() - begun_s, _waited_s.get()
        self.handling.add(max(0.0, elapsed_s - waited_s))
        if waited_s:
            self.waits.add(waited_s)
        for code in self.codes(response):
            self.errors[code] += 1


@dataclass(slots=True)
class TopicCounts:
    """The counters of one topic. Bytes are those of batches, as the client has compressed them."""

    produced_records: int = 0
    produced_bytes: int = 0
    fetched_bytes: int = 0


@dataclass(slots=True, eq=False)
class BrokerMetrics:
    """All counters of one broker."""

    started_s: float = field(default_factory=time.time)
    connections: int = 0
    """Open now."""
    connections_accepted: int = 0
    connections_refused: int = 0
    logins: dict[tuple[str, ...], int] = field(default_factory=lambda: defaultdict(int))
    """Logins by mechanism, "" before the client has named one, and result: succeeded, failed, or expired sessions."""
    received_bytes: int = 0
    sent_bytes: int = 0
    apis: dict[str, ApiCounts] = field(default_factory=lambda: defaultdict(ApiCounts))
    topics: dict[str, TopicCounts] = field(default_factory=dict)
    others: TopicCounts = field(default_factory=TopicCounts)
    """The sum of all topics without their own counters."""
    delays: Durations = field(default_factory=Durations)
    """Delays of the event loop before it continued a task that was ready, sampled every `DELAY_INTERVAL_S`."""

    def counts_of(self, api: str) -> ApiCounts:
        """Return the counters of an API, which know where its responses have error codes."""
        counts = self.apis[api]
        counts.codes = _error_codes(api)
        return counts

    def produced(self, topic: str, records: int, size: int) -> None:
        """Count a batch that was appended."""
        counts = self._of(topic)
        counts.produced_records += records
        counts.produced_bytes += size

    def fetched(self, topic: str, size: int) -> None:
        """Count the batches of a partition in a response."""
        self._of(topic).fetched_bytes += size

    def _of(self, topic: str) -> TopicCounts:
        counts = self.topics.get(topic)
        if counts is None:
            if len(self.topics) >= TOPICS_MAX:
                return self.others
            counts = self.topics[topic] = TopicCounts()
        return counts

    async def watch_event_loop(self) -> None:
        """Measure the delay of the event loop until cancelled."""
        while True:
            due_s = trio.current_time() + DELAY_INTERVAL_S
            await trio.sleep_until(due_s)
            self.delays.add(max(0.0, trio.current_time() - due_s))


# --- error codes in responses ----------------------------------------------------------------------------------------

_CODE = attrgetter("error_code")


@dataclass(frozen=True, slots=True)
class _CodePath:
    """The places of error codes in a struct of a response: in itself, and in the structs of some of its arrays."""

    is_here: bool
    arrays: tuple[tuple[Callable[[object], Iterable[object] | None], _CodePath], ...]


def _error_codes(api: str) -> Callable[[object], list[int]]:
    """Return a function that returns the error codes in a response of an API, without NONE; None is no response."""
    path = _code_path([field for layout in schema(f"{api}Response").layouts for field in layout.fields])

    def codes(response: object) -> list[int]:
        error_codes: list[int] = []
        if response is not None:
            if path.is_here and (code := _CODE(response)):
                error_codes.append(code)
            _collect_codes(path, response, error_codes)
        return error_codes

    return codes


def _code_path(fields: list[SchemaField]) -> _CodePath:
    """Return the path of a struct; `fields` has those of all versions, so that a name may occur twice."""
    by_name: defaultdict[str, list[SchemaField]] = defaultdict(list)
    for schema_field in fields:
        if schema_field.is_array:
            by_name[schema_field.name] += schema_field.fields
    structs = ((attrgetter(name), _code_path(of_struct)) for name, of_struct in by_name.items())
    arrays = tuple((array, path) for array, path in structs if path.is_here or path.arrays)
    return _CodePath(any(schema_field.name == "error_code" for schema_field in fields), arrays)


def _collect_codes(path: _CodePath, message: object, codes: list[int]) -> None:
    """Add the error codes in the arrays of a struct. A response has thousands of partitions: no generator for each."""
    for array, below in path.arrays:
        structs = array(message)
        if structs:
            if below.is_here:
                codes += filter(None, map(_CODE, structs))
            if below.arrays:
                for struct in structs:
                    _collect_codes(below, struct, codes)
