"""`decoded.TOPIC` and `arrow(decode=True)`: the extreme numbers of each logical type never end a query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.avro_values import confluent, opened, rows
from fixtures.logs.schema_records import schema_record, write_log, write_schemas

import offsetfs
from offsetfs.cli import run

pytestmark = pytest.mark.unit

DAY, I32, I64 = 86_400_000, (1 << 31) - 1, (1 << 63) - 1
FIRST_MS, LAST_MS = -719_162 * DAY, 2_932_897 * DAY - 1
NS = I64 - 1
"""The most nanoseconds: beyond it lie pandas' NaT and DuckDB's infinity."""

CASES = {
    "date": ("int", (-719_162, 2_932_896), (-719_163, 2_932_897, -I32 - 1, -I32, I32 - 1, I32)),
    "time-millis": ("int", (0, DAY - 1), (-1, DAY, I32, -I32 - 1)),
    "time-micros": ("long", (0, DAY * 1000 - 1), (-1, DAY * 1000, I64, -I64 - 1)),
    "timestamp-millis": (
        "long",
        (FIRST_MS, LAST_MS),
        (FIRST_MS - 1, LAST_MS + 1, 9_462_000_000_000_000, I64, -I64 - 1),
    ),
    "timestamp-micros": ("long", (FIRST_MS * 1000, LAST_MS * 1000 + 999), (FIRST_MS * 1000 - 1, I64, -I64 - 1)),
    "timestamp-nanos": ("long", (-NS, NS), (I64, -I64, -I64 - 1)),
}
CASES |= {f"local-{name}": case for name, case in CASES.items() if name.startswith("timestamp")}


def zigzag(number: int) -> bytes:
    rest, encoded = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def write(path: Path, described: Any, *payloads: bytes) -> None:
    record = {"type": "record", "name": "R", "fields": [{"name": "x", "type": described}]}
    write_schemas(path, [schema_record("extremes-value", 1, 1, json.dumps(record))])
    write_log(path, "extremes-0", [(None, b"\0\0\0\0\1" + each, ()) for each in payloads])


def check(path: Path, valid: int, wrong: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Read all rows in each face; the first `valid` ones are decoded."""
    with opened(path) as session:
        found = rows(session, "SELECT x, _error FROM decoded.extremes ORDER BY _offset")
        assert [error is None for _, error in found] == [True] * valid + [False] * wrong
        assert [value is None for value, _ in found] == [False] * valid + [True] * wrong
        assert len(rows(session, "SELECT DISTINCT x::VARCHAR, max(x) FROM decoded.extremes GROUP BY 1")) == valid + 1
    for form in ("csv", "json", "table"):
        assert run(["sql", str(path), "SELECT x FROM decoded.extremes ORDER BY _offset", "--format", form]) == 0
    capsys.readouterr()
    with offsetfs.open(path) as data:
        partition = data.partition("extremes-0")
        column = partition.arrow(decode=True).read_all().column("value").to_pylist()
        assert [value is None for value in column] == [False] * valid + [True] * wrong
        assert len(list(partition.read(decode=True))) == valid + wrong


@pytest.mark.parametrize("name", CASES)
def test_extreme_dates_and_times(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind, good, bad = CASES[name]
    write(tmp_path, {"type": kind, "logicalType": name}, *map(zigzag, (*good, *bad)))
    check(tmp_path, len(good), len(bad), capsys)
    with opened(tmp_path) as session:
        reasons = rows(session, "SELECT DISTINCT _error FROM decoded.extremes WHERE _error IS NOT NULL")
    assert reasons == [("schema 1: field x: a date or time is out of range",)]


def test_extreme_decimals_durations_and_uuids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fixed = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    most = (120_000).to_bytes(4, "little") + (3_660_000).to_bytes(4, "little") + b"\xff" * 4
    for number, (described, payloads, wrong) in enumerate((
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
         [zigzag(16) + number.to_bytes(16, "big", signed=True) for number in (10**38 - 1, 1 - 10**38, 10**38)], 1),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}, [zigzag(3) + b"abc", zigzag(0)], 0),
        (fixed, [most, bytes(12), b"\xff" * 4 + bytes(8), bytes(4) + b"\xff" * 8], 2),
        ({**fixed, "size": 16, "logicalType": "uuid"}, [bytes(16), b"\xff" * 16], 0),
        ({"type": "map", "values": "int"}, [b"\x02\x02a\x02\0", b"\x04\x02a\x02\x02a\x04\0"], 1),
        ("double", [b"\0" * 6 + b"\xf0\x7f", b"\xff" * 8], 0),
    )):  # fmt: skip
        path = tmp_path / str(number)
        path.mkdir()
        write(path, described, *payloads)
        with opened(path) as session:
            errors = [error for _, error in rows(session, "SELECT x, _error FROM decoded.extremes ORDER BY _offset")]
        assert [error is not None for error in errors] == [False] * (len(payloads) - wrong) + [True] * wrong
        assert run(["sql", str(path), "SELECT x FROM decoded.extremes", "--format", "json"]) == 0
        with offsetfs.open(path) as data:
            assert len(list(data.partition("extremes-0").read(decode=True))) == len(payloads)
    capsys.readouterr()


def test_bytes_behind_a_value_are_a_fault(tmp_path: Path) -> None:
    write(tmp_path, "int", b"\x02", b"\x02\x02")
    assert confluent(1, "int", 1)[5:] == b"\x02"
    with opened(tmp_path) as session:
        assert rows(session, "SELECT x, _error FROM decoded.extremes ORDER BY _offset") == [
            (1, None),
            (None, "schema 1: there are bytes behind the value"),
        ]
