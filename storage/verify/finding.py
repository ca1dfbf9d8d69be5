"""Findings of a verification, one for each fault with its position and meaning; its input and its counts.

`damage` contradicts what was written before, and needs action. A `notice` concerns no records: for example a leftover
file, or something that the next writer corrects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass

from offsetfs.storage.errors import counted
from offsetfs.storage.records.format.batch import PAYLOAD_BYTES_MAX
from offsetfs.storage.settings.config import DEFAULTS

DAMAGE = "damage"
NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """`position` is a byte in `path`, `offset` a record's number; None if unknown."""

    severity: str
    kind: str
    """A hyphenated identifier that is stable across releases; docs/use/verify.md lists them."""
    path: str
    position: int | None
    offset: int | None
    meaning: str

    def __str__(self) -> str:
        places = [f"position {self.position}"] * (self.position is not None)
        places += [f"offset {self.offset}"] * (self.offset is not None)
        mark = "" if self.severity == DAMAGE else f"{self.severity}: "
        return f"{', '.join([self.path, *places])}: {mark}{self.kind}: {self.meaning}"


Report = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class FindingReporter:
    """Reports the findings of one file."""

    report: Report
    path: str

    def damage(self, kind: str, meaning: str, *, position: int | None = None, offset: int | None = None) -> None:
        self.report(Finding(DAMAGE, kind, self.path, position, offset, meaning))

    def notice(self, kind: str, meaning: str, *, position: int | None = None, offset: int | None = None) -> None:
        self.report(Finding(NOTICE, kind, self.path, position, offset, meaning))


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """The state of a partition according to its log directory. Offsets are None without an entry in the checkpoints."""

    is_live: bool = False
    """Whether another process is writing to the partition."""
    is_clean: bool = True
    """Whether the last writer closed the directory cleanly."""
    recovery_point: int | None = None
    high_watermark: int | None = None
    log_start: int | None = None
    cleaner: int | None = None
    index_interval_bytes: int = DEFAULTS.index_interval_bytes
    inflated_bytes_max: int = PAYLOAD_BYTES_MAX


@dataclass(slots=True)
class VerificationCounts:
    """The numbers of items that were verified."""

    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0

    def __add__(self, other: VerificationCounts) -> VerificationCounts:
        return VerificationCounts(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))

    def __str__(self) -> str:
        """Return the numbers with their nouns: "1 partition, 2 segments, …"."""
        return ", ".join(_counted(number, plural) for plural, number in asdict(self).items())


def _counted(count: int, plural: str) -> str:
    singular = plural.removesuffix("es") if plural.endswith("ches") else plural.removesuffix("s")
    return counted(count, singular, plural)
