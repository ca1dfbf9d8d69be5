"""Fields of a message in the wire format, for messages of which there are few: descriptors, and values of Struct."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types."""

_GROUP_START, _GROUP_END = 3, 4
_GROUPS_MAX = 100

_SIZES = {FIXED64: 8, FIXED32: 4}


class Damaged(ValueError):
    """Bytes that are no message."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of up to 64 bits, and the position behind it. `Damaged`."""
    number = 0
    for place in range(10):
        if at >= len(data):
            raise Damaged("it ends within a number")
        number |= (data[at] & 0x7F) << 7 * place
        at += 1
        if data[at - 1] < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, at
    raise Damaged("a number has too many bytes")


def fields_of(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field; fixed ones as their bytes. Groups are `Damaged`, too."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise Damaged("a field has a number that is not possible")
        value: int | bytes
        if wire == VARINT:
            value, at = varint(data, at)
        else:
            start, at = _content(data, at, wire)
            value = data[start:at]
        yield number, wire, value


def check_message(data: bytes) -> None:
    """Raise `Damaged` if bytes are no message of any type. Messages within it are not looked at, but groups are."""
    at, groups = 0, list[int]()
    while at < len(data):
        tag, at = varint(data, at)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise Damaged("a field has a number that is not possible")
        if wire == _GROUP_START and len(groups) < _GROUPS_MAX:
            groups.append(number)
        elif wire == _GROUP_END:
            if not groups or groups.pop() != number:
                raise Damaged("an end has no group")
        elif wire == VARINT:
            _, at = varint(data, at)
        else:
            _, at = _content(data, at, wire)
    if groups:
        raise Damaged("a group has no end")


def _content(data: bytes, at: int, wire: int) -> tuple[int, int]:
    """Return where the content of a field whose size is known before it starts, and where it ends."""
    if wire == LENGTH:
        size, at = varint(data, at)
    elif wire in _SIZES:
        size = _SIZES[wire]
    else:
        raise Damaged(f"a field has the wire type {wire}")
    if size > len(data) - at:
        raise Damaged("it ends within a field")
    return at, at + size


def varint_bytes(number: int) -> bytes:
    """Return a number that is not negative, seven bits a byte."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)
