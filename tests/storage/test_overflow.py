"""Segments with more offsets than their indexes can hold: known from a flipped bit, split, and read as before."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant, sealed

from offsetfs.storage import files
from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.partition import swap
from offsetfs.storage.partition.log import Log
from offsetfs.storage.recovery import leftover_files, overflow
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import RELATIVE_OFFSET_MAX
from offsetfs.storage.segments.transaction_index import SUFFIX, AbortedTransaction
from offsetfs.storage.settings.config import DEFAULTS

pytestmark = pytest.mark.unit

FAR = RELATIVE_OFFSET_MAX + 1


def segment_of(path: Path, *offsets: int, base: int = 0) -> Segment:
    (path / f"{base:020d}.log").write_bytes(b"".join(batch(offset, b"v%d" % offset) for offset in offsets))
    return Segment(str(path), base, DEFAULTS, FilePool(9))


def offsets_of(log: Log) -> list[int]:
    return [each.base_offset for s in log.snapshot() for each in s.batches()]


@dataclass(frozen=True)
class Case:
    name: str
    offsets: Sequence[int]
    next_base_offset: int | None
    is_overflowed: bool


CASES = [
    Case("all of it fits", [0, 5, FAR - 1], None, False),
    Case("two beyond, in the last segment", [0, FAR, FAR + 1], None, True),
    Case("one beyond, before another segment", [0, FAR], FAR + 1, True),
    Case("one beyond at the very end may be a flipped bit", [0, FAR], None, False),
    Case("beyond, but what follows falls back: a flipped bit", [0, FAR, 1, 2], None, False),
    Case("beyond the next segment: a flipped bit", [0, 2**40], 9, False),
    Case("nothing of it fits", [FAR, FAR + 3], FAR + 9, True),
    Case("empty", [], None, False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_overflowed_is_known_from_a_flipped_bit(case: Case, tmp_path: Path) -> None:
    assert overflow.is_overflowed(segment_of(tmp_path, *case.offsets), case.next_base_offset) is case.is_overflowed


def test_damage_keeps_a_segment_from_being_split(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 0, FAR, FAR + 1)
    content = bytearray(Path(segment.log_path).read_bytes())
    content[-1] ^= 1
    Path(segment.log_path).write_bytes(content)
    assert not overflow.is_overflowed(segment, None)


SPLITS = {
    "in two": ([0, 5, FAR, FAR + 7], [0, FAR]),
    "in three": ([0, FAR, 2 * FAR, 2 * FAR + 1], [0, FAR, 2 * FAR]),
    "the first part empty, for nothing fits": ([FAR, FAR + 1], [0, FAR]),
    "at a gap": ([0, 1, 5 * FAR + 3, 5 * FAR + 4], [0, 5 * FAR + 3]),
}


@pytest.mark.parametrize(("offsets", "bases"), SPLITS.values(), ids=SPLITS)
def test_a_split_keeps_every_batch_and_the_time_of_change(
    offsets: Sequence[int], bases: Sequence[int], tmp_path: Path
) -> None:
    segment = segment_of(tmp_path, *offsets)
    content = Path(segment.log_path).read_bytes()
    os.utime(segment.log_path, ns=(1, 10**18))
    leftover_files.remove_garbage(overflow.split(segment))
    logs = sorted(tmp_path.glob("*.log"))
    assert [int(path.stem) for path in logs] == list(bases)
    assert b"".join(path.read_bytes() for path in logs) == content
    assert {path.stat().st_mtime_ns for path in logs} == {10**18}
    for base in bases:
        Segment(str(tmp_path), base, DEFAULTS, FilePool(9)).check()
    assert {path.suffix for path in tmp_path.iterdir()} == {".log", ".index", ".timeindex"}


def test_aborted_transactions_go_with_their_markers(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, 0, 1, FAR, FAR + 1)
    entries = [AbortedTransaction(7, 0, 1, 2), AbortedTransaction(7, 1, FAR, FAR + 1)]
    Path(segment.path(SUFFIX)).write_bytes(b"".join(entry.pack() for entry in entries))
    overflow.split(segment)
    for base, entry in zip((0, FAR), entries, strict=True):
        assert (tmp_path / f"{base:020d}{SUFFIX}").read_bytes() == entry.pack()


def test_a_split_that_finds_the_disk_full_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = segment_of(tmp_path, 0, 5, FAR, FAR + 7)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write, left = files.File.write, [3]

    def full(file: files.File, position: int, data: files.Buffer) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        write(file, position, data)

    monkeypatch.setattr(files.File, "write", full)
    with pytest.raises(OSError, match="No space"):
        overflow.split(segment)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


# --- a log with such a segment ----------------------------------------------------------------------------------------

PARTS = [batch(0, b"a"), batch(7, b"b"), batch(FAR, b"c"), batch(FAR + 8, b"d")]
OVERFLOWED = {0: PARTS, FAR + 9: [batch(FAR + 9, b"e")]}
OFFSETS = [0, 7, FAR, FAR + 8, FAR + 9]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_is_split_when_it_is_opened_for_writing(is_clean: bool, tmp_path: Path) -> None:
    partition = plant(tmp_path, OVERFLOWED, is_clean=is_clean, recovery_point=FAR + 10 if is_clean else 0)
    reader = LogDirectory.open(str(tmp_path), read_only=True)
    assert offsets_of(reader.log(PARTITION)) == OFFSETS
    assert [path.suffix for path in partition.iterdir()] == [".log"] * 2  # and nothing was changed for a reader
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    log.check()
    assert offsets_of(log) == OFFSETS and log.damage == ()
    assert [segment.base_offset for segment in log.snapshot()] == [0, FAR, FAR + 9]
    for offset in OFFSETS:
        found = log.batch_at(offset)
        assert found is not None and found.base_offset == offset
    assert log.append(sealed(b"later")).base_offset == FAR + 10
    directory.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_the_last_segment_is_split_too(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a"), batch(FAR, b"b"), batch(FAR + 1, b"c")]})
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert ([segment.base_offset for segment in log.snapshot()], log.next_offset) == ([0, FAR], FAR + 2)
    directory.close()


def test_a_gap_between_segments_alone_costs_no_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, {0: [batch(0, b"a")], 5 * FAR: [batch(5 * FAR, b"b")]})
    monkeypatch.setattr(overflow, "is_overflowed", lambda *_arguments: pytest.fail("was walked over"))
    directory = LogDirectory.open(str(tmp_path))
    assert offsets_of(directory.log(PARTITION)) == [0, 5 * FAR]
    directory.close()


def test_a_flipped_bit_in_the_last_offset_is_cut_as_damage(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a"), batch(1 + 2**40, b"b")]}, is_clean=False)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (offsets_of(log), log.next_offset, len(log.damage)) == ([0], 1, 1)
    assert [path.read_bytes() for path in partition.glob("*.cut-*")] == [batch(1 + 2**40, b"b")]
    directory.close()


def test_a_swap_of_a_split_that_was_cut_short_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path, OVERFLOWED)

    def die(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(swap, "install", die)
        directory = LogDirectory.open(str(tmp_path))
        with pytest.raises(KeyboardInterrupt):
            directory.log(PARTITION)
        directory._lock.release()
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    log.check()
    assert offsets_of(log) == OFFSETS
    directory.close()
