"""A `.log` file, or a snapshot of KRaft's (`.checkpoint`), dumped batch by batch.

What a batch becomes is the writer's business: `dump_text` or `dump_json`. Where Kafka's tool ends with an exception the
report gets a sentence, and the dump goes on with the next batch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from offsetfs.storage import files
from offsetfs.storage.dump.batches import BatchWalk, FoundBatch, last_offset
from offsetfs.storage.dump.dump_pure import LONG_MAX, LONG_MIN
from offsetfs.storage.dump.printer import Printer
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.names import parse_kept_name
from offsetfs.storage.records.batch_header import MAGIC, Buffer

BYTES_MAX = 2**31 - 1
"""As much of a file as Kafka reads of one; also the default, which means all of it."""

LOG_SUFFIX, CHECKPOINT_SUFFIX = ".log", ".checkpoint"

Decoder = Callable[[int, Buffer | None, Buffer | None], tuple[str | None, str | None]]
"""Turns offset, key and value of a record into the texts to print for key and value; None prints nothing."""

_BOOTSTRAP = "bootstrap.checkpoint"
_CHECKPOINT = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint\Z")
_BASE_OFFSET = re.compile(r"0*[0-9]{1,19}\Z")


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


class BatchPrinter(Protocol):
    """Writes what is wanted of a batch. Its memory is good until the call returns."""

    def put(self, batch: FoundBatch) -> None: ...


def dump_log(path: str, options: LogOptions, writer: BatchPrinter, printer: Printer, report: DumpReport) -> None:
    """Give the batches of the file `path` to `writer`; OSError when it cannot be opened."""
    with files.opened(files.real_path(path)) as file:
        _put_title(path, printer, report)
        is_limited = options.bytes_max != BYTES_MAX
        end = min(file.size(), options.bytes_max) if is_limited else file.size()
        walk = BatchWalk(file, path, options.position, end, report.cannot_read)
        _put_batches(walk, options.offset_end, writer)
        if walk.position < end and not is_limited and options.offset_end == LONG_MAX:
            printer.remark(f"Found {end - walk.position} invalid bytes at the end of {os.path.basename(path)}")


def _put_batches(walk: BatchWalk, offset_end: int, writer: BatchPrinter) -> None:
    following = LONG_MIN
    for batch in walk:
        # What a wrapper of v0 or v1 begins with is known only inside; that is at least what follows its neighbour.
        first = batch.header.base_offset if batch.header.magic >= MAGIC else following
        if first >= offset_end:
            return
        writer.put(batch)
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
        report.told(f"{path}: the name does not say at which offset this begins")
