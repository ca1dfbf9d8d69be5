"""Bytes as Java prints them: `new String(bytes, UTF_8)`, written out as UTF-8 again.

Valid UTF-8 stays as it is. Other bytes become U+FFFD; how many bytes one of them stands for is Java's own rule, which
is neither Python's nor that of the Unicode standard: one for a surrogate of three bytes, and one for all bytes of a
sequence that the end cuts off. Follows the decoder in `java.lang.String` of JDK 17; the compiled copy of these rules
is in `native/dump.pyx`.
"""

from __future__ import annotations

import codecs

REPLACEMENT = "\ufffd"
HANDLER = "offsetfs.java"
"""The handler of decoding errors with these rules, for `str(data, "utf-8", HANDLER)`."""


Buffer = bytes | bytearray | memoryview


def decoded(data: Buffer) -> str:
    """Return the text that Java reads from `data`."""
    return str(data, "utf-8", HANDLER)


def printed(data: Buffer) -> bytes:
    """Return the bytes that Java prints for `data`; at most three for one."""
    return decoded(data).encode()


def malformed_size(data: bytes, start: int) -> int:
    """Return the number of bytes from `start`, where no valid sequence begins, that one character replaces."""
    lead, left = data[start], len(data) - start
    if 0xE0 <= lead <= 0xEF:
        return _malformed_three(data, start, left)
    if 0xF0 <= lead <= 0xF7:
        return _malformed_four(data, start, left)
    return 1


def _malformed_three(data: bytes, start: int, left: int) -> int:
    if left < 2 or not _may_follow(data[start], data[start + 1]):
        return 1
    if left == 2:
        return 2  # cut off by the end
    return 3 if _continues(data[start + 2]) else 2  # 3: a surrogate


def _malformed_four(data: bytes, start: int, left: int) -> int:
    if data[start] > 0xF4 or (left >= 2 and not _may_follow(data[start], data[start + 1])):
        return 1
    if left >= 3 and not _continues(data[start + 2]):
        return 2
    return min(left, 3)


def _may_follow(lead: int, second: int) -> bool:
    """Whether `second` continues `lead` without making an overlong sequence or one above U+10FFFF."""
    if lead == 0xE0:
        return 0xA0 <= second <= 0xBF
    if lead == 0xF0:
        return 0x90 <= second <= 0xBF
    if lead == 0xF4:
        return 0x80 <= second <= 0x8F
    return _continues(second)


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _replace(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return REPLACEMENT, error.start + malformed_size(error.object, error.start)


codecs.register_error(HANDLER, _replace)
