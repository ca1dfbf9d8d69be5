"""Dumps a `.log` file or a KRaft snapshot (`.checkpoint`), batch by batch.

The printer formats the batches: `text` or `json`. Where Kafka's tool ends with an exception, the report gets a message,
and the dump continues with the next batch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from offsetfs.storage import files
from offsetfs.storage.dump.batches import BatchWalk, FoundBatch, last_offset
from offsetfs.storage.dump.printer import Printer
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.names import parse_kept_name
from offsetfs.storage.records.format.batch_header import MAGIC, Buffer
from offsetfs.storage.units import I32_MAX, I64_MAX, I64_MIN

BYTES_MAX = I32_MAX
"""The bytes that Kafka reads of one file at most; also the default, which means all of it."""

LOG_SUFFIX, CHECKPOINT_SUFFIX = ".log", ".checkpoint"

Decoder = Callable[[int, Buffer | None, Buffer | None], tuple[str | None, str | None]]
"""Converts offset, key and value of a record to the texts to print for key and value; None prints nothing."""

_BOOTSTRAP = "bootstrap.checkpoint"
_CHECKPOINT = re.compile(r"([0-9]{20}).([0-9]{10}).*\.checkpoint\Z")  # as Kafka's Snapshots.parse
_BASE_OFFSET = re.compile(r"0*[0-9]{1,19}\Z")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Selects the fields and batches of a log to print.

    `records` without `data` omits keys and values, without `metadata` everything else.

    Batches from `position` on are read, and records in `[offset_min, offset_end)`. `is_old`: in the form of Kafka 4.1;
    4.2 has another tool.
    """

    records: bool = False
    data: bool = False
    metadata: bool = True
    decoder: Decoder | None = None
    bytes_max: int = BYTES_MAX
    position: int = 0
    offset_min: int = I64_MIN
    offset_end: int = I64_MAX
    is_old: bool = False


PutBatch = Callable[[FoundBatch], None]
"""Prints the selected parts of a batch, whose memory is valid until the call returns."""


def dump_log(path: str, options: LogOptions, put: PutBatch, printer: Printer, report: DumpReport) -> None:
    """Pass the batches of the file `path` to `put`; OSError if it cannot be opened."""
    with files.open_file(files.real_path(path)) as file:
        _put_title(path, printer, report)
        is_limited = options.bytes_max != BYTES_MAX
        end = min(file.size(), options.bytes_max) if is_limited else file.size()
        walk = BatchWalk(file, path, options.position, end, report.cannot_read)
        _put_batches(walk, options.offset_end, put)
        if walk.position < end and not is_limited and options.offset_end == I64_MAX:
            printer.remark(f"Found {end - walk.position} invalid bytes at the end of {os.path.basename(path)}")


def _put_batches(walk: BatchWalk, offset_end: int, put: PutBatch) -> None:
    following = I64_MIN
    for batch in walk:
        # The first offset of a v0 or v1 wrapper is known only after decompression; it follows the previous batch.
        first = batch.header.base_offset if batch.header.magic >= MAGIC else following
        if first >= offset_end:
            return
        put(batch)
        following = last_offset(batch.header) + 1


def _put_title(path: str, printer: Printer, report: DumpReport) -> None:
    name = os.path.basename(path)
    start = name.split(".")[0]
    checkpoint, kept = _CHECKPOINT.match(name), parse_kept_name(name)
    if name.endswith(LOG_SUFFIX) and _BASE_OFFSET.match(start):
        printer.remark(f"Log starting offset: {int(start)}")
    elif kept is not None:
        printer.remark(f"Cut by a recovery from segment {kept[0]}, at byte {kept[1]}")
    elif name == _BOOTSTRAP:
        printer.remark("KRaft bootstrap snapshot")
    elif checkpoint:
        printer.remark(f"Snapshot end offset: {int(checkpoint[1])}, epoch: {int(checkpoint[2])}")
    else:
        report.say(f"{path}: the name does not say at which offset this begins")
