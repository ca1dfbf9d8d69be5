"""Protobuf values into columns in Arrow's layout, in Python: the reference of `native/protobuf.pyx` in tests.

A program is an array of numbers. It consists of messages, and each message of fields:

    column, fields, dense, sparse      the message: the column of its struct, and how many numbers follow of each part
    operation, column, flags, node, oneof        a field: `FIELD_NUMBERS` numbers
    …                                            `dense`: the position of the field with number 0, 1, …; -1 for none
    number, position                             `sparse`: the fields with larger numbers, in their order

`operation` says how a value is read, and what its column is:

    VARINT32, ZIGZAG32, FIXED32   4 bytes       VARINT64, ZIGZAG64, FIXED64   8 bytes
    BOOL                          a bit         TEXT, BYTES                   bytes with a length in front
    MESSAGE                       a struct, read by the message at `node`
    RAW                           the bytes of a message, which is not read

`flags`: REPEATED, the column has items, whose column is its child; ZERO, an absent value is the default of its type,
not null; DELIMITED, a message between tags. `oneof` is the position of a list, a count and so many columns, of which
one has a value; or -1. A field with the column -1 is read over, and only empties the others of its oneof.

Follows the wire format of Protobuf: fields in any order, the last value counts, messages of several parts are merged,
numbers repeated may be packed or not. A field with an unknown number, or another wire type, is read over. Numbers lose
their upper bits. A value that is damaged is a null and a `DecodingFault`; all other values stay.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Sequence
from itertools import pairwise

from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.reference.decoded_columns import (
    BITS,
    ITEMS,
    NOTHING,
    STRUCT,
    VARIABLE,
    WIDE,
    ColumnBuffers,
    DecodingFault,
    GrowingColumn,
    check,
    columns_of,
    described_columns,
)

VARINT32, ZIGZAG32, FIXED32, VARINT64, ZIGZAG64, FIXED64, BOOL, TEXT, BYTES, MESSAGE, RAW = range(11)
"""The operations."""

REPEATED, ZERO, DELIMITED = 1, 2, 4
"""The flags."""

MESSAGE_NUMBERS, FIELD_NUMBERS = 4, 5

FAULTS = (
    "",
    "the value ends too early",
    "a number has too many bytes",
    "a field has a number or a wire type that does not exist",
    "a text is not UTF-8",
    "a group has no end, or an end no group",
    "messages are nested too deeply",
    "too many fields have no value",
    "the decoded values need too much memory",
)
"""What is wrong with a value, by `DecodingFault.code`."""

CUT, LONG_NUMBER, BAD_TAG, NOT_UTF8, BAD_GROUP, TOO_DEEP, TOO_MANY = range(1, 8)

DEPTH_MAX = 100
"""Messages within each other, as in Google's libraries: protects the stack."""

COLUMNS_DEPTH_MAX = 200
"""Columns within each other: protects the stack."""

STEPS_MIN, STEPS_PER_BYTE = 1 << 20, 1024
"""Fields that a value may have, absent ones included: protects time from many empty messages with many fields."""

_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)

WIRES = {
    VARINT32: _VARINT, ZIGZAG32: _VARINT, FIXED32: _FIXED32, VARINT64: _VARINT, ZIGZAG64: _VARINT, FIXED64: _FIXED64,
    BOOL: _VARINT, TEXT: _LENGTH, BYTES: _LENGTH, MESSAGE: _LENGTH, RAW: _LENGTH,
}  # fmt: skip
"""The wire type of each operation; that of a DELIMITED field is another."""

_WIDTHS = {VARINT32: 4, ZIGZAG32: 4, FIXED32: 4, VARINT64: 8, ZIGZAG64: 8, FIXED64: 8}


class _Wrong(Exception):
    def __init__(self, code: int, node: int) -> None:
        self.code, self.node = code, node


@dataclasses.dataclass(slots=True)
class _Field:
    position: int
    operation: int
    column: int
    flags: int
    node: int
    oneof: frozenset[int]

    @property
    def wire(self) -> int:
        return _GROUP if self.flags & DELIMITED else WIRES[self.operation]

    @property
    def is_packable(self) -> bool:
        return bool(self.flags & REPEATED) and WIRES[self.operation] != _LENGTH


@dataclasses.dataclass(slots=True)
class _Message:
    column: int
    fields: list[_Field]
    by_number: dict[int, _Field]


@dataclasses.dataclass(slots=True)
class _Content:
    """What was read of a message: by column, the last value, the items, or the content of a message within it."""

    parts: dict[int, bytes | _Content | list[bytes | _Content]] = dataclasses.field(default_factory=dict)


class ProtobufColumnDecoder:
    """Decodes values by one program; the columns grow until `finish`."""

    def __init__(self, program: array[int], root: int, columns: array[int], children: array[int]) -> None:
        """Raises ValueError for a program or columns that refer to what is not there.

        The message `root` reads a value, into column 0. A column stands before its children.
        """
        check_program(program, root, columns, children)
        self._program, self._root = program, root
        self._description = columns, children
        self._columns = columns_of(columns, children)
        self._messages: dict[int, _Message] = {}
        self.faults: list[DecodingFault] = []

    def decode(self, ends: Buffer, data: Buffer, validity: Buffer | None, picks: array[int], skip: array[int]) -> None:
        """Append the values of the rows `picks` of a column, each without its first bytes, as many as `skip` says.

        A row that is null, or a value that cannot be decoded, is a null; the latter is added to `faults`, whose rows
        count from the first row that was ever appended.
        """
        starts = memoryview(ends).cast("B").cast("i")
        if len(picks) != len(skip):
            raise ValueError("rows that have no number of bytes to skip")
        for row, skipped in zip(picks, skip, strict=True):
            if not 0 <= row < len(starts) - 1 or not 0 <= starts[row] <= starts[row + 1] <= len(data) or skipped < 0:
                raise ValueError("a row outside of its column")
            if validity is not None and not memoryview(validity)[row >> 3] >> (row & 7) & 1:
                self._columns[0].append_null()
                continue
            value = bytes(memoryview(data)[starts[row] : starts[row + 1]])
            try:
                self._decode(value, skipped)
            except _Wrong as wrong:
                self.faults.append(DecodingFault(self._columns[0].count, wrong.code, wrong.node))
                self._columns[0].append_null()

    def _decode(self, value: bytes, skip: int) -> None:
        if skip > len(value):
            raise _Wrong(CUT, self._root)
        run = _Run(self, value, skip)
        content = _Content()
        run.message(self._root, content, len(value), 0, 0)
        run.count(self._root, content)
        self._emit(self._root, content)

    def message_at(self, node: int) -> _Message:
        """Return the message at a position of the program."""
        made = self._messages.get(node)
        if made is None:
            made = self._messages[node] = _message_of(self._program, node)
        return made

    def _emit(self, node: int, content: _Content) -> None:
        """Append a message, its children first."""
        message = self.message_at(node)
        for field in message.fields:
            if field.column >= 0:
                self._emit_field(field, content.parts.get(field.column))
        self._columns[message.column].append(None)

    def _emit_field(self, field: _Field, part: bytes | _Content | list[bytes | _Content] | None) -> None:
        column = self._columns[field.column]
        if field.flags & REPEATED:
            for item in part if isinstance(part, list) else ():
                self._emit_value(field, column.children[0], item)
            column.append(None)
        elif part is not None:
            assert not isinstance(part, list)
            self._emit_value(field, column, part)
        elif not field.flags & ZERO:
            column.append_null()
        else:
            self._emit_value(field, column, _Content() if field.operation == MESSAGE else bytes(column.width))

    def _emit_value(self, field: _Field, column: GrowingColumn, part: bytes | _Content) -> None:
        if isinstance(part, _Content):
            self._emit(field.node, part)
        else:
            column.append(part != b"\0" and bool(part) if field.operation == BOOL else part)

    def finish(self) -> list[ColumnBuffers]:
        """Return the buffers of all columns, and begin new ones."""
        finished = [column.buffers() for column in self._columns]
        self._columns = columns_of(*self._description)
        self.faults = []
        return finished


class _Run:
    """Reads one value."""

    def __init__(self, decoder: ProtobufColumnDecoder, value: bytes, position: int) -> None:
        self._decoder, self._value, self._position = decoder, value, position
        self._steps = STEPS_MIN + STEPS_PER_BYTE * (len(value) - position)

    def message(self, node: int, content: _Content, end: int, group: int, depth: int) -> None:
        """Read fields up to `end`, or to the end of the group with this number."""
        if depth > DEPTH_MAX:
            raise _Wrong(TOO_DEEP, node)
        message = self._decoder.message_at(node)
        while self._position < end:
            number, wire = self._tag(end, node)
            if wire == _GROUP_END:
                if number != group:
                    raise _Wrong(BAD_GROUP, node)
                return
            self._step(1, node)
            field = message.by_number.get(number)
            if field is None or not self._read(field, content, number, wire, end, depth):
                self._skip(number, wire, end, node, depth)
        if group:
            raise _Wrong(BAD_GROUP, node)

    def _read(self, field: _Field, content: _Content, number: int, wire: int, end: int, depth: int) -> bool:
        """Read a field; return False if it is to be read over."""
        if wire != field.wire:
            if not (field.is_packable and wire == _LENGTH):
                return False
            self._packed(field, content, end)
            return True
        for other in field.oneof - {field.column}:
            content.parts.pop(other, None)
        if field.column < 0:
            return False
        if field.operation == MESSAGE:
            self._inner(field, content, number, end, depth)
            return True
        value = self._raw(field, number, end, depth) if field.operation == RAW else self._scalar(field, end)
        if field.flags & REPEATED:
            self._items(field, content).append(value)
        else:
            before = content.parts.get(field.column, b"")
            assert isinstance(before, bytes)
            content.parts[field.column] = before + value if field.operation == RAW else value
        return True

    def _items(self, field: _Field, content: _Content) -> list[bytes | _Content]:
        items = content.parts.setdefault(field.column, [])
        assert isinstance(items, list)
        return items

    def _inner(self, field: _Field, content: _Content, number: int, end: int, depth: int) -> None:
        if field.flags & REPEATED:
            inner = _Content()
            self._items(field, content).append(inner)
        else:
            found = content.parts.setdefault(field.column, _Content())
            assert isinstance(found, _Content)
            inner = found
        if field.flags & DELIMITED:
            self.message(field.node, inner, end, number, depth + 1)
        else:
            self.message(field.node, inner, self._size(end, field.position), 0, depth + 1)

    def _packed(self, field: _Field, content: _Content, end: int) -> None:
        stop = self._size(end, field.position)
        while self._position < stop:
            self._step(1, field.position)
            value = self._scalar(field, stop)
            if field.column >= 0:
                self._items(field, content).append(value)

    def _raw(self, field: _Field, number: int, end: int, depth: int) -> bytes:
        if not field.flags & DELIMITED:
            return self._taken(self._size(end, field.position) - self._position, end, field.position)
        start = self._position
        stop = self._skip_group(number, end, field.position, depth + 1)
        return self._value[start:stop]

    def _scalar(self, field: _Field, end: int) -> bytes:
        operation, position = field.operation, field.position
        if operation in (FIXED32, FIXED64):
            return self._taken(_WIDTHS[operation], end, position)
        if operation in (TEXT, BYTES):
            text = self._taken(self._size(end, position) - self._position, end, position)
            if operation == TEXT:
                _check_text(text, position)
            return text
        number = self._varint(end, position)
        if operation == BOOL:
            return b"\1" if number else b"\0"
        if operation in (ZIGZAG32, VARINT32):
            number &= 0xFFFFFFFF
        if operation in (ZIGZAG32, ZIGZAG64):
            number = (number >> 1) ^ -(number & 1)
        width = _WIDTHS[operation]
        return (number & (1 << 8 * width) - 1).to_bytes(width, "little")

    def count(self, node: int, content: _Content) -> None:
        """Count the fields of a message that was read, and of those within it."""
        message = self._decoder.message_at(node)
        self._step(len(message.fields), node)
        for field in message.fields:
            part = content.parts.get(field.column)
            if part is None and field.operation == MESSAGE and field.flags & ZERO and not field.flags & REPEATED:
                part = _Content()
            for item in part if isinstance(part, list) else [part]:
                if isinstance(item, _Content):
                    self.count(field.node, item)

    # --- the wire format ---------------------------------------------------------------------------------------------

    def _step(self, count: int, node: int) -> None:
        self._steps -= count
        if self._steps < 0:
            raise _Wrong(TOO_MANY, node)

    def _taken(self, size: int, end: int, node: int) -> bytes:
        if size > end - self._position:
            raise _Wrong(CUT, node)
        self._position += size
        return self._value[self._position - size : self._position]

    def _varint(self, end: int, node: int) -> int:
        number = 0
        for place in range(10):
            byte = self._taken(1, end, node)[0]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return number & 0xFFFFFFFFFFFFFFFF
        raise _Wrong(LONG_NUMBER, node)

    def _size(self, end: int, node: int) -> int:
        """Read a length, and return the position at which so many bytes end."""
        size = self._varint(end, node)
        if size > end - self._position:
            raise _Wrong(CUT, node)
        return self._position + size

    def _tag(self, end: int, node: int) -> tuple[int, int]:
        tag = self._varint(end, node)
        if tag > 0xFFFFFFFF or not tag >> 3 or tag & 7 > _FIXED32:
            raise _Wrong(BAD_TAG, node)
        return tag >> 3, tag & 7

    def _skip(self, number: int, wire: int, end: int, node: int, depth: int) -> None:
        if wire == _VARINT:
            self._varint(end, node)
        elif wire == _LENGTH:
            self._position = self._size(end, node)
        elif wire == _GROUP:
            self._skip_group(number, end, node, depth + 1)
        else:
            self._taken(8 if wire == _FIXED64 else 4, end, node)

    def _skip_group(self, group: int, end: int, node: int, depth: int) -> int:
        """Read over a group, and return the position of its end."""
        if depth > DEPTH_MAX:
            raise _Wrong(TOO_DEEP, node)
        while self._position < end:
            start = self._position
            number, wire = self._tag(end, node)
            if wire == _GROUP_END:
                if number != group:
                    raise _Wrong(BAD_GROUP, node)
                return start
            self._skip(number, wire, end, node, depth)
        raise _Wrong(BAD_GROUP, node)


def _check_text(text: bytes, node: int) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        raise _Wrong(NOT_UTF8, node) from None


def _message_of(program: Sequence[int], node: int) -> _Message:
    column, count, dense, sparse = program[node : node + MESSAGE_NUMBERS]
    first = node + MESSAGE_NUMBERS
    fields = {}
    for at in range(first, first + count * FIELD_NUMBERS, FIELD_NUMBERS):
        operation, own, flags, inner, oneof = program[at : at + FIELD_NUMBERS]
        members = frozenset(program[oneof + 1 : oneof + 1 + program[oneof]] if oneof >= 0 else ())
        fields[at] = _Field(at, operation, own, flags, inner, members)
    at = first + count * FIELD_NUMBERS
    by_number = {number: fields[place] for number, place in enumerate(program[at : at + dense]) if place >= 0}
    pairs = program[at + dense : at + dense + 2 * sparse]
    by_number |= {number: fields[place] for number, place in zip(pairs[::2], pairs[1::2], strict=True)}
    return _Message(column, list(fields.values()), by_number)


# --- the check of a program ------------------------------------------------------------------------------------------

_KINDS = {BOOL: BITS, TEXT: VARIABLE, BYTES: VARIABLE, RAW: VARIABLE, MESSAGE: STRUCT} | dict.fromkeys(_WIDTHS, WIDE)
"""The kind of the column of each operation."""


def check_program(program: array[int], root: int, columns: array[int], children: array[int]) -> None:
    """Raise ValueError for a program or columns that would make a decoder access what is not there."""
    if program.typecode != "q":
        raise ValueError("a program of other than int64 numbers")
    described = described_columns(columns, children)
    parents, depths = set[int](), [0] * len(described)
    for number, (kind, _, first, size) in enumerate(described):
        listed = children[first : first + size]
        check(kind != NOTHING and (kind != ITEMS or size == 1) and len(set(listed)) == len(listed))
        check(not parents & set(listed) and depths[number] <= COLUMNS_DEPTH_MAX)
        parents.update(listed)
        for child in listed:
            depths[child] = depths[number] + 1
    check(described[0][0] == STRUCT)
    waiting = [(root, 0)]
    seen = {root}
    while waiting:
        node, column = waiting.pop()
        for inner in _nodes_of(program, node, column, described, children):
            check(inner[0] not in seen)  # a message is read into one column
            seen.add(inner[0])
            waiting.append(inner)


def _nodes_of(
    program: array[int], node: int, wanted: int, described: list[array[int]], children: array[int]
) -> list[tuple[int, int]]:
    """Check one message, and return those within it, with their columns."""
    check(0 <= node <= len(program) - MESSAGE_NUMBERS)
    column, count, dense, sparse = program[node : node + MESSAGE_NUMBERS]
    check(column == wanted and min(count, dense, sparse) >= 0)
    kind, _, first_child, size = described[column]
    check(kind == STRUCT)
    own = list(children[first_child : first_child + size])
    first = node + MESSAGE_NUMBERS
    at = first + count * FIELD_NUMBERS
    check(at + dense + 2 * sparse <= len(program))
    found, filled = [], []
    for place in range(first, at, FIELD_NUMBERS):
        operation, target, flags, inner, oneof = program[place : place + FIELD_NUMBERS]
        check(VARINT32 <= operation <= RAW and 0 <= flags <= REPEATED | ZERO | DELIMITED)
        check(not flags & DELIMITED or operation in (MESSAGE, RAW))
        _check_oneof(program, oneof, own)
        if target < 0:
            check(target == -1 and not flags & REPEATED)
            continue
        filled.append(target)
        check(target in own)
        value = target
        if flags & REPEATED:
            check(described[target][0] == ITEMS and oneof < 0)
            value = children[described[target][2]]
        check(described[value][0] == _KINDS[operation] and described[value][1] == _WIDTHS.get(operation, 0))
        if operation == MESSAGE:
            found.append((inner, value))
    check(sorted(filled) == sorted(own))
    numbers = program[at + dense : at + dense + 2 * sparse : 2]
    check(all(before < after for before, after in pairwise(numbers)))
    places = [place for place in program[at : at + dense] if place != -1]
    places += program[at + dense + 1 : at + dense + 2 * sparse : 2]
    check(all(first <= place < at and not (place - first) % FIELD_NUMBERS for place in places))
    return found


def _check_oneof(program: array[int], oneof: int, own: list[int]) -> None:
    if oneof == -1:
        return
    check(0 <= oneof < len(program))
    members = program[oneof + 1 : oneof + 1 + max(program[oneof], 0)]
    check(len(members) == program[oneof] and all(member in own for member in members))
