"""One record, as a reader sees it.

Plain values, detached from any buffer: a `Record` may outlive the batch it came from. Bulk paths never make one;
they move whole buffers through `codec`.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsetfs.storage.units import Offset, Timestamp

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"
NO_TIMESTAMP_TYPE = "NoTimestampType"  # of message format v0, whose timestamp is -1

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record with its place and time.

    `timestamp` is the effective one: the append time of the batch when `timestamp_type` is "LogAppendTime". Header
    names may repeat and keep their order; bytes in them that are no UTF-8 appear as surrogates (`surrogateescape`).
    """

    offset: Offset
    timestamp: Timestamp
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
