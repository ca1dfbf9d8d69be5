"""A fault program for `import offsetfs`: each public call with each wrong value, one argument at a time.

The error must be of this project: one line that names the argument, what was given, and what to give instead; nothing
is appended or created.
"""

from __future__ import annotations

import inspect
import re
from array import array
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs import NewRecord

pytestmark = pytest.mark.unit

NAIVE = datetime(2026, 11, 21)

TYPES: dict[str, list[Any]] = {
    "path": [None, 5, ["a"]],
    "mapping": [None, [], "retention.ms=1", {"retention.ms": 1000}, {1: "2"}],
    "broker settings": [None, [], "num.partitions=1", {"num.partitions": None}, {"num.partitions": 1.5}, {1: "2"}],
    "flag": [None, "no", 0, 1],
    "text": [None, 5, b"orders-0", ["orders"]],
    "text or none": [5, b"orders", ["orders"]],
    "offset": [None, "5", 1.5, True, NAIVE, [1]],
    "count": [None, "3", 2.0, True],
    "place": [1.5, True, b"5", date(2026, 11, 21), [1], {}],
    "time": [None, 5, 1.5, b"-1h", date(2026, 11, 21)],
    "seconds": ["5", True, [1], b"1"],
    "columns": ["key", b"key", 5, {"key"}, ["key", 5]],
    "words": [None, "orders=o.avsc", b"o", 5, {"o"}, [5]],
    "data": ["text", 5, True, [b"a"], array("i", [1]), {}],
    "data or none": ["text", 5, True, [b"a"], array("i", [1]), {}],
    "headers": [None, {}, {"a": b"b"}, {"ab": "c"}, "ab", b"ab", 5, ["ab"], [("a",)], [("a", "b")], [(b"a", b"b")]],
    "timestamp": ["now", 1.5, True, b"5", date(2026, 11, 21)],
    "records": [None, "text", b"bytes", 5, NewRecord(b"v"), [b"v"], ["v"], [("v", "k")], [None], {"value": b"v"}],
}
"""Values of a wrong type, by the kind of argument: TypeError."""

VALUES: dict[str, list[Any]] = {
    "place": ["-15x", "someday", "5", "", "2026-13-01", "\ud800", NAIVE],
    "time": ["-15x", "someday", "", "2026-13-01", NAIVE],
    "seconds": [float("nan")],
    "count": [0, -1],
    "timestamp": [-2, 2**63, 2**70, NAIVE],
    "columns": [["kee"]],
    "mode": [None, 5, "w", "rb"],
    "isolation": [None, 5, "serializable"],
    "json_values": [None, 5, "txt"],
    "headers": [[("\ud800", b"b")]],
}
"""Values of the right type, or one of a few words, that are wrong: ValueError."""

KINDS: dict[str, dict[str, str]] = {
    "open": {"path": "path", "mode": "mode", "isolation": "isolation", "settings": "mapping"},
    "serve": {
        "path": "path",
        "listen": "text",
        "settings": "broker settings",
        "read_only": "flag",
        "allow_anonymous": "flag",
    },
    "Directory.partitions": {"topic": "text or none"},
    "Directory.partition": {"name": "text"},
    "Directory.topic": {"name": "text"},
    "Directory.topics": {},
    "Directory.groups": {},
    "Directory.create": {"topic": "text", "partitions": "count", "settings": "mapping"},
    "Directory.sync": {},
    "Directory.close": {},
    "Partition.offset_at": {"when": "time"},
    "Partition.record": {"offset": "offset"},
    "Partition.read": {
        "start": "place",
        "stop": "place",
        "decode": "flag",
        "schemas": "words",
        "mask": "words",
        "schema_registry": "text or none",
    },
    "Partition.batches": {"start": "place", "stop": "place"},
    "Partition.values": {"start": "place", "stop": "place"},
    "Partition.ndjson": {"start": "place", "stop": "place"},
    "Partition.arrow": {
        "start": "place",
        "stop": "place",
        "columns": "columns",
        "decode": "flag",
        "schemas": "words",
        "mask": "words",
        "schema_registry": "text or none",
    },
    "Partition.range_reader": {"start": "place", "stop": "place"},
    "Partition.wait": {"offset": "offset", "timeout": "seconds"},
    "Partition.follow": {
        "start": "place",
        "timeout": "seconds",
        "decode": "flag",
        "schemas": "words",
        "mask": "words",
        "schema_registry": "text or none",
    },
    "Partition.append": {
        "value": "data or none",
        "key": "data or none",
        "headers": "headers",
        "timestamp": "timestamp",
    },
    "Partition.extend": {"records": "records"},
    "Partition.append_lines": {"data": "data", "timestamp": "timestamp"},
    "Partition.append_ndjson": {"data": "data", "json_values": "json_values"},
    "Partition.sync": {},
    "Topic.read": {
        "start": "place",
        "stop": "place",
        "decode": "flag",
        "schemas": "words",
        "mask": "words",
        "schema_registry": "text or none",
    },
    "Topic.arrow": {
        "start": "place",
        "stop": "place",
        "columns": "columns",
        "decode": "flag",
        "schemas": "words",
        "mask": "words",
        "schema_registry": "text or none",
    },
}
"""The kind of each argument of each public call."""

RIGHT: dict[str, Any] = {
    "Directory.partition.name": "orders-0",
    "Directory.topic.name": "orders",
    "Directory.create.topic": "new",
    "Partition.offset_at.when": "now",
    "Partition.record.offset": 0,
    "Partition.wait.offset": 0,
    "Partition.range_reader.start": None,
    "Partition.range_reader.stop": None,
    "Partition.append.value": b"v",
    "Partition.extend.records": [],
    "Partition.append_lines.data": b"v\n",
    "Partition.append_ndjson.data": b"{}\n",
}
"""The other arguments that a call must have."""

CASES = [
    (call, argument, value, error)
    for call, arguments in KINDS.items()
    for argument, kind in arguments.items()
    for error, table in ((TypeError, TYPES), (ValueError, VALUES))
    for value in table.get(kind, ())
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[offsetfs.Directory]:
    with offsetfs.open(tmp_path_factory.mktemp("logs"), "a") as directory:
        directory.create("orders")[0].append(b"v")
        yield directory


def called(data: offsetfs.Directory, call: str) -> Callable[..., Any]:
    owner, _, name = call.rpartition(".")
    targets: dict[str, Any] = {
        "": offsetfs,
        "Directory": data,
        "Partition": data.partition("orders-0"),
        "Topic": data.topic("orders"),
    }
    function: Callable[..., Any] = getattr(targets[owner], name)
    return function


def public_calls() -> dict[str, list[str]]:
    """Return the arguments of the public functions and methods that read or write a log directory."""
    found = {name: list(inspect.signature(getattr(offsetfs, name)).parameters) for name in ("open", "serve")}
    for owner in (offsetfs.Directory, offsetfs.Partition, offsetfs.Topic):
        for name, function in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_"):
                found[f"{owner.__name__}.{name}"] = list(inspect.signature(function).parameters)[1:]
    return found


def test_the_table_has_every_public_argument() -> None:
    assert {call: list(arguments) for call, arguments in KINDS.items()} == public_calls()


def test_each_wrong_argument_is_one_line_with_its_remedy(data: offsetfs.Directory, tmp_path: Path) -> None:
    orders = data.partition("orders-0")
    faults = []
    for call, argument, value, error in CASES:
        right = {name: RIGHT[f"{call}.{name}"] for name in KINDS[call] if f"{call}.{name}" in RIGHT}
        if call in ("open", "serve"):
            right["path"] = tmp_path
        given = f"{call}({argument}={value!r})"
        try:
            result = called(data, call)(**{**right, argument: value})
        except error as raised:
            message = str(raised)
            is_named = re.search(rf"\b({argument.removesuffix('s')}|no zone|zone|settings|column|record)", message)
            if not is_named or "\n" in message or type(raised) is not error:
                faults.append(f"{given}: {type(raised).__name__}: {message}")
            if error is TypeError and not re.search(r" is .*; give ", message):
                faults.append(f"{given}: no remedy: {message}")
        except Exception as raised:
            faults.append(f"{given}: {type(raised).__name__}: {raised}")
        else:
            faults.append(f"{given} returned {result!r}")
    assert not faults, "\n" + "\n".join(faults)
    assert orders.end_offset == 1 and [topic.name for topic in data.topics()] == ["orders"]


def test_wrong_fields_of_records_are_named(data: offsetfs.Directory) -> None:
    orders = data.partition("orders-0")
    for field in ("value", "key", "headers", "timestamp"):
        kind = KINDS["Partition.append"][field]
        for wrong in TYPES[kind]:
            with pytest.raises(TypeError, match="; give "):
                orders.extend([NewRecord(**{"value": b"v", field: wrong})])
    assert orders.end_offset == 1


def test_a_record_of_a_wrong_type_keeps_those_before_it(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (orders,) = data.create("orders")
        with pytest.raises(
            TypeError, match=r"^value is 'two' \(str\); give bytes or None; a text becomes bytes by \.encode"
        ):
            orders.extend([NewRecord(b"one"), NewRecord("two"), NewRecord(b"three")])  # type: ignore[arg-type]
        assert [record.value for record in orders.read()] == [b"one"]


def test_what_stands_for_bytes_and_for_integers_is_accepted(tmp_path: Path) -> None:
    import numpy

    when = datetime(2026, 11, 21, 13, 5, tzinfo=UTC)
    with offsetfs.open(bytes(tmp_path), "a") as data:
        (orders,) = data.create("orders", numpy.int64(1))
        orders.append(bytearray(b"a"), key=memoryview(b"k"), headers=[["h", bytearray(b"x")]], timestamp=when)  # type: ignore[arg-type, list-item]
        orders.extend([NewRecord(memoryview(array("i", [1])), timestamp=when)])  # type: ignore[arg-type]
        orders.append_lines(memoryview(b"b\n"), timestamp=when)
        orders.append_ndjson(memoryview(b'{"value":"c"}\n'))
        records = list(orders.read(numpy.int64(0)))
        assert [record.value for record in records] == [b"a", bytes(array("i", [1])), b"b", b"c"]
        assert (records[0].key, records[0].headers) == (b"k", (("h", b"x"),))
        assert {record.timestamp for record in records[:3]} == {int(when.timestamp() * 1000)}
