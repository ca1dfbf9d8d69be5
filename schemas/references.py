"""How a record names its schema: in the first bytes of its key or value, or in a header.

    form               bytes                                                         name
    confluent          0, id int32 (also Karapace, Redpanda, Apicurio 3)             7
    apicurio           0, id int64                                                   7
    glue               3, compression 0 or 5, UUID of 16 bytes                       a UUID
    avro-fingerprint   c3 01, CRC-64-AVRO of 8 bytes, little endian                  16 hexadecimal digits
    confluent-header   __value_schema_id: 1, GUID of 16 bytes; or 0, id int32        a GUID, or 7
    apicurio-header    apicurio.value.globalId, or .contentId: int64                 7
    azure              content-type: avro/binary+ID                                  the id
    cloudevents        ce_dataschema: a URI                                          the URI

Integers are big endian. Headers of keys have `key` in place of `value`; azure and cloudevents name the schema of the
value alone. Behind the id of a Protobuf schema, in the header as well, is the path of the message: that is no part of
the name. The serializer of kafkajs writes no path.

An id int32 of 0 is the first half of an int64, because registries count from 1. Bytes that happen to begin like a
reference cannot be told from one: their name is unknown.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.storage.records import FieldPattern

KEY_FIELD, VALUE_FIELD = "key", "value"


class ReferenceForm(enum.Enum):
    """The form in which a record names its schema."""

    CONFLUENT = "confluent"
    APICURIO = "apicurio"
    GLUE = "glue"
    AVRO_FINGERPRINT = "avro-fingerprint"
    CONFLUENT_HEADER = "confluent-header"
    APICURIO_HEADER = "apicurio-header"
    AZURE = "azure"
    CLOUDEVENTS = "cloudevents"


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """The schema that a record names."""

    form: ReferenceForm
    name: str

    @property
    def id(self) -> int | None:
        """The number, if that is the name."""
        return int(self.name) if self.form in _WITH_NUMBERS and self.name.isdigit() else None


_WITH_NUMBERS = frozenset(
    (ReferenceForm.CONFLUENT, ReferenceForm.APICURIO, ReferenceForm.CONFLUENT_HEADER, ReferenceForm.APICURIO_HEADER)
)
_AZURE_PREFIX = b"avro/binary+"
_TEXT_MAX = 1024


def _number(data: bytes) -> str | None:
    number = int.from_bytes(data, "big", signed=True)
    return str(number) if number >= 0 else None


def _uuid(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _after(count: int, read: Callable[[bytes], str | None]) -> Callable[[bytes], str | None]:
    return lambda data: read(data[count:])


def _fingerprint(data: bytes) -> str:
    return f"{int.from_bytes(data, 'little'):016x}"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _rows(field: str) -> list[tuple[ReferenceForm, FieldPattern, Callable[[bytes], str | None]]]:
    confluent = f"__{field}_schema_id".encode()
    apicurio = [f"apicurio.{field}.{name}".encode() for name in ("globalId", "contentId")]
    rows: list[tuple[ReferenceForm, FieldPattern, Callable[[bytes], str | None]]] = [
        (ReferenceForm.CONFLUENT_HEADER, FieldPattern(confluent, b"\1", 17, 17), _after(1, _uuid)),
        (ReferenceForm.CONFLUENT_HEADER, FieldPattern(confluent, b"\0", 5, 5), _after(1, _number)),
        *((ReferenceForm.APICURIO_HEADER, FieldPattern(name, b"", 8, 8), _number) for name in apicurio),
    ]
    if field == VALUE_FIELD:
        azure = FieldPattern(b"content-type", _AZURE_PREFIX, len(_AZURE_PREFIX) + 1, _TEXT_MAX)
        rows += [
            (ReferenceForm.AZURE, azure, _after(len(_AZURE_PREFIX), _text)),
            (ReferenceForm.CLOUDEVENTS, FieldPattern(b"ce_dataschema", b"", 1, _TEXT_MAX), _text),
        ]
    return [
        *rows,
        (ReferenceForm.APICURIO, FieldPattern(None, bytes(5), 9, 9), _after(1, _number)),
        (ReferenceForm.CONFLUENT, FieldPattern(None, b"\0", 5, 5), _after(1, _number)),
        (ReferenceForm.GLUE, FieldPattern(None, b"\3\0", 18, 18), _after(2, _uuid)),
        (ReferenceForm.GLUE, FieldPattern(None, b"\3\5", 18, 18), _after(2, _uuid)),
        (ReferenceForm.AVRO_FINGERPRINT, FieldPattern(None, b"\xc3\1", 10, 10), _after(2, _fingerprint)),
    ]


_ROWS = {field: _rows(field) for field in (KEY_FIELD, VALUE_FIELD)}

PATTERNS = {field: [pattern for _, pattern, _ in rows] for field, rows in _ROWS.items()}
"""For keys and values, the patterns with which the engine finds references (`count_patterns`)."""


def named_schema(field: str, pattern: int, data: bytes) -> NamedSchema | None:
    """Return the schema named by bytes that match a pattern of `PATTERNS[field]`; None where the id is negative."""
    form, _, read = _ROWS[field][pattern]
    name = read(data)
    return None if name is None else NamedSchema(form, name)
