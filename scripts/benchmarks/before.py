"""Our figures against those of another checkout of this project, in turn: whether a change cost speed.

Each side runs in a process of its own, with the Python and the bench of its checkout (`one_side`).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from measuring import Row, interleaved

ONE_SIDE = Path(__file__).with_name("one_side.py")
RATIO_MIN = 0.97
"""A smaller ratio of speeds, before to now, is marked in the table: beyond what a quiet machine varies."""


class SideFailed(Exception):
    """A side could not be measured; its traceback is on standard error."""


def compare(checkouts: tuple[Path, Path], rows: list[Row], rounds: int, count: int, place: Path) -> bool:
    """Print a line for each row: the medians before and now, and the ratio of speeds; return whether all were measured.

    `checkouts`: the one before, and the one of now; each has its `.venv`. `rounds` does not count the warm-up. `count`
    is the number of records, segments, … of each row; 0 for the row's own.
    """
    print(f"{'row':<22}{'before':>12}{'now':>12}  speed of now (smallest to largest)", flush=True)
    is_complete = True
    for row in rows:
        try:
            before, now = _figures(checkouts, row, rounds, count, place)
        except SideFailed as error:
            print(f"{row.name:<22}not measured: {error}", flush=True)
            is_complete = False
            continue
        print(_line(row, before, now), flush=True)
    return is_complete


def _line(row: Row, before: list[float], now: list[float]) -> str:
    ratios = sorted(then / later for then, later in zip(before, now, strict=True))
    middle = statistics.median(ratios)
    mark = "" if middle >= RATIO_MIN else f"  below {RATIO_MIN}"
    figures = "".join(f"{statistics.median(each):>12.5g}" for each in (before, now))
    return f"{row.name:<22}{figures}  {middle:.3f}× ({ratios[0]:.3f} to {ratios[-1]:.3f}) {row.unit}{mark}"


def _figures(
    checkouts: tuple[Path, Path], row: Row, rounds: int, count: int, place: Path
) -> tuple[list[float], list[float]]:
    with tempfile.TemporaryDirectory(prefix="before-", dir=place) as folder, ExitStack() as stack:
        sides = {
            name: stack.enter_context(_side(checkout, row, Path(folder, name), rounds, count))
            for name, checkout in zip(("before", "now"), checkouts, strict=True)
        }
        figures = interleaved(sides, rounds)
    return figures["before"], figures["now"]


@contextmanager
def _side(checkout: Path, row: Row, folder: Path, rounds: int, count: int) -> Iterator[Callable[[int], float]]:
    """Yield a function that measures one round of the row in `checkout`; the process ends afterwards."""
    folder.mkdir()
    words = [str(each) for each in (checkout, row.name, folder, rounds, count)]
    with subprocess.Popen(
        [checkout / ".venv" / "bin" / "python", ONE_SIDE, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=checkout,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def answer() -> str:
            line = answers.readline()
            if not line:
                raise SideFailed(f"{checkout} ended with {process.wait()}")
            return line

        def take(number: int) -> float:
            requests.write(f"{number}\n")
            requests.flush()
            return float(answer())

        answer()
        yield take
        requests.close()
