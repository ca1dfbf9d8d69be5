"""Classifies the files of a partition: those of its segments, and all others.

Names of swaps and removals (`.swap`, `.deleted`, …) are normal beside a running broker, and leftover files otherwise.
The names are those of Kafka (LogFileUtils), of offsetfs, and those in docs/internals/format/partition-directory.md.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field

from offsetfs.storage import files
from offsetfs.storage.checkpoint import LEADER_EPOCHS, PARTITION_METADATA
from offsetfs.storage.errors import counted
from offsetfs.storage.names import MAP_SUFFIXES, parse_segment_name, segment_name
from offsetfs.storage.verify.finding import FindingReporter, Report
from offsetfs.storage.views.key_table import COMMITTED_NAME, FOOTER_SUFFIX, NAME, STORE_SUFFIX

_BESIDE = (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    *(name + suffix for name in (NAME, COMMITTED_NAME) for suffix in (STORE_SUFFIX, FOOTER_SUFFIX)),
)
INDEXES = (".index", ".timeindex", ".txnindex")
_OF_A_SEGMENT = (".log", *INDEXES, ".snapshot", *MAP_SUFFIXES)
_CUT = re.compile(r"\.cut-[0-9]+(-[0-9]+)?\Z")
_METADATA_FILE = re.compile(r"[0-9]{20}-[0-9]{10}\.checkpoint(\.deleted)?\Z|quorum-state\Z")
_REMOVED_UNASKED = (".deleted", ".cleaned")
"""No finding: a broker leaves the first if it stops within `file.delete.delay.ms`, the second if its cleaner fails. The
next writer removes both, and no record is in them alone."""

_UNFINISHED = {
    ".swap": "a compaction's output; the next writer puts it in its place",
    ".tmp": "a temporary file that was never put in place",
    ".handover": "of an interrupted `offsetfs hand-over`, which can be repeated",
}


@dataclass(slots=True)
class PartitionFiles:
    """The files of a partition, by kind."""

    logs: list[int] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    indexes: set[tuple[int, str]] = field(default_factory=set)
    has_metadata_snapshot: bool = False

    @classmethod
    def classify(cls, path: str, report: Report, *, is_live: bool) -> PartitionFiles:
        """Return the files of the directory; report those that do not belong there."""
        classified = cls()
        for name in sorted(files.names(path)):
            classified._take(name, FindingReporter(report, os.path.join(path, name)), is_live)
        classified.logs.sort()
        if not is_live:
            classified._check_pairs(path, report)
        return classified

    def _take(self, name: str, reporter: FindingReporter, is_live: bool) -> None:
        parsed = parse_segment_name(name)
        suffix = parsed[1] if parsed is not None else ""
        if parsed is not None and suffix in _OF_A_SEGMENT:
            # A planted FIFO must not be opened: the open would wait forever.
            if not _is_regular(reporter.path):
                if suffix == ".log":
                    self.logs.append(parsed[0])  # reported with its segment
                else:
                    reporter.damage("not-regular", "a link or a special file: it is never opened")
            elif suffix == ".log":
                self.logs.append(parsed[0])
            elif suffix == ".snapshot":
                self.snapshots.append(parsed[0])
            elif suffix in INDEXES:
                self.indexes.add((parsed[0], suffix))
        elif _CUT.match(suffix):
            size = files.status(reporter.path).st_size
            reporter.notice("cut", f"{counted(size, 'byte')} that recovery took from the log and kept")
        elif _METADATA_FILE.match(name):
            self.has_metadata_snapshot |= name.endswith(".checkpoint")
        elif name not in _BESIDE and not name.endswith(_REMOVED_UNASKED):
            under_way = next((meaning for ending, meaning in _UNFINISHED.items() if name.endswith(ending)), None)
            if under_way is None:
                reporter.notice("foreign-file", "belongs to no partition and is ignored")
            elif not is_live:
                reporter.notice("left-over", under_way)

    def _check_pairs(self, path: str, report: Report) -> None:
        """Report indexes without a log, and logs without an index that they should have."""
        bases = set(self.logs)
        for base, suffix in sorted(self.indexes):
            if base not in bases:
                reporter = FindingReporter(report, os.path.join(path, segment_name(base, suffix)))
                reporter.notice("left-over", "an index without its log; a broker removes it")
        for base in self.logs:
            log = os.path.join(path, segment_name(base, ".log"))
            if (base, ".index") not in self.indexes and files.status(log).st_size:
                FindingReporter(report, log).notice("index-missing", "has no .index: it will be rebuilt from the log")


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(files.status(path).st_mode)
    except FileNotFoundError:
        return True  # deleted meanwhile; an attempt to open it reports that
