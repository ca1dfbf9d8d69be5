"""A report as one HTML file: no script, no address that is fetched, light and dark.

Every text of the report is escaped; the content security policy of the page forbids what an escape could miss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from offsetfs.answers.report import Bar, Diagnosis, Histogram, Measure, Report, Table, Value
from offsetfs.answers.value_text import bar_label, value_text
from offsetfs.common.formatting import printable, utc_time

_STYLE = """\
:root { color-scheme: light dark; --text: #1f2328; --soft: #59636e; --line: #d1d9e0; --bar: #8fc1a9; --page: #fff;
  --damage: #b3261e; --warning: #8a5a00 }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --soft: #9da7b3; --line: #3d444d; --bar: #2f6f4f;
  --page: #0d1117; --damage: #ff8f87; --warning: #e3b341 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page); max-width: 75rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p.made, .consequence { color: var(--soft) } .scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
th.text, td.text, dl { text-align: left } th { font-weight: 600 }
dl { display: grid; grid-template-columns: max-content auto; gap: .1rem 1.5rem }
dt { color: var(--soft) } dd { margin: 0 }
.damage { color: var(--damage) } .warning { color: var(--warning) } .finding { margin: .6rem 0 }
code { overflow-wrap: anywhere } svg text { font: 12px system-ui, sans-serif; fill: var(--text) }
svg rect { fill: var(--bar) }"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_LABEL_WIDTH, _COUNT_WIDTH, _BAR_WIDTH, _STEP = 260, 110, 520, 20


def report_html(report: Report, made_ms: int) -> Iterator[str]:
    """Yield the text of the page in pieces. `made_ms`: when the report was made, milliseconds since 1970."""
    title = f"offsetfs {report.verb}: {report.subject}"
    yield (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{_safe(title)}</title>\n<style>\n{_STYLE}\n</style>\n<h1>{_safe(title)}</h1>\n"
        f'<p class="made">{utc_time(made_ms)}</p>\n'
    )
    for finding in sorted(report.findings, key=lambda finding: finding.severity.rank):
        yield _finding(finding)
    if report.facts:
        facts = (f"<dt>{_safe(fact.label)}<dd>{_safe(value_text(fact.value, fact.kind))}" for fact in report.facts)
        yield f"<dl>{''.join(facts)}</dl>\n"
    for histogram in report.histograms:
        yield from _histogram(histogram)
    for table in report.tables:
        yield from _table(table)
    yield from (f"<p>{_safe(note)}</p>\n" for note in report.notes)
    yield from (f"<p>not looked at: {_safe(sentence)}</p>\n" for sentence in report.unseen)
    yield "</html>\n"


def _safe(text: str) -> str:
    return escape(printable(text))


def _finding(finding: Diagnosis) -> str:
    remedy = f"<br>→ <code>{_safe(finding.remedy)}</code>" if finding.remedy else ""
    return (
        f'<div class="finding"><b class="{finding.severity}">{finding.severity}</b> <b>{_safe(finding.place)}</b>'
        f" {finding.kind}: {_safe(finding.evidence)}"
        f'<br><span class="consequence">{_safe(finding.consequence)}</span>{remedy}</div>\n'
    )


def _table(table: Table) -> Iterator[str]:
    if not table.rows:
        return
    classes = ['class="text"' if column.kind is Measure.TEXT else "" for column in table.columns]
    heads = (f"<th {name}>{_safe(column.heading)}" for name, column in zip(classes, table.columns, strict=True))
    yield f'<h2>{_safe(table.title)}</h2>\n<div class="scroll"><table><tr>{"".join(heads)}\n'
    kinds = [column.kind for column in table.columns]
    for row in table.rows:
        yield f"<tr>{_cells(row, kinds, classes)}\n"
    yield "</table></div>\n"


def _cells(row: Sequence[Value], kinds: Sequence[Measure], classes: Sequence[str]) -> str:
    cells = zip(row, kinds, classes, strict=True)
    return "".join(f"<td {name}>{_safe(value_text(value, kind))}" for value, kind, name in cells)


def _histogram(histogram: Histogram) -> Iterator[str]:
    if not histogram.bars:
        return
    largest = max(bar.count for bar in histogram.bars) or 1
    width, height = _LABEL_WIDTH + _COUNT_WIDTH + _BAR_WIDTH, _STEP * len(histogram.bars)
    yield f'<h2>{_safe(histogram.title)}</h2>\n<div class="scroll">'
    yield f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
    yield f' aria-label="{_safe(histogram.title)}">\n'
    for index, bar in enumerate(histogram.bars):
        yield _bar(bar, histogram, _STEP * index, largest)
    yield "</svg></div>\n"


def _bar(bar: Bar, histogram: Histogram, top: int, largest: int) -> str:
    left = _LABEL_WIDTH + _COUNT_WIDTH
    count = value_text(bar.count, histogram.counted)
    return (
        f'<text x="0" y="{top + 14}">{_safe(bar_label(bar, histogram))}</text>'
        f'<text x="{left - 10}" y="{top + 14}" text-anchor="end">{_safe(count)}</text>'
        f'<rect x="{left}" y="{top + 3}" width="{bar.count * _BAR_WIDTH / largest:.1f}" height="{_STEP - 6}"/>\n'
    )
