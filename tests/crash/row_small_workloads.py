"""Row 2: all short sequences of operations, cut at each sync (bounded black-box testing, B3, OSDI '18).

Most bugs that a power cut shows need no more than two or three operations on a fresh log. A workload is a log of a few
segments, then one, two or three of the twelve operations below; each has a number, which is the seed. In CI: all of one
and two, and every tenth of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random

from fault_program import Row
from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import simulated
from row_power_loss import cut
from sim_check import observe
from sim_faults import Step
from sim_life import ORDERS, PATH, Life

DEFAULTS = {
    "segment.bytes": "1500",
    "index.interval.bytes": "100",
    "segment.index.bytes": "60",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
    "min.cleanable.dirty.ratio": "0",
}
POLICIES = ("delete", "compact,delete")


def _create(life: Life) -> None:
    if not life.partitions:
        life.create(ORDERS, {"cleanup.policy": "delete"})


def _delete(life: Life) -> None:
    if life.partitions:
        life.delete(ORDERS)


def _delete_records(life: Life) -> None:
    if life.partitions:
        log = life.log(ORDERS)
        life.delete_records(ORDERS, (log.log_start_offset + log.next_offset + 1) // 2)


def _retain(life: Life) -> None:
    if life.partitions:
        life.configure(ORDERS, {"retention.bytes": "1000"})
        life.retain()


def _compact(life: Life) -> None:
    if life.partitions and life.log(ORDERS).config.is_compacted:
        life.compact(ORDERS)


def _truncate(life: Life) -> None:
    batches = life.promise(ORDERS).batches
    if life.partitions and batches and not life.log(ORDERS).config.is_compacted:
        life.truncate(ORDERS, max(batches[len(batches) // 2].base_offset, life.log(ORDERS).log_start_offset))


def _switch_policy(life: Life) -> None:
    if life.partitions:
        other = POLICIES[not life.log(ORDERS).config.is_compacted]
        life.configure(ORDERS, {"cleanup.policy": other})


def _append_three(life: Life) -> None:
    for _ in range(3):
        life.append(ORDERS, records_max=8)


def _if_there(do: Step) -> Step:
    return lambda life: do(life) if life.partitions else None


OPERATIONS: Sequence[Step] = (
    _if_there(lambda life: life.append(ORDERS, records_max=2)),
    _if_there(_append_three),
    _if_there(lambda life: life.flush(ORDERS)),
    _if_there(lambda life: life.roll(ORDERS)),
    _delete_records,
    _retain,
    _compact,
    _truncate,
    _switch_policy,
    Life.checkpoint,
    Life.reopen,
    lambda life: _delete(life) if life.partitions else _create(life),
)


def _sequences(length: int) -> list[tuple[str, tuple[Step, ...]]]:
    return [(policy, steps) for policy in POLICIES for steps in product(OPERATIONS, repeat=length)]


SHORT = [*_sequences(1), *_sequences(2)]
_THREES = _sequences(3)
WORKLOADS = [*SHORT, *(workload for tenth in range(10) for workload in _THREES[tenth::10])]
"""(policy, operations) of all workloads, by their numbers."""


def play(seed: int, scratch: Path) -> int:
    """Run one workload (modulo their number), cut it before and after each sync; return how many disks were checked."""
    policy, steps = WORKLOADS[seed % len(WORKLOADS)]
    random = Random(seed)
    disk = SimDisk()
    disk.do("create", ROOT, PATH.strip("/"), True)
    disk.do("sync", ROOT)
    with simulated(disk) as system:
        life = Life(system, random, {}, DEFAULTS)
        life.open()
        assert life.directory is not None
        observe(life.directory, life.timeline, 0)
        life.create(ORDERS, {"cleanup.policy": policy})
        for _ in range(3):
            life.append(ORDERS, records_max=6)
        life.flush(ORDERS)
        life.append(ORDERS)
        begun, state = len(disk.history), disk.clone()
        for step in steps:
            step(life)
        states = 0
        for time, change in enumerate(disk.history[begun:], begun):
            if change[0] == "sync":
                states += cut(system, state, life.timeline.at(time), DEFAULTS, random)
            state.apply(change)
        return states + cut(system, state, life.timeline.now, DEFAULTS, random)


ROW = Row(
    2,
    "small_workloads",
    "all sequences of one and two of twelve operations, some of three, cut at each sync (simulated disk)",
    play,
    seeds_in_ci=range(len(SHORT) + len(_THREES) // 10),
    goal=80_000,
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
