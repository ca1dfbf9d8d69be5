"""Fuzz targets for schemas: records of `_schemas`, Avro schemas, and references in records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fixtures.logs.schema_records import clearing, deletion, reference, schema_key, schema_record

from offsetfs.schemas.avro_fingerprint import canonical_form, fingerprint_of
from offsetfs.schemas.references import PATTERNS, named_schema
from offsetfs.schemas.schemas_topic import SchemasTopic
from offsetfs.storage import TopicPartition
from offsetfs.storage.native import field_patterns as native_field_patterns
from offsetfs.storage.records import KEY, VALUE
from offsetfs.storage.reference import codec
from offsetfs.storage.reference import field_patterns as reference_field_patterns

_PARTITION = TopicPartition("_schemas", 0)


def topic(data: bytes) -> None:
    """Records of the topic, keys and values in turns, a line each. An empty line is a null."""
    found = SchemasTopic()
    lines = data.split(b"\n")
    for offset, (key, value) in enumerate(zip(lines[::2], lines[1::2], strict=False)):
        found.take(key or None, value or None, _PARTITION, offset)
    assert found.records == len(lines) // 2
    assert sum(each.count for each in found.unusable.values()) <= found.records
    versions = list(found.catalog)
    assert len(versions) == len(found.catalog)
    for each in versions:
        assert each in found.catalog.with_id(each.id) and found.catalog.latest(each.subject) is not None
        with contextlib.suppress(ValueError):
            fingerprint_of(each.text)
    for version, reason in found.catalog.broken_references():
        assert version.references and reason


def avro(data: bytes) -> None:
    """An Avro schema: its canonical form is its own canonical form."""
    with contextlib.suppress(ValueError):
        form = canonical_form(data.decode())
        assert canonical_form(form) == form


def named(data: bytes) -> None:
    """A record with these bytes as key, value and headers."""
    names = dict.fromkeys(each.header for patterns in PATTERNS.values() for each in patterns if each.header)
    headers = [(name.decode(), data[number:]) for number, name in enumerate(names) if data[:1] > b"\x80"]
    payload = codec.encode([(data, data[1:], headers, 0)], 0, 0)
    rows = codec.scan(payload, 1)
    for field, column in (("key", KEY), ("value", VALUE)):
        found = reference_field_patterns.count_patterns(payload, rows, column, PATTERNS[field], 9)
        assert found == native_field_patterns.count_patterns(payload, rows, column, PATTERNS[field], 9)
        if found[0].pattern >= 0:
            schema = named_schema(field, found[0].pattern, found[0].data)
            assert schema is None or schema.name


def seeds(name: str) -> Iterator[bytes]:
    """Yield valid inputs of a target."""
    if name == "schemas-topic":
        first = schema_record("a", 1, 1, guid="04be51b2-a72a-4cef-9758-9b235d30be99", schemaType="PROTOBUF")
        second = schema_record("b", 1, 2, references=[reference("c", "a", 1), reference("d", "b", 1)])
        records = [first, second, deletion("a", 1), clearing("a"), (schema_key("b", 1), None)]
        yield b"\n".join(part or b"" for record in records for part in record)
    elif name == "avro-schema":
        yield (
            b'{"type":"record","name":"a.R","fields":[{"name":"f","type":["null",{"type":"fixed","name":"F","size":4}]},'
            b'{"name":"g","type":{"type":"array","items":{"type":"enum","name":"E","symbols":["A"]}}},'
            b'{"name":"h","type":{"type":"map","values":"R"},"default":{}}]}'
        )
    else:
        yield from (b"\0\0\0\0\7payload", bytes(9), b"\3\5" + bytes(16), b"\xc3\1" + bytes(8), b"\x81" + bytes(20))
