"""The API of the page: its routes, and how a question becomes an answer.

A question runs in one of a few threads, and has a time limit; a stream runs in a thread of others, so that searches do
not keep questions waiting. A thread that nobody waits for any more ends at its next look.
"""

from __future__ import annotations

import importlib.resources
import inspect
import json
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import trio

from offsetfs.answers.find import Search
from offsetfs.answers.report import Report
from offsetfs.common.threads import in_thread
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.errors import InvalidName, OffsetOutOfRange, StorageError, UnknownPartition, sentence
from offsetfs.web import tree_views
from offsetfs.web.access import Access
from offsetfs.web.exact_json import exact_json
from offsetfs.web.find_command import find_command
from offsetfs.web.following import Following, event
from offsetfs.web.http_server import HttpAnswer, HttpError, HttpRequest
from offsetfs.web.record_views import (
    FOUND_MAX,
    RECORDS_MAX,
    WHOLE_CHARACTERS,
    RecordsOf,
    SearchEnded,
    SearchTexts,
    found_lines,
    left_out,
    page_of,
    raw_part,
    shown_record,
)
from offsetfs.web.routes import (
    ANY,
    BOOLEAN,
    COUNT,
    INTEGER,
    NUMBER,
    TEXT,
    Parameter,
    Route,
    Schema,
    listed,
    members,
    nullable,
    openapi,
)
from offsetfs.web.schema_views import schema_view, schemas_view
from offsetfs.web.search_work import MEDIA_TYPES, Started, check_download, searching, send_found
from offsetfs.web.sql_view import ROWS_MAX, sql_view

QUESTIONS_MAX = 6
"""The questions that run at a time; others wait."""
QUESTION_S = 60.0
"""The time limit of a question, with its wait."""
PAGES_MAX = 4
"""The pages of records that are looked for at a time: one may have to search everything."""
STATEMENTS_MAX = 2
"""The statements of SQL that run at a time; each uses all processors."""
STREAMS_MAX = 8
"""The streams of all clients."""
STREAMS_OF_CLIENT_MAX = 4
"""The streams of one address."""
FOLLOWERS_MAX = 100
"""The browsers that follow partitions. Each costs a connection, and no thread."""
INTERRUPT_S = 5.0
"""How long a statement that nobody waits for is interrupted."""
_ENDED_CHECK_S = 0.02
_STREAM_BUFFER = 4
"""Parts of a stream that wait for a slow client; then its search waits."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Sent with each answer."""

_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}

Result = TypeVar("Result")
Put = Callable[[bytes], None]


class _Statements:
    """The statements of SQL that one answer runs in a thread."""

    def __init__(self) -> None:
        self._interrupts: list[Callable[[], None]] = []
        self.stopped = False
        self.done = threading.Event()

    def started(self, interrupt: Callable[[], None]) -> None:
        """Note what interrupts a statement; `SearchEnded` if nobody waits for it."""
        if self.stopped:
            raise SearchEnded
        self._interrupts.append(interrupt)

    async def end(self) -> None:
        """Interrupt what still runs, until it ends: DuckDB forgets an interruption between two steps."""
        self.stopped = True
        with trio.move_on_after(INTERRUPT_S, shield=True):
            while self._interrupts and not self.done.is_set():
                for interrupt in [*self._interrupts]:
                    interrupt()
                await trio.sleep(0.05)


class WebApi:
    """Answers requests about one open directory. Create it in the event loop, and run it there."""

    def __init__(self, records: RecordsOf, access: Access) -> None:
        self._records, self._access = records, access
        self._directory = records.directory
        self._files = dict(_static_files())
        self._questions = trio.CapacityLimiter(QUESTIONS_MAX)
        self._statements = trio.CapacityLimiter(STATEMENTS_MAX)
        self._stream_threads = trio.CapacityLimiter(STREAMS_MAX)
        self._pages = trio.CapacityLimiter(PAGES_MAX)
        self._streams: Counter[str] = Counter()
        self._following = Following(records)
        self.routes = self._all_routes()
        self._patterns = [(route, route.pattern) for route in self.routes]

    async def handle(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request; `HttpError`."""
        redirect = self._access.check(request)
        if redirect is not None:
            return redirect
        if request.path == "/api" or request.path.startswith("/api/"):
            return await self._asked(request)
        if request.method not in ("GET", "HEAD"):
            raise HttpError(405, "pages are read with GET", {"allow": "GET, HEAD"})
        name = request.path.removeprefix("/static/") if request.path.startswith("/static/") else "index.html"
        if name not in self._files:
            raise HttpError(404, "there is no such file")
        return HttpAnswer(self._files[name], _MEDIA_TYPES[name.rpartition(".")[2]])

    async def threads_ended(self) -> None:
        """Return when no thread works on a question or a stream."""
        limiters = (self._questions, self._pages, self._statements, self._stream_threads, self._following.threads)
        while any(limiter.borrowed_tokens for limiter in limiters):
            await trio.sleep(_ENDED_CHECK_S)

    async def _asked(self, request: HttpRequest) -> HttpAnswer:
        route, in_path = self._route(request)
        values = route.values(request, in_path)
        if not inspect.iscoroutinefunction(route.work):
            return await self._json(partial(route.work, **values))
        made = await route.work(request, **values)
        assert isinstance(made, HttpAnswer)
        return made

    def _route(self, request: HttpRequest) -> tuple[Route, Mapping[str, str]]:
        found = [(route, match) for route, pattern in self._patterns if (match := pattern.match(request.path))]
        if not found:
            raise HttpError(404, "there is no such question: /api/openapi.json lists them")
        for route, match in found:
            if request.method == route.method:
                return route, {
                    name: unquote(text, errors="surrogateescape") for name, text in match.groupdict().items()
                }
        allowed = ", ".join(sorted({route.method for route, _ in found}))
        raise HttpError(405, f"it is asked with {allowed}", {"allow": allowed})

    async def _json(self, work: Callable[[], Any]) -> HttpAnswer:
        return HttpAnswer(await self._thread(lambda: exact_json(work())))

    async def _thread(self, work: Callable[[], Result], limiter: trio.CapacityLimiter | None = None) -> Result:
        """Return what `work` returns in a thread, with its errors as `HttpError`."""
        with trio.move_on_after(QUESTION_S):
            limiter = limiter or self._questions
            return await in_thread(partial(_asked_of_logs, work), limiter=limiter, abandon_on_cancel=True)
        raise HttpError(503, f"no answer within {QUESTION_S:.0f} seconds: ask for less, or use the command of offsetfs")

    # --- streams -----------------------------------------------------------------------------------------------------

    def _streamed(
        self, request: HttpRequest, work: Callable[[Put, Started], None], media_type: str, headers: Mapping[str, str]
    ) -> HttpAnswer:
        """Return the answer whose parts `work` puts, in a thread; `put` waits for a slow client, or raises."""

        async def body(send: Callable[[bytes], Awaitable[None]]) -> None:
            statements = _Statements()
            sender, receiver = trio.open_memory_channel[bytes](_STREAM_BUFFER)
            token = trio.lowlevel.current_trio_token()

            def put(data: bytes) -> None:
                try:
                    trio.from_thread.run(sender.send, data, trio_token=token)
                except (trio.RunFinishedError, trio.Cancelled, trio.BrokenResourceError, trio.ClosedResourceError):
                    raise SearchEnded from None

            def run() -> None:
                try:
                    work(put, statements.started)
                except SearchEnded:
                    pass
                except BaseException:  # what DuckDB makes of an interrupted statement
                    if not statements.stopped:
                        raise
                finally:
                    statements.done.set()

            async def produce() -> None:
                with sender:
                    await in_thread(run, limiter=self._stream_threads, abandon_on_cancel=True)

            self._streams[request.peer] += 1
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(produce)
                    with receiver:
                        async for data in receiver:
                            await send(data)
            finally:
                self._streams[request.peer] -= 1
                await statements.end()

        if self._streams[request.peer] >= STREAMS_OF_CLIENT_MAX or self._streams.total() >= STREAMS_MAX:
            raise HttpError(429, "too many searches at a time: stop one of them")
        return HttpAnswer(body, media_type, headers=headers)

    async def _search(self, request: HttpRequest, **values: Any) -> HttpAnswer:
        """Send what a search finds as server-sent events, while it goes on."""
        texts = _texts(values)
        await self._checked(texts)

        def send(put: Put, started: Started) -> None:
            try:
                with searching(self._records, texts, started) as search:
                    _send_events(self._records, search, put)
            except HttpError as error:
                put(event("failure", {"error": error.message}))

        return self._streamed(request, send, "text/event-stream", {})

    async def _follow(self, request: HttpRequest, *, topic: str, partition: int, **values: Any) -> HttpAnswer:
        """Send new records of a partition as server-sent events, until the browser ends that."""
        name = TopicPartition(topic, partition)
        await self._thread(partial(tree_views.log_of, self._directory, name))
        if self._following.followers >= FOLLOWERS_MAX:
            raise HttpError(429, f"{FOLLOWERS_MAX} browsers follow partitions: stop one of them")
        return HttpAnswer(partial(self._following.follow, name, values["from"]), "text/event-stream")

    async def _download(self, request: HttpRequest, *, format: str, **values: Any) -> HttpAnswer:
        texts = _texts(values)
        check_download(format)
        await self._checked(texts)

        def send(put: Put, started: Started) -> None:
            with searching(self._records, texts, started) as search:
                search.on_progress = lambda done, total: put(b"")  # raises if the client is gone
                send_found(self._records, search, format, put, started)

        headers = {"content-disposition": f'attachment; filename="records.{format}"'}
        return self._streamed(request, send, MEDIA_TYPES[format], headers)

    def _command(self, **values: Any) -> Any:
        texts, records = _texts(values), self._records
        if texts.partition is not None and len(texts.topics) != 1:
            raise HttpError(400, "partition belongs to one topic: give topic once")
        return {"command": find_command(records.source, texts, records.options)}

    async def _checked(self, texts: SearchTexts) -> None:
        """Raise `HttpError` for a wrong search, before its stream begins."""

        def check(started: Started) -> None:
            with searching(self._records, texts, started):
                pass

        await self._interruptible(check)

    async def _page(self, request: HttpRequest, *, limit: int, newest: bool, **values: Any) -> HttpAnswer:
        stop = threading.Event()

        def check(done: int, total: int) -> None:
            if stop.is_set():
                raise SearchEnded

        def page(started: Started) -> bytes:
            with searching(self._records, _texts(values), started) as search:
                search.on_progress = check
                return exact_json(page_of(self._records, search, limit, is_newest=newest))

        try:
            return HttpAnswer(await self._interruptible(page, self._pages))
        finally:
            stop.set()

    async def _sql(self, request: HttpRequest) -> HttpAnswer:
        statement = _statement(request)

        def rows(started: Started) -> bytes:
            return exact_json(sql_view(self._records, statement, started))

        return HttpAnswer(await self._interruptible(rows, self._statements))

    async def _interruptible(
        self, work: Callable[[Started], Result], limiter: trio.CapacityLimiter | None = None
    ) -> Result:
        """Return what `work` returns in a thread. Its statements of SQL end when nobody waits for them."""
        statements = _Statements()

        def run() -> Result:
            try:
                return work(statements.started)
            finally:
                statements.done.set()

        try:
            return await self._thread(run, limiter)
        finally:
            await statements.end()

    async def _value(self, request: HttpRequest, *, topic: str, partition: int, offset: int) -> HttpAnswer:
        name = TopicPartition(topic, partition)
        record = await self._thread(partial(self._records.record_of, name, offset))
        headers = {"content-disposition": f'attachment; filename="{name}-{offset}.bin"'}
        return HttpAnswer(record.value or b"", "application/octet-stream", headers=headers)

    # --- questions, in a thread --------------------------------------------------------------------------------------

    def _record(self, *, topic: str, partition: int, offset: int) -> Any:
        line = self._records.line_of(TopicPartition(topic, partition), offset)
        return shown_record(line, WHOLE_CHARACTERS)

    def _raw(self, *, topic: str, partition: int, offset: int) -> Any:
        record = self._records.record_of(TopicPartition(topic, partition), offset)
        return {"key": raw_part(record.key), "value": raw_part(record.value)}

    def _histogram(
        self, *, topic: str, partition: int | None, start_ms: int | None, stop_ms: int | None, bars: int
    ) -> Any:
        names = tree_views.partitions_of(self._directory, topic)
        if partition is not None:
            name = TopicPartition(topic, partition)
            tree_views.log_of(self._directory, name)
            names = [name]
        return tree_views.histogram(self._directory, names, start_ms, stop_ms, bars)

    def _groups(self, group: str | None = None) -> Any:
        from offsetfs.answers.groups import UnknownGroup, groups_report

        try:
            report = groups_report(self._directory, group)
        except UnknownGroup:
            raise HttpError(404, f"there is no group {group}: the list of groups has their names") from None
        return report_view(report) if group is None else group_view(self._directory, report)

    def _findings(self) -> Any:
        from offsetfs.answers.doctor.doctor import examine

        paths = [log_directory.path for log_directory in self._directory.directories]
        return report_view(examine(paths, time.time_ns() // 1_000_000))

    def _openapi(self) -> Any:
        return openapi(self.routes)

    def _all_routes(self) -> list[Route]:
        directory = self._directory
        in_path = (TOPIC, PARTITION, OFFSET)
        return [
            Route("/api/openapi.json", "This description.", self._openapi, {"type": "object"}),
            Route("/api/overview", "All topics.", lambda: tree_views.overview(directory), OVERVIEW),
            Route(
                "/api/topics/{topic}",
                "The partitions of a topic, and its settings.",
                lambda topic: tree_views.topic_view(directory, topic),
                TOPIC_VIEW,
                [TOPIC],
            ),
            Route(
                "/api/topics/{topic}/histogram",
                "Records by time, from look-ups in the time indexes.",
                self._histogram,
                HISTOGRAM,
                [
                    TOPIC,
                    Parameter("partition", "One partition; all if it is left out.", PARTITION.schema),
                    Parameter("start_ms", "The time of the first bar; that of the first record if left out.", NUMBER),
                    Parameter("stop_ms", "The time behind the last bar; the largest if left out.", NUMBER),
                    Parameter(
                        "bars", "The bars, at most.", {"type": "integer", "minimum": 8, "maximum": 200}, default=60
                    ),
                ],
            ),
            Route(
                "/api/topics/{topic}/partitions/{partition}",
                "The segments of a partition, its aborted transactions and its damage.",
                lambda topic, partition: tree_views.partition_view(directory, TopicPartition(topic, partition)),
                PARTITION_VIEW,
                [TOPIC, PARTITION],
            ),
            Route(
                "/api/topics/{topic}/partitions/{partition}/records/{offset}",
                "One record, with up to a million characters of its value.",
                self._record,
                RECORD,
                in_path,
            ),
            Route(
                "/api/topics/{topic}/partitions/{partition}/records/{offset}/raw",
                "The first 64 KiB of key and value of one record, in base64.",
                self._raw,
                members(key=CONTENT, value=CONTENT),
                in_path,
            ),
            Route(
                "/api/topics/{topic}/partitions/{partition}/records/{offset}/value",
                "The value of one record as it is stored.",
                self._value,
                {"type": "string", "format": "binary"},
                in_path,
                media_type="application/octet-stream",
            ),
            Route(
                "/api/records",
                "The oldest or newest records that meet all conditions, up to a limit.",
                self._page,
                members(records=listed(RECORD), **LEFT_OUT),
                [
                    *SEARCH,
                    Parameter(
                        "limit", "The records.", {"type": "integer", "minimum": 1, "maximum": RECORDS_MAX}, default=50
                    ),
                    Parameter("newest", "Whether the newest ones are wanted, newest first.", BOOLEAN, default=False),
                ],
            ),
            Route(
                "/api/search",
                f"Up to {FOUND_MAX:,} records that meet all conditions, sent while they are found, as events: "
                "`records` (an array), `progress` (done_bytes, total_bytes, found), "
                "`end` (found, is_limited, damaged, left_out) or `failure` (error).",
                self._search,
                TEXT,
                SEARCH,
                media_type="text/event-stream",
            ),
            Route(
                "/api/topics/{topic}/partitions/{partition}/follow",
                "New records of a partition as they come, as events: `records` (an array), `left_out` (damaged, "
                "left_out), `failure` (error).",
                self._follow,
                TEXT,
                [TOPIC, PARTITION, Parameter("from", "The first offset; the end if it is left out.", OFFSET.schema)],
                media_type="text/event-stream",
            ),
            Route(
                "/api/download",
                "All records that meet all conditions, whole, as lines of JSON; as CSV or Parquet with the columns of "
                "offsetfs sql.",
                self._download,
                TEXT,
                [
                    *SEARCH,
                    Parameter("format", "The format.", {"type": "string", "enum": [*MEDIA_TYPES]}, default="ndjson"),
                ],
                media_type="application/x-ndjson",
            ),
            Route("/api/command", "The command that finds the same.", self._command, members(command=TEXT), SEARCH),
            Route("/api/groups", "All consumer groups, and how far they are behind.", self._groups, REPORT),
            Route(
                "/api/groups/{group}",
                "A consumer group: its partitions, and the history of its commits.",
                self._groups,
                REPORT,
                [Parameter("group", "The name of a group.")],
            ),
            Route("/api/schemas", "The schemas in the topic _schemas.", lambda: schemas_view(directory), SCHEMAS),
            Route(
                "/api/schema",
                "The text of one schema.",
                lambda subject, version: schema_view(directory, subject, version),
                members(subject=TEXT, version=COUNT, id=COUNT, type=TEXT, text=TEXT, is_cut=BOOLEAN),
                [
                    Parameter("subject", "A subject.", is_required=True),
                    Parameter("version", "The number of a version.", PARTITION.schema, is_required=True),
                ],
            ),
            Route(
                "/api/sql",
                f"The first {ROWS_MAX:,} rows of a statement of SQL, over the tables of offsetfs sql.",
                self._sql,
                members(columns=listed(TEXT), rows=listed(listed(ANY)), is_cut=BOOLEAN, left_out=listed(TEXT)),
                method="POST",
                body=members(statement=TEXT),
            ),
            Route("/api/findings", "What offsetfs doctor finds.", self._findings, REPORT),
        ]


def _texts(values: Mapping[str, Any]) -> SearchTexts:
    return SearchTexts(
        topics=values["topic"],
        partition=values["partition"],
        key=values["key"],
        key_base64=values["key_base64"],
        partitioner=values["partitioner"],
        texts=values["text"],
        patterns=values["regex"],
        place=values["in"],
        ignores_case=values["ignore_case"],
        headers=values["header"],
        where=values["where"],
        start=values["from"],
        end=values["to"],
        is_committed_only=values["committed"],
    )


def _statement(request: HttpRequest) -> str:
    """Return the statement in the body of a request; `HttpError`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HttpError(415, "send the statement as application/json")
    try:
        statement = json.loads(request.body)["statement"]
    except (ValueError, KeyError, TypeError, RecursionError):
        statement = None
    if not isinstance(statement, str):
        raise HttpError(400, 'the body of the request is not {"statement": "SELECT …"}')
    return statement


def _static_files() -> Iterator[tuple[str, bytes]]:
    for entry in importlib.resources.files("offsetfs.web").joinpath("static").iterdir():
        if entry.name.rpartition(".")[2] in _MEDIA_TYPES:
            yield entry.name, entry.read_bytes()


def _asked_of_logs(work: Callable[[], Result]) -> Result:
    """Return what `work` returns, with its errors as `HttpError`."""
    try:
        return work()
    except (InvalidName, UnknownPartition, OffsetOutOfRange) as error:
        raise HttpError(404, sentence(error)) from error
    except (StorageError, OSError) as error:
        raise HttpError(500, sentence(error)) from error


def _send_events(records: RecordsOf, search: Search, put: Put) -> None:
    last_s = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= 0.2:
            last_s = time.monotonic()
            put(event("progress", {"done_bytes": done, "total_bytes": total, "found": search.found}))

    search.on_progress = progress
    try:
        for lines in found_lines(search, records.shown_of):
            put(b"event: records\ndata: [" + b",".join(lines) + b"]\n\n")
    except (StorageError, OSError) as error:
        put(event("failure", {"error": sentence(error)}))
        return
    put(event("end", {"found": search.found, "is_limited": search.found >= FOUND_MAX, **left_out(search)}))


def report_view(report: Report) -> dict[str, Any]:
    """Return a report with the labels and the measures of its values, for any view of it."""
    return {
        **report.as_json(),
        "labels": [{"key": fact.key, "label": fact.label, "kind": fact.kind.value} for fact in report.facts],
        "columns": {
            table.key: [
                {"key": column.key, "heading": column.heading, "kind": column.kind.value} for column in table.columns
            ]
            for table in report.tables
        },
        "titles": {table.key: table.title for table in report.tables},
    }


def group_view(directory: LogDirectories, report: Report) -> dict[str, Any]:
    """Return the report of one group, and how far it was behind in the past."""
    from offsetfs.answers.group_history import lag_history

    commits = next(table.rows for table in report.tables if table.key == "history")
    past, unseen = lag_history(directory, ((row[0], row[1], row[2]) for row in commits))  # type: ignore[misc]
    made = report_view(report)
    lags = [{"time_ms": lag.time_ms, "lag": lag.lag, "lag_seconds": lag.lag_s} for lag in past]
    return {**made, "unseen": [*made["unseen"], *unseen], "past": lags}


# --- parameters and answers ------------------------------------------------------------------------------------------

TOPIC = Parameter("topic", "The name of a topic.")
PARTITION = Parameter(
    "partition", "The number of a partition.", {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
)
OFFSET = Parameter("offset", "The offset of a record.", {"type": "integer", "minimum": 0, "maximum": 2**63 - 1})

SEARCH = (
    Parameter("topic", "A topic; without any, all but internal ones.", is_list=True),
    Parameter("partition", "One partition of the topic.", PARTITION.schema),
    Parameter("key", "The record has this key."),
    Parameter("key_base64", "The same, for a key of any bytes."),
    Parameter(
        "partitioner",
        "How producers choose the partition of a key; any: all partitions are searched.",
        {"type": "string", "enum": ["any", "murmur2", "crc32", "fnv1a"]},
        default="any",
    ),
    Parameter("text", "The record contains this text.", is_list=True),
    Parameter("regex", "A regular expression of RE2 matches.", is_list=True),
    Parameter(
        "in",
        "Where text and regex look.",
        {"type": "string", "enum": ["value", "key", "headers", "any"]},
        default="value",
    ),
    Parameter("ignore_case", "Whether text and regex ignore case.", BOOLEAN, default=False),
    Parameter("header", "NAME or NAME=VALUE of a header.", is_list=True),
    Parameter("where", "A condition in SQL on fields of decoded values, or on key, value_json…"),
    Parameter("from", "Only records from this offset or time on."),
    Parameter("to", "Only records before this offset or time."),
    Parameter("committed", "Whether records of open and aborted transactions are left out.", BOOLEAN, default=False),
)

LEFT_OUT: dict[str, Schema] = {"damaged": COUNT, "left_out": listed(TEXT)}
CONTENT = nullable(
    members(form={"enum": ["text", "base64", "json"]}, content=ANY, bytes=nullable(COUNT), is_cut=BOOLEAN)
)
RECORD = members(
    topic=TEXT,
    partition=COUNT,
    offset=COUNT,
    timestamp_ms=nullable(INTEGER),
    timestamp_type=TEXT,
    key=CONTENT,
    value=CONTENT,
    headers=listed(members(name=CONTENT, value=CONTENT)),
    headers_left_out=COUNT,
    schema=ANY,
    error=nullable(TEXT),
)
SCHEMAS = members(
    versions=listed(members(subject=TEXT, version=COUNT, id=INTEGER, type=TEXT, state=TEXT, references=listed(TEXT))),
    versions_left_out=COUNT,
    left_out=listed(TEXT),
)
OVERVIEW = members(
    directory=TEXT,
    topics=listed(
        members(
            topic=TEXT,
            is_internal=BOOLEAN,
            partitions=COUNT,
            unreadable=COUNT,
            size_bytes=COUNT,
            segments=COUNT,
            offsets=nullable(COUNT),
            latest_ms=nullable(INTEGER),
        )
    ),
    left_out=listed(TEXT),
)
_LOG_FACTS: dict[str, Schema] = {
    "start_offset": nullable(COUNT),
    "end_offset": nullable(COUNT),
    "high_watermark": nullable(COUNT),
    "size_bytes": nullable(COUNT),
    "latest_ms": nullable(INTEGER),
    "damaged": nullable(COUNT),
    "remote_note": nullable(TEXT),
}
TOPIC_VIEW = members(
    topic=TEXT,
    partitions=listed(members(partition=COUNT, segments=nullable(COUNT), error=nullable(TEXT), **_LOG_FACTS)),
    settings=listed(members(name=TEXT, value=TEXT, origin={"enum": ["topic", "cluster", "default"]})),
)
HISTOGRAM = members(
    bars=listed(members(start_ms=INTEGER, stop_ms=INTEGER, offsets=COUNT, size_bytes=COUNT)),
    partitions=COUNT,
    unseen=listed(TEXT),
)
PARTITION_VIEW = members(
    topic=TEXT,
    partition=COUNT,
    **_LOG_FACTS,
    last_stable_offset=nullable(COUNT),
    segments=listed(
        members(
            base_offset=COUNT,
            end_offset=nullable(COUNT),
            missing_behind=nullable(COUNT),
            size_bytes=COUNT,
            first_ms=nullable(INTEGER),
            latest_ms=nullable(INTEGER),
            index_entries=nullable(COUNT),
            time_index_entries=nullable(COUNT),
        )
    ),
    segments_left_out=COUNT,
    aborted=nullable(listed(members(producer_id=INTEGER, first_offset=COUNT, marker_offset=COUNT))),
    aborted_left_out=COUNT,
    damage=listed(members(path=TEXT, position=COUNT, offset=nullable(COUNT), reason=TEXT)),
    compaction=ANY,
    cut=listed(TEXT),
)
REPORT: Schema = {"type": "object", "required": ["verb", "subject", "facts", "tables", "findings", "unseen", "notes"]}
