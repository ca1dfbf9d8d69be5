"""Row 6: the power is cut under a real file system, and everything that was synced is there.

What a writer says goes through a pipe, to a history that no cut reaches. Some cuts come while the cut before is being
recovered from, some with the journal of the file system on disk and the data not.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

from disks import FILE_SYSTEMS, NEEDS, Disk, made
from fault_program import Row
from history import History
from nursery import Nursery, Writer

CUTS = 12
_STEPS = 400


def play(seed: int, scratch: Path) -> int:
    """Cut the power of one writer after the other on one disk; the seed says which file system."""
    return play_with(seed, scratch)


def play_with(seed: int, scratch: Path, command: Sequence[str] = ()) -> int:
    """Play, with `command` before the writer's own: `eatmydata` makes a liar of it."""
    chance = random.Random(seed)
    history = History(seed)
    system = list(FILE_SYSTEMS.values())[seed % len(FILE_SYSTEMS)]
    with made(system, scratch) as disk, Nursery(command) as nursery:
        path = os.fspath(disk.log)
        for number in range(CUTS):
            writer = nursery.start("live", path=path, seed=seed, number=number, steps=_STEPS)
            _cut_somewhere(writer, disk, history, chance)
            disk.unmount()
            disk.mount()
            history.power_cut()
            if any(each.made for each in history.partitions.values()) and chance.random() < 0.3:
                nursery.look(path, history)
            if chance.random() < 0.7:
                nursery.verify(path, history)
        nursery.verify(path, history)
    assert history.promises > 0, "next to nothing was on disk, and next to nothing checked"
    return CUTS


def _cut_somewhere(writer: Writer, disk: Disk, history: History, chance: random.Random) -> None:
    """Take in what the writer says, cut the power a moment after one of its words, and let it go on for a little."""
    lives = _listen(writer, history, int(chance.expovariate(1 / 25)))
    if lives and chance.random() < 0.15:
        disk.write_back()
        lives = _listen(writer, history, chance.randrange(10))
    line = writer.line(chance.uniform(0, 0.003))
    assert history.failures == [] and not writer.finding, history.failures or writer.finding
    disk.cut(with_log=chance.random() < 0.3)
    if line is not None:
        history.take(line)
    for _ in range(5 if lives else 0):
        late = writer.line()
        if late is None:
            break
        history.take_after_cut(late)
    writer.kill()
    for late in writer.lines():
        history.take_after_cut(late)
    finding = writer.end().finding
    assert "AssertionError" not in finding, finding  # an error of a disk without power is none
    history.failures.clear()


def _listen(writer: Writer, history: History, words: int) -> bool:
    """Take in so many words; return whether it may say more."""
    for _ in range(words):
        line = writer.line()
        if line is None:
            return False
        history.take(line)
    return True


ROW = Row(
    6,
    "power_cut",
    "the power is cut under ext4 or XFS",
    play,
    seeds_in_ci=range(30),
    goal=600,
    unit="cuts",
    needs=NEEDS,
    promises=(
        "Offsets that were on disk once are never assigned again.",
        "The latest value of each key is readable at every moment of a compaction, and after a crash at any moment.",
    ),
)
