"""The report model of all answers: facts, tables, histograms and findings, independent of how they are shown.

A `Report` is printed as text (`report_text`), as JSON (`Report.as_json`; docs/use/report.schema.json describes it) and
as one HTML file (`report_html`). Names of JSON are stable across releases: `key` of facts, tables and columns, `kind`
of findings. A number that is not known is None in all three, never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Value = str | int | float | bool | None


class Measure(StrEnum):
    """What a value measures. The JSON has the value as it is."""

    TEXT = "text"
    COUNT = "count"
    BYTES = "bytes"
    OFFSET = "offset"
    TIME = "time"
    """Milliseconds since 1970."""
    SECONDS = "seconds"
    SHARE = "share"
    """A part of a whole, 0 to 1."""
    RATIO = "ratio"
    PER_SECOND = "per second"


class Severity(StrEnum):
    """How urgent a finding is, the most urgent first."""

    DAMAGE = "damage"
    """Records are lost or cannot be read, or the broker does not start."""
    WARNING = "warning"
    """Something does not work, or will stop to work."""
    NOTICE = "notice"
    """It is worth knowing, and needs no action now."""

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Fact:
    """One labeled value."""

    key: str
    label: str
    value: Value
    kind: Measure = Measure.TEXT


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a `Table`."""

    key: str
    heading: str
    kind: Measure = Measure.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values, each as long as `columns`, sorted so that the first ones matter most."""

    key: str
    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[Value]]
    shown_max: int = 15
    """The rows that a text has without --all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a histogram: what lies in `low` ≤ value < `high`. Without numbers, `label` names it."""

    count: int
    low: float | None = None
    high: float | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by range of a value. `kind` is that of the value, `counted` what the bars count."""

    key: str
    title: str
    kind: Measure
    bars: Sequence[Bar]
    counted: Measure = Measure.COUNT


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong at one place, what follows from it, and what to do."""

    severity: Severity
    kind: str
    """A hyphenated identifier that is stable across releases."""
    place: str
    """The partition, topic, group, file or directory."""
    evidence: str
    consequence: str
    remedy: str = ""
    """A command where there is one."""


@dataclass(frozen=True, slots=True)
class Report:
    """An answer. `unseen` says what was not looked at, and why; without entries everything was."""

    verb: str
    subject: str
    """What was looked at: the directories or the URL, and the names."""
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    histograms: Sequence[Histogram] = ()
    findings: Sequence[Diagnosis] = ()
    unseen: Sequence[str] = ()
    notes: Sequence[str] = field(default=())
    """Sentences that help to read the report: how a number was estimated, and its error."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing of the severity damage or warning was found."""
        return all(finding.severity is Severity.NOTICE for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the report as docs/use/report.schema.json describes it."""
        return {
            "verb": self.verb,
            "subject": self.subject,
            "facts": {fact.key: fact.value for fact in self.facts},
            "tables": {
                table.key: [dict(zip((column.key for column in table.columns), row, strict=True)) for row in table.rows]
                for table in self.tables
            },
            "histograms": {
                histogram.key: [
                    {"label": bar.label, "low": bar.low, "high": bar.high, "count": bar.count} for bar in histogram.bars
                ]
                for histogram in self.histograms
            },
            "findings": [
                {
                    "severity": finding.severity.value,
                    "kind": finding.kind,
                    "place": finding.place,
                    "evidence": finding.evidence,
                    "consequence": finding.consequence,
                    "remedy": finding.remedy,
                }
                for finding in sorted(self.findings, key=lambda finding: finding.severity.rank)
            ],
            "unseen": list(self.unseen),
            "notes": list(self.notes),
        }
