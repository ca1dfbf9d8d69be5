"""Rates between two samples of counters, and the tables that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class RateTable(NamedTuple):
    """Rows of text below their headings."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def rates(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return how much each value grew in a second; 0 for one that fell, because its process has started again."""
    return {name: max(0.0, value - before.get(name, 0.0)) / max(seconds, 1e-6) for name, value in now.items()}
