"""How things are compared: in turn, round by round, and by the ratio within each round.

A machine changes its pace while one measures it (neighbors, write-back, clock rates), so two figures count together
only when they were taken one right after the other. The first round is not counted: it meets cold caches and memory
that the host has not yet given to the guest. What is stated is the median of the ratios, and the smallest and largest.

The memory that a round needs is touched right before each figure, on both sides alike, because a host may take free
memory of a guest back at any time (`machine.ReadyMemory`). A round in which that memory did not stay is not comparable:
its figures are kept, and a row with less than three comparable rounds says so.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

import logs
from bench import Bench
from machine import ReadyMemory

WARM_UP = -1
COMPARABLE_MIN = 3
"""How many comparable rounds a ratio is to be made of."""
MEMORY_MIN, MEMORY_MAX = 256 << 20, 3 << 30
"""How much memory is touched before a figure."""

Measure = Callable[[int], float]
"""Takes the number of the round, from `WARM_UP` on, and returns a figure in the unit of its row."""


Opened = Callable[[Bench], AbstractContextManager[Measure]]
"""Prepares something to be measured, checks that it works, and clears up after it."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that can be measured."""

    name: str
    opened: Opened


@dataclass(frozen=True, slots=True)
class Goal:
    """What a ratio should be. `is_speed`: peer's figure over ours, more is better; else ours over the peer's."""

    is_speed: bool
    bound: float

    def ratio(self, ours: float, theirs: float) -> float:
        return theirs / ours if self.is_speed else ours / theirs

    def is_met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.is_speed else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.is_speed else '≤'} {self.bound:g}×"


def times_as_fast(bound: float) -> Goal:
    """At least `bound` times the peer's speed."""
    return Goal(True, bound)


def times_as_long(bound: float) -> Goal:
    """At most `bound` times the peer's time."""
    return Goal(False, bound)


@dataclass(frozen=True, slots=True)
class Peer:
    """The program to compare with; without a goal the figure is for orientation."""

    contender: Contender
    goal: Goal
    is_goal: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `count` is what `of` says: records, segments, partitions. Figures: less is better.

    `record_bytes` is for records and lines: what each counts in the MB/s that are stated.
    """

    name: str
    what: str
    unit: str
    of: str
    count: int
    count_quick: int
    ours: Contender
    peers: tuple[Peer, ...] = ()
    limit: float | None = None
    record_bytes: int = logs.LINE_BYTES


@dataclass(frozen=True, slots=True)
class Compared:
    """The figures of one peer, and the ratio to ours in each round."""

    name: str
    figures: list[float]
    ratios: list[float]
    is_speed: bool
    goal: str
    is_met: bool | None


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of one row, round by round."""

    row: str
    what: str
    unit: str
    of: str
    count: int
    ours: str
    figures: list[float]
    peers: list[Compared] = field(default_factory=list)
    goal: str = ""
    is_met: bool | None = None
    record_bytes: int = logs.LINE_BYTES
    comparable: int | None = None
    """How many of the rounds found their memory ready; None where that was not measured."""


def measure(row: Row, bench: Bench, rounds: int, second_touch: float | None = None) -> Result:
    """Measure a row in `rounds` rounds, after one that does not count; with no round more than that, it does.

    `second_touch`: as `ReadyMemory.rate`.
    """
    contenders = [row.ours, *(peer.contender for peer in row.peers)]
    with ExitStack() as stack:
        opened = {each.name: stack.enter_context(each.opened(bench)) for each in contenders}
        memory = ReadyMemory(_memory_of(row), second_touch)
        figures = interleaved(opened, rounds, memory.make_ready)
    comparable = None if second_touch is None else len(set(range(rounds)) - memory.disturbed)
    return dataclasses.replace(result(row, bench.count, figures), comparable=comparable)


def _memory_of(row: Row) -> int:
    """Return how many bytes a round of a row may need: lines, log, and what is printed, with some left over."""
    size = 4 * row.count * row.record_bytes if row.of in ("records", "lines") else MEMORY_MIN
    return min(max(size, MEMORY_MIN), MEMORY_MAX)


def interleaved(
    measures: Mapping[str, Measure], rounds: int, make_ready: Callable[[int], None] = lambda number: None
) -> dict[str, list[float]]:
    """Return the figures of each, taken in turn. What is still to be written to disk is written in between.

    `make_ready` is called with the number of the round right before each figure is taken.
    """
    figures: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(WARM_UP, rounds):
        for name, take in measures.items():
            os.sync()
            make_ready(number)
            figure = take(number)
            if number != WARM_UP or not rounds:
                figures[name].append(figure)
    return figures


def result(row: Row, count: int, figures: Mapping[str, list[float]]) -> Result:
    """Return what the figures of all contenders mean."""
    ours = figures[row.ours.name]
    return Result(
        row.name,
        row.what,
        row.unit,
        row.of,
        count,
        row.ours.name,
        ours,
        [compared(peer, ours, figures[peer.contender.name]) for peer in row.peers],
        "" if row.limit is None else f"≤ {row.limit:g} {row.unit}",
        None if row.limit is None else statistics.median(ours) <= row.limit,
        row.record_bytes,
    )


def compared(peer: Peer, ours: list[float], theirs: list[float]) -> Compared:
    """Return the ratios round by round, and whether their median meets the goal."""
    ratios = [peer.goal.ratio(mine, other) for mine, other in zip(ours, theirs, strict=True)]
    goal, is_met = (str(peer.goal), peer.goal.is_met(statistics.median(ratios))) if peer.is_goal else ("", None)
    return Compared(peer.contender.name, theirs, ratios, peer.goal.is_speed, goal, is_met)
