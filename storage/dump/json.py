"""Dumps the batches of a log, or its records, as JSON, one object per line.

    {"file": …, "position": 0, "size": 97, "magic": 2, "base_offset": 0, "last_offset": 1, "count": 2, …}
    {"file": …, "offset": 0, "timestamp": 1795200002139, "timestamp_type": "CreateTime", "key": "k", "value": "v", …}

A line is a batch, or with `LogOptions.data` a record. Bytes that are not UTF-8 are in base64, under a name that ends in
`_b64`. The JSON text that a decoder returns is embedded as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

from offsetfs.storage.dump import decoders
from offsetfs.storage.dump import legacy as dump_legacy
from offsetfs.storage.dump.batches import FoundBatch, last_offset, last_sequence
from offsetfs.storage.dump.log import LogOptions
from offsetfs.storage.dump.printer import LineBuffer
from offsetfs.storage.dump.records import FoundRecords, open_records
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.batch_header import MAGIC, BatchHeader, Buffer
from offsetfs.storage.records.format.record_row import HEADERS_COUNT, HEADERS_POSITION

Fields = dict[str, object]


class JsonBatches:
    """Writes the batches of one file, in their order."""

    __slots__ = ("_lines", "_options", "_report")

    def __init__(self, options: LogOptions, lines: LineBuffer, report: DumpReport) -> None:
        self._options = options
        self._lines = lines
        self._report = report

    def put(self, batch: FoundBatch) -> None:
        """Write the object of `batch`, or of each of its records."""
        if not self._options.data:
            self._put({"file": batch.path, **batch_fields(batch)})
            return
        try:
            for offset, fields in self._records(batch):
                if self._options.offset_min <= offset < self._options.offset_end:
                    self._put({"file": batch.path, "offset": offset, **fields})
        except StorageError as error:
            self._report.cannot_read(batch.error(error.reason))

    def _put(self, fields: Fields) -> None:
        self._lines.line(json.dumps(fields, ensure_ascii=False))

    def _records(self, batch: FoundBatch) -> Iterator[tuple[int, Fields]]:
        """Yield offset and fields of each record; raises at the first malformed record."""
        if batch.header.magic < MAGIC:
            label = batch.header.timestamp_type
            for message in dump_legacy.messages(batch):
                fields = {"timestamp": message.timestamp, "timestamp_type": label}
                yield message.offset, {**fields, **self._data(message.offset, message.key, message.value)}
            return
        records = open_records(batch)
        for number in range(len(records)):
            yield self._record(batch.header, records, number)
        if records.fault is not None:
            raise records.fault

    def _record(self, header: BatchHeader, records: FoundRecords, number: int) -> tuple[int, Fields]:
        row = records.row(number)
        offset, key, value = records.offset(row), records.key(row), records.value(row)
        fields: Fields = {"timestamp": records.timestamp(row), "timestamp_type": header.timestamp_type}
        if header.is_control:
            return offset, {**fields, "control": decoders.show_control_record(key, value)}
        headers = (
            [_header(*header) for header in codec.headers(records.payload, row[HEADERS_POSITION], row[HEADERS_COUNT])]
            if row[HEADERS_COUNT]
            else []
        )
        return offset, {**fields, **self._data(offset, key, value), "headers": headers}

    def _data(self, offset: int, key: Buffer | None, value: Buffer | None) -> Fields:
        if self._options.decoder is None:
            return {**_bytes("key", key), **_bytes("value", value)}
        shown_key, shown_value = self._options.decoder(offset, key, value)
        return {"key": _decoded(shown_key), "value": _decoded(shown_value)}


def batch_fields(batch: FoundBatch) -> Fields:
    """Return the fields of a batch, in byte order; those that its format has."""
    header = batch.header
    location = {"position": batch.position, "size": header.size, "magic": header.magic}
    times = {"timestamp_type": header.timestamp_type, "max_timestamp": header.max_timestamp}
    end = {**times, "codec": header.codec_name, "crc": header.crc, "is_valid": batch.is_valid}
    if header.magic < MAGIC:
        return {**location, "last_offset": header.base_offset, **end}
    return {
        **location,
        "base_offset": header.base_offset,
        "last_offset": last_offset(header),
        "count": header.count,
        "base_sequence": header.base_sequence,
        "last_sequence": last_sequence(header),
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "leader_epoch": header.leader_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.base_timestamp if header.has_delete_horizon else None,
        **end,
    }


def _bytes(name: str, data: Buffer | None) -> Fields:
    if data is None:
        return {name: None}
    try:
        return {name: str(data, "utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_b64": base64.b64encode(data).decode()}


def _header(name: str, value: bytes | None) -> Fields:
    return {**_bytes("name", name.encode("utf-8", "surrogateescape")), **_bytes("value", value)}


def _decoded(text: str | None) -> object:
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text  # a message about an unreadable record
