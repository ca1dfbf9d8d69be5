"""The fault program: what a row is, and which rows there are.

A row is one kind of fault: how it is brought about, and what must hold afterwards. Each has a module of its own beside
this one, `row_<name>.py`, with a `ROW`. `play(seed, scratch)` brings the fault about in one way, which the seed alone
decides, in the empty directory `scratch`, and returns how many states it checked. What must hold and does not is an
AssertionError; any other exception is a finding just as well.

`test_fault_program.py` plays each row with the seeds of `seeds_in_ci`, `soak.py` plays fresh ones as long as it may,
or until `goal` states were checked.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
_NO_COMMANDS = {
    "root": lambda: os.geteuid() == 0,
    "fuse": lambda: os.access("/dev/fuse", os.R_OK | os.W_OK),
    "loop": lambda: os.geteuid() == 0 and os.path.exists("/dev/loop-control"),
}


@dataclass(frozen=True)
class Row:
    """One kind of fault. `name` is what `scripts/soak` calls it, `fault` says in a few words what happens.

    `goal`: how many states (`unit` says of what) are to be checked for the figures of docs/use/promises.md.
    `seeds_in_ci`: empty where another test plays the row, as its comment says.
    `needs`: commands, and `root`, `fuse` or `loop`; a row that lacks one fails.
    `promises`: sentences of docs/use/promises.md that the row holds; as good as `@pytest.mark.promise`.
    """

    number: int
    name: str
    fault: str
    play: Callable[[int, Path], int]
    seeds_in_ci: Sequence[int]
    goal: int
    unit: str = "states"
    needs: tuple[str, ...] = ()
    promises: tuple[str, ...] = ()

    def missing(self) -> list[str]:
        """Return what this machine lacks for the row."""
        return [need for need in self.needs if not _NO_COMMANDS.get(need, lambda need=need: shutil.which(need))()]

    def replay_command(self, seed: int) -> str:
        """Return what a person types to see a finding again."""
        return f"scripts/soak --replay {self.name} {seed}"


def rows(*names: str) -> dict[str, Row]:
    """Return rows by name, in the order of their numbers: those named, or all. KeyError names what there is not."""
    for folder in (FOLDER, FOLDER.parent / "fuzz", FOLDER.parent):  # where pytest looks
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    known = {file.stem.removeprefix("row_") for file in FOLDER.glob("row_*.py")}
    if unknown := set(names) - known:
        raise KeyError(f"no row {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    found = [importlib.import_module(f"row_{name}").ROW for name in names or known]
    return {row.name: row for row in sorted(found, key=lambda row: (row.number, row.name))}
