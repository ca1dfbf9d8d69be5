"""The limit of open files: what the engine closes at it, and what an append, a sync and the end of a log then do."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import SmallLog, record
from fixtures.machine.open_descriptors import open_files
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import files, parallel
from offsetfs.storage.names import TopicPartition

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLog]:
    made = SmallLog(tmp_path / "log", FakeClock(NOW), index_interval_bytes="0")
    made.segment(NOW, NOW + 1)
    made.log.append(record(NOW + 2))
    yield made
    made.directory.close()


def full_until(is_free: Callable[[], bool]) -> Callable[..., int]:
    """Return an os.open that fails with EMFILE until `is_free`."""
    real = os.open

    def limited(path: str, flags: int, mode: int = 0o777) -> int:
        if not is_free():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, flags, mode)

    return limited


def files_of(small: SmallLog) -> list[str]:
    return [target for target in open_files() if target.startswith(f"{small.path}/{PARTITION}")]


def test_a_log_at_rest_has_no_file_open_and_goes_on_with_the_next_append(small: SmallLog) -> None:
    small.directory._pool.clear()
    assert len(files_of(small)) == 3
    assert small.log.rest() and not small.log.rest()
    assert files_of(small) == []
    assert list(small.offsets()) == [0, 1, 2]
    assert small.log.append(record(NOW + 3)).base_offset == 3
    small.log.check()
    assert small.log.find_timestamp(NOW + 3) == (3, NOW + 3)
    assert small.log.rest()
    small.log.flush()
    assert small.log.recovery_point == 4
    small.reopen()
    assert list(small.offsets()) == [0, 1, 2, 3]
    small.log.check()


def test_a_log_that_is_in_use_or_failed_is_not_put_to_rest(small: SmallLog) -> None:
    with small.log.held():
        assert not small.log.rest()
    small.log.failure = OSError(errno.EIO, "broken")
    assert not small.log.rest()
    small.log.failure = None


def test_an_open_at_the_limit_closes_idle_files_and_succeeds(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    other = small.directory.create_partition(TopicPartition("other", 0))
    monkeypatch.setattr(os, "open", full_until(lambda: not small.log.snapshot().active.is_active))
    assert other.append(record(NOW)).base_offset == 0
    assert files_of(small) == []
    monkeypatch.undo()
    assert small.log.append(record(NOW)).base_offset == 3


def test_what_stays_at_the_limit_is_an_error_that_ends_no_writing(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.log.rest()
    monkeypatch.setattr(os, "open", full_until(lambda: False))
    for action in (small.log.flush, lambda: small.log.append(record(NOW))):
        with pytest.raises(OSError, match="Too many open files") as caught:
            action()
        assert caught.value.errno == errno.EMFILE
    monkeypatch.undo()
    assert small.log.failure is None and small.log.recovery_point < 3
    assert small.log.append(record(NOW)).base_offset == 3
    small.log.flush()
    assert small.log.recovery_point == 4


def test_a_directory_with_the_inode_number_of_an_unsynced_one_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    status = gone.stat()
    with monkeypatch.context() as patched, pytest.raises(OSError, match="injected"):
        patched.setattr(os, "fsync", lambda _fd: (_ for _ in ()).throw(OSError(errno.EIO, "injected")))
        files.sync_directory(str(gone))
    assert (status.st_dev, status.st_ino) in files._distrusted
    files.remove_directory(str(gone))
    assert (status.st_dev, status.st_ino) not in files._distrusted


def test_logs_that_find_no_descriptor_while_others_close_are_closed_afterwards(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [small.directory.create_partition(TopicPartition("other", number)) for number in range(20)]
    for log in others:
        log.append(record(NOW))
        log.roll()
        log.append(record(NOW))
    small.directory.close_idle_files()
    in_parallel = [False]
    for_each = parallel.for_each

    def limited_for_each(items: Sequence[int], action: Callable[[int], None]) -> None:
        in_parallel[0] = True
        for_each(items, action)
        in_parallel[0] = False

    with monkeypatch.context() as limited:
        limited.setattr(parallel, "for_each", limited_for_each)
        limited.setattr(os, "open", full_until(lambda: not in_parallel[0]))
        small.directory.close()
    assert (small.path / ".kafka_cleanshutdown").exists()
    small.reopen()
    assert all(small.directory.log(log.partition).next_offset == 2 for log in others)
