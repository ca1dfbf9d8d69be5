"""What the commands of jobs show and say, in the session of the run: their bar, their sentences, their exit codes."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from offsetfs.cli import run
from offsetfs.cli.spark_progress import shown

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
SECONDS_MAX = 30
SVG = "{http://www.w3.org/2000/svg}"


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


# --- stats -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_stats_are_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "keyed.svg"
    assert run(["spark", "stats", str(GOLDEN), "--topic", "keyed", "--plot", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["partition", "records", "bytes", "from", "to", "keys", "hottest", "codecs"]
    assert lines[-1].startswith("400 records, ") and " in 4 partitions; keyed-" in lines[-1]
    counted = {line.split()[0]: int(line.split()[1]) for line in lines[1:-1]}
    bars = [each for each in ElementTree.parse(picture).iter(f"{SVG}rect") if each.get("class") == "records"]
    widths = [float(each.get("width") or "") for each in bars]
    assert widths == [pytest.approx(240 * count / max(counted.values()), abs=0.1) for count in counted.values()]
