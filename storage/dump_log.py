"""A `.log` file, or a snapshot of KRaft's (`.checkpoint`), as lines of text: a line a batch, a line a record.

The text is that of Kafka's DumpLogSegments, byte for byte. Where Kafka's tool ends with an exception the report gets a
sentence, and the dump goes on with the next batch.
"""

from __future__ import annotations

import os
import re
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct

from offsetfs.storage import control_records, files
from offsetfs.storage.batch_header import MAGIC, BatchHeader, Buffer
from offsetfs.storage.dump_batches import BatchWalk, FoundBatch
from offsetfs.storage.dump_lines import LineBuffer, LineStyle, follow
from offsetfs.storage.dump_pure import LONG_MAX, LONG_MIN, NO_OFFSET, header_names, incremented, sequence_of, wrapped
from offsetfs.storage.dump_records import FoundRecords, open_records
from offsetfs.storage.dump_report import Report
from offsetfs.storage.errors import StorageError
from offsetfs.storage.java_text import decoded

BYTES_MAX = 2**31 - 1
"""As much of a file as Kafka reads of one; also the default, which means all of it."""

LOG_SUFFIX, CHECKPOINT_SUFFIX = ".log", ".checkpoint"

Decoder = Callable[[int, Buffer | None, Buffer | None], tuple[str | None, str | None]]
"""Turns offset, key and value of a record into the texts to print for key and value; None prints nothing."""

_BOOTSTRAP = "bootstrap.checkpoint"
_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint(?:\.part|\.deleted)?\Z")
_LEGACY_CRC_POSITION, _LEGACY_CRC_START = 12, 16
_LEGACY_PREFIX = Struct(">qiI")
_BOOLEANS = ("false", "true")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to print of a log. `records` without `data` leaves keys and values out, without `metadata` all the rest.

    Batches from `position` on are looked at, and records in `[offset_min, offset_end)`.
    """

    records: bool = False
    data: bool = False
    metadata: bool = True
    decoder: Decoder | None = None
    bytes_max: int = BYTES_MAX
    position: int = 0
    offset_min: int = LONG_MIN
    offset_end: int = LONG_MAX


def dump_log(path: str, options: LogOptions, lines: LineBuffer, report: Report) -> None:
    """Write the lines of the file `path`; OSError when it cannot be opened."""
    with files.opened(os.path.realpath(path)) as file:
        _put_title(path, lines, report)
        is_limited = options.bytes_max != BYTES_MAX
        end = min(file.size(), options.bytes_max) if is_limited else file.size()
        walk = BatchWalk(file, path, options.position, end, report.cannot_read)
        _LogDump(options, lines, report, report.gaps(path)).put(walk)
        if walk.position < end and not is_limited and options.offset_end == LONG_MAX:
            lines.line(f"Found {end - walk.position} invalid bytes at the end of {os.path.basename(path)}")


def _put_title(path: str, lines: LineBuffer, report: Report) -> None:
    name = os.path.basename(path)
    start = name.split(".")[0]
    checkpoint = _CHECKPOINT.match(name)
    if name.endswith(LOG_SUFFIX) and re.fullmatch(r"[0-9]{1,19}|0[0-9]{19}", start):
        lines.line(f"Log starting offset: {int(start)}")
    elif name == _BOOTSTRAP:
        lines.line("KRaft bootstrap snapshot")
    elif checkpoint:
        lines.line(f"Snapshot end offset: {int(checkpoint[1])}, epoch: {int(checkpoint[2])}")
    else:
        report.told(f"{path}: the name does not say at which offset this begins")


class _LogDump:
    """The lines of one file."""

    __slots__ = ("_gaps", "_last_offset", "_lines", "_options", "_report")

    def __init__(self, options: LogOptions, lines: LineBuffer, report: Report, gaps: array[int]) -> None:
        self._options = options
        self._lines = lines
        self._report = report
        self._gaps = gaps
        self._last_offset = NO_OFFSET

    def put(self, walk: BatchWalk) -> None:
        for batch in walk:
            if batch.header.base_offset >= self._options.offset_end:
                return
            self._lines.line(batch_line(batch))
            if self._options.records:
                self._put_records(batch)

    def _put_records(self, batch: FoundBatch) -> None:
        records = open_records(batch)
        self._last_offset = follow(records.rows, records.base_offset, self._last_offset, self._gaps)
        if batch.header.magic < MAGIC:
            self._put_each(batch, records, _legacy_metadata)
        elif batch.header.is_control or (self._options.decoder and self._options.data):
            self._put_each(batch, records, _metadata)
        else:
            self._lines.records(records.payload, records.rows, self._style(batch.header, records))
        if records.fault is not None:
            self._report.cannot_read(batch.error(records.fault.reason))

    def _style(self, header: BatchHeader, records: FoundRecords) -> LineStyle:
        options = self._options
        return LineStyle(
            records.base_offset,
            records.base_timestamp,
            records.append_time,
            header.timestamp_type.encode(),
            header.base_sequence,
            options.metadata,
            options.data,
            options.offset_min,
            options.offset_end,
        )

    # --- one by one: what is no plain record of a v2 batch -----------------------------------------------------------

    def _put_each(self, batch: FoundBatch, records: FoundRecords, metadata: _Metadata) -> None:
        options, is_control = self._options, batch.header.magic >= MAGIC and batch.header.is_control
        for number in range(len(records)):
            row = records.row(number)
            if not options.offset_min <= records.offset(row) < options.offset_end:
                continue
            try:
                if options.metadata:
                    self._lines.put(metadata(batch.header, records, row).encode())
                if options.metadata and is_control:
                    self._lines.put(f" {control_records.show(_key(records, row), _value(records, row))}".encode())
                if options.data and not is_control:
                    self._put_data(records, row)
            except StorageError as error:
                self._report.cannot_read(batch.error(f"record {records.offset(row)}: {error.reason}"))
            self._lines.put(b"\n")

    def _put_data(self, records: FoundRecords, row: array[int]) -> None:
        key, value = _key(records, row), _value(records, row)
        if self._options.decoder is not None:
            shown_key, shown_value = self._options.decoder(records.offset(row), key, value)
        else:
            shown_key, shown_value = (None if data is None else decoded(data) for data in (key, value))
        prefix = " " if self._options.metadata else "| "
        if shown_key is not None:
            self._lines.put(f"{prefix}key: {shown_key}".encode())
        if shown_value is not None:
            self._lines.put(f" payload: {shown_value}".encode())


_Metadata = Callable[[BatchHeader, FoundRecords, "array[int]"], str]


def _key(records: FoundRecords, row: array[int]) -> Buffer | None:
    return None if row[3] < 0 else records.payload[row[2] : row[2] + row[3]]


def _value(records: FoundRecords, row: array[int]) -> Buffer | None:
    return None if row[5] < 0 else records.payload[row[4] : row[4] + row[5]]


def _metadata(header: BatchHeader, records: FoundRecords, row: array[int]) -> str:
    names = ",".join(decoded(name) for name in header_names(records.payload, row[6], row[7]))
    sequence = sequence_of(header.base_sequence, row[0])
    return f"{_place(header, records, row)} sequence: {sequence} headerKeys: [{names}]"


def _legacy_metadata(header: BatchHeader, records: FoundRecords, row: array[int]) -> str:
    """The brace that nothing opened is Kafka's."""
    message = records.payload[row[6] :]
    _, size, crc = _LEGACY_PREFIX.unpack_from(message)
    is_valid = zlib.crc32(message[_LEGACY_CRC_START : _LEGACY_CRC_POSITION + size]) == crc
    return f"{_place(header, records, row)} isValid: {_BOOLEANS[is_valid]} crc: {crc}}}"


def _place(header: BatchHeader, records: FoundRecords, row: array[int]) -> str:
    return (
        f"| offset: {records.offset(row)} {header.timestamp_type}: {records.timestamp(row)}"
        f" keySize: {row[3]} valueSize: {row[5]}"
    )


# --- batches -------------------------------------------------------------------------------------------------------


def batch_line(batch: FoundBatch) -> str:
    """Return the line of a batch."""
    header = batch.header
    start = _current_start(header) if header.magic >= MAGIC else f"offset: {header.base_offset}"
    return (
        f"{start} position: {batch.position} {header.timestamp_type}: {header.max_timestamp} size: {header.size}"
        f" magic: {header.magic} compresscodec: {header.codec_name} crc: {header.crc}"
        f" isvalid: {_BOOLEANS[batch.is_valid]}"
    )


def _current_start(header: BatchHeader) -> str:
    horizon = f"[{header.base_timestamp}]" if header.has_delete_horizon else ".empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {last_offset(header)} count: {header.count}"
        f" baseSequence: {header.base_sequence} lastSequence: {last_sequence(header)}"
        f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.leader_epoch} isTransactional: {_BOOLEANS[header.is_transactional]}"
        f" isControl: {_BOOLEANS[header.is_control]} deleteHorizonMs: OptionalLong{horizon}"
    )


def last_offset(header: BatchHeader) -> int:
    """Return the last offset as a Java long holds it, whatever the header says."""
    return wrapped(header.last_offset, LONG_MIN)


def last_sequence(header: BatchHeader) -> int:
    """Return the sequence of the last record, -1 when the batch has none."""
    return -1 if header.base_sequence == -1 else incremented(header.base_sequence, header.last_offset_delta)
