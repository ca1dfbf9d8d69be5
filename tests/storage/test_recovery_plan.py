"""What `offsetfs repair` says it will do is what recovery does."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant

from offsetfs.storage.checkpoint import META_PROPERTIES
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.verify.repair import carry_out_repair, plan_repair

pytestmark = pytest.mark.unit

FAR = RELATIVE_OFFSET_MAX + 1
OVERFLOWED = [batch(0, b"a"), batch(FAR, b"b"), batch(FAR + 1, b"c")]


@dataclass(frozen=True)
class Case:
    """A directory, and the kinds of the steps to expect with the base offsets of their files."""

    name: str
    segments: dict[int, list[bytes]]
    steps: list[tuple[str, int]]
    besides: dict[str, bytes] = field(default_factory=dict)
    is_clean: bool = False
    is_brokers: bool = False


ONE = {0: [batch(0, b"a")]}
TWO = {**ONE, 3: [batch(3, b"b")]}
HUGE = {0: OVERFLOWED, FAR + 2: [batch(FAR + 2, b"d")]}
TORN = {0: [batch(0, b"a"), b"torn"]}
LOSS = f"0.cut-{len(batch(0, b'a'))}"
RECOVERED = ("recover", 0)

CASES = [
    Case("nothing to do", ONE, [], is_clean=True),
    Case("garbage alone", ONE, [], {"0.log.deleted": b"", "5.index": b""}, is_clean=True),
    Case("a swap, though clean", ONE, [("swap", 0)] * 4, {"0.log.swap": batch(0, b"b")}, is_clean=True),
    Case("a hole", {**TWO, 4: []}, [RECOVERED, ("set-aside", 3), ("set-aside", 4)]),
    Case("a hole in a broker's directory", TWO, [RECOVERED], is_brokers=True),
    Case("a cut, and what follows it", {**TORN, 1: [batch(1, b"b")]}, [RECOVERED, ("cut", 0), ("set-aside", 1)]),
    Case("a second loss at one place", TORN, [RECOVERED, ("cut", 0)], {LOSS: b"first"}),
    Case("left over", ONE, [RECOVERED, ("snapshot", 9), ("leftover", 5)], {"9.snapshot": b"", "5.index": b""}),
    Case("never finished", ONE, [RECOVERED, ("leftover", 0)], {"0.snapshot.tmp": b"x"}),
    Case("too many offsets", HUGE, [RECOVERED, ("split", 0)]),
    Case("too many offsets, though clean", HUGE, [("split", 0)], is_clean=True),
]


def files_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_plan_of_a_recovery_is_what_it_does(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "planned"
    partition = plant(path, case.segments, is_clean=case.is_clean)
    if case.is_brokers:
        (path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    for base in case.segments:
        Segment(str(partition), base, DEFAULTS, FilePool(1)).open_files()  # makes the indexes, so that none is missing
    for name, content in case.besides.items():
        number, _, suffix = name.partition(".")
        (partition / f"{int(number):020d}.{suffix}").write_bytes(content)
    before = files_of(path)
    planned = plan_repair(str(path))
    assert files_of(path) == before
    steps = planned.partitions[PARTITION].steps if PARTITION in planned.partitions else []
    assert [(step.kind, int(Path(step.path).name.split(".")[0])) for step in steps] == case.steps
    shutil.copytree(path, tmp_path / "opened")
    carry_out_repair(planned)
    if case.steps:
        directory = LogDirectory.open(str(tmp_path / "opened"))
        directory.log(PARTITION)
        directory.close()
        assert files_of(path) == files_of(tmp_path / "opened")
    kept = {name: content for name, content in files_of(path).items() if ".cut-" in name and name not in before}
    said = " ".join(step.meaning for step in steps)
    assert all(Path(name).name in said for name in kept)
    assert len(kept) == sum(step.kind in ("cut", "set-aside") for step in steps)
    assert plan_repair(str(path)).is_empty
