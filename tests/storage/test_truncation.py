"""The end of a log is cut off, or all of it: what is left, what is kept, what the next opening finds."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, data, marker, plant, values_of
from fixtures.logs.small_logs import SmallLog, record
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

from offsetfs.storage import files
from offsetfs.storage.checkpoint import CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, read_epochs, read_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed, OffsetOutOfRange, ReadOnlyLog
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.partition.retention import take_out_below_start
from offsetfs.storage.records.format.batch import build, read_batch
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.segments.transaction_index import entries
from offsetfs.storage.units import Timestamp

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

Make = Callable[..., SmallLog]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SmallLog] = []

    def make_log(**settings: str) -> SmallLog:
        made.append(SmallLog(tmp_path / f"log-{len(made)}", FakeClock(), **settings))
        return made[-1]

    yield make_log
    for small in made:
        small.directory.close()


def batch_of(count: int, timestamp: int = 1000) -> SealedBatch:
    built = build([(None, b"v" * 40, (), timestamp)] * count)
    return SealedBatch(memoryview(built), count, 41 * count, Timestamp(timestamp), len(built))


def four_segments(make: Make, **settings: str) -> SmallLog:
    """Segments at 0, 10, 20 and 30, each with two batches of five records; the end is 40."""
    small = make(index_interval_bytes="0", **settings)
    for number in range(4):
        for half in range(2):
            small.log.append(batch_of(5, 1000 + 10 * number + half))
        if number < 3:
            small.log.roll()
    return small


# --- where the log ends -----------------------------------------------------------------------------------------------

CUTS = {
    # offset: (bases, the last record that is left, bytes of the active segment)
    "the whole last segment": (30, [0, 10, 20, 30], 29, 0),
    "between two batches": (25, [0, 10, 20], 24, 1),
    "inside a batch, which goes as a whole": (28, [0, 10, 20, 28], 24, 0),
    "the first record of a batch": (35, [0, 10, 20, 30], 34, 1),
    "the last record of a batch": (39, [0, 10, 20, 30, 39], 34, 0),
    "the very first record": (0, [0], -1, 0),
    "in the first batch": (4, [0, 4], -1, 0),
}


@pytest.mark.parametrize(("offset", "bases", "last", "batches"), CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("ending", ["open", "closed", "killed"])
def test_the_log_ends_where_it_was_cut_and_goes_on_there(
    make: Make, offset: int, bases: list[int], last: int, batches: int, ending: str
) -> None:
    small = four_segments(make)
    size = batch_of(5).size
    assert small.log.truncate_to(offset) is True
    if ending != "open":
        small.reopen(in_order=ending == "closed")
    small.log.check()
    assert (small.log.next_offset, small.bases) == (offset, bases)
    assert small.log.snapshot().active.size == batches * size
    assert list(small.offsets()) == list(range(last + 1))
    assert small.log.append(batch_of(1)).base_offset == offset
    small.log.check()
    assert list(small.offsets()) == [*range(last + 1), offset]
    small.reopen(in_order=False)
    assert list(small.offsets()) == [*range(last + 1), offset]
    assert small.log.damage == ()


@pytest.mark.parametrize("place", [16, -1], ids=["in the header", "in the records"])
@pytest.mark.parametrize("offset", [20, 22])
def test_damage_that_may_hold_the_offset_is_cut(make: Make, place: int, offset: int) -> None:
    small = four_segments(make)
    path = Path(small.log.path) / segment_name(20, ".log")
    content = bytearray(path.read_bytes())
    content[place if place > 0 else batch_of(5).size + place] ^= 0x55
    path.write_bytes(content)
    assert small.log.truncate_to(offset) is True
    small.reopen(in_order=True)
    assert (small.log.next_offset, list(small.offsets())) == (offset, list(range(20)))
    assert (small.log.damage, path.stat().st_size) == ((), 0)


@pytest.mark.parametrize("offset", [40, 41, 2**62])
def test_to_cut_at_the_end_or_beyond_changes_nothing(make: Make, offset: int) -> None:
    small = four_segments(make)
    before = {name: os.stat(f"{small.log.path}/{name}").st_mtime_ns for name in os.listdir(small.log.path)}
    assert small.log.truncate_to(offset) is False
    assert (small.log.next_offset, len(small.offsets())) == (40, 40)
    assert {name: os.stat(f"{small.log.path}/{name}").st_mtime_ns for name in os.listdir(small.log.path)} == before


@pytest.mark.parametrize("cut", [Log.truncate_to, Log.truncate_fully], ids=["to", "fully"])
def test_an_offset_below_zero_is_refused(make: Make, cut: Callable[..., object]) -> None:
    small = four_segments(make)
    with pytest.raises(OffsetOutOfRange):
        cut(small.log, -1)
    assert small.log.next_offset == 40


def test_a_log_for_readers_is_not_cut(make: Make) -> None:
    small = four_segments(make)
    reader = LogDirectory.open(str(small.path), read_only=True).log(PARTITION)
    for cut in (lambda: reader.truncate_to(10), lambda: reader.truncate_fully(10)):
        with pytest.raises(ReadOnlyLog):
            cut()


@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
def test_below_its_first_segment_the_log_begins_anew(make: Make, in_order: bool) -> None:
    small = four_segments(make)
    small.log.delete_records(12)
    take_out_below_start(small.log)
    assert small.bases == [10, 20, 30]
    assert small.log.truncate_to(7) is True
    small.reopen(in_order=in_order)
    assert (small.log.log_start_offset, small.log.next_offset, small.bases) == (7, 7, [7])
    assert small.log.append(record(1)).base_offset == 7


def test_below_the_log_start_in_its_segment_the_start_moves_with_the_end(make: Make) -> None:
    small = four_segments(make)
    small.log.delete_records(38)
    assert small.log.truncate_to(32) is True
    assert (small.log.log_start_offset, small.log.next_offset) == (32, 32)
    assert read_offsets(str(small.path / LOG_STARTS)) == {PARTITION: 32}
    small.reopen(in_order=False)
    assert (small.log.log_start_offset, small.log.next_offset) == (32, 32)


@pytest.mark.parametrize("offset", [0, 3, 40, 1000], ids=["at 0", "inside", "at the end", "beyond"])
@pytest.mark.parametrize("ending", ["open", "closed", "killed"])
def test_an_emptied_log_begins_and_goes_on_at_the_offset(make: Make, offset: int, ending: str) -> None:
    small = four_segments(make)
    small.log.truncate_fully(offset)
    if ending != "open":
        small.reopen(in_order=ending == "closed")
    small.log.check()
    assert (small.log.log_start_offset, small.log.next_offset, small.bases) == (offset, offset, [offset])
    assert small.log.append(batch_of(2)).last_offset == offset + 1
    assert list(small.offsets()) == [offset, offset + 1]
    assert small.names(".snapshot")[-1:] <= [f"{offset + 2:020d}.snapshot"]


# --- what goes with the records ---------------------------------------------------------------------------------------


def test_leader_epochs_are_cut_with_the_log(make: Make) -> None:
    small = make()
    for epoch, offset in ((2, 0), (3, 1), (7, 2)):
        small.log.epochs.assign(epoch, offset)
        small.log.append(record(1))
    small.log.append(record(1))
    path = str(small.path / str(PARTITION) / "leader-epoch-checkpoint")
    small.log.truncate_to(2)
    assert read_epochs(path) == [(2, 0), (3, 1)]
    small.log.truncate_to(1)
    assert read_epochs(path) == [(2, 0)]
    small.log.truncate_to(0)
    assert read_epochs(path) == [(2, 0)], "the leader stays"
    small.log.truncate_fully(9)
    assert read_epochs(path) == [(2, 9)]
    small.log.append(record(1))
    found = small.log.batch_at(9)
    assert found is not None and found.header.leader_epoch == 2


def test_producers_of_what_was_cut_are_forgotten(make: Make) -> None:
    small = make()
    small.log.append(data(1, 0, 3, is_transactional=False))
    small.log.roll()
    small.log.append(data(1, 3, 3, is_transactional=False))
    small.log.append(data(2, 0, 2, is_transactional=False))
    small.log.roll()
    assert small.names(".snapshot")[-2:] == [f"{offset:020d}.snapshot" for offset in (3, 8)]
    small.log.truncate_to(6)
    assert {producer: entry.last_sequence for producer, entry in small.log.producers().items()} == {1: 5}
    assert small.names(".snapshot")[-2:] == [f"{offset:020d}.snapshot" for offset in (3, 6)]
    small.log.truncate_to(3)
    assert {producer: entry.last_sequence for producer, entry in small.log.producers().items()} == {1: 2}
    small.reopen()
    assert {producer: entry.last_sequence for producer, entry in small.log.producers().items()} == {1: 2}
    small.log.truncate_to(0)
    assert small.log.producers() == {}


def test_producers_are_known_of_a_log_that_lost_its_only_snapshot_to_a_cut(make: Make) -> None:
    small = make()
    small.log.append(data(1, 0, 3, is_transactional=False))
    small.log.append(data(2, 0, 3, is_transactional=False))
    small.reopen()
    small.log.truncate_to(3)
    small.reopen()
    assert list(small.log.producers()) == [1]


def test_transactions_are_cut_with_the_log(make: Make) -> None:
    small = make()
    for sealed in (data(1, 0, 2), marker(1, ABORT), data(2, 0, 2), marker(2, COMMIT), data(3, 0, 1)):
        small.log.append(sealed)
    assert small.log.last_stable_offset() == 6
    small.reopen(in_order=False)  # recovery writes the index of aborted transactions
    path = small.log.snapshot().first.path(".txnindex")
    assert [(entry.producer_id, entry.last_offset) for entry in entries(path)] == [(1, 2)]
    small.log.truncate_to(5)
    assert small.log.last_stable_offset() == 3, "the commit of the second is gone"
    assert small.log.aborted(0, 5) == [(1, 0, 2)]
    small.log.truncate_to(2)
    assert small.log.last_stable_offset() == 0
    assert (list(entries(path)), small.log.aborted(0, 2)) == ([], [])


def test_indexes_agree_with_what_is_left(make: Make) -> None:
    small = four_segments(make)
    small.log.truncate_to(25)
    opened = small.log.snapshot().active.open_files()
    assert [entry for entry in opened.index.entries() if entry[0] >= 25] == []
    assert small.log.snapshot().active.max_timestamp() == (1020, 24)
    assert small.log.find_timestamp(1021) is None
    small.log.append(batch_of(5, 1015))
    assert small.log.max_timestamp() == (20, 1020)
    small.reopen()
    sizes = [os.stat(small.log.snapshot().active.path(suffix)).st_size for suffix in (".index", ".timeindex")]
    assert sizes[0] % 8 == sizes[1] % 12 == 0 and max(sizes) < 100
    assert small.log.find_timestamp(1020) == (20, 1020)


def test_checkpoints_do_not_lie_beyond_the_cut(make: Make) -> None:
    small = four_segments(make)
    small.log.flush()
    small.directory.checkpoint()
    small.directory.set_cleaner_offset(PARTITION, 30)
    small.log.truncate_to(27)
    assert small.log.recovery_point == 27
    reported = {name: read_offsets(str(small.path / name)) for name in (RECOVERY_POINTS, CLEANER_OFFSETS)}
    assert reported == {RECOVERY_POINTS: {PARTITION: 27}, CLEANER_OFFSETS: {PARTITION: 20}}
    small.log.truncate_fully(3)
    reported = {name: read_offsets(str(small.path / name)) for name in (RECOVERY_POINTS, CLEANER_OFFSETS)}
    assert reported == {RECOVERY_POINTS: {PARTITION: 3}, CLEANER_OFFSETS: {PARTITION: 3}}


def test_a_log_that_is_emptied_still_counts_as_compacted(make: Make) -> None:
    small = four_segments(make)
    small.log.flush()
    small.directory.set_cleaner_offset(PARTITION, 20)
    small.log.truncate_fully(100)
    assert small.directory.cleaner_offset(PARTITION) == 100


# --- nothing is cut in silence ----------------------------------------------------------------------------------------


@pytest.mark.promise(
    "Truncated records are kept: whole segments for `file.delete.delay.ms`, the tail of a segment in "
    "a file beside the log."
)
def test_what_is_cut_from_a_segment_is_kept_beside_it(make: Make) -> None:
    small = four_segments(make)
    size = batch_of(5).size
    small.log.truncate_to(28)
    kept = Path(small.log.path, f"{20:020d}.cut-{size}").read_bytes()
    assert [read_batch(kept[:size]).base_offset, len(kept)] == [25, size]
    small.reopen(in_order=False)
    assert Path(small.log.path, f"{20:020d}.cut-{size}").read_bytes() == kept


def test_a_second_cut_at_one_place_keeps_both(make: Make) -> None:
    small = four_segments(make)
    for value in (b"a", b"b"):
        small.log.truncate_to(25)
        small.log.append(record(1, value * 40))
    small.log.truncate_to(25)
    kept = [name for name in os.listdir(small.log.path) if ".cut-" in name]
    assert len(kept) == 3 and len({Path(small.log.path, name).read_bytes() for name in kept}) == 3


@pytest.mark.promise(
    "Truncated records are kept: whole segments for `file.delete.delay.ms`, the tail of a segment in "
    "a file beside the log."
)
def test_segments_that_are_cut_off_wait_for_their_removal(make: Make) -> None:
    small = four_segments(make, file_delete_delay_ms="60000")
    held = list(small.log.snapshot())[3]
    small.log.truncate_to(20)
    assert small.names(".log.deleted") == [f"{30:020d}.log.deleted"]
    assert [each.base_offset for each in held.batches()] == [30, 35]
    small.clock.advance(60_000)
    small.directory.deletions.run_due()
    assert small.names(".deleted") == []
    assert small.log.next_offset == 20


def test_the_latest_segment_goes_first_and_each_is_on_disk_before_the_next(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = four_segments(make)
    small.log.flush()
    done: list[str] = []
    rename, sync = files.rename, files.sync_directory
    monkeypatch.setattr(files, "rename", spy(done, lambda a, b: os.path.basename(b)[18:24], rename))
    monkeypatch.setattr(files, "sync_directory", spy(done, lambda path: "sync", sync))
    small.log.truncate_to(5)
    renamed = [name for name in done if name == "sync" or name.endswith(".log")]
    first, second, third = (renamed.index(name) for name in ("30.log", "20.log", "10.log"))
    assert first < second < third
    assert "sync" in renamed[first:second] and "sync" in renamed[second:third] and "sync" in renamed[third:]


def test_a_full_disk_cuts_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = four_segments(make)

    def full(*_args: object, **_named: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(files.File, "write", full)
    with pytest.raises(OSError, match="full"):
        small.log.truncate_to(28)
    monkeypatch.undo()
    assert (small.log.failure, small.log.next_offset, len(small.offsets())) == (None, 40, 40)
    small.log.check()


def test_a_recovery_point_that_may_be_on_disk_does_not_stay_beyond_a_cut(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync behind a checkpoint failed, so it is unknown which of two recovery points is on disk."""
    small = four_segments(make)
    small.log.truncate_to(10)
    small.log.append(batch_of(5))
    small.log.flush()

    def fail(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), os.stat(small.path)):
            raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken"):
        small.directory.checkpoint()
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    assert read_offsets(str(small.path / RECOVERY_POINTS)) == {PARTITION: 15}
    with pytest.raises(OSError, match="an earlier sync of this directory failed"):
        small.log.truncate_to(10)
    assert (small.log.failure, small.log.next_offset) == (None, 15)
    small.reopen(in_order=False)
    assert list(small.offsets()) == list(range(15))
    assert small.log.truncate_to(10)
    assert read_offsets(str(small.path / RECOVERY_POINTS)) == {PARTITION: 10}


def test_a_cut_that_fails_half_way_fails_the_log_and_leaves_a_beginning_of_it(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = four_segments(make)
    real = files.rename

    def fail(source: str, target: str) -> None:
        if target.endswith(f"{10:020d}.log.deleted"):
            raise OSError(errno.EIO, "broken")
        real(source, target)

    monkeypatch.setattr(files, "rename", fail)
    with pytest.raises(OSError, match="broken"):
        small.log.truncate_to(5)
    with pytest.raises(LogFailed):
        small.log.append(record(1))
    monkeypatch.undo()
    small.reopen(in_order=False)
    assert list(small.offsets()) == list(range(small.log.next_offset)) == list(range(20))


def test_a_reader_of_the_old_end_gets_no_bytes_of_the_new_one(make: Make) -> None:
    small = four_segments(make)
    held = list(small.log.snapshot())[2]
    assert held.find(27) is not None
    small.log.truncate_to(25)
    small.log.append(record(1, b"n" * 2))
    assert list(small.log.snapshot())[2] is not held
    assert [each.base_offset for each in list(small.log.snapshot())[2].batches()] == [20, 25]
    small.log.check()


# --- Kafka's own cases ------------------------------------------------------------------------------------------------


def test_the_last_of_two_batches_is_cut_thirty_times_over(make: Make) -> None:
    small = make()
    small.log.append(batch_of(3))
    for _ in range(30):
        small.log.append(batch_of(2))
        assert small.log.truncate_to(3) is True
        assert (small.log.next_offset, small.log.snapshot().active.size) == (3, batch_of(3).size)
        small.log.check()


def test_a_cut_in_a_gap_takes_the_batch_behind_it(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(40, b"a", b"b"), batch(100, b"c", b"d")]})
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert log.truncate_to(60) is True
    assert (log.next_offset, values_of(log)) == (60, [b"a", b"b"])
    directory.close()


def test_thirty_records_cut_to_one_leave_its_time_and_no_entry(make: Make) -> None:
    small = make(index_interval_bytes=str(2 * record(1).size - 1))
    small.log.truncate_fully(40)
    for offset in range(40, 70):
        small.log.append(record(10 * offset))
    assert small.log.snapshot().active.open_files().time_index.count == 14
    small.log.truncate_to(41)
    active = small.log.snapshot().active
    assert (active.open_files().time_index.count, active.max_timestamp(), small.log.next_offset) == (0, (400, 40), 41)
    small.log.append(record(5))
    assert small.log.max_timestamp() == (40, 400)


def test_an_empty_log_that_is_cut_does_not_roll(make: Make) -> None:
    small = make(segment_index_bytes="40")
    small.log.append(record(1))
    small.log.truncate_to(0)
    small.log.append(record(1))
    assert small.bases == [0]
    assert os.stat(small.log.snapshot().active.path(".index")).st_size == 40


def test_aborted_transactions_above_the_cut_leave_the_index(make: Make) -> None:
    small = make()
    for producer in (1, 2):
        small.log.append(data(producer, 0, 3))
        small.log.append(marker(producer, ABORT))
    small.reopen(in_order=False)
    path = small.log.snapshot().first.path(".txnindex")
    small.log.truncate_to(8)
    assert [entry.last_offset for entry in entries(path)] == [3, 7]
    small.log.append(record(1))
    small.log.truncate_to(8)
    assert [entry.last_offset for entry in entries(path)] == [3, 7]
    small.log.truncate_to(7)
    assert [entry.last_offset for entry in entries(path)] == [3]


def test_a_power_cut_after_a_cut_to_nothing_leaves_no_hole(make: Make) -> None:
    """The segment of before the roll never reached the disk, the empty one behind it did; `.deleted` files wait."""
    small = four_segments(make)
    small.log.truncate_to(0)
    small.log.append(batch_of(5))
    first = small.log.snapshot().active.log_path
    small.log.roll()
    os.truncate(first, 0)
    small.reopen(in_order=False)
    assert (small.log.next_offset, small.bases, list(small.offsets())) == (0, [0], [])
    assert small.log.append(batch_of(1)).base_offset == 0
