"""`decoded/by-key/KEY`: keys by the text that decoded lines show for them, without a kernel."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.decoded_orders import encoded, order
from fixtures.logs.schema_records import schema_record, write_log, write_schemas

from offsetfs.cli import run

pytestmark = pytest.mark.unit

ID: dict[str, Any] = {"type": "record", "name": "Id", "fields": [{"name": "id", "type": "long"}]}
OPTIONAL = ["null", "string", "long"]
PROTO = 'syntax = "proto3"; message Key { int64 id = 1; string name = 2; }'


def schemas(log: Path, *keys: str, kind: str = "AVRO") -> None:
    value = json.dumps({"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"}, {"name": "photo", "type": ["null", "bytes", "string"]}]})  # fmt: skip
    versions = [
        schema_record("orders-key", number, 10 + number, text, schemaType=kind)
        for number, text in enumerate(keys, start=1)
    ]
    write_schemas(log, [schema_record("orders-value", 1, 1, value), *versions])


def records(log: Path, *keys: bytes, partition: int = 0, first: int = 0) -> None:
    """Append an order for each key, numbered from `first` on."""
    write_log(log, f"orders-{partition}", [(key, order(first + at), ()) for at, key in enumerate(keys)])


def cat(log: Path, capfd: pytest.CaptureFixture[str], name: str, *options: str, folder: str = "orders-0") -> str:
    """Return the id of the order that a name shows, or the error."""
    code = run(["cat", str(log), f"{folder}/decoded/by-key/{name}", *options])
    shown = capfd.readouterr()
    assert code in (0, 1)
    return str(json.loads(shown.out)["id"]) if code == 0 else shown.err


def is_absent(log: Path, capfd: pytest.CaptureFixture[str], name: str) -> bool:
    return "No such file or directory" in cat(log, capfd, name)


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def test_a_key_of_avro_has_its_text_or_its_json_as_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schemas(tmp_path, json.dumps(OPTIONAL), json.dumps(ID))
    keys = [encoded(11, OPTIONAL, "a/b"), encoded(11, OPTIONAL, 7), encoded(12, ID, {"id": 7}), b"plain"]
    records(tmp_path, *keys)
    for at, name in enumerate(("a%2Fb", "7", '{"id":7}', "plain")):
        assert cat(tmp_path, capfd, name) == str(at), name
    assert run(["cat", str(tmp_path), 'orders-0/decoded/by-key/{"id":7}.json']) == 0
    line = json.loads(capfd.readouterr().out)
    assert (line["offset"], line["key"], line["key_schema"]["id"]) == (2, {"id": 7}, 12)
    for name in ("8", '{"id":8}', '{"id":"7"}', "%FF", '{"id":', "a%2fb"):
        assert is_absent(tmp_path, capfd, name), name


def test_of_several_schemas_the_latest_record_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schemas(tmp_path, '"string"', json.dumps(OPTIONAL))
    records(tmp_path, encoded(12, OPTIONAL, "k"), encoded(11, "string", "k"), b"k")
    assert cat(tmp_path, capfd, "k") == "1"  # the raw key of this name is another one
    write_log(tmp_path, "orders-0", [(encoded(12, OPTIONAL, "k"), None, ())])
    assert is_absent(tmp_path, capfd, "k")  # a tombstone


@pytest.mark.parametrize(
    ("kind", "schema", "keys"),
    [
        (
            "PROTOBUF",
            PROTO,
            {'{"id":7,"name":"ü"}': b"\0\x08\x07\x12\x02\xc3\xbc", '{"id":7,"name":""}': b"\0\x08\x07"},
        ),
        (
            "JSON",
            "{}",
            {'{"id": 7}': b'{"id": 7}', '{"id":7}': b'{"id":7}', "ü": b'"\\u00fc"', "é": '"é"'.encode(), "7": b"7"},
        ),
    ],
    ids=["Protobuf", "JSON Schema"],
)
def test_keys_of_other_formats(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, schema: str, keys: dict[str, bytes]
) -> None:
    schemas(tmp_path, schema, kind=kind)
    records(tmp_path, *(framed(11, key) for key in keys.values()))
    for at, name in enumerate(keys):
        assert cat(tmp_path, capfd, name) == str(at), name


def test_without_a_schema_for_keys_the_name_is_that_of_by_key(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    schemas(tmp_path)
    long = b"x" * 300
    records(tmp_path, b"k", b"\xff", long)
    for at, name in enumerate(("k", "%FF", f"%sha256-{hashlib.sha256(long).hexdigest()}")):
        assert cat(tmp_path, capfd, name) == str(at)


def test_a_topic_finds_a_key_in_any_partition(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schemas(tmp_path, '"long"')
    records(tmp_path, *(encoded(11, "long", number) for number in range(3)))
    records(tmp_path, *(encoded(11, "long", number) for number in range(10, 13)), partition=1, first=10)
    for number in (0, 2, 10, 12):
        assert cat(tmp_path, capfd, str(number), folder="topics/orders") == str(number)
    given = f"orders:key={tmp_path / 'key.avsc'}"
    (tmp_path / "key.avsc").write_text('"long"')
    records(tmp_path, b"\x2a", first=99)  # 21, and no schema is named
    assert cat(tmp_path, capfd, "21", "--schema", given, folder="topics/orders") == "99"


def test_a_mask_hides_fields_of_what_a_key_finds(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    schemas(tmp_path, '"string"')
    records(tmp_path, encoded(11, "string", "k"))
    assert cat(tmp_path, capfd, "k", "--mask", "orders:id") == "None"
    assert run(["cat", str(tmp_path), "orders-0/by-key/k", "--mask", "orders:id"]) == 1


def test_a_registry_that_does_not_answer_is_the_reason_and_not_the_disk(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    schemas(tmp_path)
    records(tmp_path, b"k")
    words = ["--schema-registry", "http://127.0.0.1:1"]
    assert cat(tmp_path, capfd, "k", *words) == "0"
    error = cat(tmp_path, capfd, "nope", *words)
    assert "nope: it is unknown whether keys have a schema: the registry http://127.0.0.1:1 " in error
    assert "dmesg" not in error
