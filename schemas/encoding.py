"""Lines of JSON with decoded values into lines with the bytes of the values: the other way of `decoded_lines`.

    {"key":"k","value":{"id":7}}     →     {"key":"k","value_b64":"AAAAAAMO"}

A value is encoded by the newest schema of its topic's subject, or by that of the id in `value_schema`, and begins with
the id as Confluent's serializers write it. By the schema of a file, which has no id, it is encoded without one. A line
of `decoded/records.ndjson` is accepted as it stands; a value that was not decoded, with its `value_error`, stays as it
is.
"""

from __future__ import annotations

import base64
import json
import struct
from array import array
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from offsetfs.schemas.avro_encoding import DoesNotFit, encoded
from offsetfs.schemas.avro_format import avro_type
from offsetfs.schemas.catalog import SchemaCatalog, SchemaVersion
from offsetfs.schemas.decoding import DirectorySchemas, NoSchema
from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer, reader_of
from offsetfs.schemas.schema_usage import Known
from offsetfs.storage.records import LineFault

_ID_MAX = (1 << 31) - 1
_ENCODERS_MAX = 1000

Encode = Callable[[Any], bytes]


class _NotEncoded(Exception):
    """A line has no value that can be encoded."""


class LineEncoder:
    """Encodes lines for one topic. One thread at a time uses it."""

    def __init__(self, schemas: DirectorySchemas, topic: str) -> None:
        self._schemas, self._topic = schemas, topic
        self._encoders: dict[int, tuple[Known, Encode]] = {}  # by identity of the schema: its text is long

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
        except _Repeated as error:
            raise _NotEncoded(f"{error} is there twice") from None
        except (ValueError, RecursionError):
            return line
        if not isinstance(record, dict):
            return line
        named = record.pop("value_schema", None)
        if record.pop("value_error", None) is None:
            if "value_b64" in record:
                raise _NotEncoded("value_b64 has bytes, which are not encoded: append them to append.ndjson")
            if record.get("value") is not None:
                data = self._value(_id(named), record.pop("value"))
                record["value_b64"] = base64.b64encode(data).decode()
        return _json(record, is_ascii=True).encode() + b"\n"

    def _value(self, number: int | None, value: object) -> bytes:
        try:
            schema, catalog = self._schema(number)
            return self._encoder(schema, catalog)(value)
        except NoSchema as error:
            raise _NotEncoded(error.reason) from error
        except (DoesNotFit, InvalidSchema, SchemasDiffer) as error:
            raise _NotEncoded(str(error)) from error
        except RecursionError:
            raise _NotEncoded("the value is nested too deeply") from None

    def _schema(self, number: int | None) -> tuple[Known, SchemaCatalog]:
        try:
            return self._schemas.writer(self._topic, number)
        except NoSchema:
            self._schemas.refresh()
            return self._schemas.writer(self._topic, number)

    def _encoder(self, schema: Known, catalog: SchemaCatalog) -> Encode:
        found = self._encoders.get(id(schema))
        if found is None:
            if len(self._encoders) >= _ENCODERS_MAX:
                self._encoders.clear()
            found = self._encoders[id(schema)] = schema, encoder_of(schema, catalog)
        return found[1]


def encoder_of(schema: Known, catalog: SchemaCatalog) -> Encode:
    """Return what makes a value of a schema from JSON, with the id in front if the schema has one. `InvalidSchema`.

    The function raises `DoesNotFit`.
    """
    head = struct.pack(">bi", 0, schema.id) if isinstance(schema, SchemaVersion) else b""
    if schema.type == "AVRO":
        kind = avro_type(schema, catalog)
        return lambda value: head + encoded(kind, value)
    if schema.type == "JSON":
        decoder = reader_of(schema, catalog).decoder(schema, catalog)

        def checked(value: object) -> bytes:
            text = _json(value, is_ascii=False).encode("utf-8", "replace")
            _, faults = decoder.decode(pa.array([text], pa.binary()), array("i", [0]), 0, b"")
            if faults:
                raise DoesNotFit("", decoder.reason(faults[0]))
            return head + text

        return checked
    raise InvalidSchema(f"{schema}: values of {schema.type} are not encoded, only those of AVRO and JSON")


def _id(named: object) -> int | None:
    """Return the id in `value_schema`: a number, or an object as in `decoded/records.ndjson`; None if there is none."""
    number = named.get("id") if isinstance(named, dict) else named
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _ID_MAX:
        raise _NotEncoded('value_schema is an id, such as 7 or {"id": 7}')
    return number


class _Repeated(Exception):
    """An object has a name twice."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Repeated(json.dumps(next(name for name in members if names.count(name) > 1)))
    return members


def read_json(text: bytes) -> Any:
    """Return JSON with all digits of its numbers, and the sign of zero. ValueError; an object has no name twice."""
    return json.loads(
        text,
        parse_int=_whole_number,
        parse_float=Decimal,
        parse_constant=_no_number,
        object_pairs_hook=_without_repetition,
    )


def _whole_number(text: str) -> int | Decimal:
    return Decimal(text) if text == "-0" else int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


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
