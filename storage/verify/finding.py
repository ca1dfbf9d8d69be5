"""What a verification says: one finding a fault, with the place and what it means.

`damage` contradicts what was once written, and somebody has to act. A `notice` is worth knowing and takes no record
away: a left-over file, something that the next writer settles by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

DAMAGE = "damage"
NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """`position` is a byte in `path`, `offset` a record's number; None where there is none to tell."""

    severity: str
    kind: str
    """A word with hyphens that stays the same from release to release; docs/use/verify.md lists them."""
    path: str
    position: int | None
    offset: int | None
    meaning: str

    def __str__(self) -> str:
        places = [f"position {self.position}"] * (self.position is not None)
        places += [f"offset {self.offset}"] * (self.offset is not None)
        mark = "" if self.severity == DAMAGE else f"{self.severity}: "
        return f"{', '.join([self.path, *places])}: {mark}{self.kind}: {self.meaning}"

    def fields(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return asdict(self)


Report = Callable[[Finding], None]


@dataclass(frozen=True, slots=True)
class FindingReporter:
    """Says findings of one file."""

    report: Report
    path: str

    def damage(self, kind: str, meaning: str, *, position: int | None = None, offset: int | None = None) -> None:
        self.report(Finding(DAMAGE, kind, self.path, position, offset, meaning))

    def notice(self, kind: str, meaning: str, *, position: int | None = None, offset: int | None = None) -> None:
        self.report(Finding(NOTICE, kind, self.path, position, offset, meaning))
