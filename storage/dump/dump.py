"""Dumps a file of a log directory by its kind: the implementation of `offsetfs dump`.

The suffix of the name determines the kind, as in Kafka's DumpLogSegments. Bytes that a recovery cut and kept
(`….cut-N`) are dumped as a log. A file that cannot be read is reported, and the next one follows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.storage.dump.indexes import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    IndexOptions,
    dump_index,
    dump_time_index,
)
from offsetfs.storage.dump.json import JsonBatches
from offsetfs.storage.dump.log import CHECKPOINT_SUFFIX, LOG_SUFFIX, LogOptions, PutBatch, dump_log
from offsetfs.storage.dump.printer import JsonPrinter, LineBuffer, Printer, TextPrinter
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.dump.snapshot import (
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    dump_snapshot,
    dump_transaction_index,
)
from offsetfs.storage.dump.text import TextBatches
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import parse_kept_name

SUFFIXES = (
    LOG_SUFFIX,
    CHECKPOINT_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
"""The suffixes of files that can be dumped."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """The options for each kind of file."""

    log: LogOptions = field(default_factory=LogOptions)
    index: IndexOptions = field(default_factory=IndexOptions)
    as_json: bool = False


def dump_file(path: str, options: DumpOptions, lines: LineBuffer, report: DumpReport) -> None:
    """Write the dump of one file."""
    printer: Printer = JsonPrinter(lines) if options.as_json else TextPrinter(lines)
    printer.title(path)
    try:
        _dump(path, options, printer, report)
    except (StorageError, OSError) as error:
        report.cannot_read(error)


def _dump(path: str, options: DumpOptions, printer: Printer, report: DumpReport) -> None:
    def put_log() -> None:
        dump_log(path, options.log, _put(path, options, printer, report), printer, report)

    dumps: dict[str, Callable[[], None]] = {
        LOG_SUFFIX: put_log,
        CHECKPOINT_SUFFIX: put_log,
        INDEX_SUFFIX: lambda: dump_index(path, options.index, printer, report),
        TIME_INDEX_SUFFIX: lambda: dump_time_index(path, options.index, printer, report),
        SNAPSHOT_SUFFIX: lambda: dump_snapshot(path, printer, report, is_old=options.log.is_old),
        TRANSACTION_INDEX_SUFFIX: lambda: dump_transaction_index(path, printer),
    }
    fallback = put_log if parse_kept_name(os.path.basename(path)) else lambda: report.ignored(path)
    dumps.get(suffix_of(path), fallback)()


def _put(path: str, options: DumpOptions, printer: Printer, report: DumpReport) -> PutBatch:
    if options.as_json:
        return JsonBatches(options.log, printer.lines, report).put
    return TextBatches(options.log, printer.lines, report, report.gaps(path)).put


def suffix_of(path: str) -> str:
    """Return the suffix after the last dot of the name, with the dot, or ""."""
    name = os.path.basename(path)
    return name[name.rfind(".") :] if "." in name else ""
