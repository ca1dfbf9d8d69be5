"""Any bytes as a name in a directory, and back: of groups and of keys.

A key that is too long for a name has a digest as name: `%sha256-` and 64 hexadecimal digits, in lower case. This is no
percent-encoded name, so the two cannot meet.

What no file name may hold is written with percent signs: `/`, control characters, and `%` itself. `.` and `..` are
`%2E` and `%2E%2E`, and what has no bytes is `%`. Everything has exactly one name, so that a name that says more than it
must is nobody's.
"""

from __future__ import annotations

import re

from offsetfs.storage.views.key_hash import KeyDigest

NAME_BYTES_MAX = 255

_UNSAFE = re.compile(rb"[\x00-\x1f/%\x7f]")
_ENCODED = re.compile(rb"%([0-9A-F]{2})")
_ENCODED_HIGH = re.compile(rb"%([89A-F][0-9A-F])")
_DIGEST = re.compile(rb"%sha256-([0-9a-f]{64})")
_WHOLE = {b"": b"%", b".": b"%2E", b"..": b"%2E%2E"}  # names that no file can have


def encoded(data: bytes) -> bytes | None:
    """Return the name of `data`; None when it would be too long for one."""
    name = _WHOLE.get(data) or _UNSAFE.sub(lambda match: b"%%%02X" % match[0][0], data)
    return name if len(name) <= NAME_BYTES_MAX else None


def decoded_key(name: bytes) -> bytes | KeyDigest | None:
    """Return the key, or the digest of a long key, that has this name; None when nothing has.

    As `decoded`, with bytes from 128 on also as `%FF`, for shells and scripts.
    """
    if digest := _DIGEST.fullmatch(name):
        return KeyDigest(bytes.fromhex(digest[1].decode()))
    return decoded(_ENCODED_HIGH.sub(lambda match: bytes([int(match[1], 16)]), name))


def decoded(name: bytes) -> bytes | None:
    """Return what has this name, None when nothing has."""
    data = b"" if name == _WHOLE[b""] else _ENCODED.sub(lambda match: bytes([int(match[1], 16)]), name)
    return data if encoded(data) == name else None
