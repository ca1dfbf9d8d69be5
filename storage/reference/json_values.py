"""JSON values into columns in Arrow's layout, in Python: tests compare `native/json_values.pyx` with this reference.

A program says which columns a value has. It is an array of numbers, one node after the other, and each node has the
number of its column:

    NULL              column                        null alone
    BOOLEAN           column
    INTEGER           column                        int64; 1.0 and 1e3 are whole
    NUMBER            column                        double
    TEXT              column                        a string without its escapes
    JSON              column                        a value of any type, as it stands
    OBJECT            column, count, fields…, order…   three numbers for each field: where its name begins in the names,
                                                    the bytes of the name, its node; then the fields by size and name
    LIST              column, node                  of an item
    MAP               column, keys, node            an object with names of its own; `keys` is the column of the names

Each node is named once, by its position in the program; a value within another has a child of its column.

Null fits every node, and is a null. A field that an object lacks is a null, one that the program lacks is left out. Of
fields with the same name the last one counts, as in Python; its type alone matters. A value that is not JSON (RFC
8259), or of another type, is a null and a `DecodingFault`; all other values stay.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Sequence

from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.records.json import json_line
from offsetfs.storage.records.json.json_line import JsonGrammar, WrongLine
from offsetfs.storage.reference.decoded_columns import (
    BITS,
    ITEMS,
    NOTHING,
    STRUCT,
    VARIABLE,
    WIDE,
    ColumnBuffers,
    DecodingFault,
    check,
    columns_of,
    described_columns,
)

NULL, BOOLEAN, INTEGER, NUMBER, TEXT, JSON, OBJECT, LIST, MAP = range(9)
"""The nodes of a program."""

FAULTS = (
    "",
    "the JSON text ends too early",
    "the text is not JSON",
    "the text is not UTF-8",
    "half of a surrogate pair is no character",
    "values are nested too deeply",
    "more text follows the JSON value",
    "the type is not that of the schema",
    "a number has a fraction, and the schema says integer",
    "a number does not fit 64 bits",
    "the decoded values need too much memory",
)
"""What is wrong with a value, by `DecodingFault.code`."""

CUT, NOT_JSON, NOT_UTF8, HALF_PAIR, TOO_DEEP, SURPLUS, WRONG_TYPE, FRACTION, TOO_BIG = range(1, 10)

_CODES = {
    json_line.UNFINISHED: CUT,
    json_line.NOT_UTF8: NOT_UTF8,
    json_line.HALF_PAIR: HALF_PAIR,
    json_line.TOO_DEEP: TOO_DEEP,
}
"""The faults of the grammar; all others are NOT_JSON."""

_NUMBER = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?)0*([0-9]*))?")
_EXPONENT_DIGITS_MAX = 12
_INT64_DIGITS = 19


class _WrongType(Exception):
    def __init__(self, code: int, node: int) -> None:
        self.code, self.node = code, node


class _NotJson(_WrongType):
    """No later field with the same name makes it right."""


class JsonColumnDecoder:
    """Decodes values by one program; the columns grow until `finish`."""

    def __init__(self, program: array[int], root: int, columns: array[int], children: array[int], names: bytes) -> None:
        """Raises ValueError for a program or columns that refer to what is not there.

        Node `root` reads a value, into column 0. A column stands before its children.
        """
        check_program(program, root, columns, children, names)
        self._program, self._root, self._names = program, root, names
        self._description = columns, children
        self._columns = columns_of(columns, children)
        self.faults: list[DecodingFault] = []

    def decode(self, ends: Buffer, data: Buffer, validity: Buffer | None, picks: array[int], skip: int) -> None:
        """Append the values of the rows `picks` of a column, without their first `skip` bytes.

        A row that is null, or a value that cannot be decoded, is a null; the latter is added to `faults`, whose rows
        count from the first row that was ever appended.
        """
        starts = memoryview(ends).cast("B").cast("i")
        for row in picks:
            if not 0 <= row < len(starts) - 1 or not 0 <= starts[row] <= starts[row + 1] <= len(data):
                raise ValueError("a row outside of its column")
            if validity is not None and not memoryview(validity)[row >> 3] >> (row & 7) & 1:
                self._columns[0].append_null()
                continue
            text = bytes(memoryview(data)[starts[row] : starts[row + 1]])[skip:]
            try:
                value = _Value(text, self._program, self._names).whole(self._root)
            except _WrongType as wrong:
                self.faults.append(DecodingFault(self._columns[0].count, wrong.code, wrong.node))
                self._columns[0].append_null()
                continue
            self._append(self._root, value)

    def finish(self) -> list[ColumnBuffers]:
        """Return the buffers of all columns, and begin new ones."""
        finished = [column.buffers() for column in self._columns]
        self._columns = columns_of(*self._description)
        self.faults = []
        return finished

    def _append(self, node: int, value: object) -> None:
        """Append what was read at a node: first the children."""
        operation, number = self._program[node : node + 2]
        column = self._columns[number]
        if value is None:
            column.append_null()
            return
        if isinstance(value, dict):
            for place, (_, child) in enumerate(_fields(self._program, self._names, node)):
                self._append(child, value.get(place))
        elif isinstance(value, list):
            child = self._program[node + (2 if operation == LIST else 3)]
            for item in value:
                self._append(child, item)
        elif isinstance(value, tuple):
            for name, item in value:
                self._columns[self._program[node + 2]].append(name)
                self._append(self._program[node + 3], item)
        column.append(value if isinstance(value, bytes | bool) else None)


class _Value(JsonGrammar):
    """Reads one value."""

    __slots__ = ("_names", "_program")

    def __init__(self, data: bytes, program: Sequence[int], names: bytes) -> None:
        super().__init__(data)
        self._program, self._names = program, names

    def whole(self, root: int) -> object:
        """Return the value with no more than blanks around it."""
        self.blanks()
        start = self.at
        try:
            value = self.read(root, 0)
        except _NotJson:
            raise
        except _WrongType:
            self.skip(start, root, 0)
            self._check_end(root)
            raise
        self._check_end(root)
        return value

    def _check_end(self, root: int) -> None:
        self.blanks()
        if self.at < len(self.data):
            raise _NotJson(SURPLUS, root)

    def skip(self, start: int, node: int, depth: int) -> None:
        """Read the value at `start` without regard to types."""
        self.at = start
        try:
            self.skip_value(depth)
        except WrongLine as wrong:
            raise _not_json(wrong, node) from None

    def read(self, node: int, depth: int) -> object:
        """Return the value as its node has it: an object by the numbers of its fields, a map as pairs."""
        operation = self._program[node]
        first = self.next
        try:
            if not first:
                self.fail_here(json_line.NO_VALUE)
            if self.takes(b"null"):
                return None
            if operation == JSON:
                start = self.at
                self.skip_value(depth)
                return self.data[start : self.at]
            if operation == TEXT and first == b'"':
                return self.string()
            if operation == BOOLEAN and (self.takes(b"true") or self.takes(b"false")):
                return first == b"t"
            if operation in (INTEGER, NUMBER) and first in b"-0123456789":
                number = self.number()
                return _whole(number, node) if operation == INTEGER else _double(number, node)
            if operation in (OBJECT, MAP) and first == b"{":
                self._open(depth)
                return self._object(node, depth) if operation == OBJECT else self._map(node, depth)
            if operation == LIST and first == b"[":
                self._open(depth)
                return [self.read(self._program[node + 2], depth + 1) for _ in self.items()]
        except WrongLine as wrong:
            raise _not_json(wrong, node) from None
        raise _WrongType(WRONG_TYPE, node)

    def _open(self, depth: int) -> None:
        if depth == json_line.DEPTH_MAX:
            self.fail(json_line.TOO_DEEP, self.at)
        self.at += 1

    def _object(self, node: int, depth: int) -> dict[int, object]:
        numbers = {
            name: (place, child) for place, (name, child) in enumerate(_fields(self._program, self._names, node))
        }
        values: dict[int, object] = {}
        for name in self.names():
            if name not in numbers:
                self.skip_value(depth + 1)
                continue
            place, child = numbers[name]
            start = self.at
            try:
                values[place] = self.read(child, depth + 1)
            except _NotJson:
                raise
            except _WrongType as wrong:
                self.skip(start, child, depth + 1)
                values[place] = wrong
        for place in sorted(values):
            wrong_value = values[place]
            if isinstance(wrong_value, _WrongType):
                raise wrong_value
        return values

    def _map(self, node: int, depth: int) -> tuple[tuple[bytes, object], ...]:
        """Return the pairs, of which the last with the same name stays at its place."""
        starts: dict[bytes, int] = {}
        for name in self.names():
            starts.pop(name, None)
            starts[name] = self.at
            self.skip_value(depth + 1)
        end, pairs = self.at, []
        for name, self.at in starts.items():
            pairs.append((name, self.read(self._program[node + 3], depth + 1)))
        self.at = end
        return tuple(pairs)


def _not_json(wrong: WrongLine, node: int) -> _NotJson:
    return _NotJson(_CODES.get(wrong.fault.reason, NOT_JSON), node)


def _whole(number: bytes, node: int) -> bytes:
    """Return a number without a fraction as int64."""
    match = _NUMBER.fullmatch(number)
    assert match is not None
    sign, digits, fraction, exponent_sign, exponent = (part or b"" for part in match.groups())
    power = int(exponent or 0) if len(exponent) <= _EXPONENT_DIGITS_MAX else 10**_EXPONENT_DIGITS_MAX
    significant = (digits + fraction).strip(b"0")
    if not significant:
        return bytes(8)
    zeros = len(digits + fraction) - len((digits + fraction).rstrip(b"0"))
    power = (-power if exponent_sign == b"-" else power) - len(fraction) + zeros
    if power < 0:
        raise _WrongType(FRACTION, node)
    if len(significant) + power > _INT64_DIGITS:
        raise _WrongType(TOO_BIG, node)
    value = int(sign + significant) * 10**power
    if not -(1 << 63) <= value < 1 << 63:
        raise _WrongType(TOO_BIG, node)
    return struct.pack("<q", value)


def _double(number: bytes, node: int) -> bytes:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise _WrongType(TOO_BIG, node)
    return struct.pack("<d", value)


# --- the check of a program ------------------------------------------------------------------------------------------

_COLUMNS = {
    NULL: (NOTHING, 0), BOOLEAN: (BITS, 0), INTEGER: (WIDE, 8), NUMBER: (WIDE, 8), TEXT: (VARIABLE, 0),
    JSON: (VARIABLE, 0), OBJECT: (STRUCT, 0), LIST: (ITEMS, 0), MAP: (ITEMS, 0),
}  # fmt: skip
"""Kind and width of the column of each node."""


def check_program(program: array[int], root: int, columns: array[int], children: array[int], names: bytes) -> None:
    """Raise ValueError for a program or columns that would make a decoder access what is not there."""
    if program.typecode != "q":
        raise ValueError("a program of other than int64 numbers")
    described = described_columns(columns, children)
    waiting, left = [(root, 0)], set(range(len(described)))
    while waiting:
        node, column = waiting.pop()
        check(0 <= node < len(program) - 1 and program[node + 1] == column and column in left)
        left.discard(column)
        check(program[node] in _COLUMNS)
        kind, width, first, size = described[column]
        check((kind, width) == _COLUMNS[program[node]])
        parts = list(children[first : first + size])
        if program[node] == MAP:
            check(size == 2 and node + 3 < len(program) and program[node + 2] == parts[0] and parts[0] in left)
            check(described[parts[0]][0] == VARIABLE)
            left.discard(parts.pop(0))
            nodes = [program[node + 3]]
        elif program[node] == LIST:
            check(size == 1 and node + 2 < len(program))
            nodes = [program[node + 2]]
        else:
            nodes = _checked_fields(program, node, names) if program[node] == OBJECT else []
        check(len(nodes) == len(parts))
        waiting += zip(nodes, parts, strict=True)


def _checked_fields(program: array[int], node: int, names: bytes) -> list[int]:
    """Return the nodes of the fields of an object."""
    check(node + 2 < len(program) and 0 <= program[node + 2] <= len(program))
    count = program[node + 2]
    check(node + 3 + 4 * count <= len(program))
    numbers = program[node + 3 : node + 3 + 3 * count]
    for start, size in zip(numbers[::3], numbers[1::3], strict=True):
        check(0 <= start <= start + size <= len(names) and size >= 0)
    check(all(0 <= place < count for place in program[node + 3 + 3 * count : node + 3 + 4 * count]))
    return list(numbers[2::3])


def _fields(program: Sequence[int], names: bytes, node: int) -> list[tuple[bytes, int]]:
    """Return names and nodes of the fields of an object."""
    numbers = program[node + 3 : node + 3 + 3 * program[node + 2]]
    parts = zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return [(names[start : start + size], child) for start, size, child in parts]
