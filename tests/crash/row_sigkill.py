"""Row 4: a writer is killed at any moment, and what it had handed over is there."""

from __future__ import annotations

import os
import random
from pathlib import Path

from disks import memory
from fault_program import Row
from history import History
from nursery import Nursery, Writer

LIVES = 20
_STEPS = 400


def play(seed: int, scratch: Path) -> int:
    """Let one writer after the other live on the same directory, and kill each; check what it leaves."""
    chance = random.Random(seed)
    history = History(seed)
    with memory(scratch) as folder, Nursery() as nursery:
        path = os.fspath(folder)
        for number in range(LIVES):
            writer = nursery.start("live", path=path, seed=seed, number=number, steps=_STEPS, stops=True)
            killed = kill_somewhere(writer, history, chance)
            ended = writer.end()
            assert not ended.finding, ended.finding
            assert killed or ended.status == 0, ended
            _check(nursery, path, history, chance)
        nursery.verify(path, history)
    assert history.promises > 0, "nothing was promised, and nothing checked"
    return LIVES


def kill_somewhere(writer: Writer, history: History, chance: random.Random) -> bool:
    """Take in what the writer says and kill it a moment after one of its words; return whether it still lived."""
    words_max = int(chance.expovariate(1 / 15))
    for _ in range(words_max):
        line = writer.line()
        if line is None:
            return False
        history.take(line)
    line = writer.line(chance.uniform(0, 0.003))
    writer.kill()
    for said in ([line] if line else []), writer.lines():
        for each in said:
            history.take(each)
    return True


def _check(nursery: Nursery, path: str, history: History, chance: random.Random) -> None:
    """Check what a reader sees, what recovery makes of it, or neither: then the next writer recovers, and may die."""
    ways = chance.choice(([True, False], [True], [False], [], []))
    for read_only in ways:
        if not read_only or any(each.made for each in history.partitions.values()):
            nursery.verify(path, history, read_only=read_only)


ROW = Row(
    4,
    "sigkill",
    "a writer is killed at any moment",
    play,
    seeds_in_ci=range(25),
    goal=1_000,
    unit="kills",
    promises=(
        "After a crash, a partition is an exact prefix of the appended batches, and contains "
        "everything that was in the segment file when the daemon was killed.",
    ),
)
