"""DeleteRecords: which offsets are taken, what is on disk after, what a crash leaves."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, data
from fixtures.logs.small_logs import SmallLog, record
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import LOG_STARTS, RECOVERY_POINTS, read_epochs, read_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed, OffsetOutOfRange, PolicyViolation, ReadOnlyLog

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

Make = Callable[..., SmallLog]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[SmallLog] = []

    def make_log(count: int = 10, **settings: str) -> SmallLog:
        small = SmallLog(tmp_path / f"log-{len(made)}", FakeClock(), **settings)
        made.append(small)
        for _ in range(count):
            small.log.append(record(1000))
        return small

    yield make_log
    for small in made:
        small.directory.close()


STARTS = {
    # what is asked for, after the log start was 3: the log start after that
    "in the middle": (5, 5),
    "the last record": (9, 9),
    "the end": (10, 10),
    "all there is": (-1, 10),
    "where it begins": (3, 3),
    "below the start: nothing changes": (2, 3),
    "zero": (0, 3),
}


@pytest.mark.parametrize(("asked", "start"), STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("in_order", [True, False], ids=["closed", "killed"])
def test_the_log_begins_where_it_was_asked_to_and_does_so_for_good(
    make: Make, asked: int, start: int, in_order: bool
) -> None:
    small = make()
    assert small.log.delete_records(3) == 3
    assert small.log.delete_records(asked) == start
    for _ in range(2):
        assert (small.log.log_start_offset, small.log.next_offset) == (start, 10)
        assert list(small.offsets()) == list(range(start, 10))
        with pytest.raises(OffsetOutOfRange):
            small.log.batch_at(start - 1)
        small.reopen(in_order=in_order)


@pytest.mark.parametrize("offset", [-2, -(2**63), 11, 2**63 - 1])
def test_an_offset_that_is_not_there_is_refused(make: Make, offset: int) -> None:
    small = make()
    with pytest.raises(OffsetOutOfRange) as caught:
        small.log.delete_records(offset)
    assert (caught.value.log_start_offset, caught.value.next_offset) == (0, 10)
    assert small.log.log_start_offset == 0 and not (small.path / LOG_STARTS).exists()


@pytest.mark.parametrize(
    ("policy", "is_allowed"), [("delete", True), ("compact,delete", True), ("compact", False), ("", True)]
)
def test_a_topic_that_only_compacts_deletes_no_records(make: Make, policy: str, is_allowed: bool) -> None:
    small = make(cleanup_policy=policy)
    if is_allowed:
        assert small.log.delete_records(1) == 1
        return
    with pytest.raises(PolicyViolation, match=r"cleanup\.policy"):
        small.log.delete_records(1)
    assert small.log.log_start_offset == 0


def test_a_reader_deletes_nothing(make: Make) -> None:
    small = make()
    with pytest.raises(ReadOnlyLog):
        LogDirectory.open(str(small.path), read_only=True).log(PARTITION).delete_records(1)


def test_the_new_start_is_on_disk_and_what_lies_below_was_before(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make()
    done: list[str] = []
    write, sync = checkpoint.write_offsets, files.File.sync
    monkeypatch.setattr(checkpoint, "write_offsets", spy(done, lambda p, *_: os.path.basename(p), write))
    monkeypatch.setattr(files.File, "sync", spy(done, lambda file: os.path.basename(file.path), sync))
    small.log.delete_records(7)
    assert done.index(f"{0:020d}.log") < done.index(RECOVERY_POINTS) < done.index(LOG_STARTS)
    assert read_offsets(str(small.path / LOG_STARTS)) == {PARTITION: 7}
    assert read_offsets(str(small.path / RECOVERY_POINTS))[PARTITION] >= 7


def test_a_checkpoint_that_cannot_be_written_changes_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    small = make()

    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(checkpoint, "write_offsets", full)
    with pytest.raises(OSError, match="full"):
        small.log.delete_records(7)
    monkeypatch.undo()
    assert (small.log.log_start_offset, len(small.offsets())) == (0, 10)
    assert small.log.delete_records(7) == 7


def test_a_sync_that_fails_deletes_nothing_and_ends_writing_to_the_log(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = make()

    def broken(_file: files.File) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(files.File, "sync", broken)
    with pytest.raises(OSError, match="broken"):
        small.log.delete_records(7)
    monkeypatch.undo()
    with pytest.raises(LogFailed):
        small.log.delete_records(7)
    assert small.log.log_start_offset == 0
    small.reopen(in_order=False)
    assert len(small.offsets()) == 10


def test_a_checkpoint_of_all_logs_between_keeps_the_start(make: Make) -> None:
    small = make()
    small.log.delete_records(7)
    small.directory.checkpoint()
    assert read_offsets(str(small.path / LOG_STARTS)) == {PARTITION: 7}


def test_leader_epochs_below_the_start_go(make: Make) -> None:
    small = make(count=0)
    for epoch, offset in ((2, 0), (3, 5), (7, 9)):
        small.log.epochs.assign(epoch, offset)
    for _ in range(10):
        small.log.append(record(1000))
    small.log.delete_records(6)
    assert read_epochs(str(small.path / str(PARTITION) / "leader-epoch-checkpoint")) == [(3, 6), (7, 9)]
    small.log.delete_records(-1)
    assert read_epochs(str(small.path / str(PARTITION) / "leader-epoch-checkpoint")) == [(7, 10)]
    assert small.log.append(record(1000)).base_offset == 10


def test_producers_and_open_transactions_below_the_start_are_still_known(make: Make) -> None:
    small = make(count=0)
    small.log.append(data(1, 0, 3))
    small.log.append(record(1000))
    small.log.delete_records(-1)
    assert small.log.producers()[1].last_sequence == 2
    assert small.log.last_stable_offset() == 4, "never below the log start"
