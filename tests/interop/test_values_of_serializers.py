"""Values that Confluent's serializers write, with a registry that stores into a real broker, decoded beside it."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from fixtures.kafka.broker import KafkaBroker
from fixtures.schemas.registry import Registry, running_registry
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import offsetfs
from offsetfs import cli

pytestmark = pytest.mark.interop

BOTH_FORMS = pytest.mark.parametrize("is_in_header", [False, True], ids=["in front", "in a header"])


@pytest.fixture(scope="module")
def registry(kafka_module: KafkaBroker) -> Iterator[Registry]:
    with running_registry(kafka_module.address) as running:
        yield running


Serializer = Callable[[Any, SerializationContext], bytes | None]


def send(
    kafka: KafkaBroker,
    registry: Registry,
    topic: str,
    is_in_header: bool,
    *sent: tuple[Callable[[SchemaRegistryClient, dict[str, Any]], Serializer], Sequence[Any]],
) -> None:
    """Produce values to a new topic, with the serializers that are made for a client of the registry and settings."""
    kafka.create_topic(topic)
    producer = Producer({"bootstrap.servers": kafka.address})
    settings = {"schema.id.serializer": header_schema_id_serializer} if is_in_header else {}
    with SchemaRegistryClient({"url": registry.url}) as client:
        for made, values in sent:
            serializer = made(client, settings)
            for value in values:
                headers: list[tuple[str, str | bytes | None]] = []
                data = serializer(value, SerializationContext(topic, MessageField.VALUE, headers))
                producer.produce(topic, data, headers=headers)
                assert producer.flush(60) == 0


def decoded(kafka: KafkaBroker, topic: str) -> list[Any]:
    """Return the decoded values of a topic. Each has one."""
    with offsetfs.open(str(kafka.log_dir)) as data:
        table = data.partition(f"{topic}-0").arrow(decode=True, columns=["value"]).read_all()
    assert table.column("error").null_count == len(table), table.column("error")
    values: list[Any] = table.column("value").to_pylist()
    return values


def avro(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


ID = {"name": "id", "type": "long"}
PRICE = {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}
KIND = {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}}
TAGS = {"name": "tags", "type": {"type": "array", "items": "string"}}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}


@BOTH_FORMS
def test_avro(kafka_module: KafkaBroker, registry: Registry, is_in_header: bool) -> None:
    topic = f"avro-{is_in_header}"
    at = datetime.datetime(2026, 12, 1, 10, 30, tzinfo=datetime.UTC)
    values: list[dict[str, Any]] = [
        {"id": number, "price": decimal.Decimal(number) / 4, "at": at, "kind": kind, "tags": ["a"] * number}
        for number, kind in enumerate(("NEW", "PAID", "NEW"))
    ]
    older, newer = avro(ID, PRICE, AT, KIND, TAGS), avro(ID, PRICE, AT, KIND, TAGS, NOTE)
    noted = {**values[0], "note": "schön"}
    send(
        kafka_module,
        registry,
        topic,
        is_in_header,
        (lambda client, settings: AvroSerializer(client, older, conf=settings), values),
        (lambda client, settings: AvroSerializer(client, newer, conf=settings), [noted]),
    )
    expected = [{**value, "note": None} for value in values] + [noted]
    assert decoded(kafka_module, topic) == [
        {**each, "price": each["price"].quantize(decimal.Decimal("0.01"))} for each in expected
    ]


def _messages(topic: str) -> dict[str, Any]:
    """Return the classes of the messages of a file, by name."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{topic}.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=kinds.LABEL_OPTIONAL)
    order.field.add(name="amounts", number=2, type=kinds.TYPE_SINT32, label=kinds.LABEL_REPEATED)
    order.field.add(
        name="buyer", number=3, type=kinds.TYPE_MESSAGE, type_name=".shop.Order.Buyer", label=kinds.LABEL_OPTIONAL
    )
    buyer = order.nested_type.add(name="Buyer")
    buyer.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    ghost = file.message_type.add(name="Ghost")
    ghost.field.add(name="token", number=1, type=kinds.TYPE_BYTES, label=kinds.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("Order", "Order.Buyer", "Ghost")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names}


@BOTH_FORMS
def test_protobuf(kafka_module: KafkaBroker, registry: Registry, is_in_header: bool) -> None:
    topic = f"protobuf-{is_in_header}"
    messages = _messages(topic)
    buyer = messages["Order.Buyer"](name="Zoë")
    values = [messages["Order"](id=7, amounts=[-1, 2], buyer=buyer), messages["Order"]()]

    def serializer(client: SchemaRegistryClient, settings: dict[str, Any]) -> Serializer:
        made: Serializer = ProtobufSerializer(messages["Order"], client, {**settings, "use.deprecated.format": False})
        return made

    send(kafka_module, registry, topic, is_in_header, (serializer, values))
    assert decoded(kafka_module, topic) == [
        {"id": 7, "amounts": [-1, 2], "buyer": {"name": "Zoë"}},
        {"id": 0, "amounts": [], "buyer": None},
    ]


@BOTH_FORMS
def test_json(kafka_module: KafkaBroker, registry: Registry, is_in_header: bool) -> None:
    topic = f"json-{is_in_header}"
    kinds = {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    schema = json.dumps({"title": "Order", "type": "object", "properties": kinds})
    values = [{"id": 1, "price": 1.5, "tags": ["ü"]}, {"id": -(2**53), "price": 2.0, "tags": []}]
    send(
        kafka_module,
        registry,
        topic,
        is_in_header,
        (lambda client, settings: JSONSerializer(schema, client, conf=settings), values),
    )
    assert decoded(kafka_module, topic) == values


@BOTH_FORMS
def test_keys(
    kafka_module: KafkaBroker,
    registry: Registry,
    is_in_header: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A decoded line has the key that Confluent's serializer wrote, in front or named in a header."""
    topic = f"keys-{is_in_header}"
    kafka_module.create_topic(topic)
    settings = {"schema.id.serializer": header_schema_id_serializer} if is_in_header else {}
    headers: list[tuple[str, str | bytes | None]] = []
    with SchemaRegistryClient({"url": registry.url}) as client:
        serializer = AvroSerializer(client, avro(ID), conf=settings)
        key = serializer({"id": 7}, SerializationContext(topic, MessageField.KEY, headers))
        value = serializer({"id": 8}, SerializationContext(topic, MessageField.VALUE, headers))
    producer = Producer({"bootstrap.servers": kafka_module.address})
    producer.produce(topic, value, key, headers=headers)
    assert producer.flush(60) == 0
    assert cli.run(["cat", str(kafka_module.log_dir), f"topics/{topic}/decoded/records.ndjson"]) == 0
    line = json.loads(capfd.readouterr().out)
    assert (line["key"], line["value"]) == ({"id": 7}, {"id": 8})
    assert line["key_schema"]["subject"] == f"{topic}-key"
    assert cli.run(["cat", str(kafka_module.log_dir), f'topics/{topic}/decoded/by-key/{{"id":7}}']) == 0
    assert json.loads(capfd.readouterr().out) == {"id": 8}
    with offsetfs.open(str(kafka_module.log_dir)) as data:
        partition = data.partition(f"{topic}-0")
        (record,) = partition.read(decode=True)
        assert isinstance(record, offsetfs.DecodedRecord) and record.decoded_key == {"id": 7}
        assert partition.arrow(decode=True, columns=["key"]).read_all().to_pylist() == [
            {"key": {"id": 7}, "error": None}
        ]
    database = f"sqlite:///{tmp_path}/rows.db"
    assert (
        cli.run(["table", "sync", str(kafka_module.log_dir), database, "--topic", topic, "--create", "--decode"]) == 0
    )
    with contextlib.closing(sqlite3.connect(tmp_path / "rows.db")) as rows:
        assert rows.execute("SELECT decoded_key, id FROM messages").fetchall() == [('{"id": 7}', 8)]
