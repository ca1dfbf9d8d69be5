"""Splits the bytes that are written to a file into records: lines, JSON lines, or the whole content.

    append          Lines        the newline is stripped, a CR before it is kept
    append.ndjson   JsonLines    one JSON object a line (docs/internals/format/records-ndjson.md)
    append.raw      Whole        all bytes from open to close

A framing passes complete records of a buffer to a target, as many as the target accepts. The handle (`handles`) joins
records that arrive in pieces, reports refused ones and waits for free buffers.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol

from offsetfs.fs.appends.buffers import UnfinishedBytes
from offsetfs.fs.appends.closing import Closing
from offsetfs.fs.appends.shared_sync import Writer
from offsetfs.fs.nodes import Buffer
from offsetfs.storage import TopicPartition, record_size
from offsetfs.storage.records import HEADER_SIZE, LineFault, value_bytes_max

JSON_BYTES_A_BYTE = 12
"""Bytes of JSON for a byte of a record, at most, as records.ndjson prints them: a header takes two bytes, and 24 as
`{"key":"","value":null},`."""

JSON_BYTES_MORE = 64 << 10
"""An allowance for ignored text: topic, offset, blanks, unknown fields."""


class Taken(NamedTuple):
    """The result of a framing step."""

    end: int
    """The position of the first byte that was not accepted."""
    needed: int = 0
    """The size of a batch with the record there, if it found no free buffer. 0: any batch suffices."""
    fault: LineFault | None = None
    """The error of the line there."""


class RefusedLine(OSError):
    """EINVAL: a line is not a valid record; the message has the reason.

    Cure: fix this line, then append again from it; lines before it are stored.
    """


class AppendTarget(Protocol):
    """The destination of records: one accumulator, or those of a topic. `Accumulator` documents the methods."""

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
    def has_space(self) -> bool: ...

    def check(self, size: int, *, has_key: bool) -> None: ...

    def split(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> int: ...

    def split_json(self, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer) -> Taken: ...

    def append_value(self, value: Buffer, timestamp: int, writer: Writer) -> bool: ...

    def wait_for_space(self, writer: Writer, size: int = 0) -> Coroutine[Any, Any, None]: ...

    async def drain(self) -> None: ...

    async def sync(self) -> None: ...

    def enter(self, writer: Writer) -> None: ...

    def leave(self, writer: Writer) -> None: ...


class Framing(Protocol):
    """A way to split bytes into records. One object per open file."""

    @property
    def is_whole(self) -> bool:
        """Whether the whole content is one record; else each newline ends one."""

    @property
    def has_keys(self) -> bool:
        """Whether records may have keys."""

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        """Return the size limit of an unfinished record without its newline. -1: no record is accepted."""

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        """Pass the complete records of `data[start:end]` to `target`. Never waits. OSError as `Accumulator.split`."""

    def skip(self, data: bytes) -> None:
        """Count lines that were refused."""

    def explain(self, fault: LineFault) -> str:
        """Return a sentence about the line at which `take` stopped."""


class Lines:
    """One record per line."""

    is_whole = False
    has_keys = False

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        return value_bytes_max(target.batch_bytes_max)

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        position = target.split(data, start, end, timestamp, writer)
        if position == end:
            return Taken(end)
        line = memoryview(data)[position : data.index(b"\n", position)]
        return Taken(position, HEADER_SIZE + record_size(None, line))

    def skip(self, data: bytes) -> None:
        """Do nothing: lines are not counted."""

    def explain(self, fault: LineFault) -> str:
        raise AssertionError("no line is wrong")


class JsonLines:
    """One JSON object per line. Lines are counted for error messages."""

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
        location = f"line {self._lines + 1}, byte {fault.position + 1}"
        return f"{location}: {fault.reason}; fix this line, then append again from it"


class Whole:
    """One record per file."""

    is_whole = True
    has_keys = False

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        return value_bytes_max(target.batch_bytes_max)

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        if target.append_value(memoryview(data)[start:end], timestamp, writer):
            return Taken(end)
        return Taken(start, HEADER_SIZE + record_size(None, memoryview(data)[start:end]))

    def skip(self, data: bytes) -> None:
        """Do nothing: lines are not counted."""

    def explain(self, fault: LineFault) -> str:
        raise AssertionError("no record is wrong")
