"""One side of `scripts/bench --before`: measures a row of one checkout, a figure for each line of standard input.

    python one_side.py CHECKOUT ROW FOLDER ROUNDS COUNT      COUNT 0: the row's own
    stdin:   the number of a round, from -1 on               stdout:  the figure, in the unit of the row

Runs with the Python of CHECKOUT, and imports the bench of CHECKOUT: what both sides share is in this file.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

READS, SPARSE_BATCHES = 20_000, 10_000


def main(checkout: str, name: str, folder: str, rounds: str, count: str) -> None:
    sys.path[0] = str(Path(checkout) / "scripts" / "benchmarks")  # before, it is the folder of this file
    from bench import Bench
    from rows import ROWS

    row = next(each for each in ROWS if each.name == name)
    answers = sys.stdout
    sys.stdout = sys.stderr  # what the bench prints is not a figure
    with ExitStack() as stack:
        bench = Bench(Path(folder), int(rounds), READS, SPARSE_BATCHES, True, stack).for_row(int(count) or row.count)
        take = stack.enter_context(row.ours.opened(bench))
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            print(repr(take(int(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
