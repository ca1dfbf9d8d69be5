"""A partition is deleted: its name is free at once, its files go later, its readers read until then."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from fixtures.logs.small_logs import VALUE, record
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

from offsetfs.storage import files
from offsetfs.storage.checkpoint import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets,
    read_topic_id,
)
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.partition_directories import deletion_name, is_deleted
from offsetfs.storage.errors import LogFailed, PartitionExists, ReadOnlyLog, UnknownPartition
from offsetfs.storage.names import METADATA_TOPIC, TOPIC_LENGTH_MAX, TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.retention import sweep
from offsetfs.storage.segments.deletions import RETRY_MS, Deletions
from offsetfs.storage.settings.topic_settings import TOPICS

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
DELAY_MS = 60_000


@pytest.fixture
def directory(tmp_path: Path, clock: FakeClock) -> Iterator[LogDirectory]:
    """Two partitions of `orders`, the first with three segments of one record."""
    opened = LogDirectory.open(str(tmp_path), clock=clock)
    for partition in (ORDERS, OTHER):
        log = opened.create_partition(partition, {"retention.bytes": "1000"})
        for _ in range(3):
            log.append(record(1000))
            log.roll()
    yield opened
    opened.close()


def deleted_names(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if name.endswith("-delete"))


def fill_checkpoints(directory: LogDirectory) -> None:
    directory.flush()
    directory.log(ORDERS).delete_records(2)
    directory.checkpoint()
    directory.set_cleaner_offset(ORDERS, 2)


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_deleted_directory_is_named_as_kafka_names_it() -> None:
    name = deletion_name(ORDERS)
    assert re.fullmatch(r"orders-0\.[0-9a-f]{32}-delete", name) and is_deleted(name)
    assert deletion_name(ORDERS) != name


@pytest.mark.parametrize(("partition", "kept"), [(0, 213), (12345, 209), (2**31 - 1, 204)])
def test_a_topic_of_any_length_fits_the_name(partition: int, kept: int) -> None:
    name = deletion_name(TopicPartition("x" * TOPIC_LENGTH_MAX, partition))
    assert len(name) == 255 and is_deleted(name)
    assert name.rpartition("-" + str(partition))[0] == "x" * kept


NAMES = {
    "orders-0.5f0c7f0e1d2b4c3a9e8d7c6b5a493827-delete": True,
    "a.b-c-12.uuid-delete": True,
    "orders-0": False,
    "orders-0.5f0c7f0e1d2b4c3a9e8d7c6b5a493827-future": False,
    "orders-0.5f0c7f0e1d2b4c3a9e8d7c6b5a493827-stray": False,
    "orders-delete": False,
    "my-topic-delete": False,
    "orders-0.-delete": False,
    "orders-0.5f0c-delete\n": False,
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items(), ids=repr)
def test_only_what_was_deleted_is_removed(name: str, expected: bool) -> None:
    assert is_deleted(name) is expected


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay(
    directory: LogDirectory, tmp_path: Path, clock: FakeClock
) -> None:
    directory.delete_partition(ORDERS)
    assert (directory.partitions(), directory.has(ORDERS)) == ([OTHER], False)
    with pytest.raises(UnknownPartition):
        directory.log(ORDERS)
    (name,) = deleted_names(tmp_path)
    clock.advance(DELAY_MS - 1)
    directory.deletions.run_due()
    assert (tmp_path / name / f"{0:020d}.log").exists()
    clock.advance(1)
    directory.deletions.run_due()
    assert deleted_names(tmp_path) == []
    assert directory.log(OTHER).next_offset == 3, "its neighbor stays"


def test_without_a_delay_the_files_go_with_the_next_look(
    directory: LogDirectory, tmp_path: Path, clock: FakeClock
) -> None:
    directory.configure("orders", {"file.delete.delay.ms": "0"})
    directory.delete_partition(ORDERS)
    assert directory.deletions.next_due() == clock.monotonic()
    directory.deletions.run_due()
    assert deleted_names(tmp_path) == []


def test_the_checkpoints_know_a_deleted_partition_no_more(directory: LogDirectory, tmp_path: Path) -> None:
    fill_checkpoints(directory)
    names = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS)
    assert all(ORDERS in read_offsets(str(tmp_path / name)) for name in names)
    directory.delete_partition(ORDERS)
    assert not any(ORDERS in read_offsets(str(tmp_path / name)) for name in names)
    directory.checkpoint()
    assert not any(ORDERS in read_offsets(str(tmp_path / name)) for name in names)


def test_a_partition_of_the_same_name_begins_at_zero_beside_the_old_one(
    directory: LogDirectory, tmp_path: Path
) -> None:
    fill_checkpoints(directory)
    directory.delete_partition(ORDERS)
    log = directory.create_partition(ORDERS)
    assert (log.log_start_offset, log.next_offset) == (0, 0)
    log.append(record(1))
    directory.deletions.run_all()
    assert deleted_names(tmp_path) == []
    assert log.next_offset == 1 and log.batch_at(0) is not None


def test_the_settings_of_a_topic_go_with_its_last_partition(directory: LogDirectory, tmp_path: Path) -> None:
    directory.delete_partition(ORDERS)
    assert directory.config_of("orders").retention_bytes == 1000
    directory.delete_partition(OTHER)
    assert directory.config_of("orders").retention_bytes == -1
    assert not (tmp_path / TOPICS).exists()


@pytest.mark.damages
def test_what_is_not_there_or_not_ours_is_not_deleted(directory: LogDirectory, tmp_path: Path) -> None:
    with pytest.raises(UnknownPartition):
        directory.delete_partition(TopicPartition("missing", 0))
    (tmp_path / f"{METADATA_TOPIC}-0").mkdir()
    with pytest.raises(ReadOnlyLog):
        directory.delete_partition(TopicPartition(METADATA_TOPIC, 0))
    with pytest.raises(ReadOnlyLog):
        LogDirectory.open(str(tmp_path), read_only=True).delete_partition(ORDERS)
    assert deleted_names(tmp_path) == []


def test_a_partition_that_was_never_opened_is_deleted_too(directory: LogDirectory, tmp_path: Path) -> None:
    directory.close()
    again = LogDirectory.open(str(tmp_path))
    again.delete_partition(ORDERS)
    assert again.opened(ORDERS) is None and len(deleted_names(tmp_path)) == 1
    again.close()
    assert deleted_names(tmp_path) == [], "nothing waits for a directory that is closed"


def test_a_partition_that_has_failed_or_cannot_be_opened_is_deleted_too(
    directory: LogDirectory, tmp_path: Path
) -> None:
    log = directory.log(ORDERS)
    log.failure = OSError(errno.EIO, "broken")
    with pytest.raises(LogFailed):
        log.append(record(1))
    directory.delete_partition(ORDERS)
    directory.pending_recoveries.add(OTHER, OSError(errno.EIO, "broken"))
    directory._forget(OTHER)
    directory.delete_partition(OTHER)
    assert (directory.partitions(), directory.failed) == ([], {})


# --- open handles ----------------------------------------------------------------------------------------------------


def values_of(log: Log) -> list[bytes | None]:
    return [each.value for segment in log.snapshot() for batch in segment.batches() for each in batch.records()]


def test_an_open_log_is_readable_until_its_files_are_removed_and_not_writable(
    directory: LogDirectory, tmp_path: Path, clock: FakeClock
) -> None:
    log = directory.log(ORDERS)
    directory.delete_partition(ORDERS)
    assert log.is_gone
    for action in (lambda: log.append(record(1)), log.flush, log.roll, lambda: log.truncate_to(1)):
        with pytest.raises(UnknownPartition):
            action()
    directory._pool.clear()
    assert values_of(log) == [VALUE] * 3, "opened again by their new names"
    log.close()
    clock.advance(DELAY_MS)
    directory.deletions.run_due()
    directory._pool.clear()
    with pytest.raises(OSError, match="removed or replaced") as caught:
        values_of(log)
    assert caught.value.errno == errno.ESTALE


def test_no_file_stays_open_once_the_partition_is_removed(directory: LogDirectory) -> None:
    log = directory.log(ORDERS)
    log.append(record(1))
    path = log.path
    directory.delete_partition(ORDERS)
    directory.deletions.run_all()
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_link(fd)]
    assert [name for name in opened if name.startswith((path + "/", log.path + "/"))] == []


def _is_link(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


# --- crashes and strangers --------------------------------------------------------------------------------------------


def test_what_a_crash_left_to_be_removed_is_queued_again(
    directory: LogDirectory, tmp_path: Path, clock: FakeClock
) -> None:
    directory.delete_partition(ORDERS)
    for ending in ("future", "stray"):
        (tmp_path / f"orders-7.5f0c7f0e1d2b4c3a9e8d7c6b5a493827-{ending}").mkdir()
    directory._lock.release()
    again = LogDirectory.open(str(tmp_path), clock=clock)
    assert again.partitions() == [OTHER]
    clock.advance(DELAY_MS - 1)
    again.deletions.run_due()
    assert len(deleted_names(tmp_path)) == 1
    clock.advance(1)
    again.deletions.run_due()
    assert deleted_names(tmp_path) == []
    assert len([name for name in os.listdir(tmp_path) if name.startswith("orders-7")]) == 2, "a broker's"
    again.close()


def test_a_reader_removes_nothing(directory: LogDirectory, tmp_path: Path) -> None:
    directory.delete_partition(ORDERS)
    reader = LogDirectory.open(str(tmp_path), read_only=True)
    reader.deletions.run_all()
    reader.close()
    assert len(deleted_names(tmp_path)) == 1


def test_a_deletion_is_on_disk_when_it_returns(
    directory: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    rename, sync = files.rename, files.sync_directory
    monkeypatch.setattr(files, "rename", spy(done, lambda a, b: f"rename {os.path.basename(a)}", rename))
    monkeypatch.setattr(files, "sync_directory", spy(done, lambda p: f"sync {os.path.basename(p)}", sync))
    directory.delete_partition(ORDERS)
    place = done.index("rename orders-0")
    assert done[place + 1] == f"sync {tmp_path.name}"


def test_a_deletion_that_fails_deletes_nothing(directory: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_source: str, _target: str) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(files, "rename", broken)
    with pytest.raises(OSError, match="broken"):
        directory.delete_partition(ORDERS)
    monkeypatch.undo()
    log = directory.log(ORDERS)
    assert not log.is_gone and log.append(record(1)).base_offset == 3


def test_a_new_topic_of_the_name_gets_an_id_of_its_own(directory: LogDirectory, tmp_path: Path) -> None:
    path = str(tmp_path / "orders-0" / "partition.metadata")
    before = read_topic_id(path)
    for partition in (ORDERS, OTHER):
        directory.delete_partition(partition)
    directory.create_partition(ORDERS)
    assert read_topic_id(path) not in (None, before)


# --- the queue --------------------------------------------------------------------------------------------------------


def test_removals_are_made_when_they_are_due_in_the_order_in_which_they_are() -> None:
    clock = FakeClock()
    queue, done = Deletions(clock), list[str]()
    for name, delay_ms in (("later", 2000), ("soon", 1000), ("at once", 0), ("soon, too", 1000)):
        queue.add(partial(done.append, name), delay_ms)
    assert (len(queue), queue.next_due()) == (4, clock.monotonic())
    assert queue.run_due() == 1 and done == ["at once"]
    clock.advance(1000)
    assert queue.run_due() == 2 and done == ["at once", "soon", "soon, too"]
    assert queue.run_all() == 1 and queue.next_due() is None


def test_a_removal_that_fails_keeps_no_other_from_being_made_and_is_tried_again() -> None:
    clock = FakeClock()
    queue, done, broken = Deletions(clock), list[str](), [True]

    def remove() -> None:
        if broken[0]:
            raise OSError(errno.EIO, "broken")
        done.append("mended")

    queue.add(remove, 0)
    queue.add(lambda: done.append("other"), 0)
    with pytest.raises(OSError, match="broken"):
        queue.run_due()
    assert done == ["other"] and queue.run_due() == 0
    broken[0] = False
    clock.advance(RETRY_MS)
    assert queue.run_due() == 1 and done == ["other", "mended"]


# --- at the same time -------------------------------------------------------------------------------------------------


def test_partitions_come_and_go_while_background_tasks_borrow_and_others_append(directory: LogDirectory) -> None:
    rounds, errors = 30, list[BaseException]()

    def guarded(action: Callable[[], object]) -> None:
        try:
            for _ in range(rounds):
                with contextlib.suppress(UnknownPartition, PartitionExists, FileNotFoundError):
                    action()
        except BaseException as error:
            errors.append(error)

    def borrow() -> None:
        with directory.borrowed(ORDERS) as log:
            log.roll()

    def come_and_go() -> None:
        directory.delete_partition(ORDERS)
        directory.create_partition(ORDERS)

    actions = (
        borrow,
        borrow,
        come_and_go,
        lambda: directory.log(ORDERS).append(record(1)),
        lambda: sweep(directory, [ORDERS, OTHER], 0),
        directory.checkpoint,
    )
    threads = [threading.Thread(target=guarded, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == [] and not any(thread.is_alive() for thread in threads)
    directory.log(ORDERS).check()


def test_a_log_that_is_given_back_while_it_is_deleted_holds_no_lock(
    directory: LogDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleting holds the log and then the table of logs; giving back holds the table, and may not wait for the log."""
    directory.close()
    again = LogDirectory.open(str(tmp_path))
    is_held, is_given_back = threading.Event(), threading.Event()
    held, close = Log.held, Log.close

    @contextlib.contextmanager
    def held_and_told(log: Log) -> Iterator[None]:
        with held(log):
            is_held.set()
            is_given_back.wait(30)
            yield

    def told_and_closed(log: Log) -> None:
        is_given_back.set()
        close(log)

    def borrow() -> None:
        with again.borrowed(ORDERS) as log:
            log.append(record(1))  # so that to close it takes its lock
            monkeypatch.setattr(Log, "held", held_and_told)
            monkeypatch.setattr(Log, "close", told_and_closed)
            deleting.start()
            is_held.wait(30)
        is_given_back.set()

    deleting = threading.Thread(target=again.delete_partition, args=(ORDERS,), daemon=True)
    borrowing = threading.Thread(target=borrow, daemon=True)
    borrowing.start()
    borrowing.join(30)
    deleting.join(30)
    assert not borrowing.is_alive() and not deleting.is_alive()
    assert not again.has(ORDERS)
    monkeypatch.undo()
    again.close()
