"""Fields of a message in the wire format, for messages of which there are few: descriptors, and values of Struct."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types."""

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
            if wire == LENGTH:
                size, at = varint(data, at)
            elif wire in _SIZES:
                size = _SIZES[wire]
            else:
                raise Damaged(f"a field has the wire type {wire}")
            if size > len(data) - at:
                raise Damaged("it ends within a field")
            value = data[at : at + size]
            at += size
        yield number, wire, value
