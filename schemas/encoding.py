"""Lines of JSON with decoded values into lines with the bytes of the values: the other way of `decoded_lines`.

    {"key":"k","value":{"id":7}}     →     {"key":"k","value_b64":"AAAAAAMO"}

A value is encoded by the newest schema of its topic's subject, or by that of the id in `value_schema`, and begins with
the id as Confluent's serializers write it; for Protobuf, `value_schema` may name the message, else it is the first. By
the schema of a file, which has no id, a value is encoded without one; by the schema that a header names, too. A line of
`decoded/records.ndjson` is accepted as it stands; a value that was not decoded, with its `value_error`, stays as it is.
"""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from offsetfs.schemas.avro_encoding import encoded
from offsetfs.schemas.avro_format import avro_type
from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion
from offsetfs.schemas.decoding import DirectorySchemas, NoSchema
from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer, reader_of
from offsetfs.schemas.given_values import DoesNotFit, RepeatedName, bytes_of, read_json
from offsetfs.schemas.named_rows import rows_by_schema
from offsetfs.schemas.protobuf_encoding import ProtobufEncoder
from offsetfs.schemas.protobuf_format import path_bytes, path_of, proto_schema
from offsetfs.schemas.references import KEY_FIELD, PATTERNS, VALUE_FIELD, NamedSchema, ReferenceForm
from offsetfs.schemas.schema_usage import Known
from offsetfs.storage.records import LineFault

_ID_MAX = (1 << 31) - 1
_ENCODERS_MAX = 1000

KEY_VERSIONS_MAX = 100
"""The newest versions of a schema for keys by which a key is looked up: protects time."""

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_HEADER_NAMES = {
    field: frozenset(row.header.decode() for row in rows if row.header is not None) for field, rows in PATTERNS.items()
}

Encode = Callable[[Any], bytes]


class _NotEncoded(Exception):
    """A line has no key or value that can be encoded."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """The schema that a line names for a key or a value."""

    field: str
    named: NamedSchema | None = None
    message: str = ""
    """The full name of a message of Protobuf; empty: the first."""
    header_path: bytes | None = None
    """The path of the message, if a header names the schema: then the value has neither."""


class LineEncoder:
    """Encodes lines for one topic. One thread at a time uses it."""

    def __init__(self, schemas: DirectorySchemas, topic: str) -> None:
        self._schemas, self._topic = schemas, topic
        self._encoders: dict[_Choice, tuple[Known, Encode]] = {}

    def encoded(self, line: bytes) -> bytes | LineFault:
        """Return a line for `append.ndjson`, with its newline, or why its value cannot be encoded. OSError of the disk.

        A line that is no JSON object is returned as it stands: `append.ndjson` has the reason to refuse it.
        """
        try:
            return self._encoded(line)
        except _NotEncoded as error:
            return LineFault(max(line.find(b'"value'), 0), str(error))

    def _encoded(self, line: bytes) -> bytes:
        try:
            record = read_json(line)
        except RepeatedName as error:
            raise _NotEncoded(f"{error} is there twice") from None
        except (ValueError, RecursionError):
            return line
        if not isinstance(record, dict):
            return line
        for field in (KEY_FIELD, VALUE_FIELD):
            described, is_raw = record.pop(f"{field}_schema", None), record.pop(f"{field}_error", None) is not None
            if is_raw or not (record.get(field) is not None or f"{field}_b64" in record):
                continue
            choice = _choice(field, described, record.get("headers"))
            if field == KEY_FIELD and choice == _Choice(field) and not self._has_key_schema():
                continue
            if f"{field}_b64" in record:
                raise _NotEncoded(f"{field}_b64 has bytes, which are not encoded: append them to append.ndjson")
            record[f"{field}_b64"] = base64.b64encode(self._data(choice, record.pop(field))).decode()
        return _json(record, is_ascii=True).encode() + b"\n"

    def _has_key_schema(self) -> bool:
        try:
            return self._schemas.has_schema(self._topic, KEY_FIELD)
        except NoSchema as error:
            raise _NotEncoded(f"it is unknown whether keys have a schema: {error.reason}") from error

    def _data(self, choice: _Choice, value: object) -> bytes:
        try:
            schema, catalog = self._schema(choice)
            return self._encoder(schema, catalog, choice)(value)
        except NoSchema as error:
            raise _NotEncoded(error.reason) from error
        except DoesNotFit as error:
            raise _NotEncoded(f"the key: {error}" if choice.field == KEY_FIELD else str(error)) from error
        except (InvalidSchema, SchemasDiffer) as error:
            raise _NotEncoded(str(error)) from error
        except RecursionError:
            raise _NotEncoded(f"the {choice.field} is nested too deeply") from None

    def _schema(self, choice: _Choice) -> tuple[Known, SchemaCatalog]:
        try:
            return self._schemas.writer(self._topic, choice.named, choice.field)
        except NoSchema:
            self._schemas.refresh()
            return self._schemas.writer(self._topic, choice.named, choice.field)

    def _encoder(self, schema: Known, catalog: SchemaCatalog, choice: _Choice) -> Encode:
        found = self._encoders.get(choice)
        if found is None or found[0] is not schema:  # by identity: the text of a schema is long
            if len(self._encoders) >= _ENCODERS_MAX:
                self._encoders.clear()
            found = self._encoders[choice] = schema, _encoder_of(schema, catalog, choice)
        return found[1]


class KeyEncoder:
    """The bytes of the keys of a topic that decoded lines show as a text. One thread at a time uses it."""

    def __init__(self, schemas: DirectorySchemas, topic: str) -> None:
        self._schemas, self._topic = schemas, topic
        self._known: list[Known] = []
        self._forms: list[_Forms] = []

    def encoded(self, text: bytes) -> list[bytes]:
        """Return the bytes by each schema for keys, behind its id and without; none if no schema has such a key.

        `text`: a text, or the JSON of anything else. `NoSchema` if a registry does not say whether there is a schema.
        """
        found = self._schemas.all_of(self._topic, KEY_FIELD)[:KEY_VERSIONS_MAX]
        known = [schema for schema, _ in found]
        if known != self._known:
            self._known, self._forms = known, [*_forms(found)]
        try:
            shown = text.decode()
        except UnicodeDecodeError:
            return []
        return [*dict.fromkeys(key for forms in self._forms for key in forms(shown))]


_Forms = Callable[[str], Iterator[bytes]]
"""Yields the bytes of a key by one schema that is shown as a text."""


def _forms(found: Sequence[tuple[Known, SchemaCatalog]]) -> Iterator[_Forms]:
    for choice in (_Choice(KEY_FIELD), _Choice(KEY_FIELD, header_path=b"")):
        for schema, catalog in found:
            if schema.type == "JSON":
                yield partial(_json_forms, _head(schema, choice))
                continue
            with contextlib.suppress(InvalidSchema, SchemasDiffer):  # no key has it
                yield partial(_encoded_forms, _encoder_of(schema, catalog, choice))


def _json_forms(head: bytes, text: str) -> Iterator[bytes]:
    yield head + text.encode()
    yield head + json.dumps(text).encode()
    yield head + json.dumps(text, ensure_ascii=False).encode()


def _encoded_forms(encode: Encode, text: str) -> Iterator[bytes]:
    with contextlib.suppress(DoesNotFit, RecursionError):
        yield encode(text)
    with contextlib.suppress(DoesNotFit, RecursionError, ValueError):
        yield encode(read_json(text.encode()))


def _encoder_of(schema: Known, catalog: SchemaCatalog, choice: _Choice) -> Encode:
    """Return what makes a value of a schema from JSON, with what names the schema in front. `InvalidSchema`.

    The function raises `DoesNotFit`.
    """
    head = _head(schema, choice)
    if schema.type == "PROTOBUF":
        return _protobuf_encoder(schema, catalog, choice, head)
    if choice.message:
        raise InvalidSchema(f"{schema}: only schemas of Protobuf have messages, such as {choice.message}")
    if schema.type == "AVRO":
        kind = avro_type(schema, catalog)
        return lambda value: head + encoded(kind, value)
    decoder = reader_of(schema, catalog).decoder(schema, catalog)

    def checked(value: object) -> bytes:
        text = _json(value, is_ascii=False).encode("utf-8", "replace")
        _, faults = decoder.decode(pa.array([text], pa.binary()), array("i", [0]), 0, b"")
        if faults:
            raise DoesNotFit("", decoder.reason(faults[0]))
        return head + text

    return checked


def _protobuf_encoder(schema: Known, catalog: SchemaCatalog, choice: _Choice, head: bytes) -> Encode:
    declared = proto_schema(schema, catalog)
    path: tuple[int, ...] | None = (0,)
    if choice.header_path:
        found = path_of(choice.header_path)
        path = None if found is None else found[0]
    elif choice.message and choice.header_path is None:
        path = declared.path(choice.message)
    message = None if path is None else declared.message(path)
    if path is None or message is None:
        name = choice.message or "in the header's path"
        raise InvalidSchema(f"{schema}: there is no message {name}")
    if head:
        head += path_bytes(path)
    elif choice.header_path is None and path != (0,):
        raise InvalidSchema(f"{schema}: without an id, a value is the first message, not {message.name}")
    encoder = ProtobufEncoder(message)
    return lambda value: head + encoder.encoded(value)


def _head(schema: Known, choice: _Choice) -> bytes:
    """Return the id in front of a value: that of the schema, or by which the line names the schema of a file."""
    if choice.header_path is not None:
        return b""
    number = choice.named.id if choice.named is not None else None
    if isinstance(schema, SchemaVersion):
        number = schema.id
    return b"" if number is None else struct.pack(">bi", 0, number)


# --- what a line names -----------------------------------------------------------------------------------------------


def _choice(field: str, described: object, headers: object) -> _Choice:
    """Return what `value_schema` or `key_schema` names: an id, or an object as in `decoded/records.ndjson`.

    A header goes before it.
    """
    number, message = described, None
    if isinstance(described, dict):
        number, message = described.get("id"), described.get("message")
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _ID_MAX):
        raise _NotEncoded(f'{field}_schema is an id, such as 7 or {{"id": 7}}')
    if message is not None and not isinstance(message, str):
        raise _NotEncoded(f'the message in {field}_schema is a name, such as "shop.Order"')
    in_header = _in_header(field, headers)
    if in_header is not None:
        return in_header
    named = None if number is None else NamedSchema(ReferenceForm.CONFLUENT, str(number))
    return _Choice(field, named, message or "")


def _in_header(field: str, headers: object) -> _Choice | None:
    """Return the schema that a header names, as readers of the record see it; None if none does."""
    given = headers if isinstance(headers, list) else []
    if not any(isinstance(header, dict) and header.get("key") in _HEADER_NAMES[field] for header in given):
        return None
    try:
        pairs = [{"key": str(header["key"]), "value": _header_value(header)} for header in given]
    except (TypeError, KeyError, DoesNotFit):
        return None  # append.ndjson has the reason to refuse it
    found = next(rows_by_schema(pa.array([b""], pa.binary()), pa.array([pairs], _HEADERS), field))
    return _Choice(field, found.named, header_path=found.path) if found.is_in_header else None


def _header_value(header: dict[str, Any]) -> bytes | None:
    if "value_b64" in header:
        return bytes_of({"b64": header["value_b64"]}, "headers")
    value = header.get("value")
    return None if value is None else bytes_of(value, "headers")


def _json(value: object, *, is_ascii: bool) -> str:
    """Return a value as JSON. Decimals keep their digits."""
    if isinstance(value, dict):
        members = (
            f"{json.dumps(name, ensure_ascii=is_ascii)}:{_json(item, is_ascii=is_ascii)}"
            for name, item in value.items()
        )
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return "[" + ",".join(_json(item, is_ascii=is_ascii) for item in value) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=is_ascii)
