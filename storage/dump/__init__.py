"""The output of Kafka's DumpLogSegments, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.dump.decoders import DECODERS, OLD_DECODERS
    from offsetfs.storage.dump.dump import DumpOptions, dump_file
    from offsetfs.storage.dump.indexes import INDEX_SUFFIX, INDEX_WINDOW_BYTES, TIME_INDEX_SUFFIX, IndexOptions
    from offsetfs.storage.dump.lines import LineBuffer
    from offsetfs.storage.dump.log import BYTES_MAX, LOG_SUFFIX, LogOptions
    from offsetfs.storage.dump.range import DumpRange, RangeBound, logs_within
    from offsetfs.storage.dump.report import DumpReport

__all__ = [
    "BYTES_MAX",
    "DECODERS",
    "INDEX_SUFFIX",
    "INDEX_WINDOW_BYTES",
    "LOG_SUFFIX",
    "OLD_DECODERS",
    "TIME_INDEX_SUFFIX",
    "DumpOptions",
    "DumpRange",
    "DumpReport",
    "IndexOptions",
    "LineBuffer",
    "LogOptions",
    "RangeBound",
    "dump_file",
    "logs_within",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BYTES_MAX": "dump.log",
        "DECODERS": "dump.decoders",
        "INDEX_SUFFIX": "dump.indexes",
        "INDEX_WINDOW_BYTES": "dump.indexes",
        "LOG_SUFFIX": "dump.log",
        "OLD_DECODERS": "dump.decoders",
        "TIME_INDEX_SUFFIX": "dump.indexes",
        "DumpOptions": "dump.dump",
        "DumpRange": "dump.range",
        "DumpReport": "dump.report",
        "IndexOptions": "dump.indexes",
        "LineBuffer": "dump.lines",
        "LogOptions": "dump.log",
        "RangeBound": "dump.range",
        "dump_file": "dump.dump",
        "logs_within": "dump.range",
    },
)
