"""The log engine: Kafka's files, read and written. Synchronous; imports no event loop, no FUSE, nothing above it.

The names below are the core of its API (docs/internals/engine.md). The subpackages with an `__all__` of their own are
the rest of it, one for each part of the engine; `offsetfs.storage.errors` has what all of them raise. A name is loaded
when it is first asked for, so that a command loads no more of the engine than it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.clock import Clock
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.directory.flusher import flush_due
    from offsetfs.storage.directory.log_directories import AnyLogDirectory, LogDirectories
    from offsetfs.storage.names import INTERNAL_TOPICS, METADATA_TOPIC, OFFSET_MAX, TopicPartition, check_topic
    from offsetfs.storage.partition.batch_search import BatchRange
    from offsetfs.storage.partition.isolation import READ_COMMITTED, READ_UNCOMMITTED, LogView
    from offsetfs.storage.partition.log import Log
    from offsetfs.storage.partition.log_reader import RAW, BatchSlice, LogReader
    from offsetfs.storage.partition.log_state import LogState
    from offsetfs.storage.partition.log_values import Appended, Damage, remote_note
    from offsetfs.storage.partition.unsynced import Unsynced
    from offsetfs.storage.records.format.batch import Batch, read_batch
    from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch, record_size, spread_json_lines
    from offsetfs.storage.records.format.batch_header import BatchHeader
    from offsetfs.storage.records.format.batch_writer import BatchLimit, BatchWriter
    from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME, Record
    from offsetfs.storage.records.json.json_values import JSON_VALUES
    from offsetfs.storage.settings.config import LogConfig

__all__ = [
    "CREATE_TIME",
    "INTERNAL_TOPICS",
    "JSON_VALUES",
    "LOG_APPEND_TIME",
    "METADATA_TOPIC",
    "OFFSET_MAX",
    "RAW",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "AnyLogDirectory",
    "Appended",
    "Batch",
    "BatchBuilder",
    "BatchHeader",
    "BatchLimit",
    "BatchRange",
    "BatchSlice",
    "BatchWriter",
    "Clock",
    "Damage",
    "Log",
    "LogConfig",
    "LogDirectories",
    "LogDirectory",
    "LogReader",
    "LogState",
    "LogView",
    "Record",
    "SealedBatch",
    "TopicPartition",
    "Unsynced",
    "check_topic",
    "flush_due",
    "read_batch",
    "record_size",
    "remote_note",
    "spread_json_lines",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CREATE_TIME": "records.format.record",
        "INTERNAL_TOPICS": "names",
        "JSON_VALUES": "records.json.json_values",
        "LOG_APPEND_TIME": "records.format.record",
        "METADATA_TOPIC": "names",
        "OFFSET_MAX": "names",
        "RAW": "partition.log_reader",
        "READ_COMMITTED": "partition.isolation",
        "READ_UNCOMMITTED": "partition.isolation",
        "AnyLogDirectory": "directory.log_directories",
        "Appended": "partition.log_values",
        "Batch": "records.format.batch",
        "BatchBuilder": "records.format.batch_builder",
        "BatchHeader": "records.format.batch_header",
        "BatchLimit": "records.format.batch_writer",
        "BatchRange": "partition.batch_search",
        "BatchSlice": "partition.log_reader",
        "BatchWriter": "records.format.batch_writer",
        "Clock": "clock",
        "Damage": "partition.log_values",
        "Log": "partition.log",
        "LogConfig": "settings.config",
        "LogDirectories": "directory.log_directories",
        "LogDirectory": "directory.directory",
        "LogReader": "partition.log_reader",
        "LogState": "partition.log_state",
        "LogView": "partition.isolation",
        "Record": "records.format.record",
        "SealedBatch": "records.format.batch_builder",
        "TopicPartition": "names",
        "Unsynced": "partition.unsynced",
        "check_topic": "names",
        "flush_due": "directory.flusher",
        "read_batch": "records.format.batch",
        "record_size": "records.format.batch_builder",
        "remote_note": "partition.log_values",
        "spread_json_lines": "records.format.batch_builder",
    },
)
