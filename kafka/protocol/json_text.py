"""Functions that write Kafka's messages as JSON, character for character as Kafka's JsonConverter classes do.

    text(message)               one line of JSON without spaces, with the fields of the version
    text(message, bytes_text)   the same; `bytes_text(field, data)` returns the JSON of `bytes` that are not null

Fields are in the order of the schema, with Kafka's names; tagged fields are there when they are not the default. Bytes
are base64, ids URL-safe base64 without padding. The functions are generated from `schemas`, as those of `codec` are.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from math import isfinite

from offsetfs.kafka.protocol.codec import FunctionSource, compiled
from offsetfs.kafka.protocol.message import id_text
from offsetfs.kafka.protocol.schemas import SchemaField, camel, known_version, schema

Text = Callable[..., str]

_ESCAPES = {number: f"\\u{number:04X}" for number in range(0x20)} | {
    ord(sign): f"\\{escape}" for sign, escape in zip('"\\\b\f\n\r\t', '"\\bfnrt', strict=True)
}
_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_PLAIN_MIN, _PLAIN_END = 1e-3, 1e7  # Java writes a double within without an exponent


def json_writer(name: str, version: int) -> Text:
    """Return the function that writes the message `name` as JSON, with the fields of a version, any `short`."""
    return _json_writer(name, known_version(name, version))


@functools.cache
def _json_writer(name: str, version: int) -> Text:
    message_schema = schema(name)
    generated = _JsonSource(message_schema, message_schema.layout(min(version, message_schema.versions[1])), version)
    text: Text = compiled(f"json_{name}_v{version}", generated.source(), generated.names)
    return text


def string_text(value: str) -> str:
    """Return text as JSON."""
    return f'"{value}"' if _ESCAPED.search(value) is None else f'"{value.translate(_ESCAPES)}"'


def bytes_text(_: str, data: bytes) -> str:
    """Return the bytes of any field as JSON."""
    return f'"{base64.b64encode(data).decode()}"'


def double_text(value: float) -> str:
    """Return a number as Double.toString does: 100.0, 1.0E7, 1.5E-4; what is not a number, as Jackson quotes it."""
    if not isfinite(value):
        return {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}[str(value)]
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_END:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).ljust(2, "0")
    return f"{'-' * sign}{text[0]}.{text[1:]}E{exponent + len(digits) - 1}"


def _array_text(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"


def _id_text(value: bytes) -> str:
    return f'"{id_text(value)}"'


class _JsonSource(FunctionSource):
    """A function for each struct, whose text is one f-string; with tagged fields, a list of the fields that are there.

    f-strings of Python 3.11 have no quotes in their expressions: constants have names.
    """

    def source(self) -> str:
        self.names |= {
            "array_text": _array_text,
            "bytes_text": bytes_text,
            "float64_text": double_text,
            "joined": ",".join,
            "string_text": string_text,
            "uuid_text": _id_text,
            "words": {True: "true", False: "false"},
            "null": "null",
        }
        self.indent(-1)
        name = self._function(self.layout.fields)
        with self.block("def f(m, b=bytes_text):"):
            self.line(f"return {name}(m, b)")
        return "\n".join(self._lines) + "\n"

    def _function(self, fields: tuple[SchemaField, ...]) -> str:
        """Define the function that writes a struct; return its name."""
        body, tagged = self.present(fields)
        there = [field for field in fields if field in body or field in tagged]
        texts = [f'"{camel(field.name)}":{{{self._field(field)}}}' for field in there]
        name = self.variable("g")
        with self.block(f"def {name}(m, b):"):
            if not tagged:
                self.line(f"return f'{{{{{','.join(texts)}}}}}'")
                return name
            self.line("t = []")
            for field, text in zip(there, texts, strict=True):
                if field in tagged:
                    with self.block(f"if m.{field.name} != {self.compared(field)}:"):
                        self.line(f"t.append(f'{text}')")
                else:
                    self.line(f"t.append(f'{text}')")
            self.line("return f'{{{joined(t)}}}'")
        return name

    def _field(self, field: SchemaField) -> str:
        """Return the expression of the text of a field."""
        value = f"m.{field.name}"
        if not field.is_array:
            text = self._one(field, value)
        elif field.type.startswith(("int", "uint")):
            text = f"array_text(map(str, {value}))"
        else:
            text = f"array_text([{self._one(field, 'e')} for e in {value}])"
        return f"null if {value} is None else {text}" if self.may_be_null(field) else text

    def _one(self, field: SchemaField, value: str) -> str:
        match field.type:
            case "struct":
                return f"{self._function(field.fields)}({value}, b)"
            case "bytes":
                self.names[f"name_{field.name}"] = field.name
                return f"b(name_{field.name}, {value})"
            case "bool":
                return f"words[{value}]"
            case "string" | "uuid" | "float64":
                return f"{field.type}_text({value})"
        return value
