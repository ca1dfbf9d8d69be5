"""Values with a schema into columns: our decoders beside loops in Python, and a query beside the loop one would write.

The values are as Confluent's serializer writes them, an id in front, and in memory; those of the query are in a log.
Debian's kcat is built without Avro, and Confluent's jars are not in Maven Central: Avro's own reader is their floor.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import struct
import subprocess
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pyspark
from bench import Bench
from confluent_kafka.schema_registry import Schema
from confluent_kafka.schema_registry._sync.mock_schema_registry_client import MockSchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fixtures.logs.schema_records import schema_record, write_schemas
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from measuring import Contender, Measure, Opened, Peer, Row, times_as_fast
from pipelines import spark_session

import offsetfs
from offsetfs.schemas.avro_arrow import AvroDecoder
from offsetfs.schemas.avro_schema import parsed
from offsetfs.schemas.json_columns import JsonDecoder
from offsetfs.schemas.json_schema import parsed as parsed_json
from offsetfs.schemas.protobuf_arrow import ProtobufDecoder
from offsetfs.schemas.protobuf_schema import parsed as parsed_proto
from offsetfs.storage import LogDirectory
from offsetfs.tables.sql.session import SqlSession

_AVRO_LOOP = Path(__file__).parent / "AvroLoop.java"
_AVRO_JARS = (
    "avro-1",
    "jackson-core-2",
    "jackson-databind-2",
    "jackson-annotations-2",
    "slf4j-api",
    "commons-compress",
)
"""Of Spark's own."""
_WARM_UPS = 5

_STATES = ("NEW", "PAID", "SENT", "LOST")


def _record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": part, "type": kind} for part, kind in fields]}


FLAT = _record(
    "Order",
    ("id", "long"),
    ("customer", "string"),
    ("amount", "double"),
    ("pieces", "int"),
    ("paid", "boolean"),
    ("note", ["null", "string"]),
    ("state", {"type": "enum", "name": "State", "symbols": list(_STATES)}),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("region", "string"),
    ("rate", "float"),
)
_LINE = _record("Line", ("sku", "string"), ("pieces", "int"), ("price", ["null", "double"]))
_ADDRESS = _record("Address", ("street", "string"), ("city", "string"), ("zip", ["null", "string"]))
NESTED = {
    **FLAT,
    "fields": [
        *FLAT["fields"],
        {"name": "lines", "type": {"type": "array", "items": _LINE}},
        {"name": "address", "type": ["null", _ADDRESS]},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        *({"name": f"extra{number}", "type": ["null", "long"]} for number in range(6)),
    ],
}
"""Twenty fields."""


def _value(number: int, is_nested: bool) -> dict[str, Any]:
    flat = {
        "id": number * 7919,
        "customer": f"customer-{number % 5000}",
        "amount": number * 1.5,
        "pieces": number % 1000,
        "paid": number % 2 == 0,
        "note": None if number % 3 else f"note {number}",
        "state": _STATES[number % 4],
        "at": 1_795_266_300_000 + number,
        "region": "eu-west",
        "rate": number * 0.5,
    }
    if not is_nested:
        return flat
    lines = [{"sku": f"sku-{number % 97}", "pieces": place, "price": 1.25} for place in range(number % 4)]
    address = {"street": "Main street 1", "city": "Berlin", "zip": None} if number % 5 else None
    extras = {f"extra{place}": number if place % 2 else None for place in range(6)}
    return {**flat, "lines": lines, "address": address, "labels": {"a": "b"}, "total": b"\x01\x02\x03", **extras}


def _plain(schema: dict[str, Any]) -> Any:
    """Return the schema for fastavro without its decimal, whose objects are of no use to a reader of columns."""
    return fastavro.parse_schema(json.loads(json.dumps(schema).replace('"logicalType": "decimal", ', "")))


def _values(bench: Bench, schema: dict[str, Any]) -> list[bytes]:
    def made() -> list[bytes]:
        known, values = _plain(schema), []
        for number in range(bench.count):
            buffer = io.BytesIO(b"\0\0\0\0\1")
            buffer.seek(5)
            fastavro.schemaless_writer(buffer, known, _value(number, schema is NESTED))
            values.append(buffer.getvalue())
        return values

    return bench.once(("avro", schema is NESTED, bench.count), made)


def _decoder(schema: dict[str, Any]) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        kind = parsed(json.dumps(schema))
        decoder, picks = AvroDecoder(kind, kind), array("i", range(bench.count))
        column = pa.array(_values(bench, schema), pa.binary())

        def measure(number: int) -> float:
            start = time.perf_counter()
            decoded, faults = decoder.decode(column, picks, 5)
            taken = time.perf_counter() - start
            assert len(decoded) == bench.count and not faults
            return taken

        yield measure

    return opened


def _loop(schema: dict[str, Any]) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        values, known = _values(bench, schema), _plain(schema)

        def measure(number: int) -> float:
            start = time.perf_counter()
            for value in values:
                buffer = io.BytesIO(value)
                buffer.seek(5)
                fastavro.schemaless_reader(buffer, known, None)
            return time.perf_counter() - start

        yield measure

    return opened


def _deserializer(schema: dict[str, Any]) -> Opened:
    """Confluent's AvroDeserializer, with a registry in its own process."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        values, plain = _values(bench, schema), json.dumps(schema).replace('"logicalType": "decimal", ', "")
        with MockSchemaRegistryClient({"url": "mock://bench"}) as client:
            assert client.register_schema("orders-value", Schema(plain, "AVRO")) == 1
            deserializer = AvroDeserializer(client)
            context = SerializationContext("orders", MessageField.VALUE)

            def measure(number: int) -> float:
                start = time.perf_counter()
                for value in values:
                    deserializer(value, context)
                return time.perf_counter() - start

            yield measure

    return opened


def _spark(schema: dict[str, Any]) -> Opened:
    """Spark's from_avro on one core, of values in its memory."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark, path = spark_session(bench, "local[1]"), os.fspath(bench.new("avro-values"))
        column = pa.array([value[5:] for value in _values(bench, schema)], pa.binary())
        pyarrow.parquet.write_table(pa.table({"value": column}), path, compression="none")
        spark.result("decode_avro", values=path, schema=json.dumps(schema))
        yield lambda number: spark.seconds("decode_avro", values=path, schema=json.dumps(schema))

    return opened


def _java(schema: dict[str, Any]) -> Opened:
    """Avro's GenericDatumReader in a JVM, which has compiled the loop."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        values, described, held = _values(bench, schema), bench.new("avro-schema"), bench.new("avro-java")
        described.write_text(json.dumps(schema))
        sized = (part for value in values for part in (struct.pack(">i", len(value)), value))
        held.write_bytes(b"".join((struct.pack(">i", len(values)), *sized)))
        jars = sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))
        path = ":".join(str(jar) for jar in jars if jar.name.startswith(_AVRO_JARS))
        command: list[str | Path] = ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", path, _AVRO_LOOP, described, held]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdin and process.stdout
            orders, answers = process.stdin, process.stdout

            def measure(number: int) -> float:
                orders.write("\n")
                orders.flush()
                taken, count = answers.readline().split()
                assert int(count) == bench.count
                return float(taken)

            for number in range(_WARM_UPS):
                measure(number)
            yield measure

    return opened


# --- a query ---------------------------------------------------------------------------------------------------------

_QUERY = "SELECT state, count(*), sum(amount) FROM decoded.orders GROUP BY 1 ORDER BY 1"


def _log(bench: Bench) -> str:
    def made() -> str:
        path = bench.new("avro-log")
        path.mkdir()
        write_schemas(path, [schema_record("orders-value", 1, 1, json.dumps(FLAT))])
        with offsetfs.open(path, "a") as data:
            (orders,) = data.create("orders")
            orders.extend(offsetfs.NewRecord(value) for value in _values(bench, FLAT))
        return os.fspath(path)

    return bench.once(("avro-log", bench.count), made)


def _sql(bench: Bench) -> contextlib.AbstractContextManager[Measure]:
    return _query(bench, lambda session: list(session.run(_QUERY).rows))


@contextlib.contextmanager
def _query(bench: Bench, ask: Callable[[SqlSession], list[Any]]) -> Iterator[Measure]:
    directory = LogDirectory.open(_log(bench), read_only=True)
    with contextlib.closing(directory), SqlSession(directory) as session:
        assert sum(row[1] for row in ask(session)) == bench.count

        def measure(number: int) -> float:
            start = time.perf_counter()
            ask(session)
            return time.perf_counter() - start

        yield measure


@contextlib.contextmanager
def _spark_sql(bench: Bench) -> Iterator[Measure]:
    spark, path, schema = spark_session(bench, "local[*]"), _log(bench), json.dumps(FLAT)
    assert sum(row[1] for row in spark.result("avro_sums", path=path, schema=schema)) == bench.count
    yield lambda number: spark.seconds("avro_sums", path=path, schema=schema)


@contextlib.contextmanager
def _reader(bench: Bench) -> Iterator[Measure]:
    """Read records with the library, and decode each: what a consumer in Python does, without a network."""
    path, known = _log(bench), _plain(FLAT)

    def measure(number: int) -> float:
        start = time.perf_counter()
        sums: Counter[str] = Counter()
        with offsetfs.open(path) as data:
            for record in data.partition("orders-0").read():
                buffer = io.BytesIO(record.value or b"")
                buffer.seek(5)
                order = fastavro.schemaless_reader(buffer, known, None)
                assert isinstance(order, dict)
                sums[str(order["state"])] += order["amount"]
        return time.perf_counter() - start

    yield measure


# --- JSON ------------------------------------------------------------------------------------------------------------

JSON_FLAT = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "pieces": {"type": "integer"},
        "paid": {"type": "boolean"},
        "note": {"type": ["null", "string"]},
        "state": {"enum": list(_STATES)},
        "at": {"type": "integer"},
        "region": {"type": "string"},
        "rate": {"type": "number"},
    },
}


def _json_values(bench: Bench) -> list[bytes]:
    def made() -> list[bytes]:
        return [b"\0\0\0\0\1" + json.dumps(_value(number, False)).encode() for number in range(bench.count)]

    return bench.once(("json", bench.count), made)


@contextlib.contextmanager
def _json_decoder(bench: Bench) -> Iterator[Measure]:
    decoder, rows = JsonDecoder(parsed_json(json.dumps(JSON_FLAT))), array("i", range(bench.count))
    column = pa.array(_json_values(bench), pa.binary())

    def measure(number: int) -> float:
        start = time.perf_counter()
        decoded, faults = decoder.decode(column, rows, 5)
        taken = time.perf_counter() - start
        assert len(decoded) == bench.count and not faults
        return taken

    yield measure


@contextlib.contextmanager
def _json_loop(bench: Bench) -> Iterator[Measure]:
    values = _json_values(bench)

    def measure(number: int) -> float:
        start = time.perf_counter()
        for value in values:
            json.loads(value[5:])
        return time.perf_counter() - start

    yield measure


# --- Protobuf --------------------------------------------------------------------------------------------------------

_KINDS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "message": 11,
    "bytes": 12,
    "enum": 14,
}
_ORDER = "id int64, customer string, amount double, pieces int32, paid bool, note string, state enum State, at int64, "
_ORDER += "region string, rate float"
_MORE = ", lines *message Line, address message Address, labels *message LabelsEntry, total bytes, "
_MORE += ", ".join(f"extra{number} int64" for number in range(6))
_INNER = {
    "Line": "sku string, pieces int32, price double",
    "Address": "street string, city string, zip string",
    "LabelsEntry": "key string, value string",
}


def _add_fields(message: Any, described: str) -> None:
    for number, words in enumerate(map(str.split, described.split(", ")), 1):
        name, kind, *of = words
        field = message.field.add(
            name=name, number=number, type=_KINDS[kind.lstrip("*")], label=3 if "*" in kind else 1
        )
        if of:
            field.type_name = f".Order.{of[0]}"


def _proto_file(is_nested: bool) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    order = file.message_type.add(name="Order")
    _add_fields(order, _ORDER + _MORE * is_nested)
    for number, name in enumerate(_STATES):
        (order.enum_type or [order.enum_type.add(name="State")])[0].value.add(name=name, number=number)
    for name, described in _INNER.items():
        inner = order.nested_type.add(name=name)
        _add_fields(inner, described)
        inner.options.MergeFrom(descriptor_pb2.MessageOptions(map_entry=name == "LabelsEntry"))
    if not is_nested:
        del order.nested_type[:]
    return file


def _proto_class(is_nested: bool) -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_proto_file(is_nested))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))


def _proto_values(bench: Bench, is_nested: bool) -> list[bytes]:
    def made() -> list[bytes]:
        order = _proto_class(is_nested)
        return [order(**_value(number, is_nested)).SerializeToString() for number in range(bench.count)]

    return bench.once(("protobuf", is_nested, bench.count), made)


def _proto_decoder(is_nested: bool) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        text = base64.b64encode(_proto_file(is_nested).SerializeToString()).decode()
        kind = parsed_proto(text, lambda name: None).message((0,))
        assert kind is not None
        decoder, column = ProtobufDecoder(kind, kind), pa.array(_proto_values(bench, is_nested), pa.binary())
        rows, skips = array("i", range(bench.count)), array("i", bytes(4 * bench.count))

        def measure(number: int) -> float:
            start = time.perf_counter()
            decoded, faults = decoder.decode(column, rows, skips)
            taken = time.perf_counter() - start
            assert len(decoded) == bench.count and not faults
            return taken

        yield measure

    return opened


def _proto_loop(is_nested: bool) -> Opened:
    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        values, order = _proto_values(bench, is_nested), _proto_class(is_nested)

        def measure(number: int) -> float:
            start = time.perf_counter()
            for value in values:
                order.FromString(value)
            return time.perf_counter() - start

        yield measure

    return opened


def _proto_row(name: str, what: str, is_nested: bool) -> Row:
    loop = Contender("Google's library, parsing in a loop", _proto_loop(is_nested))
    return Row(
        name,
        what,
        unit="s",
        of="values",
        count=500_000,
        count_quick=2_000,
        ours=Contender("offsetfs", _proto_decoder(is_nested)),
        peers=(Peer(loop, times_as_fast(1)),),
    )


def _row(name: str, what: str, schema: dict[str, Any]) -> Row:
    return Row(
        name,
        what,
        unit="s",
        of="values",
        count=500_000,
        count_quick=2_000,
        ours=Contender("offsetfs", _decoder(schema)),
        peers=(
            Peer(Contender("fastavro", _loop(schema)), times_as_fast(5)),
            Peer(Contender("confluent-kafka's AvroDeserializer", _deserializer(schema)), times_as_fast(10)),
            Peer(Contender("Spark's `from_avro` on one core", _spark(schema)), times_as_fast(2)),
            Peer(Contender("Avro's GenericDatumReader in Java", _java(schema)), times_as_fast(1)),
        ),
    )


ROWS = (
    _row("avro-flat", "Values of Avro with 10 flat fields into columns of Arrow, on one core", FLAT),
    _row("avro-nested", "Values of Avro with 20 fields: records, arrays, maps, unions, a decimal", NESTED),
    Row(
        "json-flat",
        "Values of JSON Schema with 10 flat fields into columns of Arrow, on one core",
        unit="s",
        of="values",
        count=500_000,
        count_quick=2_000,
        ours=Contender("offsetfs", _json_decoder),
        peers=(Peer(Contender("`json.loads`", _json_loop), times_as_fast(3)),),
    ),
    _proto_row("protobuf-flat", "Values of Protobuf with 10 flat fields into columns of Arrow, on one core", False),
    _proto_row("protobuf-nested", "Values of Protobuf with 20 fields: messages, repeated, a map, an enum", True),
    Row(
        "sql-avro",
        "Group by one field of Avro values: `SELECT state, count(*), sum(amount) FROM decoded.orders GROUP BY 1`",
        unit="s",
        of="records",
        count=500_000,
        count_quick=2_000,
        ours=Contender("`offsetfs sql`", _sql),
        peers=(
            Peer(Contender("the library and fastavro in a loop", _reader), times_as_fast(10)),
            Peer(Contender("Spark SQL, by our data source and `from_avro`", _spark_sql), times_as_fast(1)),
        ),
    ),
)
