"""Headers of a record as JSON, in the form that `records.ndjson` has.

    [{"key":"trace","value":"abc"},{"key":"trace","value":null},{"key":"raw","value_b64":"/w=="}]

A list, because names may repeat and have an order. Bytes that are no UTF-8 are in base64 under a name that ends in
`_b64`, and so are bytes with a NUL: PostgreSQL's JSONB stores none.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterable
from typing import Any

Headers = tuple[tuple[str, bytes | None], ...]

_encode = json.JSONEncoder(ensure_ascii=False).encode


def header_json(headers: Iterable[tuple[bytes, bytes | None]]) -> str:
    """Return headers, each a name and a value as bytes, as JSON."""
    return "[" + ",".join(f"{{{_name(name)},{_field('value', value)}}}" for name, value in headers) + "]"


@functools.lru_cache(maxsize=4096)
def _name(name: bytes) -> str:
    return _field("key", name)


def _field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return f'"{name}_b64":"{base64.b64encode(data).decode()}"'
    return f'"{name}":{_encode(text)}'


def headers_of(text: str | None) -> Headers:
    """Return the headers of a row, names as a `Record` has them; ValueError for anything but the form above."""
    if text is None:
        return ()
    found = json.loads(text)
    if not isinstance(found, list):
        raise ValueError("headers are a list")
    return tuple(_header(each) for each in found)


def _header(each: Any) -> tuple[str, bytes | None]:
    if not isinstance(each, dict) or len(each) != 2:
        raise ValueError('a header is {"key":…,"value":…}')
    name = _bytes_of(each, "key")
    if name is None:
        raise ValueError("a header has a key")
    return name.decode("utf-8", "surrogateescape"), _bytes_of(each, "value")


def _bytes_of(header: dict[str, Any], name: str) -> bytes | None:
    encoded = f"{name}_b64"
    if encoded in header and isinstance(header[encoded], str):
        return base64.b64decode(header[encoded], validate=True)
    value = header.get(name, 0)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"a header has {name} or {encoded}, each of them text")
    return None if value is None else value.encode()
