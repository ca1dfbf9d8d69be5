"""A report as text: one screen first, everything with `shows_all`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from offsetfs.answers.report import Diagnosis, Histogram, Measure, Report, Table
from offsetfs.answers.value_text import bar_label, value_text
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import counted

BAR_WIDTH = 40
FINDINGS_SHOWN = 20


def report_text(report: Report, *, shows_all: bool = False) -> Iterator[str]:
    """Yield the lines of a report: findings, facts, tables, histograms, what was not looked at."""
    yield from _findings(report.findings, shows_all)
    yield from _facts(report)
    for table in report.tables:
        yield from _table(table, shows_all)
    for histogram in report.histograms:
        yield from _histogram(histogram)
    for note in report.notes:
        yield printable(note)
    for sentence in report.unseen:
        yield f"not looked at: {printable(sentence)}"


def _findings(findings: Sequence[Diagnosis], shows_all: bool) -> Iterator[str]:
    ordered = sorted(findings, key=lambda finding: finding.severity.rank)
    shown = ordered if shows_all else ordered[:FINDINGS_SHOWN]
    for finding in shown:
        yield f"{finding.severity}: {printable(finding.place)}: {finding.kind}: {printable(finding.evidence)}"
        yield f"    {printable(finding.consequence)}"
        if finding.remedy:
            yield f"    → {printable(finding.remedy)}"
    if len(shown) < len(ordered):
        yield f"{counted(len(ordered) - len(shown), 'more finding')}; --all shows all"


def _facts(report: Report) -> Iterator[str]:
    width = max((len(fact.label) for fact in report.facts), default=0)
    for fact in report.facts:
        yield f"{fact.label.ljust(width)}  {value_text(fact.value, fact.kind)}"


def _table(table: Table, shows_all: bool) -> Iterator[str]:
    if not table.rows:
        return
    rows = table.rows if shows_all else table.rows[: table.shown_max]
    cells = [[column.heading for column in table.columns]]
    cells += [
        [value_text(value, column.kind) for value, column in zip(row, table.columns, strict=True)] for row in rows
    ]
    widths = [max(map(len, texts)) for texts in zip(*cells, strict=True)]
    yield ""
    yield table.title
    for line in cells:
        aligned = (
            cell.ljust(width) if column.kind is Measure.TEXT else cell.rjust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        )
        yield "  ".join(aligned).rstrip()
    if len(rows) < len(table.rows):
        yield f"… {len(table.rows) - len(rows):,} more; --all shows all"


def _histogram(histogram: Histogram) -> Iterator[str]:
    if not histogram.bars:
        return
    largest = max(bar.count for bar in histogram.bars) or 1
    labels = [bar_label(bar, histogram) for bar in histogram.bars]
    counts = [value_text(bar.count, histogram.counted) for bar in histogram.bars]
    widths = max(map(len, labels)), max(map(len, counts))
    yield ""
    yield histogram.title
    for bar, label, text in zip(histogram.bars, labels, counts, strict=True):
        drawn = "█" * -(-bar.count * BAR_WIDTH // largest)
        yield f"{label.ljust(widths[0])}  {text.rjust(widths[1])}  {drawn}".rstrip()
