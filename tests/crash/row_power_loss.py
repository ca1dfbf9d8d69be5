"""Row 1: power loss at any moment of a life, on a simulated disk; and once more while the loss is recovered from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from fault_program import Row
from fixtures.simulation.simdisk import SimDisk
from fixtures.simulation.simsystem import System, simulated
from sim_check import check, observe
from sim_life import PATH, Life, settings
from sim_model import Promises

STEPS = 14
GENERATIONS = 2
CUTS = 60
"""How many states of each life are checked."""

KILLED = 0.2
"""How often only the process dies, and the system writes what it likes until the power goes for good."""


def play(seed: int, scratch: Path) -> int:
    """Live, lose power at many moments, check each; go on living from one of them."""
    random = Random(seed)
    defaults = settings(random)
    disk = SimDisk()
    disk.do("create", 1, PATH.strip("/"), True)
    disk.do("sync", 1)
    disk.history.clear()
    promises: Promises = {}
    states = 0
    with simulated(disk) as system:
        for _ in range(GENERATIONS):
            before = disk.clone()
            life = _live(system, disk, random, promises, defaults)
            states += _cut_anywhere(system, before, disk, life, random)
            time = random.randrange(len(disk.history) + 1)
            disk, promises = _at(before, disk, time), life.timeline.at(time)
            if random.random() >= KILLED:
                disk = disk.crash(random)
                promises = {p: replace(promise, handed=promise.synced) for p, promise in promises.items()}
    return states


def _live(system: System, disk: SimDisk, random: Random, promises: Promises, defaults: dict[str, str]) -> Life:
    system.disk = disk
    life = Life(system, random, promises, defaults)
    life.open()
    assert life.directory is not None
    observe(life.directory, life.timeline, len(disk.history))
    for _ in range(random.randint(1, STEPS)):
        life.step()
    if random.random() < 0.5:
        life.close()
    return life


def _at(before: SimDisk, disk: SimDisk, time: int) -> SimDisk:
    """Return the disk as it was after so many of its changes."""
    state = before.clone()
    for change in disk.history[:time]:
        state.apply(change)
    return state


def _cut_anywhere(system: System, before: SimDisk, disk: SimDisk, life: Life, random: Random) -> int:
    """Check what power loss leaves at moments of a life, drawn by chance; return how many disks were checked."""
    times = sorted(random.choices(range(len(disk.history) + 1), k=CUTS))
    state, passed, states = before.clone(), 0, 0
    for time in times:
        for change in disk.history[passed:time]:
            state.apply(change)
        passed = time
        states += cut(system, state, life.timeline.at(time), life.defaults, random)
    return states


def cut(system: System, state: SimDisk, promises: Promises, defaults: dict[str, str], random: Random) -> int:
    """Check one disk that a cut may leave, and now and then one that a second cut leaves during the check."""
    was_killed = random.random() < KILLED
    left = state.clone() if was_killed else state.crash(random)
    before = left.clone()
    meanwhile = check(system, left, promises, defaults, random, was_killed=was_killed)
    if random.random() < 0.7:
        return 1
    time = random.randrange(len(left.history) + 1)
    check(system, _at(before, left, time).crash(random), meanwhile.at(time), defaults, random)
    return 2


ROW = Row(
    1,
    "power_loss",
    "power loss anywhere, and again during recovery (simulated disk)",
    play,
    seeds_in_ci=range(120),
    goal=100_000,
    promises=(
        "Records on disk survive power loss at any moment, and a second power loss during the recovery.",
        "Records that are visible after a crash are still there after the next crash.",
        "After a crash, a partition is an exact prefix of the appended batches, and contains "
        "everything that was in the segment file when the daemon was killed.",
        "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer.",
        "The latest value of each key is readable at every moment of a compaction, and after a crash at any moment.",
        "After a crash during the replacement of segments, the log has either the old or the new segments.",
        "Retention deletes whole old segments, never the active one; the log start offset never "
        "decreases, not even after a power loss.",
        "Offsets that were on disk once are never assigned again.",
    ),
)
