"""The batches and records of a log as lines of text, those of Kafka's DumpLogSegments, byte for byte."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterator

from offsetfs.kafka.protocol.java_text import decoded
from offsetfs.storage.dump import decoders
from offsetfs.storage.dump import legacy as dump_legacy
from offsetfs.storage.dump.batches import FoundBatch, last_offset, last_sequence
from offsetfs.storage.dump.legacy import FoundMessage
from offsetfs.storage.dump.log import LogOptions
from offsetfs.storage.dump.printer import LineBuffer, follow
from offsetfs.storage.dump.records import FoundRecords, open_records
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.format.batch_header import MAGIC, BatchHeader, Buffer
from offsetfs.storage.records.format.record_row import (
    COLUMNS,
    HEADERS_COUNT,
    HEADERS_POSITION,
    KEY_SIZE,
    OFFSET_DELTA,
    VALUE_SIZE,
)
from offsetfs.storage.reference.dump import NO_OFFSET, LineStyle, header_names, sequence_of

_BOOLEANS = ("false", "true")


class TextBatches:
    """Writes the batches of one file, in their order. `gaps` gets the offsets that are not consecutive."""

    __slots__ = ("_gaps", "_last_offset", "_lines", "_options", "_report")

    def __init__(self, options: LogOptions, lines: LineBuffer, report: DumpReport, gaps: array[int]) -> None:
        self._options = options
        self._lines = lines
        self._report = report
        self._gaps = gaps
        self._last_offset = NO_OFFSET

    def put(self, batch: FoundBatch) -> None:
        """Write the line of `batch` and, if selected, those of its records."""
        self._lines.line(batch_line(batch))
        if self._options.records:
            self._put_records(batch)

    def _put_records(self, batch: FoundBatch) -> None:
        if batch.header.magic < MAGIC:
            self._put_messages(batch)
            return
        records = open_records(batch)
        if len(records):
            self._begin(records.offset(records.row(0)))
        self._last_offset = follow(records.rows, records.base_offset, self._last_offset, self._gaps)
        options = self._options
        # compiled lines of data alone have the form of Kafka 4.1
        if batch.header.is_control or (options.data and (options.decoder or not (options.metadata or options.is_old))):
            self._put_each(batch, records)
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

    def _put_each(self, batch: FoundBatch, records: FoundRecords) -> None:
        for number in range(len(records)):
            row = records.row(number)
            if self._is_wanted(records.offset(row)):
                with self._line(batch, records.offset(row)):
                    self._put_one(batch.header, records, row)

    def _put_one(self, header: BatchHeader, records: FoundRecords, row: array[int]) -> None:
        if self._options.metadata:
            self._lines.put(_metadata(header, records, row).encode())
        if header.is_control:
            if self._options.metadata:
                self._lines.put(f" {decoders.show_control_record(records.key(row), records.value(row))}".encode())
        elif self._options.data:
            self._put_data(records.offset(row), records.key(row), records.value(row))

    def _put_messages(self, batch: FoundBatch) -> None:
        """Write the lines of a v0 or v1 batch."""
        try:
            for message in dump_legacy.messages(batch):
                self._follow(message.offset)
                if self._is_wanted(message.offset):
                    with self._line(batch, message.offset):
                        self._put_message(batch.header.timestamp_type, message)
        except StorageError as error:
            self._report.cannot_read(batch.error(error.reason))

    def _begin(self, offset: int) -> None:
        """Kafka 4.2 and later expect a file to begin with offset 0, though only the first segment does."""
        options = self._options
        if self._last_offset == NO_OFFSET and offset != 0 and not (options.is_old or options.position):
            self._gaps.extend((NO_OFFSET, offset))

    def _follow(self, offset: int) -> None:
        self._begin(offset)
        self._last_offset = follow(array("q", [offset, *[0] * (COLUMNS - 1)]), 0, self._last_offset, self._gaps)

    def _put_message(self, label: str, message: FoundMessage) -> None:
        if self._options.metadata:
            end = "}" if self._options.is_old else ""  # without an opening one
            self._lines.put(f"{_legacy_metadata(label, message)}{end}".encode())
        if self._options.data:
            self._put_data(message.offset, message.key, message.value)

    def _put_data(self, offset: int, key: Buffer | None, value: Buffer | None) -> None:
        if self._options.decoder is not None:
            shown_key, shown_value = self._options.decoder(offset, key, value)
        else:
            shown_key, shown_value = (None if data is None else decoded(data) for data in (key, value))
        prefix = " " if self._options.metadata else "| "
        if shown_key is not None:
            self._lines.put(f"{prefix}key: {shown_key}".encode())
        if shown_key is not None or self._options.is_old:
            prefix = " "
        if shown_value is not None:
            self._lines.put(f"{prefix}payload: {shown_value}".encode())

    def _is_wanted(self, offset: int) -> bool:
        return self._options.offset_min <= offset < self._options.offset_end

    @contextlib.contextmanager
    def _line(self, batch: FoundBatch, offset: int) -> Iterator[None]:
        """End the line, also if damage cuts it off."""
        try:
            yield
        except StorageError as error:
            self._report.cannot_read(batch.error(f"record {offset}: {error.reason}"))
        self._lines.put(b"\n")


def _metadata(header: BatchHeader, records: FoundRecords, row: array[int]) -> str:
    names = ",".join(decoded(name) for name in header_names(records.payload, row[HEADERS_POSITION], row[HEADERS_COUNT]))
    sequence = sequence_of(header.base_sequence, row[OFFSET_DELTA])
    return (
        f"| offset: {records.offset(row)} {header.timestamp_type}: {records.timestamp(row)}"
        f" keySize: {row[KEY_SIZE]} valueSize: {row[VALUE_SIZE]} sequence: {sequence} headerKeys: [{names}]"
    )


def _legacy_metadata(label: str, message: FoundMessage) -> str:
    return (
        f"| offset: {message.offset} {label}: {message.timestamp}"
        f" keySize: {message.key_size} valueSize: {message.value_size}"
        f" isValid: {_BOOLEANS[message.is_valid]} crc: {message.crc}"
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
