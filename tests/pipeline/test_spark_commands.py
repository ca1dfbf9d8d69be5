"""What the commands of jobs show and say, in the session of the run: their bar, their sentences, their exit codes."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from offsetfs.cli.spark_progress import shown

pytestmark = pytest.mark.spark

SECONDS_MAX = 30


# --- the bar ---------------------------------------------------------------------------------------------------------


class _Screen(io.StringIO):
    """A terminal that makes a file when tasks are told."""

    def __init__(self, seen: Path) -> None:
        super().__init__()
        self._seen = seen

    def write(self, text: str) -> int:
        if "/3" in text:
            self._seen.touch()
        return super().write(text)


def _wait_for(path: str, batches: Iterator[Any]) -> Iterator[Any]:
    import os
    import time

    deadline = time.monotonic() + SECONDS_MAX
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.05)
    yield from batches


def test_a_bar_shows_how_many_tasks_are_done_and_goes_away(spark: Any, tmp_path: Path) -> None:
    screen = _Screen(tmp_path / "seen")
    console = Console(file=screen, force_terminal=True, width=80)
    with shown(spark, console, quiet_seconds=0):
        waiting = functools.partial(_wait_for, str(tmp_path / "seen"))
        spark.range(0, 3, 1, 3).mapInArrow(waiting, "id long").collect()
    assert (tmp_path / "seen").exists() and "tasks" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")
