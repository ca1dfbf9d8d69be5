"""The log engine: Kafka's files, read and written. Synchronous; imports no event loop, no FUSE, nothing above it.

The names below are its API (docs/internals/engine.md); `offsetfs.storage.errors` has what they raise. A name is loaded
when it is first asked for, so that a command loads no more of the engine than it uses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offsetfs.storage.clock import Clock
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.names import INTERNAL_TOPICS, TopicPartition, check_topic
    from offsetfs.storage.partition.isolation import READ_COMMITTED, READ_UNCOMMITTED, LogView
    from offsetfs.storage.partition.log import Log
    from offsetfs.storage.partition.log_reader import RAW, BatchSlice, LogReader
    from offsetfs.storage.partition.log_values import Appended, Damage
    from offsetfs.storage.records.batch import Batch, BatchHeader, read_batch
    from offsetfs.storage.records.batch_builder import BatchBuilder, SealedBatch, record_size, spread_json
    from offsetfs.storage.records.batch_writer import BatchLimit, BatchWriter
    from offsetfs.storage.records.json_values import JSON_VALUES
    from offsetfs.storage.records.record import CREATE_TIME, LOG_APPEND_TIME, Record
    from offsetfs.storage.settings.config import LogConfig

__all__ = [
    "CREATE_TIME",
    "INTERNAL_TOPICS",
    "JSON_VALUES",
    "LOG_APPEND_TIME",
    "RAW",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "Appended",
    "Batch",
    "BatchBuilder",
    "BatchHeader",
    "BatchLimit",
    "BatchSlice",
    "BatchWriter",
    "Clock",
    "Damage",
    "Log",
    "LogConfig",
    "LogDirectory",
    "LogReader",
    "LogView",
    "Record",
    "SealedBatch",
    "TopicPartition",
    "check_topic",
    "read_batch",
    "record_size",
    "spread_json",
]

_MODULES = {
    "CREATE_TIME": "records.record",
    "INTERNAL_TOPICS": "names",
    "JSON_VALUES": "records.json_values",
    "LOG_APPEND_TIME": "records.record",
    "RAW": "partition.log_reader",
    "READ_COMMITTED": "partition.isolation",
    "READ_UNCOMMITTED": "partition.isolation",
    "Appended": "partition.log_values",
    "Batch": "records.batch",
    "BatchLimit": "records.batch_writer",
    "BatchBuilder": "records.batch_builder",
    "BatchHeader": "records.batch",
    "BatchSlice": "partition.log_reader",
    "BatchWriter": "records.batch_writer",
    "Clock": "clock",
    "Damage": "partition.log_values",
    "Log": "partition.log",
    "LogConfig": "settings.config",
    "LogDirectory": "directory.directory",
    "LogReader": "partition.log_reader",
    "LogView": "partition.isolation",
    "Record": "records.record",
    "SealedBatch": "records.batch_builder",
    "TopicPartition": "names",
    "check_topic": "names",
    "read_batch": "records.batch",
    "record_size": "records.batch_builder",
    "spread_json": "records.batch_builder",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
