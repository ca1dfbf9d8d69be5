"""A repair does what its plan says, no more, and leaves a directory that verifies."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import batch, plant

from offsetfs.storage import checkpoint
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogDirectoryLocked
from offsetfs.storage.lock import DirectoryLock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch import HEADER_SIZE, parse_header
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.repair import carry_out_repair, plan_repair
from offsetfs.storage.verify.repair_plan import readable_ranges
from offsetfs.storage.verify.verify import Verification

pytestmark = pytest.mark.unit

SEGMENTS = TopicPartition("segments", 0)
LAST = f"segments-0/{590:020d}.log"  # of offsets 590 to 599
MIDDLE = f"segments-0/{224:020d}.log"


@pytest.fixture
def directory(golden: Path, tmp_path: Path) -> Path:
    """A copy of the directory with one of its partitions, fourteen segments long, and a second to be its neighbor."""
    path = tmp_path / "kafka"
    path.mkdir()
    for entry in golden.iterdir():
        if entry.is_file() and not entry.name.endswith((".txt", ".ndjson", ".json")):
            shutil.copy(entry, path)
    for name in ("segments-0", "codec-none-0"):
        shutil.copytree(golden / name, path / name)
    return path


def tree(path: Path) -> dict[str, bytes]:
    return {os.fspath(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def damage_of(path: Path) -> list[Finding]:
    found: list[Finding] = []
    Verification(os.fspath(path), report=found.append).run()
    return [finding for finding in found if finding.severity == DAMAGE]


def positions(log: Path) -> list[int]:
    data, found, position = log.read_bytes(), [], 0
    while position < len(data):
        found.append(position)
        position += parse_header(data, position).size
    return found


def crashed(path: Path, recovery_point: int) -> None:
    """As a broker leaves it that dies `recovery_point` offsets after the start of the partition was on disk."""
    (path / checkpoint.CLEAN_SHUTDOWN).unlink()
    points = checkpoint.read_offsets(os.fspath(path / checkpoint.RECOVERY_POINTS))
    checkpoint.write_offsets(os.fspath(path / checkpoint.RECOVERY_POINTS), points | {SEGMENTS: recovery_point})
    marks = checkpoint.read_offsets(os.fspath(path / checkpoint.HIGH_WATERMARKS))
    checkpoint.write_offsets(os.fspath(path / checkpoint.HIGH_WATERMARKS), marks | {SEGMENTS: recovery_point})


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def torn(path: Path) -> None:
    crashed(path, 549)
    os.truncate(path / LAST, (path / LAST).stat().st_size - 10)


def rubbish(path: Path) -> None:
    crashed(path, 549)
    with (path / LAST).open("ab") as log:
        log.write(b"rubbish" * 30)


def zeros(path: Path) -> None:
    crashed(path, 549)
    os.truncate(path / LAST, (path / LAST).stat().st_size + 5000)


def rot_beyond(path: Path) -> None:
    crashed(path, 224)
    flip(path / MIDDLE, positions(path / MIDDLE)[1] + HEADER_SIZE)


def rot_before(path: Path) -> None:
    crashed(path, 549)
    flip(path / MIDDLE, positions(path / MIDDLE)[1] + HEADER_SIZE)


def swap_pending(path: Path) -> None:
    crashed(path, 600)
    partition = path / "segments-0"
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(partition / f"{0:020d}{suffix}", partition / f"{0:020d}{suffix}.swap")
    (partition / f"{41:020d}.log.deleted").write_bytes(b"")


def swap_given_up(path: Path) -> None:
    swap_pending(path)
    (path / f"segments-0/{0:020d}.log.cleaned").write_bytes(b"half")


def index_wrong(path: Path) -> None:
    flip(path / f"segments-0/{82:020d}.index", 7)


def index_missing(path: Path) -> None:
    (path / f"segments-0/{82:020d}.index").unlink()


def index_torn_after_crash(path: Path) -> None:
    crashed(path, 549)
    os.truncate(path / f"segments-0/{82:020d}.timeindex", 7)


def torn_though_clean(path: Path) -> None:
    os.truncate(path / LAST, (path / LAST).stat().st_size - 10)


@dataclass(frozen=True)
class Case:
    """Damage; the kinds of the steps to expect for the partition; whether something stays, and what is cut."""

    change: Callable[[Path], None]
    steps: tuple[str, ...]
    stays: tuple[str, ...] = ()
    kept_files: tuple[str, ...] = ()
    readable: tuple[tuple[int, int], ...] = ((0, 599),)


CASES = [
    Case(torn, ("recover", "cut", "snapshot", "epochs"), (), (f"{590:020d}.cut-0",), ((0, 589),)),
    Case(rubbish, ("recover", "cut", "epochs"), (), (f"{590:020d}.cut-",)),
    Case(zeros, ("recover", "cut", "epochs")),
    Case(
        rot_beyond,
        ("recover", "cut", *["set-aside"] * 8, *["snapshot"] * 9, "epochs"),
        (),
        (f"{224:020d}.cut-", *(f"{base:020d}.cut-0" for base in (265, 306, 366, 407, 448, 489, 549, 590))),
        ((0, 243),),
    ),
    Case(rot_before, ("recover", "epochs"), ("unreadable-batch",), (), ((0, 243), (245, 599))),
    Case(swap_pending, (*["swap"] * 7, "recover", "epochs")),
    Case(swap_given_up, (*["swap"] * 5, "recover", "epochs")),
    Case(index_wrong, ("index",)),
    Case(index_missing, ("index",)),
    Case(index_torn_after_crash, ("recover", "epochs", "index")),
    Case(torn_though_clean, ("recover", "epochs"), ("unreadable-batch",), (), ((0, 589),)),
]


@pytest.mark.damages
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change.__name__)
def test_a_plan_changes_nothing_and_is_carried_out_to_the_letter(case: Case, directory: Path) -> None:
    case.change(directory)
    before = tree(directory)
    planned = plan_repair(os.fspath(directory))
    assert tree(directory) == before
    ours = planned.partitions[SEGMENTS]
    assert tuple(step.kind for step in ours.steps) == case.steps
    assert tuple(finding.kind for finding in ours.kept) == case.stays

    carry_out_repair(planned)
    names = os.listdir(directory / "segments-0")
    kept = sorted(name for name in names if ".cut-" in name)
    assert len(kept) == len(case.kept_files)
    assert all(name.startswith(start) for name, start in zip(kept, sorted(case.kept_files), strict=True))
    if ours.next_offset is not None:
        opened = LogDirectory.open(os.fspath(directory), read_only=True)
        assert opened.log(SEGMENTS).next_offset == ours.next_offset
    assert tuple(readable_ranges(os.fspath(directory / "segments-0"))) == case.readable


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.change.__name__)
def test_what_was_repaired_verifies_and_needs_no_second_repair(case: Case, directory: Path) -> None:
    case.change(directory)
    planned = plan_repair(os.fspath(directory))
    carry_out_repair(planned)
    left = damage_of(directory)
    assert [finding.kind for finding in left if finding.kind == "unreadable-batch"] == list(case.stays)
    assert case.stays or not left
    again = plan_repair(os.fspath(directory))
    assert again.is_clean and again.is_sound == (not case.stays)
    assert case.stays or again.is_empty


def test_damage_outside_of_partitions_is_settled_by_recovery(directory: Path) -> None:
    crashed(directory, 600)
    (directory / checkpoint.RECOVERY_POINTS).write_bytes(b"what")
    planned = plan_repair(os.fspath(directory))
    assert planned.is_sound and not planned.is_empty
    carry_out_repair(planned)
    assert damage_of(directory) == []


def test_a_sound_directory_is_left_as_it_is(directory: Path) -> None:
    before = tree(directory)
    planned = plan_repair(os.fspath(directory))
    assert planned.is_empty and planned.is_sound
    carry_out_repair(planned)
    assert tree(directory) == before


def test_nothing_is_planned_beside_a_writer(directory: Path) -> None:
    lock = DirectoryLock(os.fspath(directory))
    lock.acquire()
    try:
        with pytest.raises(LogDirectoryLocked) as caught:
            plan_repair(os.fspath(directory))
        assert caught.value.pid == os.getpid()
    finally:
        lock.release()


def test_a_killed_broker_is_recovered_as_planned(unclean_copy: Path) -> None:
    planned = plan_repair(os.fspath(unclean_copy))
    assert not planned.is_clean and planned.is_sound
    outcome = carry_out_repair(planned)
    assert (outcome.failed, outcome.damage) == ({}, [])
    assert damage_of(unclean_copy) == []
    assert plan_repair(os.fspath(unclean_copy)).is_empty


@pytest.mark.damages
def test_an_offset_that_cannot_be_does_not_keep_indexes_from_being_made(directory: Path) -> None:
    log = directory / "codec-none-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[3] = 1  # the first offset, which no checksum covers, is 2^32
    log.write_bytes(data)
    (directory / "codec-none-0" / f"{0:020d}.index").unlink()
    planned = plan_repair(os.fspath(directory))
    carry_out_repair(planned)
    assert {finding.kind for finding in damage_of(directory)} == {"offset-order"}


@pytest.mark.damages
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_that_is_split_is_sound_afterwards(is_clean: bool, tmp_path: Path) -> None:
    far = 2**31 + 5
    batches = [batch(0, b"a", b"b"), batch(far, b"c", b"d"), batch(far + 2, b"e"), batch(2**33, b"f")]
    log = plant(tmp_path, {0: batches}, is_clean=is_clean) / f"{0:020d}.log"
    planned = plan_repair(os.fspath(tmp_path))
    assert planned.is_sound and not planned.is_empty
    outcome = carry_out_repair(planned)
    assert (outcome.failed, outcome.split) == ({}, [os.fspath(log)])
    assert damage_of(tmp_path) == []
