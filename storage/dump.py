"""Dumping files of a log directory, whatever each of them is: what `offsetfs dump` does, without the command line.

A file is told by the last part of its name, as Kafka's DumpLogSegments tells it. One that cannot be read is reported
and the next one comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from offsetfs.storage.dump_indexes import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    IndexOptions,
    dump_index,
    dump_time_index,
)
from offsetfs.storage.dump_lines import LineBuffer
from offsetfs.storage.dump_log import CHECKPOINT_SUFFIX, LOG_SUFFIX, LogOptions, dump_log
from offsetfs.storage.dump_report import Report
from offsetfs.storage.dump_snapshot import (
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    dump_snapshot,
    dump_transaction_index,
)
from offsetfs.storage.errors import StorageError

SUFFIXES = (
    LOG_SUFFIX,
    CHECKPOINT_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
"""What there is a dump for."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What to print of each kind of file."""

    log: LogOptions = field(default_factory=LogOptions)
    index: IndexOptions = field(default_factory=IndexOptions)


def dump_files(paths: Sequence[str], options: DumpOptions, lines: LineBuffer, report: Report) -> None:
    """Write the dumps of `paths` in their order. What is wrong with them goes to `report`."""
    for path in paths:
        lines.line(f"Dumping {path}")
        try:
            dump_file(path, options, lines, report)
        except (StorageError, OSError) as error:
            report.cannot_read(error)


def dump_file(path: str, options: DumpOptions, lines: LineBuffer, report: Report) -> None:
    """Write the dump of one file; StorageError and OSError when it cannot be read at all."""
    writers: dict[str, Callable[[], None]] = {
        LOG_SUFFIX: lambda: dump_log(path, options.log, lines, report),
        CHECKPOINT_SUFFIX: lambda: dump_log(path, options.log, lines, report),
        INDEX_SUFFIX: lambda: dump_index(path, options.index, lines, report),
        TIME_INDEX_SUFFIX: lambda: dump_time_index(path, options.index, lines, report),
        SNAPSHOT_SUFFIX: lambda: dump_snapshot(path, lines, report),
        TRANSACTION_INDEX_SUFFIX: lambda: dump_transaction_index(path, lines),
    }
    writers.get(suffix_of(path), lambda: report.ignored(path))()


def suffix_of(path: str) -> str:
    """Return what follows the last dot of the name, with the dot; nothing when there is none."""
    name = os.path.basename(path)
    return name[name.rfind(".") :] if "." in name else ""
