"""Rewritten segments take the place of others beside readers, and while retention and truncation go on."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import DAY_MS, SmallLog, record
from fixtures.machine.open_descriptors import deleted_but_open, open_files
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed, SegmentsChanged
from offsetfs.storage.partition import changes, swap
from offsetfs.storage.partition.retention import sweep
from offsetfs.storage.partition.swap import CLEANED
from offsetfs.storage.records.format.batch import stamp
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.segment import Segment

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

NOW = 1_800_000_000_000
LONG_MAX = 2**63 - 1


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLog]:
    """Segments at 0, 2, 4 and 6 of two records each, and an active one at 8 with one record."""
    made = SmallLog(tmp_path / "log", FakeClock(NOW), segment_ms=str(LONG_MAX), index_interval_bytes="0")
    for days in (4, 3, 2, 1):
        made.segment(NOW - days * DAY_MS, NOW - days * DAY_MS)
    made.log.append(record(NOW))
    yield made
    made.directory.close()


def rewritten(small: SmallLog, base: int, offsets: Sequence[int]) -> Segment:
    """Write a segment that holds `offsets`, as compaction leaves one before the swap."""
    log = small.log
    segment = Segment.create(log.path, base, log.config, log.snapshot().active.pool, ending=CLEANED)
    segment.activate()
    for offset in offsets:
        batch = record(NOW - DAY_MS)
        stamp(batch.data, offset, 0)
        segment.append(batch, offset, NOW - DAY_MS)
    segment.sync()
    segment.deactivate()
    files.sync_directory(log.path)
    return segment


def old_segments(small: SmallLog, *bases: int) -> list[Segment]:
    return [segment for segment in small.log.snapshot() if segment.base_offset in bases]


def test_the_new_segments_are_read_and_the_log_is_otherwise_as_it_was(small: SmallLog) -> None:
    new = rewritten(small, 0, [1, 3])
    changes.replace_segments(small.log, [new], old_segments(small, 0, 2))
    for _ in range(2):
        small.log.check()
        assert (small.bases, list(small.offsets())) == ([0, 4, 6, 8], [1, 3, 4, 5, 6, 7, 8])
        assert (small.log.log_start_offset, small.log.next_offset) == (0, 9)
        assert small.log.find_timestamp(NOW - DAY_MS) == (1, NOW - DAY_MS)
        assert small.names(".cleaned", ".swap") == []
        small.reopen()
    assert small.log.append(record(NOW)).base_offset == 9


def test_snapshots_of_the_bases_that_stay_are_kept(small: SmallLog) -> None:
    changes.replace_segments(
        small.log, [rewritten(small, 2, [2]), rewritten(small, 6, [7])], old_segments(small, 2, 4, 6)
    )
    assert small.names(".snapshot") == [f"{base:020d}.snapshot" for base in (2, 6, 8)]
    assert small.names(".snapshot.deleted") == [f"{4:020d}.snapshot.deleted"]


def test_a_reader_of_a_replaced_segment_reads_on_until_it_is_unlinked(small: SmallLog) -> None:
    held = old_segments(small, 0, 2)
    assert held[0].find(0) is not None
    changes.replace_segments(small.log, [rewritten(small, 0, [3])], held)
    small.directory._pool.clear()
    assert [batch.base_offset for segment in held for batch in segment.batches()] == [0, 1, 2, 3]
    assert [batch.base_offset for batch in small.log.snapshot().first.batches()] == [3]
    small.clock.advance(60_000)
    small.directory.deletions.run_due()
    small.directory._pool.clear()
    with pytest.raises(OSError, match="removed or replaced") as caught:
        held[1].find(2)
    assert caught.value.errno == errno.ESTALE
    assert small.names(".deleted") == []


@pytest.mark.promise(
    "An open record, `values` or file of `segments/` stays readable for at least "
    "`file.delete.delay.ms` after its removal; later, reads of removed data fail with ESTALE and "
    "never return the bytes of another record."
)
def test_removed_segments_of_one_base_offset_are_readable_for_the_delay(small: SmallLog) -> None:
    first = small.log.snapshot().first
    changes.replace_segments(small.log, [rewritten(small, 0, [1])], [first])
    small.clock.advance(30_000)
    second = small.log.snapshot().first
    changes.replace_segments(small.log, [rewritten(small, 0, [0, 1])], [second])
    small.directory._pool.clear()
    assert [batch.base_offset for batch in first.batches()] == [0, 1], "it has half a minute left"
    small.clock.advance(30_000)
    small.directory.deletions.run_due()
    small.directory._pool.clear()
    assert [batch.base_offset for batch in second.batches()] == [1], "it has half a minute left"
    with pytest.raises(OSError, match="removed or replaced"):
        first.find(0)
    small.clock.advance(30_000)
    small.directory.deletions.run_due()
    assert small.names(".deleted") == []
    assert [batch.base_offset for batch in small.log.snapshot().first.batches()] == [0, 1]


def test_a_removed_segment_closes_although_another_has_its_base_offset(small: SmallLog) -> None:
    for _ in range(5):
        removed = small.log.snapshot().first
        assert removed.find(0) is not None
        changes.replace_segments(small.log, [rewritten(small, 0, [0, 1])], [removed])
        small.clock.advance(1_000)
    small.clock.advance(60_000)
    small.directory.deletions.run_due()
    assert small.names(".deleted") == []
    assert deleted_but_open(small.path) == []


def test_a_removed_segment_without_readers_costs_no_descriptor(small: SmallLog) -> None:
    held = old_segments(small, 0, 2)
    assert all(segment.find(segment.base_offset) is not None for segment in held)
    changes.replace_segments(small.log, [rewritten(small, 0, [3])], held)
    assert [target for target in open_files() if target.endswith(".deleted")] == []
    assert [batch.base_offset for segment in held for batch in segment.batches()] == [0, 1, 2, 3]


def test_a_follower_reads_a_removed_second_segment_of_a_base_offset(
    small: SmallLog,
) -> None:
    changes.replace_segments(small.log, [rewritten(small, 0, [1])], old_segments(small, 0))
    small.log.flush()
    following = LogDirectory.open(str(small.path), read_only=True)
    held = following.log(PARTITION).snapshot().first
    changes.replace_segments(small.log, [rewritten(small, 0, [0])], old_segments(small, 0))
    assert [batch.base_offset for batch in held.batches()] == [1]
    following.close()


def test_a_removal_that_failed_half_way_is_finished_under_the_same_names(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes.replace_segments(small.log, [rewritten(small, 0, [0, 1])], old_segments(small, 0))
    segment, rename = small.log.snapshot().first, files.rename
    calls = itertools.count()

    def second_fails(source: str, target: str) -> None:
        if next(calls) == 1:
            raise OSError(errno.EIO, "broken")
        rename(source, target)

    monkeypatch.setattr(files, "rename", second_fails)
    with pytest.raises(OSError, match="broken"):
        segment_names.remove_from_log(segment)
    small.clock.advance(60_000)
    small.directory.deletions.run_due()  # the plain names are free by now
    segment_names.remove_from_log(segment)
    assert [batch.base_offset for batch in segment.batches()] == [0, 1]
    segment_names.unlink(segment)
    assert small.names(".deleted") == [] and f"{0:020d}.log" not in small.names(".log")


def test_the_next_writer_removes_what_waited_under_a_second_name(small: SmallLog) -> None:
    for _ in range(3):
        changes.replace_segments(small.log, [rewritten(small, 0, [0, 1])], old_segments(small, 0))
    assert len(small.names(".log.deleted")) == 1 and len(small.names(".deleted")) > 6
    small.reopen(in_order=False)
    small.log.append(record(NOW))
    small.clock.advance(60_001)
    small.directory.deletions.run_due()
    assert small.names(".deleted") == []


def test_retention_that_took_a_segment_meanwhile_calls_it_off(small: SmallLog) -> None:
    new, old = rewritten(small, 0, [3]), old_segments(small, 0, 2)
    small.directory.configure(PARTITION.topic, {"retention.ms": str(3 * DAY_MS)})
    sweep(small.directory, [PARTITION], NOW)
    before = small.names(".log")
    with pytest.raises(SegmentsChanged):
        changes.replace_segments(small.log, [new], old)
    assert (small.names(".log"), small.bases, small.log.failure) == (before, [2, 4, 6, 8], None)


def test_a_truncation_meanwhile_calls_it_off(small: SmallLog) -> None:
    new, old = rewritten(small, 0, [3]), old_segments(small, 0, 2)
    small.log.truncate_to(3)
    with pytest.raises(SegmentsChanged):
        changes.replace_segments(small.log, [new], old)
    assert list(small.offsets()) == [0, 1, 2]
    small.log.append(record(NOW))
    assert list(small.offsets()) == [0, 1, 2, 3]


def test_the_active_segment_is_not_replaced(small: SmallLog) -> None:
    with pytest.raises(SegmentsChanged):
        changes.replace_segments(small.log, [rewritten(small, 8, [8])], old_segments(small, 8))
    assert small.log.append(record(NOW)).base_offset == 9


def test_appends_go_on_after_an_unsynced_segment_is_replaced(small: SmallLog) -> None:
    assert len(small.log._dirty) == 5
    changes.replace_segments(small.log, [rewritten(small, 0, [3])], old_segments(small, 0, 2))
    assert len(small.log._dirty) == 3
    small.log.append(record(NOW))
    small.log.flush()
    assert small.log.recovery_point == small.log.next_offset == 10


@pytest.mark.parametrize("call", ["prepare", "retire", "install"])
def test_a_failed_swap_keeps_the_old_or_is_finished_by_the_next_opening(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def broken(_path: str) -> None:
        raise OSError(errno.EIO, "broken")

    real = getattr(swap, call)

    def fail(*args: object) -> object:
        monkeypatch.setattr(files, "sync_directory", broken)
        return real(*args)

    monkeypatch.setattr(swap, call, fail)
    held = old_segments(small, 0, 2)
    with pytest.raises(OSError, match="broken"):
        changes.replace_segments(small.log, [rewritten(small, 0, [3])], held)
    monkeypatch.undo()
    assert [batch.base_offset for segment in held for batch in segment.batches()] == [0, 1, 2, 3], "readers read on"
    if call == "prepare":
        assert small.log.failure is None and small.names(".cleaned", ".swap") == []
        assert small.log.append(record(NOW)).base_offset == 9
    else:
        with pytest.raises(LogFailed):
            small.log.append(record(NOW))
    small.reopen(in_order=False)
    small.log.check()
    expected = [0, 1, 2, 3] if call == "prepare" else [3]
    assert list(small.offsets())[: len(expected) + 1] == [*expected, 4]
