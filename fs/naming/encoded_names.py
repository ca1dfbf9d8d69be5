"""Encodes any bytes as a file name, and back: the names of groups and keys.

Bytes that no file name can contain are percent-encoded: `/`, control characters, and `%` itself. `.` and `..` become
`%2E` and `%2E%2E`, and the empty string becomes `%`. The encoding is canonical: a name that encodes a byte without need
is not valid.

If a key is too long for a file name, its name is a digest: `%sha256-` and 64 hexadecimal digits in lower case. This is
no valid percent-encoding, so it cannot collide with the name of another key.
"""

from __future__ import annotations

import re

from offsetfs.storage.views import KeyDigest

NAME_BYTES_MAX = 255

_UNSAFE = re.compile(rb"[\x00-\x1f/%\x7f]")
_ENCODED = re.compile(rb"%([0-9A-F]{2})")
_ENCODED_HIGH = re.compile(rb"%([89A-F][0-9A-F])")
_DIGEST = re.compile(rb"%sha256-([0-9a-f]{64})")
_RESERVED = {b"": b"%", b".": b"%2E", b"..": b"%2E%2E"}  # a file cannot have these names


def encoded(data: bytes) -> bytes | None:
    """Return the name of `data`. None if the name would be too long."""
    name = _RESERVED.get(data) or _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], data)
    return name if len(name) <= NAME_BYTES_MAX else None


def decoded_key(name: bytes) -> bytes | KeyDigest | None:
    """Return the key, or the digest of a long key, with this name. None if the name is not valid.

    Unlike `decoded`, this accepts bytes from 128 on also percent-encoded (`%FF`), for shells and scripts.
    """
    if digest := _DIGEST.fullmatch(name):
        return KeyDigest(bytes.fromhex(digest[1].decode()))
    return decoded(_ENCODED_HIGH.sub(lambda match: bytes([int(match[1], 16)]), name))


def decoded(name: bytes) -> bytes | None:
    """Return the bytes with this name. None if the name is not valid."""
    data = b"" if name == _RESERVED[b""] else _ENCODED.sub(lambda match: bytes([int(match[1], 16)]), name)
    return data if encoded(data) == name else None
