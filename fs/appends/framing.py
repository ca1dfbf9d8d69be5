"""What a record is in the bytes that are written to a file: a line, a line of JSON, or all of it.

    append          Lines        the newline is stripped, a CR before it is kept
    append.ndjson   JsonLines    one JSON object a line (docs/internals/format/records-ndjson.md)
    append.raw      Whole        everything from open to close

A framing takes whole records out of a buffer and gives them to a target, as many as there is room for. Where a record
ends that comes in pieces, what is refused, and who waits is the handle's to know (handles).
"""

from __future__ import annotations

import functools
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from offsetfs.fs.appends.buffers import UnfinishedBytes
from offsetfs.fs.appends.closing import Closing
from offsetfs.fs.appends.shared_sync import Writer
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records import varint
from offsetfs.storage.records.batch import HEADER_SIZE
from offsetfs.storage.records.batch_builder import RECORD_OVERHEAD_MAX, Buffer
from offsetfs.storage.records.record_json import LineFault

JSON_BYTES_A_BYTE = 12
"""Bytes of JSON for a byte of a record, at most, as records.ndjson prints them: a header takes two bytes, and 24 as
`{"key":"","value":null},`."""

JSON_BYTES_MORE = 64 << 10
"""And for what is ignored: topic, offset, blanks, fields of other people."""


class Taken(NamedTuple):
    """How far a framing came."""

    end: int
    """Where the first byte is that was not taken."""
    needed: int = 0
    """The bytes of the batch that the record there makes alone, when it found no room; 0: any batch will do."""
    fault: LineFault | None = None
    """What is wrong with the line there."""


class RefusedLine(OSError):
    """EINVAL: a line is no record, and why.

    Cure: fix this line, then append again from it; lines before it are stored.
    """


class AppendTarget(Protocol):
    """Where records go: an accumulator, or those of a topic's partitions. See `accumulator` for what each promises."""

    @property
    def batch_bytes_max(self) -> int: ...

    @property
    def unfinished(self) -> UnfinishedBytes: ...

    @property
    def closing(self) -> Closing: ...

    @property
    def partitions(self) -> frozenset[TopicPartition]: ...

    @property
    def request_timeout_s(self) -> float | None: ...

    @property
    def has_room(self) -> bool: ...

    def check(self, size: int, *, has_key: bool) -> None: ...

    def split(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> int: ...

    def split_json(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> Taken: ...

    def append_value(self, value: Buffer, timestamp: int, writer: Writer) -> bool: ...

    def make_room(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]: ...

    async def drain(self) -> None: ...

    async def sync(self) -> None: ...

    def enter(self, writer: Writer) -> None: ...

    def leave(self, writer: Writer) -> None: ...


class Framing(Protocol):
    """One way to cut records out of bytes; an object for each open file."""

    @property
    def is_whole(self) -> bool:
        """Whether all that is written is one record; else one ends with each newline."""

    @property
    def has_keys(self) -> bool:
        """Whether records may have keys."""

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        """Return how many bytes an unfinished record may have, its newline not counted; -1: none at all."""

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        """Give the whole records of `data[start:end]` to `target`. Never waits; OSError as `Accumulator.split`."""

    def skip(self, data: bytes) -> None:
        """These lines were refused, and the writer knows."""

    def explain(self, fault: LineFault) -> str:
        """Return a sentence about the line at which `take` stopped."""


class Lines:
    """One record a line."""

    is_whole = False
    has_keys = False

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        return line_bytes_max(target.batch_bytes_max)

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        position = target.split(data, start, end, timestamp, writer)
        if position == end:
            return Taken(end)
        return Taken(position, HEADER_SIZE + _line_size(data.index(b"\n", position) - position))

    def skip(self, data: bytes) -> None:
        """Nobody counts."""

    def explain(self, fault: LineFault) -> str:
        raise AssertionError("no line is wrong")


class JsonLines:
    """One JSON object a line. Lines are counted, so that the wrong one can be named."""

    is_whole = False
    has_keys = True

    def __init__(self) -> None:
        self._lines = 0

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        return JSON_BYTES_A_BYTE * target.batch_bytes_max + JSON_BYTES_MORE

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        taken = target.split_json(data, start, end, timestamp, writer)
        self._lines += data.count(b"\n", start, taken.end)
        return taken

    def skip(self, data: bytes) -> None:
        self._lines += data.count(b"\n")

    def explain(self, fault: LineFault) -> str:
        place = f"line {self._lines + 1}, byte {fault.position + 1}"
        return f"{place}: {fault.reason}; fix this line, then append again from it"


class Whole:
    """One record in all."""

    is_whole = True
    has_keys = False

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        return line_bytes_max(target.batch_bytes_max)

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        if target.append_value(memoryview(data)[start:end], timestamp, writer):
            return Taken(end)
        return Taken(start, HEADER_SIZE + _line_size(end - start))

    def skip(self, data: bytes) -> None:
        """Nobody counts."""

    def explain(self, fault: LineFault) -> str:
        raise AssertionError("no record is wrong")


def _line_size(value_size: int) -> int:
    """Return the size of a record of one line, as the first of its batch."""
    body = 5 + varint.size(value_size) + value_size  # 5: attributes, two deltas of 0, no key, no headers
    return varint.size(body) + body


@functools.lru_cache(maxsize=64)
def line_bytes_max(batch_bytes: int) -> int:
    """Return the longest line that fits into a batch of `batch_bytes`, -1 when none does."""
    room = batch_bytes - HEADER_SIZE
    sizes = range(max(0, room - RECORD_OVERHEAD_MAX), max(0, room))
    return max((size for size in sizes if _line_size(size) <= room), default=-1)
