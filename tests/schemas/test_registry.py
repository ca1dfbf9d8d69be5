"""Schemas of a registry: fetched on demand, bounded, cached; and failures, of which none ends a query."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.avro_values import FIRST, avro, confluent, order
from fixtures.logs.schema_records import reference, schema_record, write_log, write_schemas
from fixtures.security import certificates
from fixtures.stores.schema_registry import HANG, Registry, http_answer, serving

import offsetfs
from offsetfs.cli import run
from offsetfs.schemas import registry_client, registry_schemas
from offsetfs.schemas.registry_schemas import ASKED_AGAIN_MAX, UNKNOWN_S, RegistrySchemas
from offsetfs.schemas.registry_settings import RegistrySettings, registry_settings
from offsetfs.storage.errors import InvalidConfig

pytestmark = pytest.mark.unit

GUID = "89791762-2336-4186-9674-299b90a802e2"
LINE = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "sku", "type": "string"}]}
QUERY = "SELECT id, _error FROM decoded.orders ORDER BY _offset"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "offsetfs" / "schemas"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving() as made:
        yield made


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Records of a schema in the directory, of one in the registry, and of one that nobody has."""
    path = tmp_path / "logs"
    path.mkdir()
    write_schemas(path, [schema_record("orders-value", 1, 1, json.dumps(FIRST))])
    write_log(path, "orders-0", [(b"k", confluent(number, FIRST, order(number)), ()) for number in (1, 9, 8, 9, 1)])
    return path


def rows(path: Path, registry: str, capsys: pytest.CaptureFixture[str], query: str = QUERY) -> list[Any]:
    code = run(["sql", str(path), query, "--format", "json", "--schema-registry", registry])
    out, err = capsys.readouterr()
    assert code == 0, err
    return [tuple(row.values()) for row in json.loads(out)]


def test_a_schema_that_the_directory_lacks_is_asked_for_once(
    logs: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(9, FIRST)
    registry.add(1, '"a schema of the same id that is not asked for"')
    assert rows(logs, registry.url, capsys) == [
        (1, None), (9, None), (None, "schema 8 is unknown"), (9, None), (1, None)
    ]  # fmt: skip
    asked = [path for path in registry.requests if "ids" in path]
    assert sorted(asked) == ["/schemas/ids/8", "/schemas/ids/9"]


def test_schemas_are_cached_on_disk_for_their_owner(
    logs: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving() as registry:
        registry.add(9, FIRST)
        first = rows(logs, registry.url, capsys)
    (folder,) = cache.iterdir()
    (file,) = folder.iterdir()
    assert (file.name, file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == ("ids-9.json", 0o600, 0o700)
    again = rows(logs, registry.url, capsys)  # it is gone
    assert again[:2] == first[:2]
    assert again[2][1].startswith(f"schema 8 is unknown: the registry {registry.url} cannot be reached: ")
    file.write_text('{"schema": 5}')
    assert rows(logs, registry.url, capsys)[1][0] is None


def test_the_reader_and_its_references_come_from_the_registry(
    tmp_path: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {"name": "lines", "type": {"type": "array", "items": "shop.Line"}}
    basket: dict[str, Any] = {"type": "record", "name": "Basket", "namespace": "shop", "fields": [lines]}
    registry.add(5, LINE, subject="line", version=1)
    registry.add(6, basket, subject="baskets-value", version=3, references=[reference("shop.Line", "line", 1)])
    registry.add(7, '"string"', subject="baskets-key", version=1)
    whole = {**basket, "fields": [{**lines, "type": {"type": "array", "items": LINE}}]}
    value = confluent(6, whole, {"lines": [{"sku": "a"}]})
    (tmp_path / "logs").mkdir()
    write_log(tmp_path / "logs", "baskets-0", [(confluent(7, "string", "k"), value, ())])
    query = "SELECT _key, lines[1].sku, _error FROM decoded.baskets"
    assert rows(tmp_path / "logs", registry.url, capsys, query) == [("k", "a", None)]
    del registry.has["/subjects/line/versions/1"]
    assert run(["sql", str(tmp_path / "logs"), query, "--schema-registry", registry.url]) == 1
    assert "reference shop.Line=line/1 of baskets-value/3 leads to no schema" in capsys.readouterr().err


def test_a_guid_in_a_header_is_asked_for(logs: Path, registry: Registry, capsys: pytest.CaptureFixture[str]) -> None:
    registry.add(9, FIRST, guid=GUID)
    header = ("__value_schema_id", b"\1" + uuid.UUID(GUID).bytes)
    write_log(logs, "orders-0", [(None, avro(FIRST, order(77)), (header,))])
    assert rows(logs, registry.url, capsys)[-1] == (77, None)


def test_the_library_takes_a_registry(logs: Path, registry: Registry) -> None:
    registry.add(9, FIRST)
    with offsetfs.open(logs) as data:
        orders = data.partition("orders-0")
        table = orders.arrow(decode=True, schema_registry=registry.url).read_all()
        assert [value and value["id"] for value in table.column("value").to_pylist()] == [1, 9, None, 9, 1]
        assert len(list(orders.read(decode=True, schema_registry=registry.url))) == 5
        with pytest.raises(InvalidConfig, match="http"):
            orders.arrow(decode=True, schema_registry="ftp://x")


def test_a_follower_of_the_library_sees_a_schema_that_is_registered_later(
    logs: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("UNKNOWN_S", 0), ("ASKED_AGAIN_MAX", 1 << 62)):
        monkeypatch.setattr(registry_schemas, name, value)
    with offsetfs.open(logs) as data:
        orders = data.partition("orders-0")
        found = orders.follow(start=1, timeout=60, decode=True, schema_registry=registry.url)
        first = next(found)
        assert isinstance(first, offsetfs.DecodedRecord) and first.decoded_error == "schema 9 is unknown"
        registry.add(9, FIRST)
        rest = [next(found) for _ in range(3)]  # of the same batch of records
        write_log(logs, "orders-0", [(None, rest[1].value, ())])
        last = next(found)
        assert isinstance(last, offsetfs.DecodedRecord) and last.decoded is not None


def test_the_command_prints_schemas_of_the_registry(
    logs: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(9, '"int"', subject="far-value", version=2, guid=GUID)
    words = ["schemas", str(logs), "--schema-registry", registry.url]
    for name in ("9", "far-value", "far-value/2", "far-value/latest", GUID):
        assert run([*words, name]) == 0
        assert capsys.readouterr().out == '"int"\n'
    assert run([*words, "--json"]) == 0
    usage = {row["name"]: row["schema"] for row in json.loads(capsys.readouterr().out)["usage"] if row["name"]}
    assert usage == {"1": "orders-value/1", "9": "schemas/ids/9/1", "8": None}
    assert run([*words, "order-value"]) == 1
    assert capsys.readouterr().err == "offsetfs schemas: there is no schema order-value; did you mean orders-value?\n"
    registry.raw = lambda path: [http_answer(b"", "500 Oops")]
    assert run([*words, "77"]) == 32
    assert capsys.readouterr().err == f"offsetfs schemas: the registry {registry.url} answers 500\n"
    assert run([*words, "--usage", "all"]) == 0
    assert capsys.readouterr().err == f"offsetfs schemas: the registry {registry.url} answers 500\n"


# --- identity --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("basic.auth.credentials.source=USER_INFO\nbasic.auth.user.info=anna:s3cret:x", "Basic YW5uYTpzM2NyZXQ6eA=="),
        ("schema.registry.basic.auth.user.info=anna:s3cret:x", "Basic YW5uYTpzM2NyZXQ6eA=="),
        ("bearer.auth.token=s3cret", "Bearer s3cret"),
    ],
)
def test_credentials_of_a_file_are_sent_and_never_shown(
    lines: str, expected: str, logs: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(9, FIRST)
    registry.authorization = expected
    file = logs.parent / "registry.properties"
    file.write_text(f"schema.registry.url={registry.url}\n{lines}\n")
    assert rows(logs, str(file), capsys)[1] == (9, None)
    assert "s3cret" not in repr(registry_settings(str(file)))
    registry.authorization = "Basic bm8="
    registry.has.clear()
    write_log(logs, "orders-0", [(b"k", confluent(6, FIRST, order(6)), ())])
    reason = rows(logs, str(file), capsys)[-1][1]
    assert reason.endswith("answers 401; check basic.auth.user.info or bearer.auth.token") and "s3cret" not in reason


def test_user_and_password_of_the_url_are_sent_and_never_shown(
    logs: Path, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.authorization = "Basic YW5uYTpzM2M6cmV0"
    registry.add(9, FIRST)
    url = registry.url.replace("//", "//anna:s3c%3Aret@")
    assert rows(logs, url, capsys)[1] == (9, None)
    registry.raw = lambda path: [http_answer(b"", "500 Oops")]
    assert rows(logs, url, capsys)[2][1] == f"schema 8 is unknown: the registry {registry.url} answers 500"


def test_a_registry_with_tls_is_verified(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server().chain, certificates.server().key)
    with serving(context) as registry:
        registry.add(9, FIRST)
        file = logs.parent / "registry.properties"
        trusted = f"ssl.truststore.location={certificates.authority().chain}"
        file.write_text(f"schema.registry.url={registry.url}\n{trusted}\n")
        assert rows(logs, registry.url, capsys)[1][1].startswith(
            f"schema 9 is unknown: the registry {registry.url} is not trusted: "
        )
        assert not registry.requests
        assert rows(logs, str(file), capsys)[1] == (9, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("basic.auth.user.info=a:b", "schema.registry.url is missing"),
        ("schema.registry.url=localhost:8081", "schema.registry.url is no URL"),
        ("schema.registry.url=http://a:99999", "schema.registry.url is no URL"),
        ("schema.registry.url=http://a,http://b", "has several URLs"),
        ("schema.registry.url=http://a?x=1", "has a query"),
        ("schema.registry.url=http://a\nbasic.auth.user.info=x", "must be USER:PASSWORD"),
        ("schema.registry.url=http://a\nbasic.auth.user.info=a:b\nbearer.auth.token=c", "exclude each other"),
        ("schema.registry.url=http://a\nbearer.auth.token=a\\r\\nHost: b", "is no token"),
        ("schema.registry.url=http://a\nbearer.auth.credentials.source=OAUTHBEARER", "must be STATIC_TOKEN"),
        ("schema.registry.url=https://a\nssl.truststore.location=/nowhere.pem", "/nowhere.pem"),
        ("schema.registry.url=https://a\nssl.truststore.type=JKS", "PEM"),
    ],
)
def test_wrong_settings_are_one_line(text: str, reason: str, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = logs.parent / "registry.properties"
    file.write_text(text)
    assert run(["sql", str(logs), QUERY, "--schema-registry", str(file)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("offsetfs sql: --schema-registry: ") and reason in err and err.count("\n") == 1


def test_settings_of_a_url() -> None:
    assert registry_settings("https://h:1/a/").url == "https://h:1/a"
    assert registry_settings("http://h") == RegistrySettings("http://h")
    with pytest.raises(InvalidConfig):
        registry_settings("ftp://h")


# --- failures --------------------------------------------------------------------------------------------------------

WHOLE = json.dumps({"schema": json.dumps(FIRST)}).encode()
HTML = b"<html>Not found</html>"
TIME_LIMIT = "does not answer within 0.3 s"
CHUNKED = http_answer(b"", "200 OK", "Transfer-Encoding: chunked", length=None) + f"{len(WHOLE):x}\r\n".encode() + WHOLE

FAILURES: dict[str, tuple[list[bytes | None], str]] = {
    "an error": ([http_answer(b"{}", "500 Internal Server Error")], "answers 500"),
    "a redirect": (
        [http_answer(b"", "302 Found", "Location: http://127.0.0.1:1/")],
        "answers 302; redirects are not followed, give the final URL",
    ),
    "another server": ([http_answer(HTML, "404 Not Found")], "answers 404, and is no schema registry; check the URL"),
    "a page": ([http_answer(HTML)], "with no schema: the answer is not JSON"),
    "no schema": ([http_answer(b"{}")], "with no schema: schema of the answer is missing or no text"),
    "deep JSON": ([http_answer(b"[" * 100_000)], "with no schema: the answer is nested too deeply"),
    "no length": ([http_answer(WHOLE, length=None)], "its answer has no length, so that it may be cut"),
    "too long": ([http_answer(b"", length=(16 << 20) + 1)], "its answer has more than 16 MiB"),
    "cut by its end": ([http_answer(WHOLE, length=len(WHOLE) + 1)], "its answer was cut"),
    "cut chunks": ([CHUNKED], "its answer was cut"),
    "no HTTP": ([b"SSH-2.0-OpenSSH_9.2\r\n"], "does not answer in HTTP (BadStatusLine)"),
    "nothing": ([], "does not answer in HTTP (RemoteDisconnected)"),
    "no answer": ([HANG], TIME_LIMIT),
    "a head that never ends": ([b"HTTP/1.1 200 OK\r\nX: ", HANG], TIME_LIMIT),
    "a whole text, and more that never comes": ([http_answer(WHOLE, length=len(WHOLE) + 1), HANG], TIME_LIMIT),
    "chunks that never end": ([CHUNKED, HANG], TIME_LIMIT),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_registry_that_fails_is_a_reason_and_is_left_alone(
    name: str,
    logs: Path,
    cache: Path,
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parts, reason = FAILURES[name]
    if parts and HANG in parts:
        monkeypatch.setattr(registry_client, "TIME_LIMIT_S", 0.3)
    registry.raw = lambda path: parts if "schemas/ids" in path else [http_answer(b'{"error_code":40401}', "404 No")]
    found = rows(logs, registry.url, capsys)
    assert [number for number, _ in found] == [1, None, None, None, 1]
    assert reason in found[1][1] and found[1][1].startswith(f"schema 9 is unknown: the registry {registry.url} ")
    assert len([path for path in registry.requests if "ids" in path]) == 1
    assert not any(file.name.startswith("ids") for file in cache.rglob("*.json"))


def test_a_drip_does_not_lengthen_the_time_limit(
    logs: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each byte alone comes soon enough. The server ends with the connection, or with the test."""
    monkeypatch.setattr(registry_client, "TIME_LIMIT_S", 0.3)
    ended = threading.Event()

    def drip(path: str) -> Any:
        yield http_answer(b"", length=1 << 20)
        while not ended.wait(0.02):
            yield b" "

    registry.raw = lambda path: drip(path) if "ids" in path else [http_answer(b'{"error_code":40401}', "404 No")]
    try:
        assert TIME_LIMIT in rows(logs, registry.url, capsys)[1][1]
    finally:
        ended.set()


def test_a_registry_is_asked_for_few_schemas_that_it_does_not_have(
    logs: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry_client, "UNKNOWN_MAX", 3)
    write_log(logs, "orders-0", [(None, b"\0" + number.to_bytes(4, "big"), ()) for number in range(100, 150)])
    found = rows(logs, registry.url, capsys)
    assert len([path for path in registry.requests if "ids" in path]) == 3
    assert [error for _, error in found[-50:] if "is asked no more" in error]


def test_a_schema_that_is_registered_later_is_asked_for_after_some_seconds(registry: Registry) -> None:
    """Not for each record, and of very many unknown ones so many a second."""
    now = [0.0]
    schemas = RegistrySchemas(RegistrySettings(registry.url), {}, now=lambda: now[0])
    for _ in range(3):
        assert schemas.with_id(9) is None
    assert registry.requests == ["/schemas/ids/9"]
    registry.add(9, FIRST)
    now[0] = UNKNOWN_S - 0.1
    assert schemas.with_id(9) is None
    now[0] = UNKNOWN_S
    assert schemas.with_id(9) is not None and len(registry.requests) == 2
    many = int(UNKNOWN_S * ASKED_AGAIN_MAX) + 10
    for number in range(100, 100 + many):
        assert schemas.with_id(number) is None
    now[0] += UNKNOWN_S
    assert schemas.with_id(100) is None and len(registry.requests) == 2 + many
    now[0] += many / ASKED_AGAIN_MAX
    assert schemas.with_id(100) is None and len(registry.requests) == 3 + many


def test_a_circle_of_references_and_too_many_of_them_are_reasons(
    logs: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(registry_schemas, "REFERENCES_MAX", 5)
    registry.add(9, FIRST, references=[reference("a", "a", 1)])
    registry.add(2, LINE, subject="a", version=1, references=[reference("b", "b", 1)])
    registry.add(3, LINE, subject="b", version=1, references=[reference("a", "a", 1)])
    assert rows(logs, registry.url, capsys)[1][1] == "schemas/ids/9/1: reference a=a/1 of b/1 closes a circle"
    registry.add(8, FIRST, references=[reference("x", "x", number) for number in range(1, 20)])
    assert "refers to more than 5 schemas" in rows(logs, registry.url, capsys)[2][1]


@pytest.mark.long
@pytest.mark.parametrize("command", ["sql", "schemas"])
def test_nothing_opens_a_socket_without_the_option(command: str, logs: Path) -> None:
    watch = (
        "import sys\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, found: seen.append(event) if event.startswith('socket.') and event not in "
        "('socket.gethostname',) and not (event == 'socket.__new__' and found[1] == 1) else None)\n"
        "from offsetfs.cli import run\n"
        "code = run(sys.argv[1:])\n"
        "sys.exit(f'{code} {seen}' if code or seen else 0)\n"
    )
    words = [command, str(logs), *([QUERY] if command == "sql" else [])]
    done = subprocess.run([sys.executable, "-c", watch, *words], capture_output=True, text=True, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert "8" in done.stdout
