"""docs/evidence/files-or-tables.md: made from the figures of `files_or_tables`, and from nothing else."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import chart
from chart import amount
from machine import Machine
from measuring import Compared, Result

FILES, VALUES, SERVED = "files", "files, only values", "offsetfs serve"
POSTGRES, SQLITE, SQL = "PostgreSQL", "SQLite", "offsetfs sql"
TABLES = (POSTGRES, SQLITE)


@dataclass(frozen=True, slots=True)
class Question:
    """What was measured of each contender: seconds for `count` messages or look-ups, or bytes of all messages."""

    name: str
    count: int
    figures: Mapping[str, list[float]]
    run: str = ""
    """Machine and load of a run of its own; empty for those of the page."""

    def of(self, contender: str) -> float:
        """The median, for one message, look-up or call."""
        return statistics.median(self.figures[contender]) / self.count

    def best(self, contenders: Sequence[str]) -> float:
        return min(self.of(each) for each in contenders if each in self.figures)


@dataclass(frozen=True, slots=True)
class _Kind:
    title: str
    unit: str
    scale: float
    is_rate: bool = False
    """Whether the page has messages per second."""


_KINDS = {
    "append-one": _Kind("append one message, durable", "messages/s", 1.0, True),
    "append-batches": _Kind("append batches of 1,000, each durable", "messages/s", 1.0, True),
    "writers-1": _Kind("1 writer, each message durable", "messages/s", 1.0, True),
    "writers-4": _Kind("4 writers, each message durable", "messages/s", 1.0, True),
    "writers-16": _Kind("16 writers, each message durable", "messages/s", 1.0, True),
    "load": _Kind("append all messages", "messages/s", 1.0, True),
    "stream": _Kind("read all keys and values in order", "messages/s", 1.0, True),
    "by-offset": _Kind("one message by its offset", "µs", 1e6),
    "by-time": _Kind("the first message at a time or later", "µs", 1e6),
    "by-key": _Kind("the latest message of a key", "µs", 1e6),
    "key-index": _Kind("build the index of keys, once", "s", 1.0),
    "query": _Kind("count and sum of a JSON field by another, of one day in ten", "s", 1.0),
    "bytes": _Kind("space on disk", "bytes/message", 1.0),
    "delete-day": _Kind("delete the oldest day", "s", 1.0),
    "bytes-after-delete": _Kind("space after that", "bytes/message", 1.0),
    "reclaim": _Kind("give its space back", "s", 1.0),
    "bytes-after-reclaim": _Kind("space after that", "bytes/message", 1.0),
}
_CHARTS = ("append-batches", "stream", "by-key", "query", "bytes")


def save(folder: Path, questions: Sequence[Question], count: int, here: Machine) -> None:
    """Write figures, charts and the page into `folder`, which is docs/evidence."""
    place = folder / "files-or-tables"
    place.mkdir(exist_ok=True)
    content = {
        "count": count,
        "machine": dataclasses.asdict(here),
        "questions": [dataclasses.asdict(each) for each in questions],
    }
    (place / "figures.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    for name, drawn in charts(questions).items():
        (place / f"{name}.svg").write_text(drawn)
    (folder / "files-or-tables.md").write_text(text(questions, count, here))


def load(folder: Path) -> tuple[list[Question], int, Machine]:
    """Return the figures that were written."""
    content = json.loads((folder / "files-or-tables" / "figures.json").read_text())
    questions = [Question(**each) for each in content["questions"]]
    return questions, int(content["count"]), Machine(**content["machine"])


def charts(questions: Sequence[Question]) -> dict[str, str]:
    return {each.name: chart.svg(_result(each)) for each in questions if each.name in _CHARTS}


def _result(question: Question) -> Result:
    """Return a question as a row of the bench, whose charts have the shortest bar for the best."""
    kind = _KINDS[question.name]
    unit = "µs a message" if kind.is_rate else kind.unit
    scale = (1e6 if kind.is_rate else kind.scale) / question.count
    figures = {name: [each * scale for each in taken] for name, taken in question.figures.items()}
    ours = next(iter(figures))
    peers = [Compared(name, taken, [], True, "", None) for name, taken in figures.items() if name != ours]
    return Result(kind.title, kind.title, unit, "messages", question.count, ours, figures[ours], peers)


def line(question: Question) -> str:
    """Return the figures for a terminal."""
    return f"{question.name:<22}" + "; ".join(f"{name}: {figure(question, name)}" for name in question.figures)


def figure(question: Question, contender: str) -> str:
    """Return the median with its unit: `12,300 messages/s`."""
    kind = _KINDS[question.name]
    return f"{_amount(kind, statistics.median(question.figures[contender]) / question.count)} {kind.unit}"


def _amount(kind: _Kind, found: float) -> str:
    return f"{_rounded(1 / found):,}" if kind.is_rate else amount(found * kind.scale)


def _rounded(rate: float) -> int:
    digits = max(len(str(int(rate))) - 3, 0)
    return int(round(rate, -digits))


_INTRODUCTION = """\
For users who choose between a log directory and tables of a database. {count:,} messages of ten days, with keys of 14
bytes and JSON of about 80 bytes, are in a log directory, in PostgreSQL and in SQLite, in the tables of
[offsetfs table sync](../use/tables.md) with all indexes. One Python process uses the library of offsetfs, psycopg 3 and
sqlite3. Every appended message is on disk when the call returns.

Figures are medians. All three were measured in turn, beside other work: look at the ratios, of which those from 0.8 to
1.25 decide nothing.
"""

_METHOD = """\
## What was measured

* **Append.** Files: `extend` and `sync`. PostgreSQL: a prepared INSERT or COPY, and commit, with Debian's defaults.
  SQLite: a prepared INSERT, WAL, `synchronous = FULL`.
* **Append all messages.** Files: one `extend`, in batches of 16 KiB, and `sync`. Tables: `table sync`, ANALYZE.
* **Read all keys and values.** Files: `read`, with a `Record` for each; only values: `values`. PostgreSQL: COPY in
  binary format. SQLite: a SELECT.
* **Look-ups.** At random, in warm caches. Files: `record`, `offset_at`, the index behind `by-key/`. Tables: a prepared
  SELECT.
* **Query.** A loop in Python reads the day from the files. `offset_at` finds the day.
* **Delete.** Files: `offsetfs delete-records` and `offsetfs clean`, which remove whole segments of 16 MiB; other
  messages of the day are not visible. Tables: DELETE; VACUUM FULL (PostgreSQL) or VACUUM (SQLite) give the space back.
* **Writers** are threads of one process. Files: `extend` and `sync` of one open directory. `offsetfs serve`: a producer
  each, acks=all. Tables: a connection each; a transaction inserts `max(message_offset) + 1` under a lock:
  `pg_advisory_xact_lock` in PostgreSQL, BEGIN IMMEDIATE in SQLite.
"""


# --- the claims ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Claim:
    text: str
    is_of_files: bool
    """Whether files win by it; otherwise tables do."""
    decisive: tuple[str, ...]
    """The questions that have to be answered faster, or in less space."""
    others: tuple[str, ...] = ()
    more: Callable[[Mapping[str, Question]], str] = lambda found: ""

    def ratios(self, found: Mapping[str, Question]) -> list[float]:
        """Above 1 where the claim holds, one for each question and table."""
        ratios = [_files_against(found[name], table) for name in self.decisive for table in TABLES]
        return ratios if self.is_of_files else [1 / each for each in ratios]


def _files_against(question: Question, table: str, files: str = FILES) -> float:
    return question.of(table) / question.of(files)


def _with_sql(found: Mapping[str, Question]) -> str:
    query = found["query"]
    if SQL not in query.figures:
        return "`offsetfs sql` was not there when this was measured."
    ratio = query.best(TABLES) / query.of(SQL)
    change = (
        f"it is {amount(ratio)}× as fast as the faster table: the claim no longer holds"
        if ratio > 1
        else f"it takes {amount(1 / ratio)}× as long as the faster table, instead of "
        f"{amount(query.of(FILES) / query.best(TABLES))}×"
    )
    run = f" The query was measured in a run of its own ({query.run})." if query.run else ""
    return f"With `offsetfs sql` on the files, the start of its process included, {change}.{run}"


def _index(found: Mapping[str, Question]) -> str:
    return f"The index of keys of the files is built once: {figure(found['key-index'], FILES)}."


def _freed(found: Mapping[str, Question]) -> str:
    again = ", ".join(f"{name} {figure(found['reclaim'], name)}" for name in TABLES)
    return f"Tables give space back only when they are written again: {again}."


def _scaling(found: Mapping[str, Question]) -> str:
    many = found["writers-16"]
    grown = {name: found["writers-1"].of(name) / many.of(name) for name in many.figures}
    against = " and ".join(f"{amount(_files_against(many, each, SERVED))}× as fast as {each}" for each in TABLES)
    growth = ", ".join(f"{name} {amount(ratio)}×" for name, ratio in grown.items())
    served = "With `offsetfs serve` before the files, where one sync serves all that wait"
    run = f" The writers were measured in a run of its own ({many.run})." if many.run else ""
    return f"From 1 to 16 writers: {growth}. {served}, 16 writers write {against}.{run}"


CLAIMS = (
    _Claim("Files take more messages per second.", True, ("append-one", "append-batches", "load")),
    _Claim("Files are faster to read from beginning to end.", True, ("stream",)),
    _Claim("Files take less space.", True, ("bytes",)),
    _Claim("Files delete old messages faster, and give their space back.", True, ("delete-day",), more=_freed),
    _Claim("Tables answer ad-hoc queries faster.", False, ("query",), more=_with_sql),
    _Claim("Tables find messages by key and by time faster.", False, ("by-key", "by-time"), ("by-offset",), _index),
    _Claim(
        "Tables take messages of many writers faster.", False, ("writers-4", "writers-16"), ("writers-1",), _scaling
    ),
)


DECISIVE = 1.25
"""Ratios from the reciprocal of this up to it decide nothing: so much do medians differ between two runs."""


def _verdict(ratios: Sequence[float]) -> str:
    wins, losses = any(each > DECISIVE for each in ratios), any(each < 1 / DECISIVE for each in ratios)
    if wins and losses:
        return "**holds in part**"
    if wins:
        return "**holds**"
    return "**does not hold**" if losses else "is **undecided**"


def text(questions: Sequence[Question], count: int, here: Machine) -> str:
    """Return the page."""
    found = {each.name: each for each in questions}
    claims = [_claim(number, each, found) for number, each in enumerate(CLAIMS, 1)]
    notes = [(number, each.more(found)) for number, each in enumerate(CLAIMS, 1)]
    parts = [
        "# Files or tables\n\n<!-- made by scripts/bench files-or-tables -->\n",
        _INTRODUCTION.format(count=count),
        f"{here}.\n",
        "## Seven claims\n",
        "Ratios are those of files against PostgreSQL and against SQLite: how many times as fast, or as small.\n",
        "\n".join(["| claim | on this machine | ratios |", "|---|---|---|", *claims]) + "\n",
        "\n".join(f"* Claim {number}: {more}" for number, more in notes if more) + "\n",
        "## Charts\n\n[figures.json](files-or-tables/figures.json) has all rounds.\n",
        *(f"![{_KINDS[name].title}](files-or-tables/{name}.svg)\n" for name in _CHARTS),
        _METHOD,
    ]
    return "\n".join(parts)


def _claim(number: int, claim: _Claim, found: Mapping[str, Question]) -> str:
    """Return the row of a claim; its ratios are those of files against each table."""
    ratios = [
        f"{_KINDS[name].title}: {', '.join(f'{amount(_files_against(found[name], each))}×' for each in TABLES)}"
        for name in (*claim.decisive, *claim.others)
    ]
    return f"| {number}. {claim.text} | {_verdict(claim.ratios(found))} | {'; '.join(ratios)} |"
