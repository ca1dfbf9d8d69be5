"""`Directory.close` beside other threads: what an append has returned is on disk, and later changes are refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs import NewRecord
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.directory_checkpoints import CleanShutdownMarker, DirectoryCheckpoints
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments.segment import Segment

pytestmark = pytest.mark.unit

CLEAN = ".kafka_cleanshutdown"


def in_a_thread(work: Callable[[], object]) -> object:
    """Return the result of `work` in another thread, or the error that it raised; fails after half a minute."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(work())
        except (offsetfs.errors.StorageError, OSError) as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert results, "the thread waits for the one that closes"
    return results[0]


STEPS: dict[str, tuple[type, str, bool]] = {
    "before the flush of a log": (Log, "flush", True),
    "after the flush of a log": (Log, "flush", False),
    "after the close of a log": (Log, "close", False),
    "before the checkpoints": (DirectoryCheckpoints, "save", True),
    "before the clean shutdown file": (CleanShutdownMarker, "restore", True),
    "after the clean shutdown file": (CleanShutdownMarker, "restore", False),
}


@pytest.mark.parametrize("is_changed", [True, False], ids=["changed", "unchanged"])
@pytest.mark.parametrize(("owner", "name", "is_before"), STEPS.values(), ids=STEPS)
def test_an_append_during_close_is_on_disk_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, is_before: bool, is_changed: bool
) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        data.create("orders", 2)
        data.partition("orders-0").append(b"old")
    data = offsetfs.open(tmp_path, "a")
    orders, others = data.partition("orders-0"), data.partition("orders-1")
    others.append(b"changed")
    if is_changed:
        orders.append(b"changed")
    log = data._directory.log(TopicPartition("orders", 0))
    outcomes: list[object] = []
    step: Callable[..., Any] = getattr(owner, name)

    def interleaved(*arguments: Any, **named: Any) -> Any:
        if is_before:
            outcomes.append(in_a_thread(lambda: orders.append(b"late")))
        try:
            return step(*arguments, **named)
        finally:
            if not is_before:
                outcomes.append(in_a_thread(lambda: orders.append(b"late")))

    monkeypatch.setattr(owner, name, interleaved)
    data.close()
    monkeypatch.undo()
    assert outcomes
    for outcome in outcomes:
        if isinstance(outcome, int):
            assert outcome < log.recovery_point
        else:
            assert isinstance(outcome, offsetfs.errors.ReadOnlyLog) and outcome.reason.startswith("closed"), outcome
    assert log.recovery_point == log.next_offset
    assert (tmp_path / CLEAN).exists()


def test_close_waits_for_an_append_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = offsetfs.open(tmp_path, "a")
    (orders,) = data.create("orders")
    log = data._directory.log(TopicPartition("orders", 0))
    writes, closes = threading.Event(), threading.Event()
    write, close = Segment.append, Log.end_changes
    results: list[int] = []

    def slow_write(*arguments: Any, **named: Any) -> Any:
        writes.set()
        assert closes.wait(30)
        return write(*arguments, **named)

    def end_changes(ended: Log) -> None:
        closes.set()
        close(ended)

    monkeypatch.setattr(Segment, "append", slow_write)
    monkeypatch.setattr(Log, "end_changes", end_changes)
    thread = threading.Thread(target=lambda: results.append(orders.append(b"v")))
    thread.start()
    assert writes.wait(30)
    data.close()
    thread.join()
    assert results == [0] and log.recovery_point == log.next_offset == 1


def test_records_whose_iterator_closes_the_directory_are_refused(tmp_path: Path) -> None:
    data = offsetfs.open(tmp_path, "a")
    (orders,) = data.create("orders")

    def records() -> Iterator[NewRecord]:
        yield NewRecord(b"one")
        data.close()
        yield NewRecord(b"two")

    with pytest.raises(offsetfs.errors.ReadOnlyLog, match="closed"):
        orders.extend(records())
    with offsetfs.open(tmp_path) as data:
        assert list(data.partition("orders-0").read()) == []


def test_a_second_close_leaves_the_files_of_the_next_writer_alone(tmp_path: Path) -> None:
    with offsetfs.open(tmp_path, "a") as data:
        (orders,) = data.create("orders")
        orders.append(b"one")
        data.close()
        other = offsetfs.open(tmp_path, "a")
        other.partition("orders-0").append(b"two")
        assert not (tmp_path / CLEAN).exists()
    assert not (tmp_path / CLEAN).exists(), "a crash of the other writer would pass for a clean shutdown"
    other.close()
    assert (tmp_path / CLEAN).exists()


def test_a_close_during_a_close_returns_when_all_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = offsetfs.open(tmp_path, "a")
    (orders,) = data.create("orders")
    orders.append(b"v")
    found: list[bool] = []
    begun = threading.Event()
    restore = CleanShutdownMarker.restore
    seconds: list[threading.Thread] = []

    def second_close() -> None:
        begun.set()
        data.close()
        found.append((tmp_path / CLEAN).exists())

    def slow_restore(marker: CleanShutdownMarker) -> None:
        seconds.append(threading.Thread(target=second_close))
        seconds[0].start()
        assert begun.wait(30)
        restore(marker)

    monkeypatch.setattr(CleanShutdownMarker, "restore", slow_restore)
    data.close()
    seconds[0].join()
    assert found == [True] and len(seconds) == 1


def test_a_partition_that_is_created_during_close_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The creation waits for the table of open logs, which `close` holds until another process may write."""
    data = offsetfs.open(tmp_path, "a")
    data.create("orders")[0].append(b"v")
    begun = threading.Event()
    results: list[object] = []
    check_free = LogDirectory.check_free

    def checked(directory: LogDirectory, partitions: Any) -> None:
        check_free(directory, partitions)
        begun.set()

    def create() -> None:
        try:
            results.append(data.create("users"))
        except offsetfs.errors.ReadOnlyLog as error:
            results.append(error)

    creator = threading.Thread(target=create)
    restore = CleanShutdownMarker.restore

    def slow_restore(marker: CleanShutdownMarker) -> None:
        creator.start()
        assert begun.wait(30)
        restore(marker)

    monkeypatch.setattr(LogDirectory, "check_free", checked)
    monkeypatch.setattr(CleanShutdownMarker, "restore", slow_restore)
    data.close()
    creator.join()
    assert isinstance(results[0], offsetfs.errors.ReadOnlyLog) and results[0].reason.startswith("closed")
    assert not os.path.exists(tmp_path / "users-0")


def test_a_partition_that_is_deleted_during_close_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deletion has looked its log up, and comes to the lock of the log when `close` holds the table."""
    data = offsetfs.open(tmp_path, "a")
    data.create("orders")[0].append(b"v")
    directory, partition = data._directory, TopicPartition("orders", 0)
    looked_up, is_closing = threading.Event(), threading.Event()
    results: list[object] = []
    held, close_logs = Log.held, LogDirectory._close_logs

    def late(log: Log) -> Any:
        looked_up.set()
        assert is_closing.wait(30)
        return held(log)

    def delete() -> None:
        try:
            directory.delete_partition(partition)
            results.append(None)
        except offsetfs.errors.ReadOnlyLog as error:
            results.append(error)

    def closing(closed: LogDirectory) -> Any:
        is_closing.set()
        deleter.join(30)  # it waits for nothing that this thread holds
        assert not deleter.is_alive()
        return close_logs(closed)

    monkeypatch.setattr(Log, "held", late)
    monkeypatch.setattr(LogDirectory, "_close_logs", closing)
    deleter = threading.Thread(target=delete, daemon=True)
    deleter.start()
    assert looked_up.wait(30)
    data.close()
    (error,) = results
    assert isinstance(error, offsetfs.errors.ReadOnlyLog) and error.reason.startswith("closed")
    assert (tmp_path / "orders-0").exists() and (tmp_path / CLEAN).exists()
