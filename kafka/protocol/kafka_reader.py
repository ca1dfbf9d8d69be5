"""Readers that accept what Kafka's own generated classes accept, and refuse the rest with Kafka's texts.

    read(data, position)   memoryview in, (message, position behind it) out; InvalidMessage with Kafka's text

They are for records that are on the disk already: a dump, the state of groups, the metadata log. Apart from the texts
they differ from the readers of `codec`, which are for requests: bytes that are not UTF-8 become U+FFFD, the size of a
known tagged field is not compared with the field, and a version after the last is read as the last, unless it has
structs. Lengths and counts are checked before something is allocated all the same.
"""

from __future__ import annotations

import functools

from offsetfs.kafka.protocol import java_text
from offsetfs.kafka.protocol.codec import (
    ELEMENTS_MAX,
    STRING_BYTES_MAX,
    TAGS_MAX,
    InvalidMessage,
    Read,
    ReaderSource,
    compiled,
)
from offsetfs.kafka.protocol.schemas import NEVER, SchemaField, camel, known_version, schema

_VARINT_SIZE_MAX = 5
_INT = 1 << 32


def reader(name: str, version: int) -> Read:
    """Return the function that reads a version of the message `name`, any of Kafka's `short` numbers."""
    return _reader(name, known_version(name, version))


@functools.cache
def _reader(name: str, version: int) -> Read:
    message_schema = schema(name)
    generated = _KafkaReaderSource(
        message_schema, message_schema.layout(min(version, message_schema.versions[1])), version
    )
    read: Read = compiled(f"read_as_kafka_{name}_v{version}", generated.source(), generated.names)
    return read


def read_unsigned(data: memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, as a Java int holds it, and the position behind it.

    IndexError where the bytes end before it does.
    """
    number = 0
    for count in range(_VARINT_SIZE_MAX):
        byte = data[position + count]
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return _as_int(number), position + count + 1
    raise InvalidMessage(
        f"Varint is too long, the most significant bit in the 5th byte is set, converted value: {number % _INT:x}"
    )


def _as_int(number: int) -> int:
    number %= _INT
    return number - _INT if number >= _INT // 2 else number


def _read_length(data: memoryview, position: int) -> tuple[int, int]:
    number, position = read_unsigned(data, position)
    return _as_int(number - 1), position


def _too_many(count: int, left: int) -> InvalidMessage:
    return InvalidMessage(f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining.")


def _wrong_tags(count: int, left: int) -> InvalidMessage:
    if count < 0:
        return InvalidMessage(f"Invalid negative number of tagged fields {count}")
    reason = (
        f"but there are only {left} bytes remaining."
        if count > left
        else f"which exceeds the maximum allowed count of {TAGS_MAX}."
    )
    return InvalidMessage(f"Tried to read {count} tagged fields, {reason}")


def _too_long(size: int, left: int) -> InvalidMessage:
    if size < 0:
        return InvalidMessage(f"{size}")  # Java's NegativeArraySizeException says no more
    return InvalidMessage(f"Error reading byte array of {size} byte(s): only {left} byte(s) available")


class _KafkaReaderSource(ReaderSource):
    decoding = f"str({{}}, 'utf-8', {java_text.HANDLER!r})"

    def source(self) -> str:
        self.names |= {
            "count_too_high": _too_many,
            "read_length": _read_length,
            "read_uvarint": read_unsigned,
            "size_too_high": _too_long,
            "wrong_tags": _wrong_tags,
        }
        return super().source()

    def cut_off(self) -> str:
        return "null"  # all that Java's BufferUnderflowException has to say

    def struct_at(self, name: str, fields: tuple[SchemaField, ...]) -> str:
        if self.version > self.message.versions[1] and name != self.message.name:
            self.line(f'raise InvalidMessage("Can\'t read version {self.version} of {name}")')
        return super().struct_at(name, fields)

    def check_count(self, field: SchemaField, count: str, size_min: int) -> None:
        with self.block(f"if {count} > n - p:"):
            self.line(f"raise count_too_high({count}, n - p)")
        with self.block(f"if {count} > {ELEMENTS_MAX}:"):
            limit = f"exceeds the maximum allowed size of {ELEMENTS_MAX}."
            self.line(f"raise InvalidMessage(f'Tried to read a collection of size {{{count}}}, which {limit}')")

    def check_size(self, field: SchemaField, size: str, is_flexible: bool) -> None:
        if field.type == "string":
            with self.block(f"if {size} > {STRING_BYTES_MAX}:"):
                self.line(f"raise InvalidMessage(f'string field {camel(field.name)} had invalid length {{{size}}}')")
        with self.block(f"if {size} > n - p:"):
            self.line(f"raise size_too_high({size}, n - p)")

    def take_null(self, field: SchemaField, length: str, result: str) -> None:
        if self.may_be_null(field):
            self.line(f"{result} = None")
        else:
            self.line(f"raise InvalidMessage('non-nullable field {camel(field.name)} was serialized as null')")

    def tagged(self, of_struct: tuple[SchemaField, ...]) -> dict[str, str]:
        _, tagged = self.present(of_struct)
        variables = self.defaults(tagged)
        count, tag, size = (self.variable("g") for _ in range(3))
        self.line(f"{count}, p = read_uvarint(d, p)")
        with self.block(f"if not 0 <= {count} <= min(n - p, {TAGS_MAX}):"):
            self.line(f"raise wrong_tags({count}, n - p)")
        with self.block(f"while {count} > 0:"):
            self.line(f"{count} -= 1")
            self.line(f"{tag}, p = read_uvarint(d, p)")
            self.line(f"{size}, p = read_uvarint(d, p)")
            for field in (candidate for candidate in of_struct if candidate.tagged != NEVER):
                with self.block(f"if {tag} == {field.tag}:"):
                    if field in tagged:
                        self.line(f"{variables[field.name]} = {self.value_or_number(field)}")
                        self.line("continue")
                    else:
                        self.line(f"raise InvalidMessage('Tag {field.tag} is not valid for version {self.version}')")
            with self.block(f"if not 0 <= {size} <= n - p:"):
                self.line(f"raise size_too_high({size}, n - p)")
            self.line(f"p += {size}")
        return variables
