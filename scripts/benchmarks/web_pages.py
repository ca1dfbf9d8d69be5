"""`offsetfs web`: answers of its API over loopback, as a browser asks for them, by one connection.

The log of 100 GiB is one of holes (`logs.sparse`): a look-up reads what it would read in a full one. The batches at the
bounds of a histogram are there. A view is asked for by a server that has just begun, so that it opens what it looks at.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import logs
from bench import Bench
from commands import OFFSETFS, seconds
from fixtures.browser.web_process import web_process
from logs import PARTITION
from measuring import WARM_UP, Contender, Goal, Measure, Opened, Peer, Row

import offsetfs

_TOPIC = f"/api/topics/{PARTITION.topic}"
_TIMED_SEGMENTS = logs.TIMED_MAX
_JUMPS = 100
_BROWSERS = 50
_WANTED = "0000000077"


class _Client:
    """A connection to the page, with its token."""

    def __init__(self, address: str) -> None:
        place = urlsplit(address)
        self._headers = {"authorization": f"Bearer {place.query.removeprefix('token=')}"}
        self._connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=600)

    def ask(self, target: str, body: object = None) -> Any:
        content = self.text(target, body)
        return json.loads(content)

    def text(self, target: str, body: object = None) -> bytes:
        sent = None if body is None else json.dumps(body)
        headers = self._headers if sent is None else {**self._headers, "content-type": "application/json"}
        self._connection.request("GET" if sent is None else "POST", target, sent, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content[:1000]
        return content

    def another(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._connection.host, self._connection.port, timeout=600)

    def begin(self, connection: http.client.HTTPConnection, target: str) -> http.client.HTTPResponse:
        """Return the answer of a stream, whose body has not ended."""
        connection.request("GET", target, headers=self._headers)
        answer = connection.getresponse()
        assert answer.status == 200
        return answer

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def _page(directory: Path) -> Iterator[tuple[subprocess.Popen[str], _Client]]:
    with web_process(directory) as (process, address), contextlib.closing(_Client(address)) as client:
        client.ask("/api/openapi.json")
        yield process, client


@contextlib.contextmanager
def _followers(client: _Client, count: int) -> Iterator[list[http.client.HTTPResponse]]:
    """Streams of the records that come to the partition, each on a connection of its own."""
    with contextlib.ExitStack() as stack:
        streams = []
        for _ in range(count):
            connection = stack.enter_context(contextlib.closing(client.another()))
            streams.append(client.begin(connection, f"{_TOPIC}/partitions/{PARTITION.partition}/follow"))
        for stream in streams:
            assert stream.readline().startswith(b":")
        yield streams


@contextlib.contextmanager
def _followed(bench: Bench) -> Iterator[Measure]:
    """From the append of a record until the last browser has it; ms."""
    directory = bench.new("log")
    directory.mkdir()
    with offsetfs.open(directory, "a") as opened:
        (partition,) = opened.create(PARTITION.topic)
        partition.append(b"the first")
        with _page(directory) as (_, client), _followers(client, bench.count) as streams:

            def measure(number: int) -> float:
                start = time.perf_counter()
                partition.append(b"another")
                for stream in streams:
                    while not stream.readline().startswith(b"data: "):
                        pass
                return (time.perf_counter() - start) * 1000

            yield measure


def _first_answer(directory_of: Callable[[Bench], Path], targets: Sequence[str], body: object = None) -> Opened:
    """The first time that a view is asked for, of a server that has asked for nothing yet; ms."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        directory = directory_of(bench)

        def measure(number: int) -> float:
            with _page(directory) as (_, client):
                start = time.perf_counter()
                for target in targets:
                    client.ask(target, body)
                return (time.perf_counter() - start) * 1000

        yield measure

    return opened


def _sparse(bench: Bench) -> Path:
    return bench.sparse(bench.count).directory


def _partitions(bench: Bench) -> Path:
    return bench.once(("web", bench.count), lambda: logs.partitions(bench.new("log"), bench.count))


def _jump(target_of: Callable[[int, int], str], *, is_time: bool) -> Opened:
    """Fifty records from random places on, none of them twice; ms each."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log = bench.sparse(bench.count)
        places = log.times if is_time else log.offsets[:: logs.full_batch().count]
        share = min(_JUMPS, len(places) // (bench.rounds + 1))
        with _page(log.directory) as (_, client):

            def measure(number: int) -> float:
                chosen = places[(number - WARM_UP) * share : (number - WARM_UP + 1) * share]
                start = time.perf_counter()
                for place in chosen:
                    assert client.ask(target_of(place, PARTITION.partition))["records"]
                return (time.perf_counter() - start) / len(chosen) * 1000

            yield measure

    return opened


def _at_offset(offset: int, partition: int) -> str:
    return f"/api/records?topic={PARTITION.topic}&partition={partition}&from={offset}&limit=50"


def _at_time(time_ms: int, partition: int) -> str:
    seconds_, rest = divmod(time_ms, 1000)
    shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds_))
    return f"/api/records?topic={PARTITION.topic}&partition={partition}&from={shown}.{rest:03}Z&limit=1"


def _text() -> str:
    return quote(_WANTED)


@contextlib.contextmanager
def _search(bench: Bench) -> Iterator[Measure]:
    with _page(bench.filled(logs.PRODUCER_BATCH_BYTES)) as (_, client):

        def measure(number: int) -> float:
            start = time.perf_counter()
            found = client.text(f"/api/search?topic={PARTITION.topic}&text={_text()}")
            assert b"event: end" in found
            return time.perf_counter() - start

        yield measure


@contextlib.contextmanager
def _find(bench: Bench) -> Iterator[Measure]:
    directory = bench.filled(logs.PRODUCER_BATCH_BYTES)
    words = (*OFFSETFS, "find", directory, PARTITION.topic, "--text", _WANTED)
    yield lambda number: seconds('exec "$@" > /dev/null', *words)


def _memory(kind: str) -> Opened:
    """The largest resident memory of a server that has answered the views, while fifty browsers follow; MB."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        directory = bench.filled(logs.PRODUCER_BATCH_BYTES)

        def measure(number: int) -> float:
            with _page(directory) as (process, client), _followers(client, _BROWSERS):
                for target in ("/api/overview", _TOPIC, f"{_TOPIC}/histogram", f"{_TOPIC}/partitions/0", "/api/groups"):
                    client.ask(target)
                assert client.text(f"/api/download?topic={PARTITION.topic}&format={kind}")
                status = Path(f"/proc/{process.pid}/status").read_text()
            (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
            return int(peak) * 1024 / 1e6

        yield measure

    return opened


_STATEMENT = {"statement": f'SELECT count(*) FROM "{PARTITION.topic}"'}


def _view(
    name: str, what: str, targets: Sequence[str], of: str, count: int, count_quick: int, body: object = None
) -> Row:
    directory_of = _sparse if of == "segments of 1 GiB" else _partitions
    return Row(
        f"web-{name}",
        f"the first answer of {what} in a browser, by a server that has just begun",
        unit="ms",
        of=of,
        count=count,
        count_quick=count_quick,
        ours=Contender("offsetfs web", _first_answer(directory_of, targets, body)),
        limit=200.0,
    )


_SEGMENTS = ("segments of 1 GiB", _TIMED_SEGMENTS, 2)
_MANY = ("partitions", 10_000, 100)

ROWS = (
    _view("overview", "the view of all topics", ["/api/overview"], *_MANY),
    _view("topic", "the view of a topic", [_TOPIC, f"{_TOPIC}/histogram"], *_SEGMENTS),
    _view(
        "partition",
        "the view of a partition",
        [f"{_TOPIC}/partitions/0", f"{_TOPIC}/histogram?partition=0"],
        *_SEGMENTS,
    ),
    _view("records", "the newest records", [f"/api/records?topic={PARTITION.topic}&newest=true&limit=1"], *_SEGMENTS),
    _view("groups", "the view of groups", ["/api/groups"], *_SEGMENTS),
    _view("findings", "the view of findings", ["/api/findings"], *_SEGMENTS),
    _view("schemas", "the view of schemas", ["/api/schemas"], *_SEGMENTS),
    _view("sql", "a statement that counts records", ["/api/sql"], *_MANY, _STATEMENT),
    Row(
        "web-jump-offset",
        "a jump to an offset in a browser: fifty records from there on",
        unit="ms",
        of="segments of 1 GiB",
        count=_TIMED_SEGMENTS,
        count_quick=2,
        ours=Contender("offsetfs web", _jump(_at_offset, is_time=False)),
        limit=50.0,
    ),
    Row(
        "web-jump-time",
        "a jump to a time in a browser: the first record from there on",
        unit="ms",
        of="segments of 1 GiB",
        count=_TIMED_SEGMENTS,
        count_quick=2,
        ours=Contender("offsetfs web", _jump(_at_time, is_time=True)),
        limit=50.0,
    ),
    Row(
        "web-search",
        "a search for a text that ten records have, as a stream of events",
        unit="s",
        of="records",
        count=10_000_000,
        count_quick=100_000,
        ours=Contender("offsetfs web", _search),
        peers=(Peer(Contender("offsetfs find", _find), Goal(is_speed=True, bound=0.9)),),
    ),
    Row(
        "web-follow",
        "an appended record until the last of many browsers that follow the partition has it",
        unit="ms",
        of="browsers",
        count=_BROWSERS,
        count_quick=5,
        ours=Contender("offsetfs web", _followed),
        limit=500.0,
    ),
    Row(
        "web-memory",
        "the largest memory of the page: fifty browsers that follow, the views, a download as Parquet",
        unit="MB",
        of="records",
        count=1_000_000,
        count_quick=100_000,
        ours=Contender("offsetfs web", _memory("parquet")),
        limit=600.0,
    ),
)
