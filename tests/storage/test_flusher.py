"""What is not on disk is on one account, whatever way it came; the flusher follows `flush.messages` and `flush.ms`."""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import BATCH_BYTES, SmallLog, record
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.flusher import RETRY_S, Flusher, LogChange, flush_due
from offsetfs.storage.partition.unsynced import Unsynced, UnsyncedAccount
from offsetfs.storage.units import I64_MAX

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def small(tmp_path: Path, clock: FakeClock) -> Iterator[SmallLog]:
    made = SmallLog(tmp_path / "log", clock)
    yield made
    made.directory.close()


@pytest.fixture
def flusher(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> Flusher:
    """Return a flusher without a thread: a test calls `run_due`."""
    assert small.directory._flusher is not None
    small.directory._flusher.close()
    found = Flusher(small.clock, small.directory.opened, I64_MAX)
    monkeypatch.setattr(found, "_thread", object())
    small.directory.subscribe_changes(found.changed)
    return found


def sizes(unsynced: Unsynced) -> tuple[int, int, int]:
    return unsynced.batches, unsynced.records, unsynced.size


# --- the account ------------------------------------------------------------------------------------------------------


def test_the_account_of_a_log_has_each_batch_until_it_is_on_disk(small: SmallLog, clock: FakeClock) -> None:
    log, begun = small.log, clock.monotonic()
    for _ in range(3):
        log.append(record(NOW))
        clock.advance(1000)
    assert sizes(log.unsynced.total) == (3, 3, 3 * BATCH_BYTES) and log.unsynced.total.since == begun
    log.roll()
    log.append(record(NOW))
    log.flush_sealed()
    assert sizes(log.unsynced.total) == (1, 1, BATCH_BYTES) and log.unsynced.total.since == begun + 3
    log.flush()
    assert log.unsynced.total == Unsynced() and (log.unsynced.appended, log.unsynced.synced) == (4, 4)


def test_mirrored_batches_are_on_the_account(small: SmallLog) -> None:
    small.log.append_replicated(bytes(record(NOW).data))
    assert sizes(small.log.unsynced.total) == (1, 1, BATCH_BYTES)
    small.log.flush()
    assert small.log.unsynced.total == Unsynced()


def test_what_is_cut_is_on_no_account(small: SmallLog) -> None:
    for _ in range(3):
        small.log.append(record(NOW))
    small.log.truncate_fully(1)
    assert small.log.unsynced.total == Unsynced()


def test_a_sync_that_was_not_attempted_leaves_the_account(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    small.log.append(record(NOW))
    before = small.log.unsynced.total
    with monkeypatch.context() as patch:
        patch.setattr(files.File, "sync", refused(errno.EMFILE))
        with pytest.raises(OSError, match="EMFILE"):
            small.log.flush()
    assert small.log.unsynced.total == small.log.unsynced.waiting == before
    small.log.flush()
    assert small.log.unsynced.total == Unsynced()


def refused(number: int) -> object:
    def sync(*_: object) -> None:
        raise OSError(number, errno.errorcode[number])

    return sync


def test_batches_in_a_running_sync_are_not_due_again() -> None:
    account = UnsyncedAccount()
    account.add(2, 20, 200, 1.0)
    account.begin(sealed_only=False)
    account.add(1, 5, 50, 2.0)
    assert (sizes(account.total), account.total.since) == ((3, 25, 250), 1.0)
    assert (sizes(account.waiting), account.waiting.since) == ((1, 5, 50), 2.0)
    account.end(is_synced=True)
    assert (account.appended, account.synced, account.total) == (3, 2, account.waiting)


# --- when a log is due ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("flusher")
def test_a_log_is_due_by_the_lower_of_each_limit(small: SmallLog, clock: FakeClock) -> None:
    small.log.append(record(NOW))
    begun = clock.monotonic()
    assert flush_due(small.log) is None
    assert flush_due(small.log, interval_ms=2000) == begun + 2
    assert flush_due(small.log, messages_max=1) == -math.inf
    small.directory.configure("orders", {"flush.ms": "500", "flush.messages": "2"})
    assert flush_due(small.log, interval_ms=2000) == begun + 0.5
    assert flush_due(small.log, messages_max=3) == begun + 0.5 and not small.log.must_flush
    small.log.append(record(NOW))
    assert flush_due(small.log) == -math.inf and small.log.must_flush
    small.log.flush()
    assert flush_due(small.log) is None and not small.log.must_flush


def test_records_are_on_disk_when_flush_ms_has_passed(small: SmallLog, flusher: Flusher, clock: FakeClock) -> None:
    small.directory.configure("orders", {"flush.ms": "500"})
    small.log.append(record(NOW))
    clock.advance(499)
    flusher.run_due()
    small.log.append(record(NOW))
    assert small.log.recovery_point == 0
    clock.advance(1)
    flusher.run_due()
    assert small.log.recovery_point == 2
    small.log.append(record(NOW))
    clock.advance(500)
    flusher.run_due()
    assert small.log.recovery_point == 3


def test_a_log_that_was_synced_meanwhile_waits_again(small: SmallLog, flusher: Flusher, clock: FakeClock) -> None:
    small.directory.configure("orders", {"flush.ms": "500"})
    small.log.append(record(NOW))
    clock.advance(400)
    small.log.flush()
    small.log.append(record(NOW))
    clock.advance(100)
    flusher.run_due()
    assert small.log.recovery_point == 1
    clock.advance(400)
    flusher.run_due()
    assert small.log.recovery_point == 2


def test_flush_messages_does_not_wait(small: SmallLog, flusher: Flusher) -> None:
    small.directory.configure("orders", {"flush.messages": "2"})
    small.log.append(record(NOW))
    flusher.run_due()
    assert small.log.recovery_point == 0
    small.log.append(record(NOW))
    flusher.run_due()
    assert small.log.recovery_point == 2


def test_a_sync_without_descriptors_is_tried_again(
    small: SmallLog, flusher: Flusher, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.directory.configure("orders", {"flush.messages": "1"})
    small.log.append(record(NOW))
    with monkeypatch.context() as patch:
        patch.setattr(files.File, "sync", refused(errno.EMFILE))
        flusher.run_due()
    flusher.run_due()
    assert small.log.recovery_point == 0
    clock.advance(int(1000 * RETRY_S))
    flusher.run_due()
    assert small.log.recovery_point == 1


@pytest.mark.damages
@pytest.mark.expect_log("orders-0: sync failed, no more records are accepted")
def test_a_failed_sync_ends_the_log_and_not_the_flusher(
    small: SmallLog, flusher: Flusher, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.directory.configure("orders", {"flush.messages": "1"})
    small.log.append(record(NOW))
    with monkeypatch.context() as patch:
        patch.setattr(files.File, "sync", refused(errno.EIO))
        flusher.run_due()
    assert small.log.failure is not None and flush_due(small.log) is None
    with pytest.raises(OSError, match="EIO"):
        small.directory.close()
    small.directory = LogDirectory.open(str(small.path), clock=clock)


def test_the_thread_of_a_directory_syncs_in_time_and_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(PARTITION, {"flush.ms": "1"})
    log.append(record(NOW))
    flusher = directory._flusher
    assert flusher is not None and flusher._thread is not None
    while log.recovery_point == 0:  # ends by the limit of the test, if it does not come
        flusher._thread.join(0.01)
    directory.close()
    assert not flusher._thread.is_alive()


def test_a_directory_without_limits_begins_no_thread(small: SmallLog) -> None:
    small.log.append(record(NOW))
    flusher = small.directory._flusher
    assert flusher is not None and flusher._thread is None
    flusher.changed(PARTITION, LogChange.APPENDED)
    assert flusher._thread is None
