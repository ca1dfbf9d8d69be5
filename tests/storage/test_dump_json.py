"""A dump as JSON says what an independent client read."""

import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from offsetfs.storage.dump import decoders
from offsetfs.storage.dump.dump import DumpOptions, dump_file
from offsetfs.storage.dump.log import LogOptions
from offsetfs.storage.dump.printer import LineBuffer
from offsetfs.storage.dump.report import DumpReport

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
PARTITIONS = sorted(
    f"{rows.parent.name}/{rows.name.removesuffix('.expected.ndjson')}"
    for rows in GOLDEN.glob("kafka-*/*.expected.ndjson")
)


def objects(paths: list[Path], options: LogOptions) -> list[dict[str, Any]]:
    written = io.BytesIO()
    lines = LineBuffer(written.write)
    report = DumpReport(pytest.fail, pytest.fail)
    for path in paths:
        dump_file(str(path), DumpOptions(log=options, as_json=True), lines, report)
    lines.flush()
    return [json.loads(line) for line in written.getvalue().splitlines()]


def logs(partition: str) -> list[Path]:
    return sorted((GOLDEN / partition).glob("*.log"))


def content(row: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_b64" in row:
        return base64.b64decode(row[f"{name}_b64"])
    text: str | None = row[name]
    return None if text is None else text.encode()


def expected_content(row: dict[str, Any], name: str) -> str | None:
    """A key or value as the client printed it: in base64, or by its checksum."""
    encoded: str | None = row.get(f"{name}_sha256") or row[f"{name}_b64"]
    return encoded


def reported(row: dict[str, Any], name: str, like: dict[str, Any]) -> str | None:
    data = content(row, name)
    if data is None:
        return None
    return hashlib.sha256(data).hexdigest() if f"{name}_sha256" in like else base64.b64encode(data).decode()


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_golden_record_is_there_as_the_client_read_it(partition: str) -> None:
    expected = [json.loads(line) for line in (GOLDEN / f"{partition}.expected.ndjson").read_text().splitlines()]
    first = expected[0]["offset"] if expected else 0
    rows = [row for row in objects(logs(partition), LogOptions(data=True)) if "control" not in row]
    rows = [row for row in rows if row["offset"] >= first]  # a head that was deleted may still be in the file
    assert len(rows) == len(expected) or not expected
    for row, like in zip(rows, expected, strict=False):
        assert row["offset"] == like["offset"]
        assert (reported(row, "key", like), reported(row, "value", like)) == (
            expected_content(like, "key"),
            expected_content(like, "value"),
        )
        if "headers" in like:
            headers = [[content(h, "name"), content(h, "value")] for h in row["headers"]]
            assert headers == [
                [name.encode(), None if value is None else base64.b64decode(value)] for name, value in like["headers"]
            ]
        if like["timestamp_type"] != "NoTimestampType":
            assert (row["timestamp"], row["timestamp_type"]) == (like["timestamp"], like["timestamp_type"])


def test_without_data_an_object_is_a_batch() -> None:
    rows = objects(logs("kafka-4.1/compacted-tx-0")[:1], LogOptions())
    assert rows[0] == {
        "file": str(logs("kafka-4.1/compacted-tx-0")[0]),
        "position": 0,
        "size": rows[0]["size"],
        "magic": 2,
        "base_offset": 0,
        "last_offset": 14,
        "count": 2,
        "base_sequence": 0,
        "last_sequence": 14,
        "producer_id": 5,
        "producer_epoch": 0,
        "leader_epoch": 0,
        "is_transactional": True,
        "is_control": False,
        "delete_horizon_ms": None,
        "timestamp_type": "CreateTime",
        "max_timestamp": rows[0]["max_timestamp"],
        "codec": "none",
        "crc": rows[0]["crc"],
        "is_valid": True,
    }
    assert any(isinstance(row["delete_horizon_ms"], int) for row in rows)


def test_an_old_message_has_no_fields_of_newer_formats() -> None:
    row = objects(logs("kafka-0.8.2.2/v0-gzip-0"), LogOptions())[0]
    assert "count" not in row and "base_offset" not in row
    assert (row["magic"], row["codec"], row["timestamp_type"], row["max_timestamp"]) == (
        0,
        "gzip",
        "NoTimestampType",
        -1,
    )


def test_markers_are_distinguished_from_data() -> None:
    rows = objects(logs("kafka-4.1/transactions-0"), LogOptions(data=True))
    controls = [row["control"] for row in rows if "control" in row]
    assert {text.split()[1] for text in controls} == {"ABORT", "COMMIT"}


def test_what_a_decoder_reads_is_json_within_json() -> None:
    decoder = LogOptions(
        data=True, decoder=lambda *record: decoders.show_coordinator_record("__consumer_offsets", *record)
    )
    row = objects(logs("kafka-4.1/__consumer_offsets-1"), decoder)[0]
    assert row["key"]["data"] == {"group": "billing", "topic": "codec-lz4", "partition": 0}
    assert row["value"]["data"]["offset"] == 123


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("00000000000000000023.index", {"offset", "position"}),
        ("00000000000000000023.timeindex", {"timestamp", "offset"}),
        (
            "00000000000000000023.txnindex",
            {"version", "producer_id", "first_offset", "last_offset", "last_stable_offset"},
        ),
    ],
)
def test_entries_of_indexes_are_objects(name: str, fields: set[str]) -> None:
    rows = objects([GOLDEN / "kafka-4.1" / "transactions-0" / name], LogOptions())
    assert rows and all(set(row) == fields | {"file"} for row in rows)


def test_a_producer_without_a_batch_or_a_transaction_has_nulls_and_no_more() -> None:
    path = GOLDEN / "kafka-4.1" / "transactions-0" / "00000000000000000365.snapshot"
    first, second = objects([path], LogOptions())
    assert first["current_txn_first_offset"] is None and "last_sequence" not in first
    assert (second["first_sequence"], second["last_sequence"]) == (141, 147)
