"""The bytes of records: batches of every format, codecs, checksums, walks over chains of batches, lines of JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.records.columns.columns import (
        KEY,
        VALUE,
        Column,
        HeaderColumns,
        RecordColumns,
        encode_columns,
        gather,
        gather_headers,
        spread_keys,
    )
    from offsetfs.storage.records.compression.compression import Compression
    from offsetfs.storage.records.compression.inflation import inflation_scope
    from offsetfs.storage.records.format.batch import Survey, build_at, recompressed, set_max_timestamp
    from offsetfs.storage.records.format.batch_builder import TIMESTAMP_MAX, value_bytes_max
    from offsetfs.storage.records.format.batch_cursor import BatchCursor
    from offsetfs.storage.records.format.batch_header import HEADER_SIZE
    from offsetfs.storage.records.format.batch_writer import bytes_max_within
    from offsetfs.storage.records.format.last_batch import LastBatch, last_whole_batch
    from offsetfs.storage.records.format.partitioner import partition_of
    from offsetfs.storage.records.format.produced_batch import BatchProducer, ProducedBatch, produced_batch
    from offsetfs.storage.records.format.record_row import (
        COLUMNS,
        HEADERS_COUNT,
        KEY_SIZE,
        OFFSET_DELTA,
        TIMESTAMP_DELTA,
    )
    from offsetfs.storage.records.json.json_values import REFUSE
    from offsetfs.storage.records.json.record_json import (
        JsonRules,
        JsonSpread,
        LineFault,
        line_prefix,
        lines_of,
        spread_json,
    )
    from offsetfs.storage.units import NO_TIMESTAMP

__all__ = [
    "COLUMNS",
    "HEADERS_COUNT",
    "HEADER_SIZE",
    "KEY",
    "KEY_SIZE",
    "NO_TIMESTAMP",
    "OFFSET_DELTA",
    "REFUSE",
    "TIMESTAMP_DELTA",
    "TIMESTAMP_MAX",
    "VALUE",
    "BatchCursor",
    "BatchProducer",
    "Column",
    "Compression",
    "HeaderColumns",
    "JsonRules",
    "JsonSpread",
    "LastBatch",
    "LineFault",
    "ProducedBatch",
    "RecordColumns",
    "Survey",
    "build_at",
    "bytes_max_within",
    "encode_columns",
    "gather",
    "gather_headers",
    "inflation_scope",
    "last_whole_batch",
    "line_prefix",
    "lines_of",
    "partition_of",
    "produced_batch",
    "recompressed",
    "set_max_timestamp",
    "spread_json",
    "spread_keys",
    "value_bytes_max",
]

__getattr__ = lazy_names(
    __name__,
    {
        "COLUMNS": "records.format.record_row",
        "HEADERS_COUNT": "records.format.record_row",
        "HEADER_SIZE": "records.format.batch_header",
        "KEY": "records.columns.columns",
        "KEY_SIZE": "records.format.record_row",
        "NO_TIMESTAMP": "units",
        "OFFSET_DELTA": "records.format.record_row",
        "REFUSE": "records.json.json_values",
        "TIMESTAMP_DELTA": "records.format.record_row",
        "TIMESTAMP_MAX": "records.format.batch_builder",
        "VALUE": "records.columns.columns",
        "Column": "records.columns.columns",
        "Compression": "records.compression.compression",
        "HeaderColumns": "records.columns.columns",
        "JsonRules": "records.json.record_json",
        "JsonSpread": "records.json.record_json",
        "LastBatch": "records.format.last_batch",
        "last_whole_batch": "records.format.last_batch",
        "BatchCursor": "records.format.batch_cursor",
        "BatchProducer": "records.format.produced_batch",
        "LineFault": "records.json.record_json",
        "ProducedBatch": "records.format.produced_batch",
        "RecordColumns": "records.columns.columns",
        "Survey": "records.format.batch",
        "build_at": "records.format.batch",
        "bytes_max_within": "records.format.batch_writer",
        "encode_columns": "records.columns.columns",
        "gather": "records.columns.columns",
        "gather_headers": "records.columns.columns",
        "inflation_scope": "records.compression.inflation",
        "line_prefix": "records.json.record_json",
        "lines_of": "records.json.record_json",
        "partition_of": "records.format.partitioner",
        "produced_batch": "records.format.produced_batch",
        "recompressed": "records.format.batch",
        "set_max_timestamp": "records.format.batch",
        "spread_json": "records.json.record_json",
        "spread_keys": "records.columns.columns",
        "value_bytes_max": "records.format.batch_builder",
    },
)
