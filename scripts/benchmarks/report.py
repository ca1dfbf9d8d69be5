"""Results as a table for the terminal and for docs/evidence/performance.md, as charts, and as JSON.

docs/evidence/performance/figures.json holds the figures of the last full run of every row, each with its machine; the
table and the charts are made from it, so that a run of one row leaves the others as they were.
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


def save(folder: Path, measured: Mapping[str, Measured], order: Iterable[str]) -> None:
    """Put results among those in `folder`, and make page and charts again; rows that are not in `order` go."""
    figures = folder / "performance" / "figures.json"
    figures.parent.mkdir(exist_ok=True)
    known = _load(figures.read_text()) if figures.exists() else {}
    merged = {row: {**known, **measured}[row] for row in order if row in known or row in measured}
    figures.write_text(dump(merged))
    for row, (result, _) in merged.items():
        (figures.parent / f"{row}.svg").write_text(chart.svg(result))
    page = folder / "performance.md"
    page.write_text(replaced(page.read_text(), section(merged.values())))


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


def section(measured: Iterable[Measured]) -> str:
    """Return the table of ratios, the figures of each row as its footnote, with their machine, and the charts."""
    measured = list(measured)
    return "\n".join(
        [
            "| row | what is measured | | ratio: median (smallest–largest) | goal | |",
            "|---|---|---|---|---|---|",
            *(line for result, _ in measured for line in _lines(result)),
            "",
            *(_footnote(result, machine) for result, machine in measured),
            "",
            *(f"![{result.row}](performance/{result.row}.svg)" for result, _ in measured),
            "",
        ]
    )


def _lines(result: Result) -> list[str]:
    """One line for a limit, and one for each peer; the first of them says what is measured."""
    lines = [(f"to {peer.name}", ratio_text(peer), peer.goal, _verdict(peer.is_met)) for peer in result.peers]
    if result.is_met is not None:
        lines.insert(0, ("by itself", figure_text(result, result.figures), result.goal, _verdict(result.is_met)))
    names = [(f"`{result.row}`[^{result.row}]", result.what), *[("", "")] * (len(lines) - 1)]
    return [f"| {' | '.join((*name, *line))} |" for name, line in zip(names, lines, strict=True)]


def _footnote(result: Result, machine: Machine) -> str:
    """Return what the ratios are made of: figures, which mean something on that machine at that hour only."""
    every = [(result.ours, result.figures), *((peer.name, peer.figures) for peer in result.peers)]
    figures = "; ".join(f"{name}: {figure_text(result, figures)}" for name, figures in every)
    count = f"{result.count:,}".replace(",", " ")
    return f"[^{result.row}]: {count} {result.of}. {figures}. {doubtful(result)}{machine}."


def doubtful(result: Result) -> str:
    """Return a sentence where too few rounds are comparable; "" elsewhere."""
    if result.comparable is None or result.comparable >= COMPARABLE_MIN:
        return ""
    return f"**Only {result.comparable} of {len(result.figures)} rounds are comparable**: memory did not stay ready. "


def _verdict(is_met: bool | None) -> str:
    return {None: "", True: "met", False: "**not met**"}[is_met]


def ratio_text(peer: Compared) -> str:
    """Return the median ratio and its spread: `**6.2×** as fast (5.9–6.6)`."""
    kind = "as fast" if peer.is_speed else "as long"
    return (
        f"**{amount(statistics.median(peer.ratios))}×** {kind} ({amount(min(peer.ratios))}–{amount(max(peer.ratios))})"
    )


def figure_text(result: Result, figures: list[float]) -> str:
    """Return the median, its spread, and what it means in records and bytes a second."""
    median = statistics.median(figures)
    text = f"{amount(median)} {result.unit} ({amount(min(figures))}–{amount(max(figures))})"
    if result.unit == "s" and result.of in ("lines", "records"):
        rate = result.count / median
        text += f", {amount(rate / 1e6)} M/s, {amount(rate * result.record_bytes / 1e6)} MB/s"
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
