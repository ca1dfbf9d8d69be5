"""Row 7: the power goes at any instant, between two writes that reach the disk, while the writer is at full speed.

The image of the writer's disk is a file on an XFS that shares blocks, so that a copy of it takes no time: it is what
the disk held at that instant. Mounted, it is the disk after a power cut that the writer knows nothing of.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

from disks import FILE_SYSTEMS, NEEDS, XFS, Disk, FileSystem, made
from fault_program import Row
from history import History
from life import NAMES
from nursery import Nursery, Writer

SNAPSHOTS = 6
LIFE = 1
_STEPS = 100_000
_SHARING = FileSystem((*XFS, "-m", "reflink=1"), size=1 << 30)


def play(seed: int, scratch: Path) -> int:
    """Let one writer live through many snapshots of its disk, and check each; the seed says which file system."""
    chance = random.Random(seed)
    history = History(seed)
    for name in NAMES:  # one may be made, and on the copy, before it is acknowledged
        history.of(name).lives = [(0, LIFE)]
    system = list(FILE_SYSTEMS.values())[seed % len(FILE_SYSTEMS)]
    (scratch / "inner").mkdir()
    with (
        made(_SHARING, scratch) as sharing,
        made(system, scratch / "inner", images=sharing.path) as disk,
        Nursery() as living,
        Nursery() as checking,
    ):
        writer = living.start("live", path=os.fspath(disk.log), seed=seed, number=LIFE, steps=_STEPS, stops=True)
        for number in range(SNAPSHOTS):
            _listen(writer, history, chance)
            _check(checking, disk, scratch / f"{number}", history, writer)
        writer.kill()
        writer.drain()
    assert history.promises > 0, "nothing was on disk, and nothing checked"
    return SNAPSHOTS


def _listen(writer: Writer, history: History, chance: random.Random) -> None:
    """Take in what the writer says, up to a moment after one of its words, and all that it said by then."""
    for _ in range(int(chance.expovariate(1 / 60))):
        line = writer.line()
        assert line is not None, writer.finding
        history.take(line)
    line = writer.line(chance.uniform(0, 0.003))
    while line is not None:
        history.take(line)
        line = writer.line(0)


def _check(nursery: Nursery, disk: Disk, scratch: Path, history: History, writer: Writer) -> None:
    """Copy the disk, and check the copy against what was promised before, and said to come soon after."""
    scratch.mkdir()
    image = disk.image.with_name("copy")
    subprocess.run(["cp", "--reflink=always", disk.image, image], check=True)
    expected = history.copy()
    expected.power_cut()
    for going in [name for name, each in expected.partitions.items() if each.going]:
        expected.foresee(f"dropping {going}")  # it may be gone by now, and another one in its place
    while (line := writer.line(0)) is not None:
        expected.foresee(line)
        history.take(line)
    copy = Disk(disk.system, image, scratch)
    try:
        copy.mount()
        nursery.verify(os.fspath(copy.log), expected)
    finally:
        copy.close()
        image.unlink()
    shutil.rmtree(scratch)


ROW = Row(
    7,
    "snapshot",
    "the power goes at any instant",
    play,
    seeds_in_ci=range(5),
    goal=200,
    unit="snapshots",
    needs=(*NEEDS, "cp"),
)
