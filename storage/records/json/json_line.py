"""One line of JSON as a record, in plain Python: the specification of `native/json_lines.pyx`; tests compare both.

    {"key":"k","value":"v","headers":[{"key":"h","value":"x"}],"timestamp":1795253676123}

The other way of `reference/record_json.py`. A line is a JSON object: `key`, `value` or their `_b64`, `headers` and
`timestamp` count, in any order; `partition` too where a topic is written to. The other fields of `records.ndjson` must
be JSON and are ignored; any other name is wrong.
People and programs wrote it, so a line that is
wrong says at which byte, and why. docs/internals/format/records-ndjson.md has the whole picture.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from offsetfs.storage.units import I64_MAX

DEPTH_MAX = 64
"""Levels of brackets and braces in a line, its own object included: protects the stack."""

NOT_AN_OBJECT = "a line is one JSON object, in braces"
UNFINISHED = "the line ends before the object does"
NO_NAME = "the name of a field, in quotes, belongs here"
NO_COLON = "a colon belongs here"
NO_COMMA = "a comma or the closing brace belongs here"
NO_COMMA_IN_LIST = "a comma or the closing bracket belongs here"
SURPLUS = "nothing but blanks may follow the object"
NO_VALUE = "this is no JSON value"
NO_NUMBER = "this is no JSON number"
RAW_CONTROL = "a control character in a string has to be escaped"
NO_ESCAPE = "this is no JSON escape"
HALF_PAIR = "half of a surrogate pair is no character"
NOT_UTF8 = "these bytes are not UTF-8"
NOT_BASE64 = "this is not base64: standard alphabet, padded, no bits left over"
TOO_DEEP = f"nested deeper than {DEPTH_MAX}"
TWICE = "this field was there before"
NO_TEXT = "a string or null belongs here"
VALUE_NO_TEXT = (
    "a value is a string or null; to take other JSON as its text use -o json-values=text (mount, append),"
    " --json-values=text (spark import), json_values='text' (append_ndjson), or wrap it:"
    " jq -c '.value |= tojson'"
)
NO_TIMESTAMP = "a timestamp is a whole number of milliseconds, from -1 to 2^63 - 1"
NO_HEADERS = 'headers are a list of objects such as {"key":"h","value":"x"}'
NO_HEADER_KEY = "a header needs a key, which is a string"
KEY_NEEDED = "a compacted topic takes no record without a key"
OUT_OF_TIME = "the timestamp is further from now than message.timestamp.before.max.ms or after.max.ms allows"

_DIGITS_MAX = 19

_BLANKS = re.compile(rb"[ \t\r\n]*")  # a line has no newline
_LITERAL = re.compile(rb"true|false|null")
_NUMBER_LIKE = re.compile(rb"[-+.0-9eE]*")
_NUMBER = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WHOLE = re.compile(rb"-?[0-9]+")
_ESCAPE = re.compile(rb'\\(?:(?P<short>["\\/bfnrt])|u(?P<code>[0-9a-fA-F]{4}))')
_LOW_HALF = re.compile(rb"\\u(?P<code>[dD][c-fC-F][0-9a-fA-F]{2})")
_SHORT_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_CHARACTERS = re.compile(rb'[^"\\\x00-\x1f]*')  # of a string, as they stand

_OF_A_RECORD = (b"key", b"value", b"headers", b"timestamp")
_OF_A_TOPIC = (*_OF_A_RECORD, b"partition")
_PLACE = (b"topic", b"partition", b"offset", b"timestamp_type")  # printed, and given by the log

FIELDS = frozenset((*_OF_A_RECORD, b"key_b64", b"value_b64", *_PLACE))
"""The fields that a line may have: those of `records.ndjson`."""

HEADER_FIELDS = frozenset((b"key", b"value", b"key_b64", b"value_b64"))
"""The fields that a header may have."""

_NAMES_MAX = 5
_NAME_BYTES_MAX = 40


@dataclass(frozen=True, slots=True)
class LineFault:
    """Why a line is no record. `position`: the byte of the line, from 0, where that shows."""

    position: int
    reason: str


class WrongLine(Exception):
    """A line is no record; `fault` says why. Cure: fix this line, then append again from it."""

    def __init__(self, fault: LineFault) -> None:
        super().__init__(f"byte {fault.position}: {fault.reason}")
        self.fault = fault


class JsonRecord(NamedTuple):
    """The content of a line. `timestamp` and `partition` are None if the line has none, or they do not count."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int | None
    partition: int | None = None


def parse(
    line: bytes, *, needs_key: bool = False, partitions: int = 0, values_as_text: bool = False
) -> JsonRecord | None:
    """Return what a line without its newline says, None when it is blank. Raises `WrongLine`.

    With `needs_key` a record without a key is refused. `partitions` is the number of partitions of a topic: with it the
    field `partition` counts, and must be below it. With `values_as_text` a `value` that is no string, and not null, is
    its text, as it stands in the line; else it is refused. Costs Python objects: bulk paths use
    `record_json.split_json`.
    """
    return _Line(line).record(needs_key, partitions, values_as_text)


def no_partition(partitions: int) -> str:
    """Return why a `partition` is refused that a topic with so many partitions does not have."""
    return (
        f"partition must be null or a number that the topic has, from 0 to {partitions - 1}; to choose the partition by"
        " the key, remove the field: jq -c 'del(.partition)'"
    )


def unknown_fields(line: bytes, position: int, allowed: frozenset[bytes]) -> str:
    """Return what is wrong with a line that has a field not in `allowed`, whose name begins at `position`."""
    shown = ", ".join(f'"{name}"' for name in _Line(line, position).other_names(allowed))
    if allowed is HEADER_FIELDS:
        return f"unknown field {shown}: a header has key (or key_b64) and value (or value_b64)"
    return (
        f"unknown field {shown}: a record has key, value, headers and timestamp;"
        " to take whole lines as values write to append, use --value-is-line (append, spark import), or wrap them:"
        " jq -c '{value: tojson}'"
    )


class JsonGrammar:
    """The grammar of JSON: a text, and the byte of it that is to be looked at next. A fault is a `WrongLine`."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def names(self) -> Iterator[bytes]:
        """Stop at the value of each field of the object, which the caller then reads; yield the name."""
        self.match(_BLANKS)
        if self.takes(b"}"):
            return
        while True:
            if self.next != b'"':
                self.fail_here(NO_NAME)
            name = self.string()
            self.match(_BLANKS)
            self.expect(b":", NO_COLON)
            self.match(_BLANKS)
            yield name
            self.match(_BLANKS)
            if self.takes(b"}"):
                return
            self.expect(b",", NO_COMMA)
            self.match(_BLANKS)

    def items(self) -> Iterator[None]:
        """Stop at each item of the list, which the caller then reads."""
        self.match(_BLANKS)
        if self.takes(b"]"):
            return
        while True:
            yield
            self.match(_BLANKS)
            if self.takes(b"]"):
                return
            self.expect(b",", NO_COMMA_IN_LIST)
            self.match(_BLANKS)

    def skip_value(self, depth: int) -> None:
        """Read a value of any kind; `depth` levels are open around it."""
        opening = self.next
        if opening == b'"':
            self.string()
        elif opening in (b"{", b"["):
            if depth == DEPTH_MAX:
                self.fail(TOO_DEEP, self.at)
            self.at += 1
            for _ in self.names() if opening == b"{" else self.items():
                self.skip_value(depth + 1)
        elif opening and opening in b"-0123456789":
            self.number()
        elif literal := _LITERAL.match(self.data, self.at):
            self.at = literal.end()
        else:
            self.fail_here(NO_VALUE)

    def number(self) -> bytes:
        start, run = self.at, self.match(_NUMBER_LIKE)
        if not _NUMBER.fullmatch(run):
            self.fail(NO_NUMBER, start)
        return run

    def string(self) -> bytes:
        parts = []
        self.at += 1
        while True:
            parts.append(self.characters())
            if self.takes(b'"'):
                return b"".join(parts)
            if self.next != b"\\":
                self.fail_here(RAW_CONTROL)
            parts.append(self.escape())

    def characters(self) -> bytes:
        start, run = self.at, self.match(_CHARACTERS)
        try:
            run.decode()
        except UnicodeDecodeError as error:
            self.fail(NOT_UTF8, start + error.start)
        return run

    def escape(self) -> bytes:
        start, escape = self.at, _ESCAPE.match(self.data, self.at)
        if escape is None:
            self.fail(NO_ESCAPE, start)
        self.at = escape.end()
        if short := escape["short"]:
            return _SHORT_ESCAPES.get(short, short)
        code = int(escape["code"], 16)
        if 0xD800 <= code < 0xDC00 and (low := _LOW_HALF.match(self.data, self.at)):
            self.at = low.end()
            code = 0x10000 + (code - 0xD800 << 10) + (int(low["code"], 16) - 0xDC00)
        if 0xD800 <= code < 0xE000:
            self.fail(HALF_PAIR, start)
        return chr(code).encode()

    # --- bytes -----------------------------------------------------------------------------------------------------

    @property
    def next(self) -> bytes:
        """The next byte; empty at the end."""
        return self.data[self.at : self.at + 1]

    def blanks(self) -> None:
        """Step over blanks."""
        self.match(_BLANKS)

    def match(self, pattern: re.Pattern[bytes]) -> bytes:
        """Step over what matches a pattern that always does, and return it."""
        match = pattern.match(self.data, self.at)
        assert match is not None
        self.at = match.end()
        return match[0]

    def takes(self, token: bytes) -> bool:
        """Step over the token if it is here; return whether it was."""
        if not self.data.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def expect(self, token: bytes, reason: str) -> None:
        if not self.takes(token):
            self.fail_here(reason)

    def fail_here(self, reason: str) -> NoReturn:
        self.fail(reason if self.next else UNFINISHED, self.at)

    def fail(self, reason: str, position: int) -> NoReturn:
        raise WrongLine(LineFault(position, reason))


class _Line(JsonGrammar):
    """A line as a record."""

    __slots__ = ()

    def other_names(self, allowed: frozenset[bytes]) -> list[str]:
        """Return the names not in `allowed` of this field and those behind it in its object, some of them at most."""
        names: list[str] = []
        with contextlib.suppress(WrongLine):
            while len(names) < _NAMES_MAX and self.next == b'"':
                name = self.string()
                if name not in allowed:
                    names.append(name[:_NAME_BYTES_MAX].decode("utf-8", "replace"))
                self.match(_BLANKS)
                self.expect(b":", NO_COLON)
                self.match(_BLANKS)
                self.skip_value(depth=1)
                self.match(_BLANKS)
                self.expect(b",", NO_COMMA)
                self.match(_BLANKS)
        return names

    # --- what a record is made of ----------------------------------------------------------------------------------

    def record(self, needs_key: bool, partitions: int, values_as_text: bool) -> JsonRecord | None:
        self.match(_BLANKS)
        if self.at == len(self.data):
            return None
        self.expect(b"{", NOT_AN_OBJECT)
        values: dict[bytes, bytes | None] = {}
        headers: list[tuple[str, bytes | None]] = []
        timestamp: int | None = None
        partition: int | None = None
        for name, field in self.fields(_OF_A_TOPIC if partitions else _OF_A_RECORD, values, FIELDS):
            if field == b"headers":
                headers = self.headers()
            elif field == b"timestamp":
                timestamp = self.whole_number(-1, I64_MAX, NO_TIMESTAMP)
            elif field == b"partition":
                partition = self.whole_number(0, partitions - 1, no_partition(partitions))
            elif name == b"value":
                values[field] = self.value(values_as_text)
            elif field:
                values[field] = self.text(is_base64=name != field)
            else:
                self.skip_value(depth=1)
        self.match(_BLANKS)
        if self.at < len(self.data):
            self.fail(SURPLUS, self.at)
        if needs_key and values.get(b"key") is None:
            self.fail(KEY_NEEDED, 0)
        return JsonRecord(values.get(b"key"), values.get(b"value"), headers, timestamp, partition)

    def headers(self) -> list[tuple[str, bytes | None]]:
        if self.takes(b"null"):
            return []
        self.expect(b"[", NO_HEADERS)
        return [self.header() for _ in self.items()]

    def header(self) -> tuple[str, bytes | None]:
        start = self.at
        self.expect(b"{", NO_HEADERS)
        values: dict[bytes, bytes | None] = {}
        for name, field in self.fields(_OF_A_RECORD[:2], values, HEADER_FIELDS):
            if field == b"key" and self.next not in (b'"', b""):
                self.fail(NO_HEADER_KEY, self.at)
            values[field] = self.text(is_base64=name != field)
        key = values.get(b"key")
        if key is None:
            self.fail(NO_HEADER_KEY, start)
        return key.decode("utf-8", "surrogateescape"), values.get(b"value")

    def whole_number(self, low: int, high: int, reason: str) -> int | None:
        """Read null, or a number from `low` to `high` without fraction and exponent; else `reason` says why not."""
        if self.takes(b"null"):
            return None
        start = self.at
        if not self.next or self.next not in b"-0123456789":
            self.fail_here(reason)
        number = self.number()
        if not _WHOLE.fullmatch(number) or len(number) > _DIGITS_MAX:
            self.fail(reason, start)
        if not low <= int(number) <= high:
            self.fail(reason, start)
        return int(number)

    def value(self, as_text: bool) -> bytes | None:
        """Read the value of a record; what is no string is its text, or wrong."""
        start = self.at
        if self.next == b'"':
            return self.string()
        if self.takes(b"null"):
            return None
        if not as_text:
            self.fail_here(VALUE_NO_TEXT)
        self.skip_value(depth=1)
        return self.data[start : self.at]

    def text(self, *, is_base64: bool) -> bytes | None:
        if self.takes(b"null"):
            return None
        start = self.at
        if self.next != b'"':
            self.fail_here(NO_TEXT)
        text = self.string()
        if not is_base64:
            return text
        data = _from_base64(text)
        if data is None:
            self.fail(NOT_BASE64, start)
        return data

    def fields(
        self, known: tuple[bytes, ...], values: dict[bytes, bytes | None], allowed: frozenset[bytes] | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Stop at the value of each field of the object, which the caller then reads.

        Yields the name, and which of the `known` fields it stands for, put into `values`; empty for none of them. With
        `allowed` a field of another name is wrong.
        """
        self.match(_BLANKS)
        if self.takes(b"}"):
            return
        while True:
            start = self.at
            if self.next != b'"':
                self.fail_here(NO_NAME)
            name = self.string()
            self.match(_BLANKS)
            self.expect(b":", NO_COLON)
            self.match(_BLANKS)
            if allowed is not None and name not in allowed:
                self.fail(unknown_fields(self.data, start, allowed), start)
            field = name[: -len(b"_b64")] if name in (b"key_b64", b"value_b64") else name
            if field not in known:
                field = b""
            elif field in values:
                self.fail(TWICE, start)
            else:
                values[field] = None
            yield name, field
            self.match(_BLANKS)
            if self.takes(b"}"):
                return
            self.expect(b",", NO_COMMA)
            self.match(_BLANKS)


def _from_base64(text: bytes) -> bytes | None:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
    return data if base64.b64encode(data) == text else None
