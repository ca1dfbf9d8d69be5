"""Reads the subject of a certificate, as Java writes it, and the time in which it is valid (RFC 5280, DER).

The standard library verifies certificates, but returns neither of these completely.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The types that RFC 2253 names; Java writes others as numbers, with the value in hexadecimal."""

_STRINGS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E))  # UTF8String, PrintableString, …, BMPString
_SEQUENCE, _SET, _OID, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0x31, 0x06, 0xA0, 0x17, 0x18
_ESCAPED = frozenset(',=+<>#;"\\')


class CertificateError(ValueError):
    """Bytes that are no certificate."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that are used here."""

    subject: str
    """The subject in the form of RFC 2253, as Java's `X500Principal.getName()`: CN=alice,OU=billing."""
    not_before: datetime.datetime
    not_after: datetime.datetime

    def is_valid_at(self, now: datetime.datetime) -> bool:
        return self.not_before <= now <= self.not_after


def parse_certificate(data: bytes) -> Certificate:
    """Read a certificate in DER; CertificateError."""
    try:
        content = _Reader(_Reader(data).take(_SEQUENCE)).take(_SEQUENCE)
        fields = _Reader(content)
        if fields.tag() == _VERSION:
            fields.next()
        for _ in range(3):  # serial number, signature algorithm, issuer
            fields.next()
        validity = _Reader(fields.take(_SEQUENCE))
        not_before, not_after = _time(*validity.next()), _time(*validity.next())
        return Certificate(_name(fields.take(_SEQUENCE)), not_before, not_after)
    except (IndexError, ValueError) as error:
        raise CertificateError(f"not a certificate: {error}") from error


class _Reader:
    """Reads the elements of a DER value, one after the other. IndexError at its end, ValueError for wrong bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def has_more(self) -> bool:
        return self._position < len(self._data)

    def tag(self) -> int:
        return self._data[self._position]

    def next(self) -> tuple[int, bytes]:
        """Return tag and content of the next element."""
        data, position = self._data, self._position
        tag, size = data[position], data[position + 1]
        position += 2
        if size >= 0x80:
            digits = size - 0x80
            if not 1 <= digits <= 4:
                raise ValueError("a length that DER does not have")
            size = int.from_bytes(data[position : position + digits], "big")
            position += digits
        if position + size > len(data):
            raise IndexError("an element is longer than its data")
        self._position = position + size
        return tag, data[position : position + size]

    def take(self, expected: int) -> bytes:
        """Return the content of the next element, which has the tag `expected`."""
        tag, content = self.next()
        if tag != expected:
            raise ValueError(f"tag {tag:#x} instead of {expected:#x}")
        return content

    def raw(self) -> bytes:
        """Return the next element, its tag and its length included."""
        begin = self._position
        self.next()
        return self._data[begin : self._position]


def _time(tag: int, content: bytes) -> datetime.datetime:
    text = content.decode("ascii")
    if tag == _UTC_TIME:  # RFC 5280: years from 50 on are those of the twentieth century
        text = ("19" if text >= "50" else "20") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError(f"tag {tag:#x} is not a time")
    return datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)


def _name(content: bytes) -> str:
    """Return a name in the form of RFC 2253: the most specific part comes first."""
    parts, names = [], _Reader(content)
    while names.has_more:
        attributes, texts = _Reader(names.take(_SET)), []
        while attributes.has_more:
            attribute = _Reader(attributes.take(_SEQUENCE))
            texts.append(_attribute(_oid(attribute.take(_OID)), attribute.raw()))
        parts.append("+".join(texts))
    return ",".join(reversed(parts))


def _attribute(oid: str, value: bytes) -> str:
    keyword = _KEYWORDS.get(oid)
    tag, content = _Reader(value).next()
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or oid}=#{value.hex()}"
    text = "".join(
        f"\\{character}" if character in _ESCAPED else character for character in content.decode("utf-8", "replace")
    )
    inner = text.strip(" \r")
    lead = len(text) - len(text.lstrip(" \r")) if inner else len(text)
    escaped = [
        "\\" + character if not lead <= index < lead + len(inner) else character for index, character in enumerate(text)
    ]
    return f"{keyword}={''.join(escaped)}".replace("\0", "\\00")


def _oid(content: bytes) -> str:
    numbers, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
