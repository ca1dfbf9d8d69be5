"""`option("decode", "auto")`: typed values in batch and stream, masks, and typed Parquet."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixtures.databases.decoded_table_contract import FIRST, SECOND, VALUE, encoded
from fixtures.logs.schema_records import schema_record, write_log, write_schemas
from fixtures.stores.schema_registry import serving
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, DataType, DateType, IntegerType, LongType, StringType, StructField, StructType

from offsetfs import cli
from offsetfs.pipeline import decoding, reader
from offsetfs.pipeline.decoding import DecodingPlan, spark_type
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.read_options import OptionError, ReadOptions
from offsetfs.pipeline.schema import check_schema, schema_of
from offsetfs.pipeline.source import OffsetfsDataSource
from offsetfs.storage import LogReader
from offsetfs.tables.arrow_casts import cast_array, cast_values

WHOLE = {
    "id": 1, "Customer": VALUE["Customer"], "amount": Decimal("3.50"), "rate": 0.5, "paid": True, "state": "OLD",
    "raw": b"\0\xff", "day": date(2024, 10, 4), "clock": 3_600_000_001,
    "at": datetime(2026, 11, 21, 13, 5, 0, 1, UTC), "there": datetime(2026, 11, 21, 13, 5), "lines": VALUE["lines"],
    "headers": "of the value",
}  # fmt: skip


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    path = tmp_path / "logs"
    path.mkdir()
    write_schemas(path, [schema_record("orders-value", 1, 1, json.dumps(FIRST))])
    add(path, encoded(1, FIRST), None, b"secret")
    return path


def add(path: Path, *values: bytes | None) -> None:
    write_log(path, "orders-0", [(b"k", value, ()) for value in values])


def grow(path: Path) -> None:
    write_schemas(path, [schema_record("orders-value", 2, 2, json.dumps(SECOND))])
    add(path, encoded(2, SECOND, id=7, grown="new"))


def options_of(path: Path, **given: str) -> ReadOptions:
    return ReadOptions.parse({"path": str(path), "subscribe": "orders", "decode": "auto", **given})


def columns(options: ReadOptions) -> StructType:
    with opened(options.paths) as directory:
        plan = DecodingPlan(options, None, directory)
        return schema_of(options, plan.value_type, plan.key_type)


INT, LONG, STRING, BINARY = IntegerType(), LongType(), StringType(), BinaryType()


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def rows(path: Path, schema: StructType | None = None, **given: str) -> list[dict[str, Any]]:
    """Return the rows as tasks make them, in which everything arrives pickled."""
    options = options_of(path, **given)
    wanted = columns(options) if schema is None else schema
    check_schema(wanted, options)
    made = reader.Reader(options, wanted)
    found = []
    for split in made.partitions():
        task, part = cloudpickle.loads(cloudpickle.dumps((made, split)))
        for batch in task.read(part):
            batch.validate(full=True)
            found += batch.to_pylist()
    return found


@pytest.mark.unit
def test_values_are_structs_with_the_types_of_their_fields(logs: Path) -> None:
    first, null, plain = rows(logs)
    assert first["value"] == WHOLE and first["value_error"] is None and first["key"] == b"k"
    assert null["value"] is None and null["value_error"] is None
    assert plain["value"] is None and plain["value_error"] == "the record names no schema"


@pytest.mark.unit
def test_a_schema_of_the_user_decodes_only_its_fields(logs: Path) -> None:
    add(logs, encoded(1, FIRST)[:-3])
    wanted = struct(offset=LONG, value=struct(state=STRING, id=INT))
    assert rows(logs, wanted)[0] == {"offset": 0, "value": {"state": "OLD", "id": 1}}
    reasons = [row["value_error"] for row in rows(logs, struct(value_error=STRING))]
    assert reasons[:3] == [None, None, "the record names no schema"] and "ends too early" in reasons[3]
    assert [row["offset"] for row in rows(logs, struct(offset=LONG))] == [0, 1, 2, 3]
    for wrong, message in (
        (struct(value=BINARY), "no version of the schema of orders has value as binary; the newest is struct<id:int,"),
        (struct(value=struct(nope=INT)), "has value as struct<nope:int>"),
        (struct(value=struct(id=STRING)), "has value as struct<id:string>"),
        (struct(payload=BINARY), "there is no column payload"),
    ):
        with pytest.raises(OptionError, match=message):
            rows(logs, wrong)


@pytest.mark.unit
def test_the_newest_version_that_has_the_columns_is_used(logs: Path) -> None:
    before = columns(options_of(logs))
    grow(logs)
    newest = rows(logs)
    assert [row["value"] and row["value"]["grown"] for row in newest] == ["-", None, None, "new"]
    assert newest[3]["value"]["id"] == 7
    kept = rows(logs, struct(offset=LONG, value=before["value"].dataType))
    assert "grown" not in kept[0]["value"] and kept[0]["value"] == WHOLE
    # long does not become int: the columns of before do not fit a record of the newer version.
    assert kept[3]["value"] is None


@pytest.mark.unit
def test_tasks_do_not_read_the_topic_of_schemas(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of(logs)
    made = reader.Reader(options, columns(options))
    splits = made.partitions()
    read: list[str] = []
    slices = LogReader.slices

    def counted(self: LogReader) -> Any:
        read.append(str(self._log.partition))
        return slices(self)

    monkeypatch.setattr(LogReader, "slices", counted)
    monkeypatch.setattr(LogReader, "batches", lambda self: pytest.fail("the schemas are read"))
    assert [row["offset"] for split in splits for batch in made.read(split) for row in batch.to_pylist()] == [0, 1, 2]
    assert read == ["orders-0"]


@pytest.mark.unit
def test_tasks_read_the_schemas_themselves_if_there_are_too_many(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PLANNED_BYTES_MAX", 1)
    assert rows(logs)[0]["value"] == WHOLE


@pytest.mark.unit
def test_a_registry_is_asked_by_the_driver_and_by_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    write_log(tmp_path, "orders-0", [(b"k", encoded(number, FIRST), ()) for number in (1, 8)])
    with serving() as registry:
        registry.add(1, FIRST, subject="orders-value", version=1)
        registry.authorization = "Bearer secret"
        (tmp_path / "registry.properties").write_text(f"schema.registry.url={registry.url}\nbearer.auth.token=secret\n")
        found = rows(tmp_path, schemaRegistry=f"{tmp_path}/registry.properties")
        assert found[0]["value"] == WHOLE
        assert (found[1]["value"], found[1]["value_error"]) == (None, "schema 8 is unknown")
        options = options_of(tmp_path, schemaRegistry=registry.url.replace("//", "//user:secret@"))
        assert "secret" not in repr(options)
        with pytest.raises(OptionError, match=r"^option decode: the registry .* answers 401; check"):
            rows(tmp_path, schemaRegistry=registry.url)


@pytest.mark.unit
def test_a_stream_that_runs_knows_new_schemas_and_keeps_its_columns(logs: Path) -> None:
    options = ReadOptions.parse({"path": str(logs), "subscribe": "orders", "decode": "auto"}, is_stream=True)
    stream = reader.StreamReader(options, columns(options))
    start = stream.initialOffset()
    renumbered = {**SECOND, "fields": [FIRST["fields"][0], *SECOND["fields"][1:]]}
    write_schemas(logs, [schema_record("orders-value", 2, 2, json.dumps(renumbered))])
    add(logs, encoded(2, renumbered, id=7, grown="new"))
    end = stream._ends()
    found = [
        row for split in stream.partitions(start, end) for batch in stream.read(split) for row in batch.to_pylist()
    ]
    assert found[3]["value"] == {**WHOLE, "id": 7}


@pytest.mark.unit
def test_protobuf_and_json_are_decoded_by_the_columns_that_the_driver_chose(logs: Path) -> None:
    text = (
        'syntax = "proto3"; message First { string x = 1; } message Second { uint64 id = 1; repeated First all = 2; }'
    )
    described = {"type": "object", "properties": {"a": {"type": "integer"}, "any": {}}}
    write_schemas(logs, [
        schema_record("notes-value", 1, 3, text, schemaType="PROTOBUF"),
        schema_record("texts-value", 1, 4, json.dumps(described), schemaType="JSON"),
    ])  # fmt: skip
    write_log(logs, "notes-0", [(b"k", b"\0\0\0\0\3\2\2\x08\x05\x12\3\x0a\1y", ())] * 3)
    write_log(logs, "texts-0", [(b"k", b'\0\0\0\0\4{"a": 1, "any": [1]}', ())])
    assert [row["value"] for row in rows(logs, subscribe="notes")] == [{"id": 5, "all": [{"x": "y"}]}] * 3
    assert rows(logs, subscribe="notes", mask="notes:all.x")[0]["value"] == {"id": 5, "all": [{"x": None}]}
    assert [row["value"] for row in rows(logs, subscribe="texts")] == [{"a": 1, "any": "[1]"}]


@pytest.mark.unit
def test_masked_fields_are_null(logs: Path) -> None:
    found = rows(logs, mask="orders:#PII,lines.sku; orders:*.state")
    assert found[0]["value"]["Customer"] is None is found[0]["value"]["state"]
    assert found[0]["value"]["lines"] == [{"sku": None, "price": 1.5}] and found[0]["value"]["id"] == 1
    assert "secret" not in str(found)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "orders,users"}, "option decode: the columns are those of one topic"),
        ({"subscribe": "nope"}, "option decode: there is no subject nope-value; option schemas, nope=FILE, gives"),
        ({"mask": "orders:custmer"}, "option mask: mask orders:custmer: .* did you mean Customer"),
        ({"mask": "ordrs:id"}, "option mask: mask ordrs: there is no such topic; did you mean orders"),
        ({"schemas": "x"}, "option schemas: x: is neither NAME=FILE nor a directory"),
        ({"schemaRegistry": "ftp://x"}, "option schemaRegistry: a URL of a registry begins with http:// or https://"),
        ({"schemaRegistry": "/nowhere/file"}, "option schemaRegistry: /nowhere/file: No such file"),
        ({"decode": "none", "mask": "orders:id"}, "options schemas, schemaRegistry, schemaLocation and mask: go with"),
        ({"decode": "avro"}, "option decode: 'avro' must be one of none, auto"),
    ],
)
def test_wrong_options_are_refused(logs: Path, given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        columns(ReadOptions.parse({"path": str(logs), "subscribe": "orders", "decode": "auto", **given}))


@pytest.mark.unit
def test_a_value_beyond_spark_is_null_with_a_reason() -> None:
    seconds = pa.array([{"at": 1}, {"at": 1 << 62}, None], pa.struct([("at", pa.timestamp("s", "UTC"))]))
    reasons = pa.array([None, None, "unknown"], pa.string())
    kind = pa.struct([("at", pa.timestamp("us", "UTC"))])
    found, why = cast_values(seconds, kind, reasons, decoding._BEYOND_SPARK)
    assert [row is not None for row in found.to_pylist()] == [True, False, False]
    assert why.to_pylist() == [None, "the value has a time or number that Spark cannot hold", "unknown"]


def streamed(path: Path, start: Any = None, **given: str) -> tuple[list[dict[str, Any]], Any]:
    """Return the rows of a start of a stream, as Spark runs it, and where it ends. `start`: that of a checkpoint."""
    source = OffsetfsDataSource({"path": str(path), "subscribe": "orders", "decode": "auto", **given})
    stream = source.streamReader(source.schema())
    begin = stream.initialOffset() if start is None else start
    end = stream.latestOffset(begin, stream.getDefaultReadLimit())
    splits = stream.partitions(begin, end)
    return [row for split in splits for batch in stream.read(split) for row in batch.to_pylist()], end


@pytest.mark.unit
def test_a_restarted_stream_keeps_the_columns_of_its_first_start(logs: Path, tmp_path: Path) -> None:
    place = {"schemaLocation": str(tmp_path / "checkpoint")}
    before, end = streamed(logs, **place)
    grow(logs)  # id is long now, and grown is new
    add(logs, encoded(1, FIRST))
    after, last = streamed(logs, json.loads(json.dumps(end)), **place)
    assert [row["offset"] for row in (*before, *after)] == [0, 1, 2, 3, 4]
    assert before[0]["value"] == after[1]["value"] == WHOLE
    assert after[0]["value"] is None and "the field id is long" in after[0]["value_error"]
    assert streamed(logs, last, **place)[0] == []


@pytest.mark.unit
def test_a_restarted_stream_does_not_change_types_silently(logs: Path) -> None:
    _, end = streamed(logs)
    same = {**SECOND, "fields": [FIRST["fields"][0], *SECOND["fields"][1:]]}
    write_schemas(logs, [schema_record("orders-value", 2, 2, json.dumps(same))])
    add(logs, encoded(2, same, id=7, grown="new"))
    rows_after, end = streamed(logs, end)  # a field more changes no other
    assert rows_after[0]["value"] == {**WHOLE, "id": 7, "grown": "new"} or rows_after[0]["value"]["grown"] == "new"
    write_schemas(logs, [schema_record("orders-value", 3, 3, json.dumps(SECOND))])
    with pytest.raises(OptionError, match=r"the stream began with value.id as int, which is bigint now: .schema"):
        streamed(logs, end)


@pytest.mark.unit
def test_kept_columns_of_another_topic_or_damaged_ones_are_refused(logs: Path, tmp_path: Path) -> None:
    file = tmp_path / "offsetfs-columns.json"
    for content, reason in (
        ('{"topic":"users","value":"string"}', "has the columns of users; give another directory"),
        ('{"topic":"orders","value":{"type":"nope"}}', "is damaged; give another directory"),
        ("{", "is damaged; give another directory"),
    ):
        file.write_text(content)
        with pytest.raises(OptionError, match=f"^option schemaLocation: {file} {reason}$"):
            streamed(logs, schemaLocation=str(tmp_path))


@pytest.mark.unit
def test_every_type_has_one_of_spark() -> None:
    nested = pa.struct([("d", pa.dictionary(pa.int32(), pa.string())), ("i", pa.month_day_nano_interval())])
    kinds = [pa.null(), pa.uint64(), pa.time64("us"), pa.timestamp("ns", "UTC"), pa.binary(16), pa.decimal128(38, 4)]
    kinds.append(pa.duration("ns"))
    for kind in (*kinds, pa.list_(nested), pa.map_(pa.string(), nested)):
        wanted = decoding_type(kind)
        assert cast_array(pa.nulls(2, kind), wanted).to_pylist() == [None, None]
    values = pa.array([[{"d": "x", "i": pa.MonthDayNano([1, 2, 3])}], None, []], pa.list_(nested))
    found = cast_array(values.slice(0, 3), decoding_type(values.type))
    assert found.to_pylist() == [[{"d": "x", "i": {"months": 1, "days": 2, "nanoseconds": 3}}], None, []]


def decoding_type(kind: pa.DataType) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(StructType().add("a", spark_type(kind)), timezone="UTC").field("a").type


KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}, {"name": "day", "default": 0, "type":
    {"type": "int", "logicalType": "date"}}]}  # fmt: skip


def add_keys(logs: Path) -> None:
    """Register a schema for keys, and append a record with a key by it, and one whose key is cut."""
    write_schemas(logs, [schema_record("orders-key", 1, 9, json.dumps(KEY))])
    keys = b"\0\0\0\0\x09\x0e\2", b"\0\0\0\0\x09"
    write_log(logs, "orders-0", [(key, encoded(1, FIRST), ()) for key in keys])


@pytest.mark.unit
def test_keys_have_the_type_of_the_schema_for_keys(logs: Path) -> None:
    add_keys(logs)
    found = rows(logs)
    assert [row["key"] for row in found] == [None, None, None, {"id": 7, "day": date(1970, 1, 2)}, None]
    assert [row["value_error"] for row in found] == [
        "key: the record names no schema",
        "key: the record names no schema",
        "the record names no schema",
        None,
        "key: schema 9: field id: the value ends too early",
    ]
    assert rows(logs, struct(key=BINARY))[3] == {"key": b"\0\0\0\0\x09\x0e\2"}
    assert rows(logs, struct(key=BINARY, value_error=STRING))[4]["value_error"] is None
    assert rows(logs, struct(key=struct(day=DateType()), offset=LONG))[3]["key"] == {"day": date(1970, 1, 2)}
    assert rows(logs, struct(value=struct(id=INT)), mask="orders:id")[3] == {"value": {"id": None}}
    with pytest.raises(OptionError, match="no version of the schema of orders has key as string; the newest is struct"):
        rows(logs, struct(key=STRING))


@pytest.mark.unit
def test_a_restarted_stream_keeps_the_type_of_keys(logs: Path, tmp_path: Path) -> None:
    place = {"schemaLocation": str(tmp_path / "checkpoint")}
    (_, end), (_, kept) = streamed(logs), streamed(logs, **place)
    with pytest.raises(OptionError, match="schema: keys of orders have no schema, so key is binary"):
        rows(logs, struct(key=STRING))
    add_keys(logs)
    with pytest.raises(OptionError, match=r"the stream began with key as binary, which is gone: .schema"):
        streamed(logs, end)
    assert [row["key"] for row in streamed(logs, kept, **place)[0]] == [b"\0\0\0\0\x09\x0e\2", b"\0\0\0\0\x09"]
    place = {"schemaLocation": str(tmp_path / "other")}
    found, end = streamed(logs, **place)
    assert found[3]["key"]["id"] == 7 and streamed(logs, end, **place)[0] == []


@pytest.mark.unit
def test_a_plan_is_small(logs: Path) -> None:
    options = options_of(logs)
    (split,) = reader.Reader(options, columns(options)).partitions()
    assert len(pickle.dumps(split)) < 10_000


# --- with Spark -------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_spark_reads_decoded_values_in_batch_and_stream(spark: Any, logs: Path, tmp_path: Path) -> None:
    wanted = {"subscribe": "orders", "decode": "auto", "mask": "orders:*.sku"}
    frame = spark.read.format("offsetfs").options(**wanted).load(str(logs))
    row = frame.where("value.id = 1").select("value.*", "offset").collect()[0]
    assert (row.amount, row.state, row.day, row.offset) == (Decimal("3.50"), "OLD", date(2024, 10, 4), 0)
    assert row.lines[0].sku is None and row.lines[0].price == 1.5
    assert [row.value_error for row in frame.where("value_error IS NOT NULL").collect()] == [
        "not decoded; the topic has a mask, so neither the value nor the reason is shown"
    ]

    def copied() -> list[tuple[Any, ...]]:
        source = spark.readStream.format("offsetfs").options(**wanted).load(str(logs))
        writer = source.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "copied")).awaitTermination()
        read = spark.read.option("mergeSchema", "true").parquet(str(tmp_path / "copied"))
        return [tuple(row) for row in read.selectExpr("offset", "value.*").orderBy("offset").collect()]

    assert len(copied()) == 3
    grown = {**SECOND, "fields": [FIRST["fields"][0], *SECOND["fields"][1:]]}
    write_schemas(logs, [schema_record("orders-value", 2, 2, json.dumps(grown))])
    add(logs, encoded(2, grown, id=7, grown="new"))
    found = copied()
    assert [row[0] for row in found] == [0, 1, 2, 3] and found[3][1] == 7 and "new" in found[3]


@pytest.mark.spark
def test_spark_restarts_a_stream_with_the_columns_of_its_checkpoint(spark: Any, logs: Path, tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")

    def copied() -> list[tuple[Any, ...]]:
        wanted = {"subscribe": "orders", "decode": "auto", "schemaLocation": checkpoint}
        source = spark.readStream.format("offsetfs").options(**wanted).load(str(logs))
        writer = source.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(str(tmp_path / "copied")).awaitTermination()
        read = spark.read.parquet(str(tmp_path / "copied"))
        assert dict(read.select("value.*").dtypes)["id"] == "int" and "grown" not in read.select("value.*").columns
        return [tuple(row) for row in read.select("offset", "value.id").orderBy("offset").collect()]

    assert copied() == [(0, 1), (1, None), (2, None)]
    grow(logs)
    add(logs, encoded(1, FIRST, id=9))
    assert copied() == [(0, 1), (1, None), (2, None), (3, None), (4, 9)]


@pytest.mark.spark
def test_export_writes_typed_parquet(
    spark: Any, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from offsetfs.pipeline.jobs.export import export
    from offsetfs.pipeline.jobs.workers import JobFailed

    add_keys(logs)
    target = tmp_path / "parquet"
    frame = spark.read.format("offsetfs").options(subscribe="orders", decode="auto").load(str(logs))
    assert [row.id for row in frame.select("key.id", "offset").where("offset > 2").collect()] == [7, None]
    stream = spark.readStream.format("offsetfs").options(subscribe="orders", decode="auto").load(str(logs))
    writer = stream.select("key.day", "offset").writeStream.format("memory").queryName("keys")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [row.day for row in spark.sql("SELECT day FROM keys WHERE offset = 3").collect()] == [date(1970, 1, 2)]
    wanted = {"decode": "auto", "schemas": "", "mask": "orders:Customer"}
    export(spark, str(logs), str(target), ["orders"], decoding=wanted)
    found = pq.read_table(next(target.rglob("*.parquet"))).to_pylist()
    assert found[3]["value"] == {**WHOLE, "Customer": None} and found[3]["value_error"] is None
    assert found[3]["key"] == {"id": 7, "day": date(1970, 1, 2)}
    assert found[2]["value"] is None and found[2]["value_error"] and "secret" not in str(found)
    for other in ({}, {"decode": "auto"}):
        with pytest.raises(JobFailed, match="holds an export with another --decode or --mask"):
            export(spark, str(logs), str(target), ["orders"], decoding=other)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--decode"], "--decode: the columns are those of one topic; give one --topic"),
        (["--mask", "orders:id"], "--schema, --schema-registry and --mask: go with --decode"),
        (["--decode", "--topic", "orders", "--table", "t"], "--decode writes files"),
    ],
)
def test_wrong_calls_of_export(logs: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    target = "jdbc:postgresql://db/shop" if "--table" in words else str(logs.parent / "parquet")
    assert cli.run(["spark", "export", str(logs), target, *words]) == 1
    assert message in capfd.readouterr().err
