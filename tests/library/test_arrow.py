"""Arrow readers of partitions and topics: the same records as `read`, in columns."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from fixtures.logs.schema_records import schema_record, write_schemas

import offsetfs
from offsetfs.storage.errors import CorruptBatch, OffsetOutOfRange, UnknownPartition
from offsetfs.tables import arrow

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
DIRECTORIES = ("kafka-4.1", "kafka-0.10.2.2", "kafka-0.8.2.2")


def row_of(partition: offsetfs.Partition, record: offsetfs.Record) -> dict[str, Any]:
    kinds = {"CreateTime": 0, "LogAppendTime": 1}
    return {
        "key": record.key,
        "value": record.value,
        "topic": partition.topic,
        "partition": partition.number,
        "offset": record.offset,
        "timestamp": datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=record.timestamp),
        "timestampType": kinds.get(record.timestamp_type, -1),
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


@pytest.mark.long
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("directory", DIRECTORIES)
def test_rows_are_the_records_that_are_read(
    directory: str, isolation: Literal["read_uncommitted", "read_committed"]
) -> None:
    with offsetfs.open(GOLDEN / directory, isolation=isolation) as data:
        partitions = data.partitions()
        assert partitions
        for each in partitions:
            records = [row_of(each, record) for record in each.read()]
            assert each.arrow().read_all().to_pylist() == records
            assert each.arrow(columns=["partition"]).read_all().num_rows == len(records)
            part = each.arrow(-3, columns=["offset"]).read_all()["offset"].to_pylist()
            assert part == [record.offset for record in each.read(-3)]


def test_values_are_decoded_by_the_schemas_of_the_directory_or_a_file(tmp_path: Path) -> None:
    text = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    write_schemas(tmp_path, [schema_record("orders-value", 1, 7, text)])
    with offsetfs.open(tmp_path, "a") as data:
        (orders,), (plain,) = data.create("orders"), data.create("plain")
        orders.extend(offsetfs.NewRecord(value) for value in (b"\0\0\0\0\7\x54", b"\0\0\0\0\7", None))
        plain.append(b"\x54")
        assert orders.arrow(columns=["offset", "value"], decode=True).read_all().to_pylist() == [
            {"offset": 0, "value": {"id": 42}, "error": None},
            {"offset": 1, "value": None, "error": "schema 7: field id: the value ends too early"},
            {"offset": 2, "value": None, "error": None},
        ]
        assert orders.arrow(columns=["offset"], decode=True).schema.names == ["offset"]
        with pytest.raises(ValueError, match=r"there is no subject plain-value; schemas=.*plain=FILE.* gives a schema"):
            plain.arrow(decode=True)
        (tmp_path / "order.avsc").write_text(text)
        topic = data.topic("plain").arrow(columns=["value"], decode=True, schemas=[f"plain={tmp_path / 'order.avsc'}"])
        assert topic.read_all().to_pylist() == [{"value": {"id": 42}, "error": None}]


def test_a_topic_has_the_records_of_all_partitions() -> None:
    with offsetfs.open(GOLDEN / "kafka-4.1") as data:
        topic = data.topic("keyed")
        assert [each.number for each in topic.partitions] == [0, 1, 2, 3]
        rows = topic.arrow(columns=["partition", "offset"]).read_all().to_pylist()
        assert [(row["partition"], row["offset"]) for row in rows] == [
            (each.number, record.offset) for each in topic.partitions for record in each.read()
        ]
        with pytest.raises(UnknownPartition, match="no topic keyd"):
            data.topic("keyd")


def test_the_range_is_fixed_by_the_call_and_read_later(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (partition,) = data.create("t")
        partition.append(b"one")
        reader = partition.arrow(columns=["value"])
        partition.append(b"two")
        assert reader.read_all()["value"].to_pylist() == [b"one"]
        with pytest.raises(OffsetOutOfRange):
            partition.arrow(5)


@pytest.mark.damages
def test_damage_is_an_error_with_its_offset(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (partition,) = data.create("t")
        partition.append(b"x" * 99)
    file = next((tmp_path / "t-0").glob("*.log"))
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(content)
    with offsetfs.open(tmp_path) as data, pytest.raises(CorruptBatch):
        data.partition("t-0").arrow(columns=["topic"]).read_all()


def test_a_batch_that_counts_too_many_records_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "TRUSTED_COUNT_MAX", 1)
    with offsetfs.open(tmp_path, "a") as data:
        (partition,) = data.create("t")
        partition.extend([offsetfs.NewRecord(b"1"), offsetfs.NewRecord(b"2")])
        assert partition.arrow(columns=["topic"]).read_all().num_rows == 2


def test_an_unknown_column_and_a_missing_package_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (partition,) = data.create("t")
        with pytest.raises(ValueError, match="no column 'val', only key, value, topic"):
            partition.arrow(columns=["val"])
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ImportError, match=r" -m pip install .*pyarrow"):
            partition.arrow()
