"""Row 5: a writer is killed at one system call that changes the disk after the other, until it comes through whole."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from disks import memory
from fault_program import Row
from history import History
from nursery import Nursery
from scenarios import SCENARIOS, Scenario
from tracing import injected

CALLS = ("pwrite64", "f(data)?sync", "ftruncate", "mkdir(at)?", "rename(at2?)?", "(unlink|rmdir)(at)?")
"""What the engine changes the disk with. A call that is killed is not made. A file that was only just made is seen by
killing the call that comes next."""

_CALLS_MAX = 2000


def play(seed: int, scratch: Path) -> int:
    """Play one scenario, whose turn it is, once for each of its calls."""
    scenario = list(SCENARIOS.values())[seed % len(SCENARIOS)]
    with memory(scratch) as folder, Nursery() as nursery:
        kills = [_kill_at_each(nursery, scenario, call, seed, folder) for call in CALLS]
    assert sum(kills) > len(CALLS), f"killed {sum(kills)} times: were the calls traced?"
    return sum(kills)


def _kill_at_each(nursery: Nursery, scenario: Scenario, call: str, seed: int, scratch: Path) -> int:
    """Kill at the first, second, … use of `call`, until the writer ends by itself; return how often it was killed."""
    prepared = History(seed)
    template = scratch / "before"
    shutil.rmtree(template, ignore_errors=True)
    template.mkdir()
    scenario.prepare(template, prepared)
    for count in range(1, _CALLS_MAX):
        path = scratch / f"{scenario.name}-{CALLS.index(call)}-{count}"
        shutil.copytree(template, path)
        history = prepared.copy()
        killed = _live(nursery, scenario, path, history, call, f"signal=SIGKILL:when={count}")
        nursery.verify(os.fspath(path), history)
        shutil.rmtree(path)
        if not killed:
            assert history.closed or scenario.name == "roll"
            return count - 1
    raise AssertionError(f"{call} was called more than {_CALLS_MAX} times")


def _live(nursery: Nursery, scenario: Scenario, path: Path, history: History, call: str, fault: str) -> bool:
    """Live the scenario under strace; return whether it was killed."""
    task = {"name": scenario.name, "path": os.fspath(path), "seed": history.seed, "number": 1}
    writer = nursery.start("scenario", gate=True, **task)
    with injected(writer.pid, call, fault):
        writer.go()
        for line in writer.lines():
            history.take(line)
        ended = writer.end()
    assert not ended.finding, ended.finding
    return ended.killed


ROW = Row(
    5,
    "system_calls",
    "a writer is killed at each call that changes the disk",
    play,
    seeds_in_ci=range(len(SCENARIOS)),
    goal=600,
    unit="kills",
    needs=("strace",),
    promises=(
        "After a crash during the replacement of segments, the log has either the old or the new segments.",
        "The latest value of each key is readable at every moment of a compaction, and after a crash at any moment.",
    ),
)
