"""The API of `offsetfs web`: each question with an answer as it is described, wrong ones with one line."""

from __future__ import annotations

import base64
import csv
import json
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import h11
import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio
from fixtures.logs.decoded_orders import ORDER, order, write, write_orders
from fixtures.logs.hostile_records import BIDI, HOSTILE, LARGE, SCRIPT, write_hostile
from fixtures.logs.planted_logs import data, marker, sealed_records
from fixtures.machine.waiting import PAUSE_S
from fixtures.stores.schema_registry import serving

import offsetfs
from offsetfs.answers import find
from offsetfs.answers.find import Search
from offsetfs.cli import run
from offsetfs.schemas import background_registry
from offsetfs.storage import LogDirectories, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.partition.producers import ABORT
from offsetfs.storage.partition.transactions import Transactions
from offsetfs.web import api as web_api
from offsetfs.web import following, http_server, record_views
from offsetfs.web.access import Access
from offsetfs.web.api import HEADERS, WebApi
from offsetfs.web.exact_json import exact_json
from offsetfs.web.http_server import HttpAnswer, HttpError, HttpRequest, serve_http
from offsetfs.web.record_views import RecordsOf, SearchEnded
from offsetfs.web.routes import ERROR

pytestmark = pytest.mark.unit

TOKEN = "the-token"
PORT = 9380
HOST = f"127.0.0.1:{PORT}"
TIME = 1_795_000_000_000
OWN = {"host": HOST, "authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Record n of 300 in `orders` is n minutes after `TIME`, in partition n % 3; `hostile`; an aborted transaction."""
    path = tmp_path / "logs"
    path.mkdir()
    write_hostile(path)
    with offsetfs.open(path, "a") as directory:
        orders = directory.create("orders", 3)
        for n in range(300):
            value = json.dumps({"id": n, "status": "lost" if n % 10 == 0 else "paid"}).encode()
            orders[n % 3].append(
                value, key=b"customer-%d" % (n % 7), headers=[("n", b"%d" % n)], timestamp=TIME + n * 60_000
            )
    with closing(LogDirectory.open(str(path))) as opened:
        log = opened.create_partition(TopicPartition("paid", 0), {"segment.bytes": "1000"})
        log.append(data(7, 0, 2))
        log.append(marker(7, ABORT))
        for _ in range(10):
            log.append(data(-1, 0, 9))
    return path


class Web:
    """An API over a log directory, asked in this process."""

    def __init__(self, path: Path, *, is_writer: bool = False, **options: Any) -> None:
        self.directory = LogDirectories.open([str(path)], lambda each: LogDirectory.open(each, read_only=not is_writer))
        self.api = WebApi(RecordsOf(self.directory, **options), Access(TOKEN, PORT))

    async def answer(self, target: str, headers: dict[str, str] = OWN, method: str = "GET") -> HttpAnswer:
        path, _, text = target.partition("?")
        query: dict[str, list[str]] = {}
        for name, value in parse_qsl(text, keep_blank_values=True):
            query.setdefault(name, []).append(value)
        try:
            return await self.api.handle(HttpRequest(method, path, query, headers, peer="::1"))
        except HttpError as error:
            return error.answer()

    async def ask(self, target: str) -> Any:
        """Return an answer as it is described."""
        answer = await self.answer(target)
        assert isinstance(answer.body, bytes)
        assert answer.status == 200, answer.body
        found = json.loads(answer.body)
        path = target.partition("?")[0]
        route = next(each for each in self.api.routes if each.pattern.match(path))
        jsonschema.validate(found, route.answer)
        return found

    async def refused(self, target: str) -> tuple[int, str]:
        answer = await self.answer(target)
        assert isinstance(answer.body, bytes)
        said = json.loads(answer.body)
        jsonschema.validate(said, ERROR)
        assert said["error"] == said["error"].strip() and "\n" not in said["error"]
        return answer.status, said["error"]

    async def text(self, target: str) -> bytes:
        answer = await self.answer(target)
        assert answer.status == 200, answer.body
        if isinstance(answer.body, bytes):
            return answer.body
        parts: list[bytes] = []

        async def send(data: bytes) -> None:
            parts.append(data)

        await answer.body(send)
        return b"".join(parts)

    async def events(self, target: str) -> list[tuple[str, Any]]:
        text = (await self.text(target)).decode()
        found = [re.fullmatch(r"event: (\w+)\ndata: (.*)", part) for part in text.split("\n\n")[:-1]]
        return [(match[1], json.loads(match[2])) for match in found if match]


@pytest.fixture
def web(logs: Path) -> Iterator[Web]:
    made = Web(logs)
    with closing(made.directory):
        yield made


def offsets(found: Any) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in found["records"]]


# --- questions -------------------------------------------------------------------------------------------------------


async def test_the_overview_has_all_topics(web: Web) -> None:
    found = await web.ask("/api/overview")
    topics = {each["topic"]: each for each in found["topics"]}
    assert [*topics] == ["hostile", "orders", "paid"]
    assert (topics["orders"]["partitions"], topics["orders"]["offsets"]) == (3, 300)
    assert topics["orders"]["latest_ms"] == TIME + 299 * 60_000
    assert topics["hostile"]["size_bytes"] > LARGE and not found["left_out"]


async def test_a_topic_has_partitions_and_settings_with_their_origin(web: Web) -> None:
    found = await web.ask("/api/topics/orders")
    assert [(each["start_offset"], each["end_offset"]) for each in found["partitions"]] == [(0, 100)] * 3
    assert found["partitions"][2]["latest_ms"] == TIME + 299 * 60_000
    settings = {each["name"]: each for each in (await web.ask("/api/topics/paid"))["settings"]}
    assert settings["segment.bytes"] == {"name": "segment.bytes", "value": "1000", "origin": "topic"}
    assert settings["cleanup.policy"]["origin"] == "default"


async def test_the_histogram_counts_each_record_once(web: Web) -> None:
    for place in ("", "&partition=1"):
        found = await web.ask(f"/api/topics/orders/histogram?bars=10{place}")
        assert sum(each["offsets"] for each in found["bars"]) == (100 if place else 300)
        assert len(found["bars"]) == 10 and not found["unseen"]
        size = (await web.ask("/api/topics/orders"))["partitions"][1]["size_bytes"]
        assert sum(each["size_bytes"] for each in found["bars"]) == (
            size if place else pytest.approx(3 * size, rel=0.01)
        )
    part = await web.ask(f"/api/topics/orders/histogram?start_ms={TIME}&stop_ms={TIME + 60 * 60_000}&bars=8")
    assert sum(each["offsets"] for each in part["bars"]) == 60
    assert (await web.ask(f"/api/topics/orders/histogram?start_ms={TIME}&stop_ms={TIME}"))["bars"] == []


async def test_the_view_of_a_partition_reads_no_sealed_segment_for_its_aborts(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed: list[int] = []
    replay = Transactions._replayed

    def noted(self: Transactions, segment: Any, segments: Any) -> Any:
        replayed.append(segment.base_offset)
        return replay(self, segment, segments)

    monkeypatch.setattr(Transactions, "_replayed", noted)
    found = await web.ask("/api/topics/paid/partitions/0")
    sealed = [each["base_offset"] for each in found["segments"][:-1]]
    assert len(found["aborted"]) == 1 and sealed and not {*replayed} & {*sealed}


async def test_a_partition_has_segments_aborts_and_gaps(web: Web, logs: Path) -> None:
    found = await web.ask("/api/topics/paid/partitions/0")
    segments = found["segments"]
    assert len(segments) > 1 and segments[0]["base_offset"] == 0
    assert [each["end_offset"] for each in segments[:-1]] == [each["base_offset"] for each in segments[1:]]
    assert segments[-1]["end_offset"] == found["end_offset"] == 93
    orders = (await web.ask("/api/topics/orders/partitions/1"))["segments"]
    assert (orders[0]["first_ms"], orders[-1]["latest_ms"]) == (TIME + 60_000, TIME + 298 * 60_000)
    assert found["aborted"] == [{"producer_id": 7, "first_offset": 0, "marker_offset": 2}]


@pytest.mark.damages
async def test_what_is_damaged_or_unreadable_is_named_and_not_zero(web: Web, logs: Path) -> None:
    log = logs / "orders-1" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[200] ^= 0xFF
    log.write_bytes(content)
    found = await web.ask("/api/records?topic=orders&partition=1&limit=1000")
    assert found["damaged"] == 1 and len(found["records"]) == 99 and len(found["left_out"]) == 1
    assert (await web.ask("/api/topics/orders/partitions/1"))["damage"]
    events = await web.events("/api/search?topic=orders&text=paid")
    assert events[-1][0] == "end" and events[-1][1]["damaged"] == 1


async def test_records_are_found_by_place_and_by_condition(web: Web) -> None:
    assert offsets(await web.ask("/api/records?topic=orders&partition=1&from=40&limit=3")) == [
        (1, 40),
        (1, 41),
        (1, 42),
    ]
    assert offsets(await web.ask("/api/records?topic=orders&partition=1&to=40&limit=2&newest=true")) == [
        (1, 39),
        (1, 38),
    ]
    assert offsets(await web.ask("/api/records?topic=orders&limit=2&newest=true")) == [(2, 99), (1, 99)]
    assert offsets(await web.ask("/api/records?topic=orders&from=2026-11-18T11:16:40Z&limit=1")) == [(1, 3)]
    for conditions, count in (
        ("key=customer-3", 43),
        (f"key_base64={quote(base64.b64encode(b'customer-3').decode())}", 43),
        ("text=lost", 30),
        ("text=LOST", 0),
        ("text=LOST&ignore_case=true", 30),
        ("regex=id..+29[0-9]", 10),
        ("text=customer-1&in=key", 43),
        ("header=n=17", 1),
        ("header=n", 300),
        ("text=lost&key=customer-0", 5),
        ("where=" + quote("value->>'status' = 'lost'"), 30),
        ("where=" + quote("\"offset\" < 2 OR key_text = 'customer-3'") + "&text=lost", 6),
    ):
        found = await web.ask(f"/api/records?topic=orders&limit=1000&{conditions}")
        assert len(found["records"]) == count, conditions
    (only,) = (await web.ask("/api/records?topic=orders&header=n=17"))["records"]
    assert only["value"] == {"form": "text", "content": '{"id": 17, "status": "paid"}', "bytes": 28, "is_cut": False}
    assert only["timestamp_ms"] == TIME + 17 * 60_000


async def test_a_page_without_conditions_reads_few_batches(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[int, int]] = []
    reader = LogReader

    def noted(log: Any, *, start: int, stop: int, **options: Any) -> Any:
        read.append((start, stop))
        return reader(log, start=start, stop=stop, **options)

    monkeypatch.setattr(find, "LogReader", noted)
    first = await web.ask("/api/records?topic=orders&partition=1&from=40&limit=3")
    assert offsets(first) == [(1, 40), (1, 41), (1, 42)] and {*read} == {(40, 43)}
    read.clear()
    late = await web.ask("/api/records?topic=orders&partition=1&from=2026-11-18T13:00:00Z&limit=1")
    assert late["records"][0]["timestamp_ms"] >= 1_795_006_800_000 and {stop - start for start, stop in read} == {1}
    read.clear()
    gap = await web.ask("/api/records?topic=paid&partition=0&to=4&limit=3&newest=true")  # at 2 is a marker
    assert offsets(gap) == [(0, 3), (0, 1), (0, 0)] and {*read} == {(1, 4), (0, 1)}


async def test_records_of_aborted_transactions_are_left_out_if_wanted(web: Web) -> None:
    for committed, first in (("false", 0), ("true", 3)):
        found = await web.ask(f"/api/records?topic=paid&limit=1&committed={committed}")
        assert offsets(found) == [(0, first)]


async def test_a_search_sends_what_it_finds_and_ends(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    events = await web.events("/api/search?topic=orders&text=lost")
    records = [each for name, some in events if name == "records" for each in some]
    assert len(records) == 30
    assert events[-1] == ("end", {"found": 30, "is_limited": False, "damaged": 0, "left_out": []})
    monkeypatch.setattr("offsetfs.web.record_views.FOUND_MAX", 7)
    monkeypatch.setattr(web_api, "FOUND_MAX", 7)
    events = await web.events("/api/search?topic=orders&text=lost")
    assert events[-1][1]["is_limited"] and sum(len(some) for name, some in events if name == "records") == 7


async def test_a_download_has_all_records_whole(web: Web) -> None:
    lines = (await web.text("/api/download?topic=hostile")).splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [*range(len(HOSTILE))]
    assert len(json.loads(lines[6])["value"]) == LARGE
    value = await web.answer("/api/topics/hostile/partitions/0/records/6/value")
    assert value.body == b"x" * LARGE and value.headers["content-disposition"].startswith("attachment")
    assert (await web.answer("/api/topics/hostile/partitions/0/records/4/value")).body == b""


SQL_COLUMNS = [
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "key_text",
    "value_text",
    "value_json",
]


async def test_a_download_has_the_columns_of_sql(web: Web) -> None:
    wanted = "topic=orders&from=2026-11-18T11:16:40Z&text=lost"
    text = (await web.text(f"/api/download?{wanted}&format=csv")).decode()
    rows = list(csv.DictReader(text.splitlines()))
    assert [*rows[0]] == SQL_COLUMNS
    found = (await web.ask(f"/api/records?{wanted}&limit=1000"))["records"]
    assert [(each["partition"], each["offset"]) for each in rows] == [
        (str(each["partition"]), str(each["offset"]))
        for each in sorted(found, key=lambda each: (each["partition"], each["offset"]))
    ]
    assert json.loads(rows[0]["value_json"])["status"] == "lost" and rows[0]["value"] == rows[0]["value_text"]
    table = pq.read_table(pa.BufferReader(await web.text(f"/api/download?{wanted}&format=parquet")))
    assert table.num_rows == len(found) and table.column_names == [*rows[0]]
    assert table["key"].to_pylist() == [each["key"].encode() for each in rows]
    hostile = pq.read_table(pa.BufferReader(await web.text("/api/download?topic=hostile&format=parquet")))
    assert hostile["value"][6].as_py() == b"x" * LARGE and hostile["value"][2].as_py() == b"\xff\xfe\x00\x80"
    assert (await web.text("/api/download?topic=orders&text=nowhere&format=csv")).count(b"\n") == 1


async def test_a_wrong_condition_is_one_line(web: Web) -> None:
    for question in ("records", "search", "download"):
        status, said = await web.refused(f"/api/{question}?topic=orders&where=nothing+%3D+1")
        assert status == 400 and said.startswith("where: ") and "nothing" in said, said
    late = quote("CAST(value_text AS INT) > 1")
    status, said = await web.refused(f"/api/records?topic=orders&where={late}")
    assert status == 400 and said.startswith("where: ")
    assert (await web.events(f"/api/search?topic=orders&where={late}"))[-1] == ("failure", {"error": said})
    assert (await web.refused("/api/download?topic=orders&format=xml"))[0] == 400


async def test_a_condition_that_nobody_waits_for_ends(web: Web) -> None:
    endless = quote("(SELECT count(*) FROM range(100000000000) a) > 0")
    with trio.fail_after(60):
        for question in ("records", "search"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(web.text, f"/api/{question}?topic=orders&where={endless}")
                with trio.move_on_after(1):
                    await trio.sleep_forever()
                nursery.cancel_scope.cancel()
        while web.api._questions.borrowed_tokens or web.api._stream_threads.borrowed_tokens:
            await trio.sleep(PAUSE_S)


async def test_the_command_finds_the_same(web: Web, logs: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for wanted in (
        "topic=orders&text=lost&key=customer-0",
        "topic=orders&partition=1&from=3&to=7",
        "topic=orders&regex=id..+29%5B0-9%5D&in=any&ignore_case=true&header=n&committed=true",
        "topic=orders&where=" + quote("value->>'status' = 'lost'"),
        "topic=hostile&regex=-*script&from=0&partition=0",
    ):
        command = (await web.ask(f"/api/command?{wanted}"))["command"]
        words = shlex.split(command)
        assert words[:3] == ["offsetfs", "find", str(logs)]
        capfdbinary.readouterr()
        run(words[1:])
        lines = (await web.text(f"/api/download?{wanted}")).splitlines()
        assert capfdbinary.readouterr().out.splitlines() == lines and lines, command
    command = (await web.ask("/api/command?topic=orders&text=" + quote("it's\n\x15rm -rf\\")))["command"]
    assert command.isprintable()
    said = subprocess.run(["bash", "-c", f"printf %s {command}"], capture_output=True, check=True).stdout
    assert said.endswith(b"it's\n\x15rm -rf\\")


async def test_hostile_records_are_bounded_text_or_base64(web: Web) -> None:
    found = (await web.ask("/api/records?topic=hostile"))["records"]
    contents = [each["value"] and each["value"]["content"] for each in found]
    assert contents[:3] == [SCRIPT, BIDI, base64.b64encode(b"\xff\xfe\x00\x80").decode()]
    assert contents[4] is None and found[4]["key"] is None
    assert found[0]["headers"][0]["name"]["content"] == "<b>name</b>"
    assert found[6]["value"]["is_cut"] and found[6]["value"]["bytes"] == LARGE and len(contents[6]) == 4096
    whole = await web.ask("/api/topics/hostile/partitions/0/records/6")
    assert len(whole["value"]["content"]) == 1 << 20 and whole["value"]["is_cut"]
    raw = await web.ask("/api/topics/hostile/partitions/0/records/2/raw")
    assert [base64.b64decode(raw[part]["content"]) for part in ("key", "value")] == [b"\xc3\x28", b"\xff\xfe\x00\x80"]


async def test_values_are_decoded_by_their_schemas(tmp_path: Path) -> None:
    write_orders(tmp_path)
    web = Web(tmp_path)
    with closing(web.directory):
        found = (await web.ask("/api/records?topic=orders"))["records"]
        assert found[0]["value"] == {
            "form": "json",
            "content": {"id": 1, "photo": "text"},
            "bytes": None,
            "is_cut": False,
        }
        assert found[0]["schema"]["subject"] == "orders-value"
        assert found[3]["value"]["content"] == "plain" and found[3]["error"] == "the record names no schema"
        one = await web.ask("/api/topics/orders/partitions/0/records/0")
        assert one["value"]["content"] == {"id": 1, "photo": "text"}


async def test_a_registry_is_asked_for_schemas_of_values_and_of_sql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(background_registry, "WAIT_S", 60)
    with serving() as registry:
        registry.add(1, ORDER, subject="orders-value", version=1)
        logs = tmp_path / "logs"
        logs.mkdir()
        write(logs, order(2**60))
        web = Web(logs, registry_word=registry.url)
        with closing(web.directory):
            (found,) = (await web.ask("/api/records?topic=orders"))["records"]
            assert found["value"]["content"] == {"id": str(2**60), "photo": None}
            assert registry.url in (await web.ask("/api/command?topic=orders"))["command"]
            _, rows = await posted(web, "SELECT id FROM decoded.orders")
            assert rows.get("rows") == [[str(2**60)]], rows
        assert record_views._registry_words("http://user:secret@127.0.0.1:1/") == []


async def test_groups_and_findings_are_reports(web: Web, logs: Path) -> None:
    assert (await web.ask("/api/groups"))["tables"]["groups"] == []
    assert await web.refused("/api/groups/no%2Fone") == (
        404,
        "there is no group no/one: the list of groups has their names",
    )
    found = await web.ask("/api/findings")
    assert found["facts"]["partitions"] == 5 and {each["key"] for each in found["labels"]} == {*found["facts"]}
    assert {*found["columns"]} == {*found["tables"]}


async def test_records_of_another_process_are_seen(web: Web, logs: Path) -> None:
    await web.ask("/api/topics/orders/partitions/0")
    with offsetfs.open(logs, "a") as directory:
        directory.partition("orders-0").append(b"new", timestamp=TIME)
    assert offsets(await web.ask("/api/records?topic=orders&partition=0&from=100")) == [(0, 100)]
    assert (await web.ask("/api/topics/orders/partitions/0"))["end_offset"] == 101


async def test_the_description_names_every_question(web: Web) -> None:
    described = await web.ask("/api/openapi.json")
    assert {*described["paths"]} == {route.path for route in web.api.routes}
    for path, methods in described["paths"].items():
        (method,) = methods.values()
        named = {each["name"] for each in method["parameters"] if each["in"] == "path"}
        assert named == {*re.findall(r"{(\w+)}", path)}, path


NO_SUCH_NAME = "topic 'orders/..' holds a character other than a-z, A-Z, 0-9, '.', '_' and '-'"
WRONG = {
    "/api/nothing": (404, "there is no such question: /api/openapi.json lists them"),
    "/api/topics/no": (404, "there is no topic no: the overview lists the topics"),
    "/api/topics/..": (404, "there is no topic ..: the overview lists the topics"),
    "/api/topics/orders%2F../partitions/0": (404, NO_SUCH_NAME),
    "/api/topics/orders%2F../partitions/0/records/1": (404, NO_SUCH_NAME),
    "/api/topics/orders%2F..": (404, "there is no topic orders/..: the overview lists the topics"),
    "/api/topics/orders/partitions/9": (
        404, "there is no partition orders-9: the page of its topic lists the partitions"),
    "/api/topics/orders/partitions/x": (400, "partition is not a whole number from 0 to 2147483647"),
    "/api/topics/orders/partitions/99999999999999999999": (400, "partition is not a whole number from 0 to 2147483647"),
    "/api/topics/orders/partitions/0/records/100": (
        404, "orders-0 has no record at offset 100: it is a gap, a marker, or beyond the end"),
    "/api/topics/paid/partitions/0/records/2": (
        404, "paid-0 has no record at offset 2: it is a gap, a marker, or beyond the end"),
    "/api/records?topic=orders&limit=0": (400, "limit is not a whole number from 1 to 1000"),
    "/api/records?topic=orders&limit=1&limit=2": (400, "limit is given 2 times: give it once"),
    "/api/records?topic=orders&newest=1": (400, "newest is neither true nor false"),
    "/api/records?topic=orders&in=x": (400, "in is none of value, key, headers, any"),
    "/api/records?topic=orders&regex=(": (400, "regex: missing ): ("),
    "/api/records?topic=orders&key_base64=%25": (400, "key_base64 %: not base64: Only base64 data is allowed"),
    "/api/records?topic=orders&from=x": (400, "from x: give an offset (42) or a time (2026-11-20T18:40, -1h)"),
    "/api/records?topic=orders&from=3": (
        400, "from 3: an offset belongs to one partition, such as orders-0; give a time for several"),
    "/api/records?partition=1": (400, "partition belongs to one topic: give topic once"),
    "/api/search?topic=no": (404, "there is no topic no: the overview lists the topics"),
    "/api/overview?x=1": (400, "there is no parameter 'x': it takes none"),
    "/static/../api.py": (404, "there is no such file"),
}  # fmt: skip


async def test_a_wrong_question_is_one_line_with_the_remedy(web: Web) -> None:
    for target, expected in WRONG.items():
        assert await web.refused(target) == expected, target
    for method, target in (("POST", "/api/overview"), ("DELETE", "/")):
        answer = await web.answer(target, method=method)
        assert answer.status == 405 and "GET" in answer.headers["allow"]


# --- access ----------------------------------------------------------------------------------------------------------


@pytest.mark.security("Without its token, the page answers nothing about the logs.")
async def test_each_question_and_page_needs_the_token(web: Web) -> None:
    wrong = [
        {},
        {"authorization": "Bearer x"},
        {"authorization": TOKEN},
        {"cookie": f"offsetfs-{PORT}=x"},
        {"cookie": f"x={TOKEN}"},
    ]
    for target in (
        "/",
        "/topics/orders",
        "/static/app.js",
        "/?token=x",
        *(f"{route.path}?token={TOKEN}" for route in web.api.routes),
    ):
        for headers in wrong:
            answer = await web.answer(target, {"host": HOST, **headers})
            assert answer.status == 401 and b"token" in bytes(answer.body), (target, headers)  # type: ignore[arg-type]
    for headers in ({"authorization": f"bearer {TOKEN}"}, {"cookie": f"a=b; offsetfs-{PORT}={TOKEN}"}):
        assert (await web.answer("/api/overview", {"host": HOST, **headers})).status == 200


@pytest.mark.security("The token moves from the address into a cookie that no script reads and no other site sends.")
async def test_the_token_moves_into_a_cookie(web: Web) -> None:
    answer = await web.answer(f"/records?topic=orders&token={TOKEN}&text=a%26b", {"host": HOST})
    assert (answer.status, answer.headers["location"]) == (303, "/records?topic=orders&text=a%26b")
    assert answer.headers["set-cookie"] == f"offsetfs-{PORT}={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
    away = await web.answer(f"//evil.example/x?token={TOKEN}", {"host": HOST})
    assert away.headers["location"] == "/evil.example/x"
    assert HEADERS["referrer-policy"] == "no-referrer"


@pytest.mark.security("The page refuses a request that names another host, or that comes from another site.")
async def test_other_hosts_and_sites_are_refused(web: Web) -> None:
    for host, status in (
        (HOST, 200), ("localhost:1", 200), ("[::1]:9380", 200), ("10.0.0.1", 200),
        ("evil.example", 421), ("127.0.0.1.evil.example:9380", 421), ("", 421), ("localhost.evil.example", 421),
        ("[x]", 421),
    ):  # fmt: skip
        assert (await web.answer("/api/overview", {**OWN, "host": host})).status == status, host
    for origin, status in (
        (f"http://{HOST}", 200),
        (f"https://{HOST}", 403),
        ("null", 403),
        ("http://evil.example", 403),
    ):
        assert (await web.answer("/api/overview", {**OWN, "origin": origin})).status == status, origin
    named = Access(TOKEN, PORT, names=["Logs.example.com"], is_tls=True)
    request = HttpRequest("GET", "/", {}, {**OWN, "host": "logs.example.com", "origin": "https://logs.example.com"})
    assert named.check(request) is None


@pytest.mark.security("No request to the page writes into the log directory.")
async def test_no_question_changes_the_directory(web: Web, logs: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(each): (each.stat().st_size, each.stat().st_mtime_ns) for each in logs.rglob("*")}

    before = state()
    await posted(web, "CREATE TABLE x AS SELECT * FROM orders")
    for route in web.api.routes:
        target = route.path.format(topic="orders", partition=0, offset=0, group="g")
        answer = await web.answer(target)
        if not isinstance(answer.body, bytes):
            with trio.move_on_after(0.2 if route.path.endswith("/follow") else 30):  # that has no end
                await web.text(target)
    assert state() == before


@pytest.mark.security("The page loads nothing from another host, and no site can show it in a frame.")
async def test_the_page_is_of_this_server_alone(web: Web) -> None:
    policy = dict(part.strip().partition(" ")[::2] for part in HEADERS["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert {*policy.values()} == {"'none'", "'self'"}
    assert HEADERS["x-content-type-options"] == "nosniff"
    for name, content in web.api._files.items():
        text = content.decode()
        assert not re.search(
            r"https?://(?!www\.w3\.org/2000/svg)|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b", text
        ), name
        for module in re.findall(r"from \"([^\"]+)\"", text):
            assert module.removeprefix("/static/") in web.api._files, (name, module)
        answer = await web.answer(f"/static/{name}" if name != "index.html" else "/topics/orders")
        assert answer.status == 200 and answer.body == content


@pytest.mark.security("The page neither shows a masked field nor searches it, and has no raw values of its topic.")
async def test_masked_fields_are_neither_shown_nor_searched(tmp_path: Path) -> None:
    write_orders(tmp_path)
    web = Web(tmp_path, masks=["orders:photo"])
    with closing(web.directory):
        found = (await web.ask("/api/records?topic=orders"))["records"]
        assert [each["value"] and each["value"]["content"] for each in found[:3]] == [
            {"id": 1, "photo": None, "at": "1970-01-01T00:00:00.000Z"},
            {"id": 2, "photo": None, "at": "2026-11-21T13:05:00.123Z"},
            None,
        ]
        texts = [await web.text(f"/api/{each}?topic=orders") for each in ("search", "download")]
        texts.append(
            json.dumps([await web.ask(f"/api/topics/orders/partitions/0/records/{n}") for n in range(6)]).encode()
        )
        for text in (*texts, json.dumps(found).encode()):
            assert (
                b'"text"' not in re.sub(rb'"form": ?"text"', b"", text) and b"plain" not in text and b"/w==" not in text
            )
        for target in ("raw", "value"):
            assert (await web.refused(f"/api/topics/orders/partitions/0/records/0/{target}"))[0] == 403
        for condition in ("text=x", "regex=x", "text=x&in=any"):
            for place in ("topic=orders&", ""):
                assert (await web.refused(f"/api/records?{place}{condition}"))[0] == 403, condition
        assert (await web.ask("/api/records?topic=orders&text=k&in=key"))["records"]
    with pytest.raises(ValueError, match="no such topic"):
        Web(tmp_path, masks=["other:x"])


# --- connections -----------------------------------------------------------------------------------------------------


Connect = Callable[[], Awaitable[trio.SocketStream]]


@pytest.fixture
async def connect(web: Web, nursery: trio.Nursery) -> AsyncIterator[Connect]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    nursery.start_soon(serve_http, web.api.handle, listener, None, HEADERS)
    streams: list[trio.SocketStream] = []

    async def made() -> trio.SocketStream:
        streams.append(await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1]))
        return streams[-1]

    yield made
    for stream in streams:
        await stream.aclose()


def get(target: str, *more: str) -> bytes:
    return "\r\n".join(
        [f"GET {target} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {TOKEN}", *more, "", ""]
    ).encode()


async def received(stream: trio.SocketStream) -> bytes:
    """Return all that comes until the end of the connection."""
    with trio.fail_after(30):
        return b"".join([part async for part in stream])


async def head_of(stream: trio.SocketStream) -> h11.Response:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", HOST)]))
    with trio.fail_after(30):
        while (event := client.next_event()) is h11.NEED_DATA:
            client.receive_data(await stream.receive_some(1 << 16))
    assert isinstance(event, h11.Response)
    return event


async def test_a_connection_answers_one_request_after_the_other(connect: Connect) -> None:
    stream = await connect()
    await stream.send_all(get("/api/overview") + get("/api/topics/no") + get("/static/style.css", "Connection: close"))
    text = await received(stream)
    assert re.findall(rb"HTTP/1\.1 (\d+)", text) == [b"200", b"404", b"200"]
    assert text.count(b"content-security-policy: default-src 'none'") == 3


async def test_what_is_no_request_is_answered_and_ends_its_connection(connect: Connect) -> None:
    large = get("/", f"X: {'x' * 4 * http_server.HEADER_BYTES_MAX}")
    post = f"POST /api/overview HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 99999999\r\n\r\n".encode() + b"x" * 100_000
    many = get("/api/overview?" + "&".join("a=1" for _ in range(http_server.PARAMETERS_MAX + 1)))
    for sent, status in ((b"\x16\x03\x01 hello\r\n\r\n", 400), (large, 431), (post, 413), (many, 400)):
        stream = await connect()
        await stream.send_all(sent)
        assert (await head_of(stream)).status_code == status


@pytest.mark.security(
    "Requests, answers and searches of the page are bounded; a client that does not read keeps no other waiting."
)
async def test_a_client_that_does_not_read_keeps_no_other_waiting(
    connect: Connect, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = [await connect() for _ in range(web_api.STREAMS_OF_CLIENT_MAX)]
    for stream in streams:
        await stream.send_all(get("/api/download?topic=hostile"))
        assert (await head_of(stream)).status_code == 200
    other = await connect()
    await other.send_all(get("/api/download?topic=orders"))
    assert (await head_of(other)).status_code == 429
    other = await connect()
    await other.send_all(get("/api/overview", "Connection: close"))
    assert b"HTTP/1.1 200" in await received(other)
    for stream in streams:
        await stream.aclose()
    with trio.fail_after(30):
        while web.api._streams.total():
            await trio.sleep(PAUSE_S)
    other = await connect()
    await other.send_all(get("/api/download?topic=orders", "Connection: close"))
    assert (await received(other)).count(b'"offset"') == 300


async def test_an_unexpected_error_is_500_and_the_next_request_is_answered(
    connect: Connect, web: Web, monkeypatch: pytest.MonkeyPatch, expect_log: Callable[[str], None]
) -> None:
    expect_log("GET /api/overview failed")

    def broken(directory: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("offsetfs.web.tree_views.overview", broken)
    stream = await connect()
    await stream.send_all(get("/api/overview") + get("/api/topics/orders", "Connection: close"))
    text = await received(stream)
    assert re.findall(rb"HTTP/1\.1 (\d+)", text) == [b"500", b"200"] and b"secret" not in text


async def test_a_question_that_takes_too_long_is_503(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_api, "QUESTION_S", 0.0)
    status, said = await web.refused("/api/overview")
    assert status == 503 and "ask for less" in said


# --- streams: followers, and searches that nobody waits for -----------------------------------------------------------


class Follower:
    """A browser that follows a partition."""

    def __init__(self, web: Web, target: str) -> None:
        self._web, self._target = web, target
        self.text = b""
        self.is_slow = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        answer = await self._web.answer(self._target)
        assert answer.status == 200 and not isinstance(answer.body, bytes)

        async def send(data: bytes) -> None:
            self.text += data
            if data.startswith(b": following"):
                task_status.started()
            elif self.is_slow:
                await trio.sleep_forever()

        await answer.body(send)

    def events(self, name: str) -> list[Any]:
        found = re.findall(rf"^event: {name}\ndata: (.*)$", self.text.decode(), re.MULTILINE)
        return [json.loads(data) for data in found]

    @property
    def values(self) -> list[str]:
        return [record["value"]["content"] for records in self.events("records") for record in records]

    async def until(self, *values: str) -> None:
        with trio.fail_after(30):
            while self.values != [*values]:
                await trio.sleep(PAUSE_S)


FOLLOW = "/api/topics/orders/partitions/0/follow"


@pytest.mark.parametrize("is_own", [False, True], ids=["beside the writer", "in the writer"])
async def test_followers_of_a_partition_share_one_reader(
    logs: Path, is_own: bool, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = Web(logs, is_writer=is_own)
    with closing(web.directory):
        reads: list[int] = []
        chunk_at = following._Tail._chunk_at

        def counted(tail: Any, start: int, end: int) -> Any:
            reads.append(start)
            return chunk_at(tail, start, end)

        monkeypatch.setattr(following._Tail, "_chunk_at", counted)
        followers = [Follower(web, FOLLOW) for _ in range(50)]
        followers[0].is_slow = True
        for follower in followers:
            await nursery.start(follower.run)
        assert web.api._following.followers == 50
        for n in range(3):
            value = b"new %d" % n
            if is_own:
                web.directory.log(TopicPartition("orders", 0)).append(sealed_records([(None, value, (), TIME)]))
            else:
                with offsetfs.open(logs, "a") as directory:
                    directory.partition("orders-0").append(value, timestamp=TIME)
            for follower in followers[1:]:
                await follower.until(*(f"new {number}" for number in range(n + 1)))
        assert reads == [100, 101, 102]
        from_start = Follower(web, f"{FOLLOW}?from=98")
        await nursery.start(from_start.run)
        with trio.fail_after(30):
            while len(from_start.values) < 5:
                await trio.sleep(PAUSE_S)
        assert from_start.values[2:] == ["new 0", "new 1", "new 2"]
        monkeypatch.setattr(web_api, "FOLLOWERS_MAX", 51)
        assert (await web.refused(FOLLOW))[0] == 429
        nursery.cancel_scope.cancel()


async def test_a_follower_learns_that_its_partition_is_gone(web: Web, logs: Path, nursery: trio.Nursery) -> None:
    follower = Follower(web, FOLLOW)
    await nursery.start(follower.run)
    shutil.rmtree(logs / "orders-0")
    with trio.fail_after(30):
        while not follower.events("failure"):
            await trio.sleep(PAUSE_S)
    assert "orders-0" in follower.events("failure")[0]["error"]
    assert (await web.refused(FOLLOW))[0] == 404


async def test_a_search_ends_its_thread_when_nobody_waits(
    web: Web, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(search: Search, lines_of: object, limit: object = None) -> Iterator[list[bytes]]:
        while True:
            search.on_progress(0, 1)
            yield []

    monkeypatch.setattr(Search, "lines", endless)
    for target in ("search?topic=orders&text=x", "download?topic=orders", "records?topic=orders&text=x"):
        with trio.move_on_after(0.3):
            await web.text(f"/api/{target}")
        with trio.fail_after(30):
            await web.api.threads_ended()


async def test_pages_that_search_keep_no_other_question_waiting(
    web: Web, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def waiting(*_: object, **__: object) -> object:
        released.wait(60)
        raise SearchEnded

    monkeypatch.setattr(web_api, "page_of", waiting)
    for _ in range(20):
        nursery.start_soon(web.answer, "/api/records?topic=orders&text=x")
    try:
        with trio.fail_after(30):
            while web.api._pages.available_tokens:
                await trio.sleep(PAUSE_S)
            await web.ask("/api/overview")
    finally:
        nursery.cancel_scope.cancel()
        released.set()


async def test_no_number_is_rounded_by_a_browser(web: Web, logs: Path) -> None:
    assert json.loads(exact_json({"a": [2**53 - 1, 2**53, -(2**63), True, 1.5, "9" * 20]})) == {
        "a": [2**53 - 1, "9007199254740992", "-9223372036854775808", True, 1.5, "9" * 20]
    }
    with offsetfs.open(logs, "a") as directory:
        directory.partition("orders-0").append(b"late", timestamp=2**60)
    (late,) = (await web.ask("/api/records?topic=orders&partition=0&from=100"))["records"]
    assert late["timestamp_ms"] == str(2**60)
    assert (await web.ask("/api/topics/orders/partitions/0"))["latest_ms"] == str(2**60)
    assert (await web.refused(f"/api/topics/orders/partitions/0/records/{2**63 - 1}"))[0] == 404


# --- SQL and schemas -------------------------------------------------------------------------------------------------


async def posted(web: Web, statement: object, content_type: str = "application/json") -> tuple[int, Any]:
    body = json.dumps({"statement": statement}).encode()
    request = HttpRequest("POST", "/api/sql", {}, {**OWN, "content-type": content_type}, body)
    try:
        answer = await web.api.handle(request)
    except HttpError as error:
        answer = error.answer()
    assert isinstance(answer.body, bytes)
    found = json.loads(answer.body)
    route = next(each for each in web.api.routes if each.path == "/api/sql")
    jsonschema.validate(found, route.answer if answer.status == 200 else ERROR)
    return answer.status, found


async def test_a_statement_has_rows_that_json_can_hold(web: Web) -> None:
    status, found = await posted(web, 'SELECT "partition", count(*) AS records FROM orders GROUP BY 1 ORDER BY 1;')
    assert (status, found["columns"], found["rows"]) == (200, ["partition", "records"], [[0, 100], [1, 100], [2, 100]])
    values = "SELECT 9007199254740993, 'nan'::DOUBLE, '\\x00\\xFF'::BLOB, NULL, true, repeat('x', 5000), [1, 2], 1.5"
    _, found = await posted(web, values)
    assert found["rows"] == [
        ["9007199254740993", "nan", "\\x00\\xff".replace("\\x00", "\0"), None, True, "x" * 1000 + "…", "[1, 2]", "1.5"]
    ]
    _, found = await posted(web, "SELECT * FROM range(5000)")
    assert found["is_cut"] and len(found["rows"]) == 1000


async def test_a_wrong_statement_is_one_line_and_no_file_is_reached(web: Web, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    for statement, status in (
        ("SELEC 1", 400), ("SELECT * FROM nothing", 400), ("SELECT 1; SELECT 2", 400), ("", 400), (7, 400),
        (f"SELECT * FROM '{secret}'", 400), (f"SELECT * FROM read_text('{secret}')", 400),
        (f"COPY orders TO '{tmp_path}/out.csv'", 400), (f"ATTACH '{tmp_path}/x.db'", 400), ("INSTALL httpfs", 400),
        ("SELECT $x", 400), ("SET enable_external_access = true", 400),
    ):  # fmt: skip
        found = await posted(web, statement)
        assert found[0] == status and "\n" not in found[1]["error"], statement
    assert sorted(each.name for each in tmp_path.iterdir()) == ["logs", "secret.csv"]
    assert (await posted(web, "SELECT 1", "text/plain"))[0] == 415


async def test_a_statement_that_takes_too_long_is_interrupted(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_api, "QUESTION_S", 1.0)
    status, _ = await posted(web, "SELECT count(*) FROM range(10000000000) a, range(1000) b")
    assert status == 503
    with trio.fail_after(60):
        while web.api._statements.borrowed_tokens:
            await trio.sleep(PAUSE_S)


async def test_schemas_are_listed_with_their_texts(tmp_path: Path, web: Web) -> None:
    assert (await web.ask("/api/schemas"))["versions"] == []
    path = tmp_path / "schemas"
    path.mkdir()
    write_orders(path)
    other = Web(path, masks=["orders:photo"])
    with closing(other.directory):
        versions = (await other.ask("/api/schemas"))["versions"]
        assert [(each["subject"], each["version"], each["id"]) for each in versions] == [
            ("orders-value", 1, 1),
            ("orders-value", 2, 2),
        ]
        assert json.loads((await other.ask("/api/schema?subject=orders-value&version=1"))["text"])["name"] == "Order"
        assert (await other.refused("/api/schema?subject=x&version=1"))[0] == 404
        assert await other.refused("/api/schema?subject=x") == (400, "version is missing")
        _, found = await posted(other, "SELECT * FROM decoded.orders")
        assert "text" not in str(found["rows"]) and "plain" not in str(found["rows"])
