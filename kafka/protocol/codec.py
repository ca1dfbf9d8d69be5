"""Functions that read and write Kafka's messages: one straight-line function for each message and version.

    read(data, position)   memoryview in, (message, position behind it) out; InvalidMessage for any other bytes
    write(message)         a list of buffers out, in order; `records` fields are passed on as they are, uncopied, except
                           for bytes among thousands of other buffers, which are joined

The functions are generated from `schemas` when a version is first used, as the standard library does for dataclasses:
about a millisecond each. A reader checks every length and count against the bytes that remain before it allocates, and
skips tagged fields that it does not know (KIP-482). A writer raises UnsupportedVersion for a value that the version
cannot carry, unless the field is ignorable or has its default.

Encoding (https://kafka.apache.org/protocol, KIP-482): numbers are big endian.

    plain       string i16 length, bytes and records i32 length, array i32 count; -1 is null; struct i8 mark if nullable
    flexible    lengths and counts as unsigned varint of length + 1, 0 is null; each struct ends with its tagged fields:
                uvarint count, then for each uvarint tag, uvarint size, value
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import linecache
import struct
from collections.abc import Callable
from typing import Any

from offsetfs.kafka.protocol.schemas import NEVER, Layout, Schema, SchemaField, includes, schema

_FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
}  # fmt: skip
_UUID = "16s"
_VARINT_SIZE_MAX = 5
_PIECES_MAX = 4096

STRING_BYTES_MAX = 32_767
"""The longest string, as in Kafka. Plain versions and records hold no longer strings; flexible versions could."""

TAGS_MAX = 10_000
"""The unknown tagged fields of a struct, as in Kafka 4.4."""

ELEMENTS_MAX = 1_000_000
"""The elements of an array, as in Kafka 4.4, and those of all arrays of a message together: an element takes 60 to 300
bytes of memory, and may be a single byte in the message. Kafka has no limit for all arrays; its requests name
partitions, of which a cluster has fewer."""

REQUEST_ELEMENTS_MAX = 100_000
"""The same for a request of a client: it is decoded, and answered, in at most 64 MiB."""


class InvalidMessage(ValueError):
    """Bytes that are not the message: too short, a length or count beyond the bytes that remain, text not in UTF-8."""


class TooManyElements(InvalidMessage):
    """A message has more elements in its arrays than it may have."""


class UnsupportedVersion(ValueError):
    """A message has a value that the version cannot carry. Raised by writers. Kafka: UnsupportedVersionException."""


Read = Callable[[memoryview, int], tuple[Any, int]]
Write = Callable[[Any], list[Any]]


@functools.cache
def reader(name: str, version: int, elements_max: int | None = None) -> Read:
    """Return the function that reads a version of the message `name`; KeyError for a version that there is not.

    The function raises `TooManyElements` for a message with more than `elements_max`.
    """
    message_schema = schema(name)
    generated = ReaderSource(message_schema, message_schema.layout(version), version)
    generated.elements_max = elements_max or generated.elements_max
    read: Read = compiled(f"read_{name}_v{version}", generated.source(), generated.names)
    return read


@functools.cache
def writer(name: str, version: int) -> Write:
    """Return the function that writes a version of the message `name`; KeyError for a version that there is not."""
    message_schema = schema(name)
    generated = _WriterSource(message_schema, message_schema.layout(version), version)
    write: Write = compiled(f"write_{name}_v{version}", generated.source(), generated.names)
    return write


def compiled(name: str, source: str, names: dict[str, Any]) -> Any:
    """Return the function `f` of `source`. Tracebacks show its lines."""
    filename = f"<offsetfs {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), names)
    return names["f"]


# --- what the generated functions call -------------------------------------------------------------------------------


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, at most 2³² - 1, and the position behind it."""
    number = shift = 0
    for position in range(position, position + _VARINT_SIZE_MAX):  # noqa: B020
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > 0xFFFFFFFF:
                break
            return number, position + 1
        shift += 7
    raise InvalidMessage(f"a varint of more than 32 bits at byte {position}")


def _read_length(data: memoryview, position: int) -> tuple[int, int]:
    """Return the length or count at `position`, -1 for null, and the position behind it."""
    number, position = read_uvarint(data, position)
    return number - 1, position


def uvarint(number: int) -> bytes:
    """Return `number`, 0 to 2³² - 1, as an unsigned varint."""
    if number < 0x80:
        return number.to_bytes(1, "big")
    buffer = bytearray()
    while number >= 0x80:
        buffer.append(number & 0x7F | 0x80)
        number >>= 7
    buffer.append(number)
    return bytes(buffer)


def _joined(buffers: list[Any], begin: int) -> int:
    """Make one of the buffers from `begin` on, unless there are records among them; return where the next begin."""
    last = buffers[begin:]
    if all(type(buffer) is bytes for buffer in last):
        buffers[begin:] = [b"".join(last)]
    return len(buffers)


def size_of(buffers: list[Any]) -> int:
    """Return the bytes of buffers, and of ranges of files (`size`), together."""
    return sum([len(buffer) if type(buffer) is bytes else _size(buffer) for buffer in buffers])


def _size(records: Any) -> int:
    size: int = records.size if hasattr(records, "size") else len(records)
    return size


def _too_long(name: str, size: int, left: int) -> InvalidMessage:
    return InvalidMessage(f"{name}: {size} bytes or elements, and {left} bytes remain; or more than a message may have")


def _string_too_long(name: str, size: int) -> InvalidMessage:
    return InvalidMessage(f"{name}: a string of {size} bytes; {STRING_BYTES_MAX} are allowed")


def _too_many(name: str, elements_max: int) -> TooManyElements:
    return TooManyElements(f"{name}: the message has more than {elements_max} elements in arrays")


def _null(name: str) -> InvalidMessage:
    return InvalidMessage(f"{name} is null, which it may not be")


def _unsupported(name: str, version: int) -> UnsupportedVersion:
    return UnsupportedVersion(f"{name} is set, which version {version} cannot carry")


class FunctionSource:
    """Lines of a function that is being generated, and the names that it uses."""

    def __init__(self, message: Schema, layout: Layout, version: int) -> None:
        self.message = message
        self.layout = layout
        self.version = version
        self.is_flexible = version >= layout.flexible
        self.names: dict[str, Any] = {
            "InvalidMessage": InvalidMessage,
            "error": struct.error,
            "null": _null,
            "read_length": _read_length,
            "read_uvarint": read_uvarint,
            "size_of": size_of,
            "size": _size,
            "too_long": _too_long,
            "string_too_long": _string_too_long,
            "too_many": _too_many,
            "unsupported": _unsupported,
            "uvarint": uvarint,
        }
        self._lines: list[str] = []
        self._depth = 1
        self._numbers = itertools.count()
        self._module = importlib.import_module(f"offsetfs.kafka.protocol.{message.module}")

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def block(self, text: str) -> _Block:
        self.line(text)
        return _Block(self)

    def indent(self, by: int) -> None:
        self._depth += by

    def variable(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def struct(self, code: str, method: str) -> str:
        """Return the name of `method` of Struct(`code`)."""
        name = f"{method}_{code.replace('?', 'o')}"
        self.names[name] = getattr(struct.Struct(">" + code), method)
        return name

    def type(self, name: str) -> str:
        self.names[name] = getattr(self._module, name)
        return name

    def present(self, fields: tuple[SchemaField, ...]) -> tuple[list[SchemaField], list[SchemaField]]:
        """Return the fields of this version: those in the body, and the tagged ones."""
        there = [field for field in fields if includes(field.versions, self.version)]
        tagged = [field for field in there if self.is_flexible and includes(field.tagged, self.version)]
        return [field for field in there if field not in tagged], sorted(tagged, key=lambda field: field.tag)

    def may_be_null(self, field: SchemaField) -> bool:
        return includes(field.nullable, self.version)

    def default(self, field: SchemaField) -> str:
        """Return the expression of the value of a field that is not there."""
        return f"{self.type(field.struct)}()" if self._is_new_struct(field) else repr(default_of(field))

    def compared(self, field: SchemaField) -> str:
        """Return the same value to compare with: it is made once."""
        if not self._is_new_struct(field):
            return repr(default_of(field))
        name = f"empty_{self.type(field.struct)}"
        self.names[name] = self.names[field.struct]()
        return name

    def _is_new_struct(self, field: SchemaField) -> bool:
        is_struct = field.type == "struct" and not field.is_array
        return is_struct and (field.default is not None or not self.may_be_null(field))


class _Block:
    def __init__(self, source: FunctionSource) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._source.indent(1)

    def __exit__(self, *_: object) -> None:
        self._source.indent(-1)


class ReaderSource(FunctionSource):
    """The source of a reader. `kafka_reader` has other checks: what a subclass may override has a docstring."""

    decoding = "str({}, 'utf-8')"
    """The text of a piece of the message."""

    def __init__(self, message: Schema, layout: Layout, version: int) -> None:
        super().__init__(message, layout, version)
        self.elements_max = REQUEST_ELEMENTS_MAX if message.name.endswith("Request") else ELEMENTS_MAX

    def source(self) -> str:
        self.line("n = len(d); c = 0")
        with self.block("try:"):
            result = self.struct_at(self.message.name, self.layout.fields)
            self.line(f"return {result}, p")
        with self.block("except (error, IndexError):"):
            self.line(f"raise InvalidMessage('{self.cut_off()}') from None")
        with self.block("except UnicodeDecodeError as bad:"):
            self.line(f"raise InvalidMessage(f'{self.message.name} v{self.version}: {{bad}}') from None")
        return "def f(d, p):\n" + "\n".join(self._lines) + "\n"

    def cut_off(self) -> str:
        """Return the error for a message that ends too early."""
        return f"{self.message.name} v{self.version} ends too early"

    def struct_at(self, name: str, fields: tuple[SchemaField, ...]) -> str:
        """Read a struct; return the variable or expression that has it."""
        body, _ = self.present(fields)
        values = {}
        run: list[SchemaField] = []
        for field in body:
            if _code(field) and not field.is_array:
                run.append(field)
                continue
            values.update(self._numbers_of(run))
            run = []
            values[field.name] = self._value(field)
        values.update(self._numbers_of(run))
        if self.is_flexible:
            values.update(self.tagged(fields))
        arguments = ", ".join(f"{field}={variable}" for field, variable in values.items())
        return f"{self.type(name)}({arguments})"

    def _numbers_of(self, fields: list[SchemaField]) -> dict[str, str]:
        """Read numbers and ids that follow each other, by one call."""
        if not fields:
            return {}
        variables = {field.name: self.variable("v") for field in fields}
        code = "".join(_code(field) for field in fields)
        self.line(f"{', '.join(variables.values())}, = {self.struct(code, 'unpack_from')}(d, p)")
        self.line(f"p += {struct.calcsize('>' + code)}")
        return variables

    def _length(self, plain_code: str, is_flexible: bool) -> str:
        """Read a length or a count; return the variable, which is -1 for null."""
        length = self.variable("l")
        if is_flexible:
            self.line(f"{length} = d[p] - 1; p += 1")
            with self.block(f"if {length} > 126:"):
                self.line(f"{length}, p = read_length(d, p - 1)")
        else:
            self.line(f"{length}, = {self.struct(plain_code, 'unpack_from')}(d, p); p += {struct.calcsize(plain_code)}")
        return length

    def _value(self, field: SchemaField) -> str:
        """Read a field that is not a single number; return its variable."""
        is_flexible = self.is_flexible and field.is_flexible
        if not field.is_array:
            return self._one(field, is_flexible)
        result, count = self.variable("v"), self._length("i", is_flexible)
        with self.block(f"if {count} < 0:"):
            self.take_null(field, count, result)
        with self.block("else:"):
            size_min = self._size_min(field)
            self.check_count(field, count, size_min)
            self.line(f"c += {count}")
            with self.block(f"if c > {self.elements_max}:"):
                self.line(f"raise too_many('{field.name}', {self.elements_max})")
            code = _code(field)
            if code == "?" or (code and code != _UUID):
                self.line(f"{result} = list(unpack(f'>{{{count}}}{code}', d[p : p + {count} * {size_min}]))")
                self.names["unpack"] = struct.unpack
                self.line(f"p += {count} * {size_min}")
            else:
                self.line(f"{result} = []")
                element = dataclasses.replace(field, name=f"{field.name} element", is_array=False, nullable=NEVER)
                with self.block(f"for _ in range({count}):"):
                    self.line(f"{result}.append({self._one(element, is_flexible)})")
        return result

    def check_count(self, field: SchemaField, count: str, size_min: int) -> None:
        """Refuse an array with more elements, of `size_min` bytes, than there can be in the bytes that remain."""
        bound = f"{count} * {size_min}" if size_min > 1 else count
        with self.block(f"if {bound} > n - p or {count} > {ELEMENTS_MAX}:"):
            self.line(f"raise too_long('{field.name}', {count}, n - p)")

    def check_size(self, field: SchemaField, size: str, is_flexible: bool) -> None:
        """Refuse a string or bytes that are longer than what remains, or than a string may be."""
        with self.block(f"if {size} > n - p:"):
            self.line(f"raise too_long('{field.name}', {size}, n - p)")
        if is_flexible and field.type == "string":
            with self.block(f"if {size} > {STRING_BYTES_MAX}:"):
                self.line(f"raise string_too_long('{field.name}', {size})")

    def take_null(self, field: SchemaField, length: str, result: str) -> None:
        """Make `result` null, or refuse that; `length` is below zero."""
        if self.may_be_null(field):
            with self.block(f"if {length} != -1:"):
                self.line(f"raise too_long('{field.name}', {length}, n - p)")
            self.line(f"{result} = None")
        else:
            self.line(f"raise null('{field.name}')")

    def _one(self, field: SchemaField, is_flexible: bool) -> str:
        if _code(field):
            return self._numbers_of([field])[field.name]
        result = self.variable("v")
        if field.type == "struct":
            if not self.may_be_null(field):
                self.line(f"{result} = {self.struct_at(field.struct, field.fields)}")
                return result
            self.line(f"{result} = None")
            if includes(field.tagged, self.version):
                mark = self.variable("l")
                self.line(f"{mark}, p = read_uvarint(d, p)")
                is_there = f"{mark} > 0"
            else:
                self.line("p += 1")
                is_there = "d[p - 1] < 128"
            with self.block(f"if {is_there}:"):
                self.line(f"{result} = {self.struct_at(field.struct, field.fields)}")
            return result
        length = self._length("h" if field.type == "string" else "i", is_flexible)
        with self.block(f"if {length} < 0:"):
            self.take_null(field, length, result)
        with self.block("else:"):
            self.check_size(field, length, is_flexible)
            piece = f"d[p : p + {length}]"
            form = {"string": self.decoding.format(piece), "bytes": f"bytes({piece})", "records": piece}[field.type]
            self.line(f"{result} = {form}")
            self.line(f"p += {length}")
        return result

    def tagged(self, of_struct: tuple[SchemaField, ...]) -> dict[str, str]:
        """Read the tagged fields of a struct; return their variables."""
        _, fields = self.present(of_struct)
        variables = self.defaults(fields)
        count, tag, size, end = (self.variable("g") for _ in range(4))
        self.line(f"{count} = d[p]; p += 1")
        with self.block(f"if {count}:"):
            with self.block(f"if {count} > 127:"):
                self.line(f"{count}, p = read_uvarint(d, p - 1)")
            with self.block(f"if {count} > n - p or {count} > {TAGS_MAX}:"):
                self.line(f"raise too_long('tagged fields', {count}, n - p)")
            with self.block(f"for _ in range({count}):"):
                self.line(f"{tag}, p = read_uvarint(d, p)")
                self.line(f"{size}, p = read_uvarint(d, p)")
                self.line(f"{end} = p + {size}")
                with self.block(f"if {end} > n:"):
                    self.line(f"raise too_long('tagged field', {size}, n - p)")
                for field in fields:
                    with self.block(f"if {tag} == {field.tag}:"):
                        self.line(f"{variables[field.name]} = {self.value_or_number(field)}")
                        with self.block(f"if p != {end}:"):
                            self.line(f"raise too_long('{field.name}', {size}, n - p)")
                self.line(f"p = {end}")
        return variables

    def defaults(self, fields: list[SchemaField]) -> dict[str, str]:
        variables = {field.name: self.variable("t") for field in fields}
        for field in fields:
            self.line(f"{variables[field.name]} = {self.default(field)}")
        return variables

    def value_or_number(self, field: SchemaField) -> str:
        if _code(field) and not field.is_array:
            return self._numbers_of([field])[field.name]
        return self._value(field)

    def _size_min(self, field: SchemaField) -> int:
        """Return the bytes that an element of an array takes at least."""
        if _code(field):
            return struct.calcsize(">" + _code(field))
        if field.type != "struct":
            return 1 if self.is_flexible else 2 if field.type == "string" else 4
        body, _ = self.present(field.fields)
        sizes = (
            (1 if self.is_flexible else 4) if part.is_array else 1 if self.may_be_null(part) and part.type == "struct"
            else self._size_min(part) for part in body
        )  # fmt: skip
        return max(sum(sizes) + (1 if self.is_flexible else 0), 1)


class _WriterSource(FunctionSource):
    def __init__(self, message: Schema, layout: Layout, version: int) -> None:
        super().__init__(message, layout, version)
        self.names["join"] = _joined
        self._may_join = True

    def source(self) -> str:
        self.line("o = []; w = o.append; k = 0")
        self._struct("m", self.layout.fields)
        self.line("return o")
        return "def f(m):\n" + "\n".join(self._lines) + "\n"

    def _struct(self, variable: str, fields: tuple[SchemaField, ...]) -> None:
        self._refuse_absent(variable, fields)
        body, tagged = self.present(fields)
        run: list[SchemaField] = []
        for field in body:
            if _code(field) and not field.is_array:
                run.append(field)
                continue
            self._numbers_of(variable, run)
            run = []
            self._value(f"{variable}.{field.name}", field)
        self._numbers_of(variable, run)
        if self.is_flexible:
            self._tagged(variable, tagged)

    def _refuse_absent(self, variable: str, fields: tuple[SchemaField, ...]) -> None:
        for field in fields:
            if includes(field.versions, self.version) or field.is_ignorable:
                continue
            if field.type == "struct" and not field.is_array:
                continue
            with self.block(f"if {variable}.{field.name} != {default_of(field)!r}:"):
                self.line(f"raise unsupported('{field.name}', {self.version})")

    def _numbers_of(self, variable: str, fields: list[SchemaField]) -> None:
        if fields:
            code = "".join(_code(field) for field in fields)
            self.line(f"w({self.struct(code, 'pack')}({', '.join(f'{variable}.{field.name}' for field in fields)}))")

    def _length(self, plain_code: str, is_flexible: bool, length: str) -> str:
        if is_flexible:
            return f"w(uvarint({length} + 1))"
        return f"w({self.struct(plain_code, 'pack')}({length}))"

    def _value(self, value: str, field: SchemaField) -> None:
        is_flexible = self.is_flexible and field.is_flexible
        if not field.is_array:
            self._one(value, field, is_flexible, self.may_be_null(field))
            return
        held, element = self.variable("v"), self.variable("e")
        self.line(f"{held} = {value}")
        with self.block(f"if {held} is None:"):
            self._write_null(field, "i", is_flexible)
        with self.block("else:"):
            self.line(self._length("i", is_flexible, f"len({held})"))
            code = _code(field)
            if code and code != _UUID:
                self.names["pack"] = struct.pack
                self.line(f"w(pack(f'>{{len({held})}}{code}', *{held}))")
            else:
                with self.block(f"for {element} in {held}:"):
                    self._one(element, field, is_flexible, False)
                    self._join_pieces()

    def _join_pieces(self) -> None:
        """Join the buffers since the last time if they are many: each takes 40 bytes more than its content."""
        if self._may_join:
            with self.block(f"if len(o) - k > {_PIECES_MAX}:"):
                self.line("k = join(o, k)")

    def _write_null(self, field: SchemaField, plain_code: str, is_flexible: bool) -> None:
        if self.may_be_null(field):
            self.line("w(b'\\0')" if is_flexible else f"w({bytes([255] * struct.calcsize(plain_code))!r})")
        else:
            self.line(f"raise unsupported('{field.name} without a value', {self.version})")

    def _one(self, value: str, field: SchemaField, is_flexible: bool, may_be_null: bool) -> None:
        if code := _code(field):
            self.line(f"w({self.struct(code, 'pack')}({value}))")
            return
        held = self.variable("v")
        self.line(f"{held} = {value}")
        if field.type == "struct":
            if not may_be_null:
                self._struct(held, field.fields)
                return
            is_tagged = includes(field.tagged, self.version)
            with self.block(f"if {held} is None:"):
                self.line("w(b'\\0')" if is_tagged else "w(b'\\xff')")
            with self.block("else:"):
                self.line("w(b'\\1')")
                self._struct(held, field.fields)
            return
        plain_code = "h" if field.type == "string" else "i"
        with self.block(f"if {held} is None:"):
            self._write_null(field, plain_code, is_flexible)
        with self.block("else:"):
            if field.type == "string":
                self.line(f"{held} = {held}.encode()")
            size = f"size({held})" if field.type == "records" else f"len({held})"
            self.line(self._length(plain_code, is_flexible, size))
            self.line(f"w({held})")

    def _tagged(self, variable: str, fields: list[SchemaField]) -> None:
        if not fields:
            self.line("w(b'\\0')")
            return
        outer, encoded = self.variable("o"), self.variable("g")
        self.line(f"{outer} = o; {encoded} = []")
        may_join, self._may_join = self._may_join, False
        for field in fields:
            with self.block(f"if {variable}.{field.name} != {self.compared(field)}:"):
                self.line("o = []; w = o.append")
                self._value(f"{variable}.{field.name}", field)
                self.line(f"{encoded}.append(({field.tag}, o))")
        self._may_join = may_join
        self.line(f"o = {outer}; w = o.append")
        self.line(f"w(uvarint(len({encoded})))")
        with self.block(f"for tag, piece in {encoded}:"):
            self.line("w(uvarint(tag)); w(uvarint(size_of(piece))); o.extend(piece)")


def _code(field: SchemaField) -> str:
    """Return the struct code of a number or id, "" for everything else."""
    return _UUID if field.type == "uuid" else _FORMATS.get(field.type, "")


def default_of(field: SchemaField) -> object:
    """Return the value of a field that is not there."""
    if field.type == "uuid" and not field.is_array:
        return bytes(16)
    if field.is_array:
        return None if field.default is None else []
    if field.type == "bytes" and field.default is not None:
        return b""
    return None if field.type == "struct" else field.default
