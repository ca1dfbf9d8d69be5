"""Findings of a verification: one for each fault, with its position and meaning.

`damage` contradicts what was written before, and needs action. A `notice` concerns no records: for example a leftover
file, or something that the next writer corrects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
