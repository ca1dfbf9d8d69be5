"""Avro values into columns in Arrow's layout, in Python: the reference that tests compare `native/avro.pyx` with.

A program says how values are read. It is an array of numbers, one node after the other, and each node has the number of
its column, or -1 where the value is read and dropped:

    NULL              column                        nothing is read; a null is appended, to the children as well
    BOOLEAN … TEXT    column                        one primitive value; INT_AS_DOUBLE and others promote it
    FIXED             column, size
    ENUM              column, count, symbols…       the index among the reader's symbols; -1: the reader has none
    RECORD            column, count, nodes…         the fields in the writer's order
    ARRAY, MAP        column, keys, node            of an item; `keys` is the column of a map's keys, else -1
    BRANCH            -1, count, nodes…             a union of the writer: the node of each branch; -1: none fits
    MEMBER            column, number, node          a child of a struct, of which the others get nulls: a union
    RAW               column, node                  the bytes that the node reads, which appends nothing
    DECIMAL           column, size, precision       two's complement of `size` bytes, or of a length in front (0)
    UUID, DURATION    column                        16 and 12 fixed bytes; as text, and as an interval of Arrow
    CONSTANT          -1, start, size, node         reads the node from the constants: a default of the reader
    INT_WITHIN, …     column, least, most           INT or LONG whose value lies within bounds

Nodes name each other by their position in the program, and a node whose column is -1 may contain itself.

A value that is not what its program says is a null and a `DecodingFault`; all other values stay. Follows BinaryDecoder
and ResolvingDecoder of Avro 1.12 (Java): overlong numbers lose their upper bits. Two values that they take are faults:
one with bytes behind it, which was written with another schema, and a map with a key twice, which Arrow does not allow.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence

from offsetfs.storage.records.format.batch_header import Buffer
from offsetfs.storage.reference.decoded_columns import (
    BITS,
    ITEMS,
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
from offsetfs.storage.reference.decoded_columns import COLUMN_NUMBERS as COLUMN_NUMBERS
from offsetfs.storage.reference.decoded_columns import MEMORY_BYTES_MAX as MEMORY_BYTES_MAX

(
    NULL, BOOLEAN, INT, LONG, INT_AS_FLOAT, INT_AS_DOUBLE, FLOAT, FLOAT_AS_DOUBLE, DOUBLE, BYTES, TEXT, FIXED, ENUM,
    RECORD, ARRAY, MAP, BRANCH, MEMBER, RAW, DECIMAL, UUID, DURATION, CONSTANT, INT_WITHIN, LONG_WITHIN,
) = range(25)  # fmt: skip
"""The nodes of a program."""

FAULTS = (
    "",
    "the value ends too early",
    "a number has too many bytes",
    "a size or a count is negative or out of range",
    "a text is not UTF-8",
    "an index lies outside of the symbols that its schema knows",
    "an index lies outside of the branches of its union, or its branch does not fit the reader's schema",
    "values are nested too deeply",
    "more items without bytes than are read",
    "a decimal has more digits than its schema says",
    "a date or time is out of range",
    "a map has the same key twice",
    "there are bytes behind the value",
    "the decoded values need too much memory",
)
"""What is wrong with a value, by `DecodingFault.code`."""

CUT, LONG_NUMBER, BAD_SIZE, NOT_UTF8, NO_SYMBOL, NO_BRANCH, TOO_DEEP, TOO_MANY, BAD_DECIMAL = range(1, 10)
OUT_OF_RANGE, SAME_KEY, LEFT_OVER = range(10, 13)

DEPTH_MAX = 200
"""Nodes within each other: protects the stack."""

STEPS_MIN, STEPS_PER_BYTE = 1 << 12, 16
"""Nodes that a value may take, beside the numbers of its program: protects time and memory from items without bytes."""

MONTHS_MAX, DAYS_MAX = 120_000, 3_660_000
"""A duration: about 10,000 years each, because Python has no more."""


class _Wrong(Exception):
    def __init__(self, code: int, node: int) -> None:
        self.code, self.node = code, node


class AvroColumnDecoder:
    """Decodes values by one program; the columns grow until `finish`."""

    def __init__(
        self, program: array[int], root: int, columns: array[int], children: array[int], constants: bytes
    ) -> None:
        """Raises ValueError for a program or columns that refer to what is not there.

        Node `root` reads a value, into column 0. A column stands before its children.
        """
        check_program(program, root, columns, children, constants)
        self._program, self._root, self._constants = program, root, constants
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
            value = memoryview(data)[starts[row] : starts[row + 1]]
            run = _Run(self._program, self._constants, value, min(skip, len(value)))
            try:
                if skip > len(value):
                    raise _Wrong(CUT, self._root)
                run.read(self._root, 0)
                if run.is_behind():
                    raise _Wrong(LEFT_OVER, self._root)
            except _Wrong as wrong:
                self.faults.append(DecodingFault(self._columns[0].count, wrong.code, wrong.node))
                self._columns[0].append_null()
                continue
            for column, append in run.journal:
                append(self._columns[column])

    def finish(self) -> list[ColumnBuffers]:
        """Return the buffers of all columns, and begin new ones."""
        finished = [column.buffers() for column in self._columns]
        self._columns = columns_of(*self._description)
        self.faults = []
        return finished


class _Run:
    """Reads one value. What is to be appended stands in `journal`, so that nothing is appended of a damaged value."""

    def __init__(self, program: Sequence[int], constants: bytes, value: memoryview, position: int) -> None:
        self._program, self._constants, self._value, self._position = program, constants, value, position
        self._steps = STEPS_MIN + STEPS_PER_BYTE * len(value) + len(program)
        self.journal: list[tuple[int, Callable[[GrowingColumn], None]]] = []

    def is_behind(self) -> bool:
        """Return whether bytes are left."""
        return self._position < len(self._value)

    def read(self, node: int, depth: int) -> None:
        operation, column = self._program[node : node + 2]
        self._steps -= 1
        if depth > DEPTH_MAX:
            raise _Wrong(TOO_DEEP, node)
        if self._steps < 0:
            raise _Wrong(TOO_MANY, node)
        if operation == NULL:
            if column >= 0:
                self.journal.append((column, GrowingColumn.append_null))
            return
        item = self._item(operation, node, depth)
        if column >= 0:
            self.journal.append((column, lambda target: target.append(item)))

    def _item(self, operation: int, node: int, depth: int) -> object:
        operands = self._program[node + 2 : node + 5]
        if operation in _PRIMITIVES:
            return _PRIMITIVES[operation](self, node)
        if operation == FIXED:
            return self._taken(operands[0], node)
        if operation == ENUM:
            return self._symbol(node)
        if operation == DECIMAL:
            size = operands[0] or self._long(node)
            return _decimal(self._taken(size, node), operands[1], node)
        if operation in (INT_WITHIN, LONG_WITHIN):
            number = self._int(node) if operation == INT_WITHIN else self._long(node)
            if not operands[0] <= number <= operands[1]:
                raise _Wrong(OUT_OF_RANGE, node)
            return struct.pack("<i" if operation == INT_WITHIN else "<q", number)
        if operation == RECORD:
            for child in self._program[node + 3 : node + 3 + operands[0]]:
                self.read(child, depth + 1)
            return None
        if operation in (ARRAY, MAP):
            self._items(operation, node, depth)
            return None
        if operation == BRANCH:
            branch = self._long(node)
            if not 0 <= branch < operands[0] or self._program[node + 3 + branch] < 0:
                raise _Wrong(NO_BRANCH, node)
            self.read(self._program[node + 3 + branch], depth + 1)
            return None
        if operation == MEMBER:
            self.read(operands[1], depth + 1)
            return operands[0]
        if operation == CONSTANT:
            self._constant(operands, depth)
            return None
        start = self._position  # RAW
        self.read(operands[0], depth + 1)
        return bytes(self._value[start : self._position])

    def _constant(self, operands: Sequence[int], depth: int) -> None:
        start, size, node = operands
        value, position = self._value, self._position
        self._value, self._position = memoryview(self._constants)[start : start + size], 0
        self.read(node, depth + 1)
        self._value, self._position = value, position

    def _items(self, operation: int, node: int, depth: int) -> None:
        column, keys, child = self._program[node + 1 : node + 4]
        seen: list[bytes] = []
        while count := self._long(node):
            if count < 0:
                count = -count
                self._long(node)  # the bytes of the block, which are of use to who skips it
            if count == 1 << 63:
                raise _Wrong(BAD_SIZE, node)
            for _ in range(count):
                if operation == MAP:
                    key = self._text(node)
                    if column >= 0:
                        seen.append(key)
                        self.journal.append((keys, lambda target, key=key: target.append(key)))  # type: ignore[misc]
                self.read(child, depth + 1)
        if len(set(seen)) < len(seen):
            raise _Wrong(SAME_KEY, node)

    def _symbol(self, node: int) -> bytes:
        index, count = self._long(node), self._program[node + 2]
        if not 0 <= index < count or self._program[node + 3 + index] < 0:
            raise _Wrong(NO_SYMBOL, node)
        return struct.pack("<i", self._program[node + 3 + index])

    def _taken(self, size: int, node: int) -> bytes:
        if size < 0:
            raise _Wrong(BAD_SIZE, node)
        if size > len(self._value) - self._position:
            raise _Wrong(CUT, node)
        self._position += size
        return bytes(self._value[self._position - size : self._position])

    def _number(self, node: int, bytes_max: int) -> int:
        number = 0
        for place in range(bytes_max):
            byte = self._taken(1, node)[0]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                return number
        raise _Wrong(LONG_NUMBER, node)

    def _int(self, node: int) -> int:
        raw = self._number(node, 5) & 0xFFFFFFFF
        return (raw >> 1) ^ -(raw & 1)

    def _long(self, node: int) -> int:
        raw = self._number(node, 10) & 0xFFFFFFFFFFFFFFFF
        return (raw >> 1) ^ -(raw & 1)

    def _text(self, node: int) -> bytes:
        text = self._taken(self._long(node), node)
        try:
            text.decode()
        except UnicodeDecodeError:
            raise _Wrong(NOT_UTF8, node) from None
        return text

    def _uuid(self, node: int) -> bytes:
        text = self._taken(16, node).hex().encode()
        return b"-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def _duration(self, node: int) -> bytes:
        months, days, milliseconds = struct.unpack("<III", self._taken(12, node))
        if months > MONTHS_MAX or days > DAYS_MAX:
            raise _Wrong(OUT_OF_RANGE, node)
        return struct.pack("<iiq", months, days, milliseconds * 1_000_000)


_PRIMITIVES: dict[int, Callable[[_Run, int], object]] = {
    BOOLEAN: lambda run, node: run._taken(1, node) == b"\x01",
    INT: lambda run, node: struct.pack("<i", run._int(node)),
    LONG: lambda run, node: struct.pack("<q", run._long(node)),
    INT_AS_FLOAT: lambda run, node: struct.pack("<f", _single(run._long(node))),
    INT_AS_DOUBLE: lambda run, node: struct.pack("<d", run._long(node)),
    FLOAT: lambda run, node: run._taken(4, node),
    FLOAT_AS_DOUBLE: lambda run, node: struct.pack("<d", struct.unpack("<f", run._taken(4, node))[0]),
    DOUBLE: lambda run, node: run._taken(8, node),
    BYTES: lambda run, node: run._taken(run._long(node), node),
    TEXT: lambda run, node: run._text(node),
    UUID: lambda run, node: run._uuid(node),
    DURATION: lambda run, node: run._duration(node),
}


def _single(number: int) -> float:
    """Round to a number of 24 bits, half to even, in one step: over a double it would be two."""
    shift = max(0, abs(number).bit_length() - 24)
    quotient, rest = abs(number) >> shift, abs(number) & ((1 << shift) - 1)
    half = (1 << shift) >> 1
    quotient += shift > 0 and (rest > half or (rest == half and quotient & 1))
    return float((-1 if number < 0 else 1) * (quotient << shift))


def _decimal(raw: bytes, precision: int, node: int) -> bytes:
    number = int.from_bytes(raw, "big", signed=True)
    if abs(number) >= 10**precision:
        raise _Wrong(BAD_DECIMAL, node)
    return number.to_bytes(16, "little", signed=True)


# --- the check of a program ------------------------------------------------------------------------------------------

_KINDS = {
    BOOLEAN: BITS, INT: WIDE, LONG: WIDE, INT_AS_FLOAT: WIDE, INT_AS_DOUBLE: WIDE, FLOAT: WIDE, FLOAT_AS_DOUBLE: WIDE,
    DOUBLE: WIDE, BYTES: VARIABLE, TEXT: VARIABLE, FIXED: WIDE, ENUM: WIDE, RECORD: STRUCT, ARRAY: ITEMS, MAP: ITEMS,
    MEMBER: STRUCT, RAW: VARIABLE, DECIMAL: WIDE, UUID: VARIABLE, DURATION: WIDE, INT_WITHIN: WIDE, LONG_WITHIN: WIDE,
}  # fmt: skip
"""The kind of the column of each node. NULL may have any, and BRANCH has none."""

_WIDTHS = {
    INT: 4, LONG: 8, INT_AS_FLOAT: 4, INT_AS_DOUBLE: 8, FLOAT: 4, FLOAT_AS_DOUBLE: 8, DOUBLE: 8, ENUM: 4, DECIMAL: 16,
    DURATION: 16, INT_WITHIN: 4, LONG_WITHIN: 8,
}  # fmt: skip

_OPERANDS = {
    FIXED: 1, ENUM: 1, RECORD: 1, ARRAY: 2, MAP: 2, BRANCH: 1, MEMBER: 2, RAW: 1, DECIMAL: 2, CONSTANT: 3,
    INT_WITHIN: 2, LONG_WITHIN: 2,
}  # fmt: skip
"""The operands of a node; ENUM, RECORD and BRANCH have as many more as the first says."""


def check_program(program: array[int], root: int, columns: array[int], children: array[int], constants: bytes) -> None:
    """Raise ValueError for a program or columns that would make a decoder access what is not there."""
    if program.typecode != "q":
        raise ValueError("a program of other than int64 numbers")
    described = described_columns(columns, children)
    waiting, seen = [root], {root}
    while waiting:
        node = waiting.pop()
        check(0 <= node < len(program) - 1)
        if program[node] == CONSTANT:
            start, size = program[node + 2 : node + 4]
            check(0 <= start <= start + size <= len(constants))
        for named in _nodes_of(program, node, described, children):
            if named not in seen:
                seen.add(named)
                waiting.append(named)


def _nodes_of(program: array[int], node: int, described: list[array[int]], children: array[int]) -> Sequence[int]:
    """Check one node, and return those which it names."""
    operation, column = program[node : node + 2]
    check(NULL <= operation <= LONG_WITHIN and -1 <= column < len(described))
    operands = program[node + 2 : node + 2 + _OPERANDS.get(operation, 0)]
    check(len(operands) == _OPERANDS.get(operation, 0))
    if column >= 0 and operation != NULL:
        kind, width, first, size = described[column]
        check(operation in _KINDS and kind == _KINDS[operation] and width == _WIDTHS.get(operation, width))
        check(operation != FIXED or width == operands[0])
        check(operation not in (ARRAY, MAP) or size == (2 if operation == MAP else 1))
        check(operation != MAP or (operands[0] == children[first] and described[operands[0]][0] == VARIABLE))
        check(operation != ARRAY or operands[0] == -1)
        check(operation != MEMBER or 0 <= operands[0] < size)
    if operation in (FIXED, DECIMAL):
        check(0 <= operands[0] < 1 << 31)
        check(operation == FIXED or 0 < operands[1] <= 38)
    if operation in (ENUM, RECORD, BRANCH):
        listed = program[node + 3 : node + 3 + operands[0]]
        check(len(listed) == operands[0])
        check(operation != ENUM or all(-1 <= symbol < 1 << 31 for symbol in listed))
        return [] if operation == ENUM else [child for child in listed if operation == RECORD or child != -1]
    return operands[-1:] if operation in (ARRAY, MAP, MEMBER, RAW, CONSTANT) else []
