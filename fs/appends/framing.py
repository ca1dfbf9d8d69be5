"""Splits the bytes that are written to a file into records: lines, JSON lines, or the whole content.

    append          Lines        the newline is stripped, a CR before it is kept
    append.ndjson   JsonLines    one JSON object a line (docs/internals/format/records-ndjson.md)
    append.raw      Whole        all bytes from open to close
    decoded/append.ndjson  EncodedLines  JSON lines whose values are encoded by schemas

A framing passes complete records of a buffer to a target, as many as the target accepts. The handle (`handles`) joins
records that arrive in pieces, reports refused records and waits for free buffers.
"""

from __future__ import annotations

from collections.abc import Callable

from offsetfs.fs.appends.accumulator import batch_size
from offsetfs.fs.appends.json_batches import Taken
from offsetfs.fs.appends.open_files import Writer
from offsetfs.fs.appends.target import AppendTarget
from offsetfs.storage.records import LineFault, value_bytes_max

JSON_BYTES_A_BYTE = 12
"""Bytes of JSON for a byte of a record, at most, as records.ndjson prints them: a header takes two bytes, and 24 as
`{"key":"","value":null},`."""

JSON_BYTES_MORE = 64 << 10
"""An allowance for ignored text: topic, offset, blanks, unknown fields."""


class RefusedLine(OSError):
    """EINVAL: a line is not a valid record; the message has the reason.

    Cure: fix this line, then append again from it; lines before it are stored.
    """


class Lines:
    """One record per line; and the base of the other framings. One object per open file."""

    is_whole = False
    """Whether the whole content is one record; else each newline ends one."""

    has_keys = False
    """Whether records may have keys."""

    def unfinished_bytes_max(self, target: AppendTarget) -> int:
        """Return the size limit of an unfinished record without its newline. -1: no record is accepted."""
        return value_bytes_max(target.batch_bytes_max)

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        """Pass the complete records of `data[start:end]` to `target`. Never waits. OSError as `Accumulator.split`."""
        position = target.split(data, start, end, timestamp, writer)
        if position == end:
            return Taken(end)
        return Taken(position, batch_size(None, memoryview(data)[position : data.index(b"\n", position)]))

    def skip(self, data: bytes) -> None:
        """Count lines that were refused, if the framing counts lines."""

    def explain(self, fault: LineFault) -> str:
        """Return a sentence about the line at which `take` stopped."""
        raise AssertionError("no record is wrong")


class JsonLines(Lines):
    """One JSON object per line. Lines are counted for error messages."""

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


class EncodedLines(JsonLines):
    """JSON lines whose values are encoded first."""

    def __init__(self, encode: Callable[[bytes], bytes | LineFault]) -> None:
        """`encode` returns a line for `JsonLines` with its newline, or why it cannot."""
        super().__init__()
        self._encode = encode

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        lines, fault = bytearray(), None
        ends, encoded_ends = [start], [0]
        while ends[-1] < end and fault is None:
            stop = data.index(b"\n", ends[-1]) + 1
            line = self._encode(bytes(data[ends[-1] : stop]))
            if isinstance(line, LineFault):
                fault = line
            else:
                lines += line
                ends.append(stop)
                encoded_ends.append(len(lines))
        taken = super().take(target, lines, 0, len(lines), timestamp, writer) if lines else Taken(0, fault=fault)
        if taken.end < len(lines):
            return taken._replace(end=ends[encoded_ends.index(taken.end)])
        return Taken(ends[-1], fault=fault)


class Whole(Lines):
    """One record per file."""

    is_whole = True

    def take(
        self, target: AppendTarget, data: bytes | bytearray, start: int, end: int, timestamp: int, writer: Writer
    ) -> Taken:
        record = memoryview(data)[start:end]
        if target.append_value(record, timestamp, writer):
            return Taken(end)
        return Taken(start, batch_size(None, record))
