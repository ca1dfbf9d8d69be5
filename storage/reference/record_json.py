"""Records as lines of JSON, in plain Python: the specification of `native/record_json.pyx`; tests compare both.

    {"topic":"orders","partition":0,"offset":42,"timestamp":1795253676123,"timestamp_type":"CreateTime",   (one line)
     "key":"k","value":"v","headers":[{"key":"h","value":"x"}]}

Bytes that are not UTF-8 stand in base64 under `key_b64`, `value_b64`; null is null.
docs/internals/format/records-ndjson.md has the whole picture; `reference/json_lines.py` goes the other way. What is no
payload raises `MalformedBatch`, as in `codec`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator

from offsetfs.storage.errors import DecompressionLimit
from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME, Headers, Record
from offsetfs.storage.reference import codec
from offsetfs.storage.units import wrapped

JSON_BYTES_MAX = 512 << 20
"""The bytes of the lines of one batch, at most: protects the memory from a hostile batch, whose records of seven bytes
each would make twenty times as much text."""

PREFIX_SIZE_MAX = 1024
"""The bytes of a `line_prefix`, at most; a topic's name has no more than 249."""

Buffer = codec.Buffer


def line_prefix(topic: str, partition: int) -> bytes:
    """Return what every line of a partition begins with, up to where the offset stands."""
    return f'{{"topic":{json.dumps(topic, ensure_ascii=False)},"partition":{partition},"offset":'.encode()


def join_json(
    payload: Buffer,
    count: int,
    *,
    prefix: bytes,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
    offset_from: int | None = None,
    offset_to: int | None = None,
    bytes_max: int = JSON_BYTES_MAX,
) -> bytearray:
    """Return a line for each record of a v2 batch with an offset in `[offset_from, offset_to)`, or of all.

    `payload` is the decompressed records section, `prefix` comes from `line_prefix`, `append_time` (milliseconds) is
    that of a batch with LogAppendTime, else None. Offsets and timestamps wrap around as a Java long does. Raises
    `MalformedBatch` for what is no payload, inside the range or not; `DecompressionLimit` when the lines take more
    than `bytes_max`.
    """
    if len(prefix) > PREFIX_SIZE_MAX:
        raise ValueError(f"a prefix of {len(prefix)} bytes")
    lines = bytearray()
    timestamp_type = CREATE_TIME if append_time is None else LOG_APPEND_TIME
    for delta, time, key, value, headers in codec.decode(payload, count):
        offset = wrapped(base_offset + delta)
        if (offset_from is None or offset_from <= offset) and (offset_to is None or offset < offset_to):
            timestamp = wrapped(base_timestamp + time) if append_time is None else append_time
            lines += _line(prefix, offset, timestamp, timestamp_type, key, value, headers)
    if len(lines) > bytes_max:
        raise DecompressionLimit(f"the records take more than {bytes_max} bytes as JSON")
    return lines


def measure_json(
    payload: Buffer,
    count: int,
    *,
    prefix: bytes,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None = None,
    offset_from: int | None = None,
    offset_to: int | None = None,
    bytes_max: int = JSON_BYTES_MAX,
) -> int:
    """Return the length of what `join_json` would return, without building it; raises the same."""
    lines = join_json(
        payload,
        count,
        prefix=prefix,
        base_offset=base_offset,
        base_timestamp=base_timestamp,
        append_time=append_time,
        offset_from=offset_from,
        offset_to=offset_to,
        bytes_max=bytes_max,
    )
    return len(lines)


def lines_of(records: Iterable[Record], prefix: bytes, *, as_base64: bool = False) -> bytes:
    """Return the same lines for records that are objects: of the old formats, or a single record.

    `as_base64`: all bytes are in base64, not only those that are no UTF-8.
    """
    return b"".join(
        _line(
            prefix,
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.key,
            record.value,
            record.headers,
            as_base64=as_base64,
        )
        for record in records
    )


def _line(
    prefix: bytes,
    offset: int,
    timestamp: int,
    timestamp_type: str,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    *,
    as_base64: bool = False,
) -> bytes:
    times = f'{offset},"timestamp":{timestamp},"timestamp_type":"{timestamp_type}",'
    field = _base64_field if as_base64 else _field
    data = f'{field("key", key)},{field("value", value)},"headers":[{",".join(_headers(headers, field))}]}}\n'
    return prefix + (times + data).encode()


def _headers(headers: Headers, field: Callable[[str, bytes | None], str]) -> Iterator[str]:
    for name, value in headers:
        yield f"{{{field('key', name.encode('utf-8', 'surrogateescape'))},{field('value', value)}}}"


def _field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{json.dumps(data.decode(), ensure_ascii=False)}'
    except UnicodeDecodeError:
        return _base64_field(name, data)


def _base64_field(name: str, data: bytes | None) -> str:
    return f'"{name}":null' if data is None else f'"{name}_b64":"{base64.b64encode(data).decode()}"'
