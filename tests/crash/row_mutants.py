"""Row 18: are the tests any good? Each known mistake, built into a copy of our code, is caught by the test named for it.

The real power cut is played with a writer under `eatmydata`, too, whose syncs do nothing: the row must find that.
"""

from __future__ import annotations

from pathlib import Path

import row_power_cut
from programme import Row


def play(seed: int, scratch: Path) -> int:
    """Play the row of power cuts with a writer whose syncs are lies; it must be found out."""
    try:
        row_power_cut.play_with(seed, scratch, ["eatmydata"])
    except AssertionError:
        return 1
    raise AssertionError("the power was cut under a writer that synced nothing, and nothing was found")


ROW = Row(
    18,
    "mutants",
    "our own code with a known mistake in it",
    play,
    seeds_in_ci=range(1),
    goal=20,
    unit="mutants",
    needs=(*row_power_cut.NEEDS, "eatmydata"),
)
