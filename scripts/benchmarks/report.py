"""Results as tables for the terminal and for docs/evidence/performance.md, as charts, and as JSON.

docs/evidence/performance/figures.json holds the figures of the last full run of every row, each with its machine; the
tables and the charts are made from it, so that a run of one row leaves the others as they were.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import chart
from chart import amount
from machine import Machine
from measuring import COMPARABLE_MIN, Compared, Result

BEGIN, END = "<!-- figures: made by scripts/bench -->", "<!-- end of figures -->"

Measured = tuple[Result, Machine]


def save(folder: Path, measured: Mapping[str, Measured], subjects: Mapping[str, Iterable[str]]) -> None:
    """Merge results into those in `folder`, and write page and charts; rows that are not in `subjects` are removed."""
    figures = folder / "performance" / "figures.json"
    figures.parent.mkdir(exist_ok=True)
    known = {**(_load(figures.read_text()) if figures.exists() else {}), **measured}
    merged = {title: {row: known[row] for row in rows if row in known} for title, rows in subjects.items()}
    by_row = {row: each for rows in merged.values() for row, each in rows.items()}
    figures.write_text(dump(by_row))
    for row, (result, _) in by_row.items():
        (figures.parent / f"{row}.svg").write_text(chart.svg(result))
    page = folder / "performance.md"
    page.write_text(replaced(page.read_text(), section({title: rows.values() for title, rows in merged.items()})))


def dump(measured: Mapping[str, Measured]) -> str:
    rows = {
        row: {"result": dataclasses.asdict(result), "machine": dataclasses.asdict(machine)}
        for row, (result, machine) in measured.items()
    }
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _load(text: str) -> dict[str, Measured]:
    return {row: (_result(each["result"]), Machine(**each["machine"])) for row, each in json.loads(text).items()}


def _result(fields: dict[str, Any]) -> Result:
    return Result(**{**fields, "peers": [Compared(**peer) for peer in fields["peers"]]})


# --- the page --------------------------------------------------------------------------------------------------------


def replaced(page: str, content: str) -> str:
    """Return `page` with what stands between the two marks exchanged; ValueError when it lacks one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} … {END} in the page")
    return f"{before}{BEGIN}\n\n{content}\n{END}{after}"


def section(subjects: Mapping[str, Iterable[Measured]]) -> str:
    """Return a table for each subject, and the machines on which the rows were measured."""
    tables = {title: list(measured) for title, measured in subjects.items()}
    hardware = list(dict.fromkeys(machine.hardware for measured in tables.values() for _, machine in measured))
    lines = []
    for title, measured in tables.items():
        if measured:
            lines += [f"### {title}", "", "| row | what is measured | offsetfs | beside | ratio | goal | measured |"]
            lines += ["|---|---|---|---|---|---|---|"]
        for result, machine in measured:
            lines += _lines(result, f"{machine.date}<sup>{hardware.index(machine.hardware) + 1}</sup>")
        lines += [""] * bool(measured)
    machines = [f"{number}. {each}" for number, each in enumerate(hardware, 1)]
    return "\n".join([*lines, "### Machines", "", *machines, ""])


def _lines(result: Result, run: str) -> list[str]:
    """Return a line for the figure by itself, or beside the first peer, and a line for each further peer."""
    peers = [(peer.name, ratio_text(peer), _judged_on_page(peer.goal, peer.is_met)) for peer in result.peers]
    if result.is_met is not None:
        peers.insert(0, ("", "", _judged_on_page(result.goal, result.is_met)))
    doubt = f"<br>{doubtful(result).strip()}" if doubtful(result) else ""
    chart_link = f"[{result.row}](performance/{result.row}.svg)"
    figure = _figure(result)
    first = _cells(chart_link, result.what + doubt, figure, *peers[0], run)
    return [first, *(_cells("", "", "", *peer, "") for peer in peers[1:])]


def _figure(result: Result) -> str:
    """Return the figure with its rate; a time of all without a rate, with the count."""
    text = figure_text(result, result.figures, has_bytes=False)
    return text if result.unit != "s" or "/s" in text else f"{text}; {result.count:,} {result.of}"


def _cells(*texts: str) -> str:
    return f"|{'|'.join(text.replace('|', '&#124;') for text in texts)}|"


def doubtful(result: Result) -> str:
    """Return a sentence where too few rounds are comparable; "" elsewhere."""
    if result.comparable is None or result.comparable >= COMPARABLE_MIN:
        return ""
    return f"**Only {result.comparable} of {len(result.figures)} rounds are comparable**: memory did not stay ready. "


def _judged_on_page(goal: str, is_met: bool | None) -> str:
    return "" if is_met is None else f"{goal}{'' if is_met else ' **not met**'}"


def ratio_text(peer: Compared) -> str:
    """Return the median ratio and its spread: `**6.2×** as fast (5.9–6.6)`."""
    kind = "as fast" if peer.is_speed else "as long"
    return (
        f"**{amount(statistics.median(peer.ratios))}×** {kind} ({amount(min(peer.ratios))}–{amount(max(peer.ratios))})"
    )


def figure_text(result: Result, figures: list[float], *, has_bytes: bool = True) -> str:
    """Return the median, its spread, and what it means in records and, if wanted, in bytes a second."""
    median = statistics.median(figures)
    text = f"{amount(median)} {result.unit} ({amount(min(figures))}–{amount(max(figures))})"
    if result.unit == "s" and result.of in ("lines", "records"):
        rate = result.count / median
        text += f", {amount(rate / 1e6)} M/s"
        text += f", {amount(rate * result.record_bytes / 1e6)} MB/s" if has_bytes else ""
    return text


# --- the terminal ----------------------------------------------------------------------------------------------------


def spoken(result: Result) -> str:
    """Return a result for a person at a terminal."""
    lines = [
        f"{result.row:<22}{result.ours}: {figure_text(result, result.figures)}  {_judged(result.goal, result.is_met)}"
    ]
    for peer in result.peers:
        figures = figure_text(result, peer.figures)
        lines.append(
            f"{'':<22}{peer.name}: {figures}  → {ratio_text(peer).replace('*', '')}  {_judged(peer.goal, peer.is_met)}"
        )
    if doubt := doubtful(result):
        lines.append(f"{'':<22}{doubt.replace('*', '')}")
    return "\n".join(line.rstrip() for line in lines)


def _judged(goal: str, is_met: bool | None) -> str:
    return "" if is_met is None else f"[{goal}: {'met' if is_met else 'NOT MET'}]"
