"""`decoded/` of partitions and topics: values by the schemas that they name, without a kernel and on a mount."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.logs.decoded_orders import NEWER, ORDER, VALUES, encoded, order, write, write_orders
from fixtures.logs.schema_records import schema_record, write_log, write_schemas
from fixtures.stores.schema_registry import Registry, http_answer, serving

from offsetfs.cli import run as run_command
from offsetfs.fs.files.decoded import MountSchemas
from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.mounting.path_tree import Tree
from offsetfs.fs.options import MountOptionError, MountOptions
from offsetfs.schemas import background_registry, json_texts, registry_schemas
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.records import LineFault

pytestmark = pytest.mark.unit

Work = Callable[[Tree], Any]


@pytest.fixture
def orders(log: Path) -> Path:
    write_orders(log)
    return log


async def read(tree: Tree, path: str, *, is_changing: bool = False) -> list[str]:
    """Return the lines of a file. `is_changing`: it may have another size for who opens it next."""
    async with tree.open(path) as file:
        data, size = b"", (await tree.find(path)).size
        while piece := await file.read(len(data), 1 << 20):
            data += bytes(piece)
    assert is_changing or len(data) == size, path
    return data.decode().splitlines()


def in_tree(log: Path, work: Work, options: str = "ro") -> Any:
    chosen = MountOptions.parse([options])
    return run(LogDirectory.open(str(log), read_only=chosen.read_only), chosen, work)


def texts(log: Path, path: str, options: str = "ro") -> list[str]:
    async def work(tree: Tree) -> list[str]:
        return await read(tree, path)

    found: list[str] = in_tree(log, work, options)
    return found


def names(log: Path, path: str) -> list[str]:
    async def work(tree: Tree) -> list[str]:
        found: list[str] = []

        async def take(entries: list[Any]) -> None:
            found.extend(entry.name.decode() for entry in entries)

        await tree.entries(path, take)
        return found

    found: list[str] = in_tree(log, work)
    return found


def test_values_are_lines_of_json_and_none_is_left_out(orders: Path) -> None:
    found = texts(orders, "orders-0/decoded/values")
    assert found[:-1] == VALUES
    failed = json.loads(found[-1])
    assert failed["value_error"] == "schema 2: field at: the value ends too early"
    assert failed["value_b64"]  # the bytes are no text


def test_records_have_the_form_of_records_ndjson(orders: Path) -> None:
    raw = [json.loads(line) for line in texts(orders, "orders-0/records.ndjson")]
    decoded = [json.loads(line) for line in texts(orders, "orders-0/decoded/records.ndjson")]
    for before, after in zip(raw, decoded, strict=True):
        assert {name: after[name] for name in before if "value" not in name} == {
            name: before[name] for name in before if "value" not in name
        }
        if "value_error" in after:
            assert {name: before[name] for name in before if name.startswith("value")}.items() <= after.items()
    first = texts(orders, "orders-0/decoded/records.ndjson")[0]
    assert first == (
        '{"topic":"orders","partition":0,"offset":0,"timestamp":1795266300000,"timestamp_type":"CreateTime","key":"k",'
        '"value":{"id":1,"photo":"text"},"headers":[],"value_schema":{"id":1,"subject":"orders-value","version":1}}'
    )
    assert [line.get("value_schema", {}).get("version") for line in decoded] == [1, 2, None, None, None, 2]


def test_files_of_parts_have_the_lines_of_the_whole(orders: Path) -> None:
    whole = texts(orders, "orders-0/decoded/values")
    records = texts(orders, "orders-0/decoded/records.ndjson")
    assert texts(orders, "orders-0/decoded/range/1..3") == whole[1:3]
    assert texts(orders, "orders-0/decoded/range/1..3.ndjson") == records[1:3]
    assert texts(orders, "orders-0/decoded/last/2") == whole[-2:]
    assert texts(orders, "orders-0/decoded/last/2.ndjson") == records[-2:]
    for offset, (value, record) in enumerate(zip(whole, records, strict=True)):
        assert texts(orders, f"orders-0/decoded/{offset}") == [value]
        assert texts(orders, f"orders-0/decoded/{offset}.json") == [record]
    assert texts(orders, "orders-0/decoded/first") == whole[:1]
    assert texts(orders, "orders-0/decoded/latest") == whole[-1:]
    assert texts(orders, "orders-0/decoded/by-time/2026-11-21") == whole[:1]


def test_a_topic_has_them_too(orders: Path) -> None:
    write(orders, order(7), partition="orders-1")
    both = [*texts(orders, "orders-0/decoded/values"), '{"id":7,"photo":null}']
    assert texts(orders, "topics/orders/decoded/values") == both
    assert texts(orders, "topics/orders/decoded/last/1") == both[-1:]
    assert texts(orders, "topics/orders/decoded/range/2026-11-21..") == both
    assert json.loads(texts(orders, "topics/orders/decoded/records.ndjson")[-1])["partition"] == 1
    for name, value in (
        ("first", both[0]),
        ("latest", both[-1]),
        ("by-time/2026-11-21", both[0]),
        ("by-time/2026/11/21/13/05", both[0]),
    ):
        assert texts(orders, f"topics/orders/decoded/{name}") == [value], name


def test_decoded_is_found_by_name_and_lists_what_it_has(orders: Path) -> None:
    assert "decoded" not in names(orders, "orders-0")
    assert "decoded" not in names(orders, "topics/orders")
    assert names(orders, "orders-0/decoded") == [
        "first",
        "latest",
        "values",
        "records.ndjson",
        "by-time",
        "append.ndjson",
    ]
    assert names(orders, "orders-0/decoded/by-time/2026/11/21/13") == ["05"]
    assert names(orders, "topics/orders/decoded") == ["first", "latest", "values", "records.ndjson", "by-time"]
    assert names(orders, "topics/orders/decoded/by-time/2026/11/21/13") == ["05"]


@pytest.mark.parametrize("name", ["7", "7.json", "nope", "range/x..y", "last/x", "append", "segments", "5.key"])
def test_other_names_do_not_exist(orders: Path, name: str) -> None:
    with pytest.raises(OSError, match=r"No such file|Invalid argument"):
        texts(orders, f"orders-0/decoded/{name}")


def test_a_header_names_the_schema(orders: Path) -> None:
    guid = b"\0" + (1).to_bytes(4, "big")
    write(orders, order(8)[5:], headers=(("__value_schema_id", guid), ("\udcff", b"x")))
    line = json.loads(texts(orders, "orders-0/decoded/last/1.ndjson")[0])
    assert line["value"] == {"id": 8, "photo": None}
    assert line["headers"][1] == {"key_b64": "/w==", "value": "x"}


def test_all_bytes_are_base64_with_that_option(orders: Path) -> None:
    line = json.loads(texts(orders, "orders-0/decoded/3.json", "ro,json-bytes=base64")[0])
    assert (line["key_b64"], line["value_b64"]) == ("aw==", "cGxhaW4=")


def test_without_schemas_all_values_are_raw(log: Path) -> None:
    write(log, order(1), b"plain")
    lines = [json.loads(line) for line in texts(log, "orders-0/decoded/values")]
    assert [line["value_error"] for line in lines] == ["schema 1 is unknown", "the record names no schema"]


def test_many_small_batches_have_the_lines_of_one(log: Path) -> None:
    write_schemas(log, [schema_record("orders-value", 1, 1, json.dumps(ORDER))])
    values = [order(number, photo=b"\xff" * (number % 5)) for number in range(500)]
    for partition, batch_records in (("orders-0", 1), ("orders-1", 500)):
        write_log(log, partition, [(None, value, (("h", b"v"),)) for value in values], batch_records)
    assert texts(log, "orders-0/decoded/values") == texts(log, "orders-1/decoded/values")
    single, together = (
        [json.loads(line) for line in texts(log, f"orders-{number}/decoded/records.ndjson")] for number in (0, 1)
    )
    assert [{**line, "partition": 1} for line in single] == together


def test_a_later_schema_decodes_new_records_of_open_files_and_all_of_new_ones(log: Path) -> None:
    """What was read stays: its bytes do not change under a reader."""
    write_schemas(log, [schema_record("orders-value", 1, 1, json.dumps(ORDER))])
    write(log, order(1), order(2, 2, at=0))
    unknown, known = '"value_error":"schema 2 is unknown"', '{"id":2,"photo":null,"at":"1970-01-01T00:00:00.000Z"}'

    async def work(tree: Tree) -> None:
        path = "orders-0/decoded/values"
        before = await tree.find(path)
        async with tree.open(path) as file:
            begun = bytes(await file.read(0, 1 << 20))
            assert unknown in begun.decode()
            write_schemas(log, [
                schema_record("orders-value", 2, 2, json.dumps(NEWER)),
                schema_record("orders-value", 3, 3, json.dumps(ORDER)),
            ])  # fmt: skip
            write(log, order(3), encoded(3, ORDER, {"id": 4, "photo": None}))
            directory = tree._operations.mount.directory
            directory.log(TopicPartition("orders", 0)).refresh(is_forced=True)
            later = bytes(await file.read(len(begun), 1 << 20)).decode().splitlines()
            assert later == ['{"id":3,"photo":null}', '{"id":4,"photo":null}']
            assert (await tree.find(path)).inode != before.inode
            assert (await read(tree, path))[1] == known
            assert bytes(await file.read(0, len(begun))) == begun
        assert await read(tree, "orders-0/decoded/1") == [known]

    in_tree(log, work)


@pytest.mark.damages
def test_damage_is_treated_as_in_raw_files(orders: Path) -> None:
    write(orders, order(9))
    segment = orders / "orders-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    data[70] ^= 0xFF
    segment.write_bytes(data)
    with pytest.raises(OSError, match="Input/output error"):
        texts(orders, "orders-0/decoded/values")
    assert texts(orders, "orders-0/decoded/values", "ro,damage=skip") == ['{"id":9,"photo":null}']


def test_the_package_that_decodes_may_be_missing(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(json_texts, "FollowingSchemas")

    async def work(tree: Tree) -> str:
        with pytest.raises(OSError, match="Operation not supported"):
            await tree.find("orders-0/decoded/values")
        return "\n".join(tree.errors())

    assert "decoded/ needs" in in_tree(orders, work)


def test_commands_read_them_without_a_mount(orders: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["cat", str(orders), "orders-0/decoded/range/0..2"]) == 0
    assert capfd.readouterr().out.splitlines() == VALUES[:2]
    assert run_command(["ls", str(orders), "orders-0/decoded"]) == 0
    assert capfd.readouterr().out.split() == ["first", "latest", "values", "records.ndjson", "by-time", "append.ndjson"]
    assert run_command(["follow", str(orders), "orders-0/decoded", "--from", "0", "--to", "2"]) == 0
    assert capfd.readouterr().out.splitlines() == VALUES[:2]


def test_values_of_json_are_shown_as_they_stand_in_one_line(log: Path) -> None:
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    write_schemas(log, [schema_record("orders-value", 1, 1, schema, schemaType="JSON")])
    head = b"\0\0\0\0\1"
    write(log, head + b'{"id": 1,\r\n "more": [1.50, "\\n"]}\n', head + b'{"id": ', head + b'{"id":2}')
    found = texts(log, "orders-0/decoded/values")
    assert found[0] == '{"id": 1,   "more": [1.50, "\\n"]} '
    assert json.loads(found[1])["value_error"].startswith("schema 1: ")
    assert found[2] == '{"id":2}'


def test_a_schema_in_a_file_decodes_values_that_name_none(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(log, order(1)[5:], order(2, 7))
    (log.parent / "orders.avsc").write_text(json.dumps(ORDER))
    folder = log.parent / "schemas"
    folder.mkdir()
    (folder / "7.avsc").write_text(json.dumps(NEWER))
    words = [f"--schema=orders={log.parent}/orders.avsc", f"--schema={folder}"]
    assert run_command(["cat", str(log), "orders-0/decoded/records.ndjson", *words]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["value"]["id"] for line in lines] == [1, 2]
    assert lines[1]["value_schema"] == {"file": str(folder / "7.avsc")}
    assert run_command(["cat", str(log), "orders-0/decoded/0", "--schema", "orders=nope.avsc"]) == 1
    assert "nope.avsc" in capfd.readouterr().err


def test_the_option_of_a_mount_names_several_schemas_and_is_printed_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.avsc").write_text(json.dumps(ORDER))
    words = tuple(f"{name}={tmp_path}/{name}.avsc" for name in ("a", "b"))
    options = MountOptions.parse([f"schema={words[0]},ro", f"schema={words[1]}"])
    assert options.schemas == words
    assert MountOptions.parse([f'schema="{options.texts()["schema"]}"']).schemas == words
    with pytest.raises(MountOptionError, match="absolute path"):
        MountOptions.parse(["schema=orders=order.avsc"])


# --- keys ------------------------------------------------------------------------------------------------------------

KEY = {"type": "record", "name": "Key", "fields": [{"name": "region", "type": "string"}]}
EU = encoded(3, KEY, {"region": "eu"})


def keys(log: Path, path: str = "orders-0/decoded/records.ndjson") -> list[Any]:
    shown = ("key", "key_b64", "key_schema", "key_error")
    return [[json.loads(line)[name] for name in shown if name in json.loads(line)] for line in texts(log, path)]


def test_keys_are_decoded_by_the_schema_of_the_topic_or_that_they_name(log: Path) -> None:
    write_schemas(log, [
        schema_record("orders-value", 1, 1, json.dumps(ORDER)), schema_record("orders-key", 1, 3, json.dumps(KEY)),
    ])  # fmt: skip
    in_header = (("__key_schema_id", b"\0\0\0\0\3"),)
    rows = [(EU, ()), (b"plain", ()), (None, ()), (EU[:-1] + b"\xff", ()), (EU[5:], in_header)]
    write_log(log, "orders-0", [(key, order(1), headers) for key, headers in rows])
    named = {"id": 3, "subject": "orders-key", "version": 1}
    assert keys(log) == [
        [{"region": "eu"}, named],
        ["plain", "the record names no schema"],
        [None],
        ["AAAAAAMEZf8=", "schema 3: field region: a text is not UTF-8"],
        [{"region": "eu"}, named],
    ]
    assert texts(log, "orders-0/decoded/0.json") == texts(log, "topics/orders/decoded/records.ndjson")[:1]
    assert texts(log, "orders-0/decoded/0") == ['{"id":1,"photo":null}']
    raw = json.loads(texts(log, "orders-0/0.json")[0])
    assert raw["key"].encode() == EU  # the raw files have the bytes


def test_a_number_as_a_key_is_not_taken_for_the_id_of_a_schema(log: Path) -> None:
    """16777216 + 512 has the first bytes of schema 1, and the rest would fit."""
    write_schemas(log, [
        schema_record("orders-value", 1, 1, '"bytes"'), schema_record("shop.Key", 1, 3, json.dumps(KEY)),
    ])  # fmt: skip
    number = (1 << 24 | 2 << 16 | 65).to_bytes(8, "big")
    rows = [b"\0" + number[-7:], b"\0\0\0\0\1\2\x41", EU, b"\0\0\0\0\x09x", b"k"]
    write_log(log, "orders-0", [(key, b"\0\0\0\0\1\2\x41", ()) for key in rows])
    found = keys(log)
    assert found[2] == [{"region": "eu"}, {"id": 3, "subject": "shop.Key", "version": 1}]
    assert [len(each) for each in found] == [1, 1, 2, 1, 1]  # raw, and without an error: keys need no schema
    assert found[1] == ["\0\0\0\0\1\2A"] and found[4] == ["k"]


def test_a_schema_of_keys_that_comes_later_decodes_them_at_the_next_look_up(log: Path) -> None:
    write_schemas(log, [schema_record("orders-value", 1, 1, json.dumps(ORDER))])
    write_log(log, "orders-0", [(EU, order(1), ())])

    async def work(tree: Tree) -> None:
        path = "orders-0/decoded/0.json"
        assert "key_schema" not in json.loads((await read(tree, path))[0])
        write_schemas(log, [schema_record("orders-key", 1, 3, json.dumps(KEY))])
        assert json.loads((await read(tree, path))[0])["key"] == {"region": "eu"}

    in_tree(log, work)


def test_decoded_keys_are_encoded_again_and_others_stay_text(
    log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_schemas(log, [
        schema_record("orders-value", 1, 1, json.dumps(ORDER)), schema_record("orders-key", 1, 3, json.dumps(KEY)),
        schema_record("users-value", 1, 1, json.dumps(ORDER)), schema_record("shop.Key", 1, 3, json.dumps(KEY)),
    ])  # fmt: skip
    rows = [EU, b"plain", None, EU[:-1] + b"\xff"]
    for topic in ("orders", "users"):
        write_log(log, f"{topic}-0", [(key, order(1), ()) for key in rows])
        data = "".join(line + "\n" for line in texts(log, f"{topic}-0/decoded/records.ndjson")).encode()
        assert append(log, f"{topic}-0/decoded/append.ndjson", data, monkeypatch, tmp_path) == 0
        lines = [json.loads(line) for line in texts(log, f"{topic}-0/records.ndjson")]
        found = [[each.get("key"), each.get("key_b64")] for each in lines]
        assert found[4:] == found[:4], topic
    data = b'{"key":{"region":"us"},"value":{"id":7}}\n'
    assert append(log, "topics/orders/decoded/append.ndjson", data, monkeypatch, tmp_path) == 0
    assert keys(log, "orders-0/decoded/last/1.ndjson")[0][0] == {"region": "us"}


# --- append.ndjson ---------------------------------------------------------------------------------------------------


def append(log: Path, path: str, lines: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    (tmp_path / "lines").write_bytes(lines)
    with open(tmp_path / "lines", "rb") as file:
        monkeypatch.setattr("sys.stdin", file)
        return run_command(["append", str(log), path])


@pytest.mark.parametrize("folder", ["orders-0", "topics/orders"])
def test_lines_are_encoded_by_the_newest_schema_or_by_the_one_that_they_name(
    orders: Path, folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = (
        b'{"key":"a","value":{"id":7,"at":"2026-11-21T13:05:00.123Z"}}\n'
        b'{"key":"b","value":{"id":8,"photo_b64":"/w=="},"value_schema":1,"timestamp":5}\n'
        b'{"key":"c","value":null}\n'
    )
    assert append(orders, f"{folder}/decoded/append.ndjson", lines, monkeypatch, tmp_path) == 0
    found = [json.loads(line) for line in texts(orders, "orders-0/decoded/last/3.ndjson")]
    assert [line["value"] for line in found] == [
        {"id": 7, "photo": None, "at": "2026-11-21T13:05:00.123Z"},
        {"id": 8, "photo_b64": "/w=="},
        None,
    ]
    assert [line["key"] for line in found] == ["a", "b", "c"] and found[1]["timestamp"] == 5
    assert [line.get("value_schema", {}).get("id") for line in found] == [2, 1, None]
    first = json.loads(texts(orders, "orders-0/last/3.ndjson")[1])
    assert base64.b64decode(first["value_b64"]) == order(8, photo=b"\xff")


def test_decoded_records_are_appended_as_they_stand(
    orders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = texts(orders, "orders-0/decoded/records.ndjson")
    values, raw = texts(orders, "orders-0/decoded/values"), texts(orders, "orders-0/records.ndjson")
    data = "".join(line + "\n" for line in lines).encode()
    assert append(orders, "orders-0/decoded/append.ndjson", data, monkeypatch, tmp_path) == 0
    assert texts(orders, f"orders-0/decoded/last/{len(lines)}") == values
    copied = texts(orders, f"orders-0/last/{len(lines)}.ndjson")
    assert [json.loads(line).get("headers") for line in copied] == [json.loads(line).get("headers") for line in raw]


def test_a_line_that_does_not_fit_is_refused_with_its_field_and_those_before_it_stay(
    orders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = texts(orders, "orders-0/decoded/values")
    lines = b'{"value":{"id":7}}\n{"value":{"id":"x"}}\n{"value":{"id":8}}\n'
    assert append(orders, "orders-0/decoded/append.ndjson", lines, monkeypatch, tmp_path) == 1
    error = capsys.readouterr().err
    assert error == (
        "offsetfs append: orders-0/decoded/append.ndjson: line 2, byte 2: id: 'x' is not a whole number;"
        " fix this line, then append again from it\n"
    )
    assert [json.loads(line)["id"] for line in texts(orders, "orders-0/decoded/values")[len(before) :]] == [7]


def test_a_topic_without_a_schema_takes_no_decoded_lines(
    orders: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(orders, b"x", partition="users-0")
    assert append(orders, "users-0/decoded/append.ndjson", b'{"value":1}\n', monkeypatch, tmp_path) == 1
    assert "line 1, byte 2: there is no subject users-value" in capsys.readouterr().err


def test_the_file_is_listed_where_records_can_be_appended(orders: Path) -> None:
    assert "append.ndjson" in names(orders, "orders-0/decoded")


def test_a_value_of_protobuf_is_the_message_that_it_says(log: Path) -> None:
    schema = 'syntax = "proto3"; message A { int32 id = 1; } message B { string name = 1; }'
    write_schemas(log, [schema_record("orders-value", 1, 1, schema, schemaType="PROTOBUF")])
    head = b"\0\0\0\0\1"
    write(log, head + b"\0\x08\x07", head + b"\x02\x02\x0a\x01x", head + b"\x02\x12", head + b"\0\x08", head + b"\0")
    found = texts(log, "orders-0/decoded/values")
    assert [found[0], found[1], found[4]] == ['{"id":7}', '{"name":"x"}', '{"id":0}']
    assert all("value_error" in json.loads(line) for line in found[2:4])


def test_decoded_messages_of_protobuf_are_appended_as_they_stand(
    log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    schema = 'syntax = "proto3"; message A { int32 id = 1; A a = 2; } message B { bytes token = 1; }'
    write_schemas(log, [schema_record("orders-value", 1, 1, schema, schemaType="PROTOBUF")])
    values = [b"\0\0\0\0\1" + rest for rest in (b"\0\x08\x07\x12\0", b"\x02\x02\x0a\x01\xff", b"\x02\x12", b"\0")]
    write(log, *values)
    data = "".join(line + "\n" for line in texts(log, "orders-0/decoded/records.ndjson")).encode()
    assert append(log, "orders-0/decoded/append.ndjson", data, monkeypatch, tmp_path) == 0
    copied = [json.loads(line) for line in texts(log, "orders-0/last/4.ndjson")]
    assert [
        each["value"].encode() if "value" in each else base64.b64decode(each["value_b64"]) for each in copied
    ] == values


# --- a registry ------------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(background_registry, "WAIT_S", 60)  # a busy machine does not change what readers see
    with serving() as made:
        yield made


def test_values_are_decoded_by_a_registry_that_the_user_names(log: Path, registry: Registry) -> None:
    registry.add(1, ORDER, subject="orders-value", version=1)
    write(log, order(1), order(2))
    assert texts(log, "orders-0/decoded/values", f"ro,schema-registry={registry.url}") == [
        '{"id":1,"photo":null}',
        '{"id":2,"photo":null}',
    ]
    assert run_command(["cat", str(log), "orders-0/decoded/0", "--schema-registry", registry.url]) == 0
    assert json.loads(texts(log, "orders-0/decoded/0")[0])["value_error"] == "schema 1 is unknown"


def test_a_schema_that_the_registry_gets_later_is_seen_after_some_seconds(
    log: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a new look-up, and by an open `follow`; what `values` has shown stays as long as it is open."""
    write(log, order(1))

    async def work(tree: Tree) -> None:
        path, folder = "orders-0/decoded/values", "orders-0/decoded"
        async with tree.open(f"{folder}/follow@0") as follow, tree.open(path) as before:
            begun = bytes(await before.read(0, 1 << 20))
            assert b"schema 1 is unknown" in begun and b"unknown" in bytes(await follow.read(0, 1 << 20))
            registry.add(1, ORDER)
            for _ in range(3):  # not asked for each look-up
                assert "schema 1 is unknown" in (await read(tree, path))[0]
            assert len([each for each in registry.requests if "ids" in each]) == 1
            for module in (background_registry, registry_schemas):
                monkeypatch.setattr(module, "UNKNOWN_S", 0)
            monkeypatch.setattr(registry_schemas, "ASKED_AGAIN_MAX", 1 << 62)
            write(log, order(2))
            tree._operations.mount.directory.log(TopicPartition("orders", 0)).refresh(is_forced=True)
            assert bytes(await follow.read(len(begun), 1 << 20)) == b'{"id":2,"photo":null}\n'
            assert bytes(await before.read(0, len(begun))) == begun
        assert await read(tree, path) == ['{"id":1,"photo":null}', '{"id":2,"photo":null}']

    in_tree(log, work, f"ro,schema-registry={registry.url}")


def test_a_registry_that_hangs_blocks_no_reader_and_decodes_when_it_answers(
    log: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_registry, "WAIT_S", 0.05)
    answers = threading.Event()

    def answer(path: str) -> list[bytes | None]:
        assert answers.wait(600)
        return [http_answer(json.dumps({"schema": json.dumps(ORDER)}).encode())]

    registry.raw = answer
    write(log, order(1), order(2), b"plain")

    async def work(tree: Tree) -> None:
        path = "orders-0/decoded/values"
        for line in (await read(tree, path))[:2]:
            error = json.loads(line)["value_error"]
            assert error == f"schema 1 is unknown: the registry {registry.url} has not answered yet for id 1"
        answers.set()
        while "value_error" in (await read(tree, path, is_changing=True))[0]:
            await trio.sleep(0.01)
        assert [json.loads(line).get("id") for line in await read(tree, path)] == [1, 2, None]

    in_tree(log, work, f"ro,schema-registry={registry.url}")


def test_lines_are_encoded_by_the_newest_schema_of_a_registry_without_a_wait_on_the_event_loop(
    log: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.add(4, ORDER, subject="orders-value", version=1)
    write(log, b"x")
    (tmp_path / "registry.properties").write_text(f"schema.registry.url={registry.url}\n")
    options = MountOptions.parse([f"schema-registry={tmp_path}/registry.properties"])
    assert options.texts()["schema-registry"] == f"{tmp_path}/registry.properties"

    async def work(tree: Tree) -> None:
        schemas = MountSchemas(tree._operations.mount)
        encode = schemas.encoder("orders")
        made = encode(b'{"value":{"id":7}}\n')
        assert isinstance(made, bytes) and base64.b64decode(json.loads(made)["value_b64"])[:6] == b"\0\0\0\0\4\x0e"
        fault = encode(b'{"value":{"id":7},"value_schema":9}\n')
        assert isinstance(fault, LineFault) and "has not answered yet for id 9" in fault.reason

    in_tree(log, work, f"schema-registry={tmp_path}/registry.properties")


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("http://user:secret@localhost", "the URL has a login, and other users can read the options of a mount"),
        ("registry.properties", "schema-registry=registry.properties is not an absolute path"),
        ("/nowhere/registry.properties", "schema-registry: /nowhere/registry.properties: No such file"),
        ("ftp://localhost", "schema-registry: a URL of a registry begins with http:// or https://"),
    ],
)
def test_a_wrong_registry_of_a_mount_is_refused_without_its_login(word: str, reason: str) -> None:
    with pytest.raises(MountOptionError) as refused:
        MountOptions.parse([f"schema-registry={word}"])
    assert reason in str(refused.value) and "secret" not in str(refused.value)


def test_a_topic_whose_mask_needs_a_registry_that_is_gone_shows_nothing(log: Path, registry: Registry) -> None:
    registry.add(1, ORDER, subject="orders-value", version=1)
    write(log, order(1, photo=b"text"))
    options = f"ro,schema-registry={registry.url},mask=orders:photo"
    assert texts(log, "orders-0/decoded/values", options) == ['{"id":1,"photo":null}']
    registry.raw = lambda path: [http_answer(b"{}", "500 Internal Server Error")]
    with pytest.raises(OSError, match="Remote I/O error"):
        texts(log, "orders-0/decoded/values", options)
