"""Writes records.json: records of real serializers, with the schemas that they name.

    pip install 'confluent-kafka[avro,protobuf,json,schemaregistry]' fastavro aws-glue-schema-registry \
        azure-schemaregistry-avroencoder apicurio-serdes 'cloudevents<2'
    python make.py PATH/TO/pyspark/jars

The registry of confluent-kafka is its mock, which gives random GUIDs. Single objects, canonical forms and fingerprints are
those of Avro's Java library, which PySpark contains.
"""

import datetime
import decimal
import importlib.metadata
import json
import os
import subprocess
import sys
import types
import uuid

from apicurio_serdes.avro import AvroSerializer as ApicurioSerializer
from apicurio_serdes.serialization import MessageField as ApicurioField
from apicurio_serdes.serialization import SerializationContext as ApicurioContext
from apicurio_serdes.serialization import WireFormat
from aws_schema_registry import codec as glue
from azure.schemaregistry.encoder.avroencoder import AvroEncoder
from cloudevents.http import CloudEvent
from cloudevents.kafka import to_binary
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FOLDER = os.path.dirname(os.path.abspath(__file__))
HEADERS = {"schema.id.serializer": header_schema_id_serializer}

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "doc": "An order.",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
AVRO_SCHEMAS = [
    ORDER, "int", {"type": "string", "avro.java.string": "String"}, ["null", "long"],
    {"type": "array", "items": {"type": "map", "values": "double"}},
    {"type": "fixed", "name": "F", "size": 16, "aliases": ["G"]},
    {"type": "enum", "name": "a.b.E", "symbols": ["A", "B"], "default": "A", "doc": "x"},
    {"type": "record", "name": "x.Tree", "aliases": ["Old"], "fields": [
        {"name": "left", "type": ["null", "Tree"], "order": "ignore"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["leaf"]}},
        {"name": "other", "type": {"type": "record", "name": "y.Other", "fields": [
            {"name": "near", "type": {"type": "fixed", "name": "Near", "size": 2}}, {"name": "up", "type": "x.Tree"}]}},
        {"name": "again", "type": "Kind"}, {"name": "far", "type": "y.Near"}]},
    {"type": "record", "name": "NoSpace", "namespace": "", "fields": []},
]
JAVA = """
import org.apache.avro.*; import org.apache.avro.generic.*; import org.apache.avro.message.*;
import java.nio.file.*; import java.util.*;
public class Make { public static void main(String[] a) throws Exception {
  for (String line : Files.readAllLines(Path.of(a[0]))) { Schema s = new Schema.Parser().parse(line);
    System.out.println(SchemaNormalization.toParsingForm(s));
    System.out.println(String.format("%016x", SchemaNormalization.parsingFingerprint64(s))); }
  Schema s = new Schema.Parser().parse("{\\"type\\":\\"record\\",\\"name\\":\\"R\\",\\"fields\\":[{\\"name\\":\\"a\\",\\"type\\":\\"int\\"}]}");
  GenericRecord r = new GenericData.Record(s); r.put("a", 5);
  byte[] b = new BinaryMessageEncoder<GenericRecord>(new GenericData(), s).encode(r).array();
  System.out.println(s); System.out.println(HexFormat.of().formatHex(b)); } }
"""


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


records, schemas = [], []


def add(by, form, name, value, headers=(), field="value"):
    shown = [[key, content.hex()] for key, content in headers]
    records.append({"by": by, "form": form, "name": name, "field": field, "bytes": value.hex(), "headers": shown})


def confluent():
    registry = SchemaRegistryClient.new_client({"url": "mock://"})
    by = version("confluent-kafka")

    def write(name, serializer, content, topic, field=MessageField.VALUE):
        headers = []
        value = serializer(content, SerializationContext(topic, field, headers))
        registered = registry.get_latest_version(f"{topic}-{field}")
        form = "confluent-header" if headers else "confluent"
        add(f"{by} {name}", form, registered.guid if headers else str(registered.schema_id), value, headers, field)

    at = datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)
    order = {"id": 5, "note": None, "price": decimal.Decimal("12.50"), "at": at}
    text = json.dumps(ORDER)
    for conf in ({}, HEADERS):
        write("AvroSerializer", AvroSerializer(registry, text, conf=conf), order, "orders")
        write("AvroSerializer", AvroSerializer(registry, '"string"', conf=conf), "key", "orders", MessageField.KEY)
        schema = json.dumps({"title": "P", "type": "object", "properties": {"a": {"type": "integer"}}})
        write("JSONSerializer", JSONSerializer(schema, registry, conf=conf), {"a": 1}, "people")
        for name in ("Order", "Refund", "Order.Line"):
            message = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
            made = message(sku="x") if name.endswith("Line") else message(id=7)
            write("ProtobufSerializer", ProtobufSerializer(message, registry, conf), made, f"shop-{name}")
    common = Schema('{"type":"record","name":"Common","fields":[]}', "AVRO")
    registry.register_schema("common", common)
    user = Schema('{"type":"record","name":"User","fields":[{"name":"c","type":"Common"}]}', "AVRO",
                  [SchemaReference("Common", "common", 1)])
    registry.register_schema("users-value", user)
    for subject in sorted(registry.get_subjects()):
        for number in registry.get_versions(subject):
            found = registry.get_version(subject, number)
            references = [{"name": r.name, "subject": r.subject, "version": r.version} for r in found.schema.references or ()]
            schemas.append({"subject": subject, "version": number, "id": found.schema_id, "guid": found.guid,
                            "schemaType": found.schema.schema_type, "references": references, "schema": found.schema.schema_str})


def messages():
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.nested_type.add(name="Line").field.add(name="sku", number=1, type=9, label=1)
    file.message_type.add(name="Refund").field.add(name="id", number=1, type=3, label=1)
    pool.Add(file)
    return pool


def others():
    name = uuid.UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
    for compression in (False, True):
        value = glue.encode(b"\2\2a", name, compression=compression)
        add(version("aws-glue-schema-registry"), "glue", str(name), value)
    event = CloudEvent({"type": "t", "source": "s", "dataschema": "https://example.org/r.avsc", "datacontenttype": "avro/binary"}, b"\n")
    made = to_binary(event, data_marshaller=bytes)
    add(version("cloudevents"), "cloudevents", "https://example.org/r.avsc", made.value, made.headers.items())
    small = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    cached = types.SimpleNamespace(schema=small, content_id=9, global_id=1 << 33)
    client = types.SimpleNamespace(get_schema=lambda artifact: cached)
    for wire in WireFormat:
        for use in ("contentId", "globalId"):
            if wire == WireFormat.CONFLUENT_PAYLOAD and use == "globalId":
                continue
            serializer = ApicurioSerializer(client, "r", use_id=use, wire_format=wire)
            made = serializer.serialize({"a": 5}, ApicurioContext("t", ApicurioField.VALUE))
            form = "apicurio-header" if made.headers else "confluent"
            add(version("apicurio-serdes"), form, "9" if use == "contentId" else str(1 << 33), made.payload, made.headers.items())
    properties = types.SimpleNamespace(id="f45b841fcb88401e961ca45477906be9")
    client = types.SimpleNamespace(register_schema=lambda *args, **kwargs: properties)
    encoder = AvroEncoder(client=client, group_name="g", auto_register=True)
    made = encoder.encode({"a": 5}, schema=json.dumps(small))
    add(version("azure-schemaregistry-avroencoder"), "azure", properties.id, made["content"],
        [("content-type", made["content_type"].encode())])


def avro(jars):
    lines = [json.dumps(each) for each in AVRO_SCHEMAS]
    work = "/tmp/avro-golden"
    os.makedirs(work, exist_ok=True)
    for name, text in (("Make.java", JAVA), ("schemas.txt", "\n".join(lines))):
        with open(f"{work}/{name}", "w") as file:
            file.write(text)
    said = subprocess.run(["java", "-cp", f"{jars}/*", f"{work}/Make.java", f"{work}/schemas.txt"],
                          capture_output=True, text=True, check=True).stdout.splitlines()
    *pairs, schema, single = said
    forms = [{"schema": line, "canonical": pairs[2 * n], "fingerprint": pairs[2 * n + 1]} for n, line in enumerate(lines)]
    add("Avro's BinaryMessageEncoder", "avro-fingerprint", schema, bytes.fromhex(single))
    return forms


pool = messages()
confluent()
others()
forms = avro(sys.argv[1])
with open(os.path.join(FOLDER, "records.json"), "w") as output:
    json.dump({"records": records, "schemas": schemas, "avro": forms}, output, indent=1)
    output.write("\n")
