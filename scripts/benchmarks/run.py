"""The bench: `scripts/bench --help`."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import before
import files_or_tables  # after `mounted`, which adds the folder of the fixtures to the path
import machine
import mounted
import profiling
import report
from bench import Bench
from measuring import Result, Row, measure
from rows import ROWS, SUBJECTS

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = ROOT / ".cache" / "bench"
ROUNDS, ROUNDS_QUICK = 5, 0
READS, READS_QUICK = 20_000, 500
SPARSE_BATCHES, SPARSE_BATCHES_QUICK = 10_000, 500
"""160 MiB to read from in a log of holes: several times what our caches hold."""
TOUCHED_BYTES = 6 << 30


def main() -> int:
    arguments = _arguments()
    if arguments.list:
        print("\n".join(f"{row.name:<22}{row.what}" for row in ROWS))
        return 0
    if arguments.rows[:1] == [files_or_tables.NAME] and arguments.rows[1:] in ([], ["query"], ["writers"]):
        return _compare_files_and_tables(arguments)
    rows = [row for row in ROWS if _is_wanted(row, arguments)]
    if not rows:
        print(f"bench: no row is called {' or '.join(arguments.rows)}; see --list", file=sys.stderr)
        return 2
    if arguments.profile and not profiling.find_py_spy():
        print("bench: --profile needs py-spy: .venv/bin/pip install py-spy", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through every `with`: nothing stays mounted
    rounds = _rounds(arguments)
    if arguments.before:
        is_complete = before.compare((arguments.before, ROOT), rows, rounds, arguments.count or 0, _place())
        return int(not is_complete)
    rows = [dataclasses.replace(row, count=_count(row, arguments)) for row in rows]
    if not arguments.quick:
        mounted.run_kafka_at_full_speed()
    here = machine.this_machine(ROOT)
    if not (arguments.quick or arguments.profile):
        first, second = (machine.touch_memory(TOUCHED_BYTES) for _ in range(2))
        here = dataclasses.replace(here, first_touch=first, second_touch=second)
    print(here)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="data-", dir=_place())))
        if arguments.profile:
            rows = [dataclasses.replace(row, peers=()) for row in rows]
        sizes = (READS_QUICK, SPARSE_BATCHES_QUICK) if arguments.quick else (READS, SPARSE_BATCHES)
        is_small = arguments.quick or arguments.count or rounds < ROUNDS
        place = None if is_small or arguments.profile else ROOT / "docs" / "evidence"
        bench = Bench(folder, rounds, *sizes, not arguments.quick, stack)
        rate = here.second_touch or None
        results = _run(rows, bench, rate, lambda result: _keep(result, here, place), is_profiled=arguments.profile)
    _write_all(results, here)
    return int(len(results) < len(rows))


def _compare_files_and_tables(arguments: argparse.Namespace) -> int:
    """Measure what docs/evidence/files-or-tables.md has, and write the page unless the data is small."""
    quick = arguments.quick
    rounds = files_or_tables.ROUNDS_QUICK if quick else arguments.rounds or files_or_tables.ROUNDS
    count = arguments.count or (files_or_tables.COUNT_QUICK if quick else files_or_tables.COUNT)
    here = machine.this_machine(ROOT)
    print(here)
    part = arguments.rows[1:]
    measure_all = functools.partial(files_or_tables.run_part, part[0]) if part else files_or_tables.run
    measure_all(count, rounds, here, None if quick else ROOT / "docs" / "evidence")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure offsetfs against its peers.")
    parser.add_argument("rows", nargs="*", help="rows, or how their names begin; all of them if left out")
    parser.add_argument("--exactly", action="store_true", help="these rows, and not those whose names begin so")
    parser.add_argument("--quick", action="store_true", help="small data, one round, and docs stay as they are")
    parser.add_argument("--rounds", type=int, help=f"how often each is measured ({ROUNDS}); docs need that many")
    parser.add_argument("--count", type=int, help="how many records, segments, … instead of the row's own number")
    parser.add_argument("--profile", action="store_true", help="show where our daemon spends its time")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="compare with another checkout, prepared with scripts/setup test",
    )
    parser.add_argument("--list", action="store_true", help="say what there is to measure")
    return parser.parse_args()


def _rounds(arguments: argparse.Namespace) -> int:
    if arguments.rounds is not None:
        return int(arguments.rounds)
    return ROUNDS_QUICK if arguments.quick else ROUNDS


def _count(row: Row, arguments: argparse.Namespace) -> int:
    return int(arguments.count or (row.count_quick if arguments.quick else row.count))


def _is_wanted(row: Row, arguments: argparse.Namespace) -> bool:
    begin = () if arguments.exactly else tuple(f"{name}-" for name in arguments.rows)
    return not arguments.rows or row.name in arguments.rows or row.name.startswith(begin)


def _place() -> Path:
    """Where data is put: OFFSETFS_BENCH_DIR, or .cache/bench; real files on a disk, please."""
    place = Path(os.environ.get("OFFSETFS_BENCH_DIR") or CACHE)
    place.mkdir(parents=True, exist_ok=True)
    return place


def _run(
    rows: list[Row], bench: Bench, rate: float | None, keep: Callable[[Result], None], *, is_profiled: bool
) -> list[Result]:
    """Return the results, each of which was kept at once. A row that fails is reported, and the others are measured.

    `rate`: as `ReadyMemory.rate`.
    """
    results = []
    for row in rows:
        mounted.samples[:] = [bench.new("samples")] if is_profiled else []
        try:
            results.append(measure(row, bench.for_row(row.count), bench.rounds, rate))
        except Exception:
            traceback.print_exc()
            print(f"{row.name:<22}FAILED", flush=True)
            continue
        print(report.spoken(results[-1]), flush=True)
        keep(results[-1])
        for folder in mounted.samples:
            profiling.print_profile(folder)
    return results


def _keep(result: Result, here: machine.Machine, place: Path | None) -> None:
    if place is not None:
        subjects = {title: [row.name for row in rows] for title, rows in SUBJECTS.items()}
        report.save(place, {result.row: (result, here)}, subjects)


def _write_all(results: list[Result], here: machine.Machine) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    measured = {result.row: (result, here) for result in results}
    (CACHE / f"{time.strftime('%Y%m%d-%H%M%S')}.json").write_text(report.dump(measured))


if __name__ == "__main__":
    sys.exit(main())
