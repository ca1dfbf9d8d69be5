"""Play rows of the fault program for a time; see scripts/soak.

Each row runs in processes of its own, so that one that dies or hangs is a finding like any other. What a finding left
behind stays in `.cache/soak/<row>-<seed>`, with how it ended in `finding.txt`.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path

from fault_program import FOLDER, Row, rows

_PROCESSES = multiprocessing.get_context("spawn")  # a forked process would hold the pipes of the others open
KEPT = FOLDER.parents[1] / ".cache" / "soak"
ROUND_SECONDS_MAX = 900
"""A round that takes longer hangs, and is a finding."""


@dataclass
class Tally:
    """What became of a row."""

    row: Row
    rounds: int = 0
    states: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def line(self) -> str:
        row = self.row
        return (
            f"{row.number:>3}  {row.name:<18} {self.rounds:>9,} {self.states:>11,} {len(self.findings):>9}"
            f" {self.seconds:>9,.1f}  {row.fault}"
        )


HEADING = f"{'':>3}  {'row':<18} {'rounds':>9} {'states':>11} {'findings':>9} {'seconds':>9}  fault"


def main() -> None:
    options = _parse()
    try:
        chosen = list(rows(*options.rows).values())
    except KeyError as error:
        sys.exit(error.args[0])
    if options.replay:
        sys.exit(replay(chosen[0], int(options.replay)))
    tallies = []
    for row in chosen:
        seconds = None if options.count else options.minutes * 60 / len(chosen)
        tallies.append(run_row(row, seconds=seconds, jobs=options.jobs))
    print("\n" + HEADING)
    for tally in tallies:
        print(tally.line())
    if options.count:
        _print_markdown(tallies)
    sys.exit(any(tally.findings for tally in tallies))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/soak", description="Play rows of the fault program.")
    parser.add_argument("--minutes", type=float, default=0, help="shared among the rows")
    parser.add_argument("--count", action="store_true", help="play each row until its goal is reached, instead")
    parser.add_argument("--replay", metavar="SEED", help="play one row with one seed, here")
    parser.add_argument("--jobs", type=int, default=1, help="rounds of a row at a time")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    if options.replay and len(options.rows) != 1:
        parser.error("--replay takes one row")
    return options


def _print_markdown(tallies: list[Tally]) -> None:
    print("\n| row | fault | rounds | states | findings |\n|---|---|---|---|---|")
    for tally in tallies:
        row = tally.row
        states = f"{tally.states:,} {row.unit}"
        print(f"| {row.number} | {row.fault} | {tally.rounds:,} | {states} | {len(tally.findings)} |")


# --- one row ---------------------------------------------------------------------------------------------------------


def run_row(row: Row, *, seconds: float | None, jobs: int, first: int | None = None) -> Tally:
    """Play `row` for so many seconds, or, with None, with seeds from 0 on until its goal is reached.

    The seeds are fresh ones, or those from `first` on, for a test that must end alike each time.

    Ends early at a finding: the next one would be the same as a rule.
    """
    tally = Tally(row)
    if missing := row.missing():
        tally.findings.append(f"{row.name} needs what this machine lacks: {', '.join(missing)}")
        print(tally.findings[0])
        return tally
    began = time.monotonic()
    if first is None:
        first = 0 if seconds is None else random.SystemRandom().getrandbits(40)
    workers = [_Worker(row, count(first + number, jobs)) for number in range(jobs)]
    try:
        while not tally.findings and not _is_done(tally, time.monotonic() - began, seconds):
            for worker in _ready(workers):
                worker.collect(tally)
            tally.seconds = time.monotonic() - began
            _show(tally)
    finally:
        for worker in workers:
            worker.end(tally)
        tally.seconds = time.monotonic() - began
        _show(tally, last=True)
    return tally


def _is_done(tally: Tally, elapsed: float, seconds: float | None) -> bool:
    return tally.states >= tally.row.goal if seconds is None else elapsed >= seconds


def _ready(workers: list[_Worker]) -> list[_Worker]:
    ready = wait([worker.results for worker in workers], timeout=1.0)
    return [worker for worker in workers if worker.results in ready or worker.hangs]


def _show(tally: Tally, *, last: bool = False) -> None:
    if sys.stdout.isatty():
        print(f"\r{tally.line()[:118]}", end="\n" if last else "", flush=True)
    elif last:
        print(tally.line(), flush=True)


class _Worker:
    """A process that plays a row with one seed after the other and reports each round."""

    def __init__(self, row: Row, seeds: Iterator[int]) -> None:
        self.row = row
        self.seeds = seeds
        self.results, self._side = _PROCESSES.Pipe()
        self.process = _PROCESSES.Process(target=_work, args=(row.name, self._side), daemon=False)
        self.process.start()
        self._side.close()
        self._next()

    def _next(self) -> None:
        self.seed = next(self.seeds)
        self.since = time.monotonic()
        self.plays = True
        self.results.send(self.seed)

    @property
    def hangs(self) -> bool:
        return self.plays and time.monotonic() - self.since > ROUND_SECONDS_MAX

    def collect(self, tally: Tally) -> None:
        """Add the result of a round to `tally`, and start the next round unless this one had a finding."""
        if not self._add_result(tally):
            self._next()

    def _add_result(self, tally: Tally) -> bool:
        """Add the result of the round that ended or hangs; return whether it is a finding."""
        try:
            states, finding = (0, "hangs") if self.hangs else self.results.recv()
        except EOFError:
            self.process.join()
            states, finding = 0, f"the process ended with {self.process.exitcode}"
        self.plays = False
        tally.rounds += 1
        tally.states += states
        if finding:
            command = self.row.replay_command(self.seed)
            tally.findings.append(f"{finding}\nseed {self.seed}, kept in {kept(self.row, self.seed)}; again: {command}")
            print(f"\n== finding in row {self.row.name}\n{tally.findings[-1]}", flush=True)
        return bool(finding)

    def end(self, tally: Tally) -> None:
        """Wait for the round in progress, which may have mounts to unmount, add its result, and end the process."""
        with contextlib.suppress(BrokenPipeError):
            self.results.send(None)
        if self.plays:
            self.results.poll(max(0.0, ROUND_SECONDS_MAX - (time.monotonic() - self.since)))
            self._add_result(tally)
        self.results.close()
        self.process.join(30)
        self.process.terminate()
        self.process.join(30)
        self.process.kill()


def _work(name: str, channel: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    row = rows(name)[name]
    with contextlib.suppress(EOFError, ConnectionError):  # the process that reads the results has ended
        while (seed := channel.recv()) is not None:
            channel.send(play(row, seed))


def kept(row: Row, seed: int) -> Path:
    return KEPT / f"{row.name}-{seed}"


def play(row: Row, seed: int) -> tuple[int, str]:
    """Play one round; return the states it checked, and how it ended if not well."""
    scratch = kept(row, seed)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        states = row.play(seed, scratch)
    except Exception:
        finding = traceback.format_exc()
        (scratch / "finding.txt").write_text(f"{row.replay_command(seed)}\n{finding}")
        return 0, finding
    shutil.rmtree(scratch)
    return states, ""


def replay(row: Row, seed: int) -> int:
    """Play one round in this process, so that a debugger reaches it."""
    if missing := row.missing():
        print(f"{row.name} needs what this machine lacks: {', '.join(missing)}")
        return 1
    states, finding = play(row, seed)
    print(finding or f"{row.name} {seed}: {states:,} {row.unit}, nothing found")
    return 1 if finding else 0


if __name__ == "__main__":
    os.chdir(FOLDER.parents[1])
    main()
