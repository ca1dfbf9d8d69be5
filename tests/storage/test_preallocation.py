"""Preallocation for busy writers: invisible to readers, and given back."""

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.segments import active_segment

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)
BATCH_BYTES = 100_000
BLOCK_BYTES = 4096


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte would be much for a test."""
    monkeypatch.setattr(active_segment, "STEP_BYTES_MIN", 2 * BATCH_BYTES)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is set aside: where it begins and ends."""
    found: list[tuple[int, int]] = []

    def set_aside(fd: int, _mode: int, position: int, size: int) -> None:
        assert position >= os.fstat(fd).st_size
        found.append((position, position + size))

    monkeypatch.setattr(files, "_fallocate", set_aside)
    return found


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    return directory.create_partition(PARTITION, {"segment.bytes": "2000000"})


def batch() -> SealedBatch:
    builder = BatchBuilder(BATCH_BYTES + 200)
    builder.append(None, b"v" * BATCH_BYTES, (), 1000)
    return builder.seal()


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(batch())


def taken_behind(log: Log) -> int:
    """Return how many bytes the disk holds behind the end of the active log file, parts of a block aside."""
    segment = log.snapshot().active
    return max(0, os.stat(segment.log_path).st_blocks * 512 - segment.size - BLOCK_BYTES)


GIVEN_BACK: dict[str, Callable[[Log], object]] = {
    "synced": Log.flush,
    "rolled": Log.roll,
    "closed": Log.close,
    "notified that the disk is full": Log.release_preallocation,
}


@pytest.mark.parametrize("end", GIVEN_BACK.values(), ids=GIVEN_BACK)
def test_space_is_given_back_when_a_log_is(log: Log, end: Callable[[Log], object]) -> None:
    append(log, 4)
    segment, path = log.snapshot().active, log.snapshot().active.log_path
    assert taken_behind(log)
    assert os.path.getsize(path) == segment.size
    end(log)
    assert os.stat(path).st_blocks * 512 <= segment.size + BLOCK_BYTES
    assert os.path.getsize(path) == segment.size
    log.check()


def test_what_a_crash_left_is_given_back_by_the_first_append(log: Log, directory: LogDirectory, tmp_path: Path) -> None:
    append(log, 1)
    directory.close()
    path = log.snapshot().active.log_path
    size = os.path.getsize(path)
    with files.open_file(path, writable=True) as file:
        file.preallocate(size, 1_000_000)
    again = LogDirectory.open(str(tmp_path))
    log = again.log(PARTITION)
    assert taken_behind(log) > 900_000
    append(log, 1)
    assert taken_behind(log) == 0
    assert log.next_offset == 2
    again.close()


def test_no_more_is_set_aside_than_was_appended_since_the_last_sync(log: Log, steps: list[tuple[int, int]]) -> None:
    for _ in range(3):
        flushed = log.size_bytes
        for _ in range(5):
            append(log, 1)
            appended = log.size_bytes - flushed
            assert all(end - log.size_bytes <= appended for _, end in steps)
        log.flush()
    assert len(steps) >= 3


def test_steps_follow_each_other_and_are_bounded(
    log: Log, steps: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(active_segment, "STEP_BYTES_MAX", 3 * BATCH_BYTES)
    append(log, 18)
    assert len(log.snapshot()) == 1
    assert all(before[1] == after[0] for before, after in itertools.pairwise(steps))
    assert all(end - start <= 3 * BATCH_BYTES + batch().size for start, end in steps)
    assert steps[-1][1] >= log.size_bytes


def test_a_writer_with_small_syncs_preallocates_nothing(log: Log, steps: list[tuple[int, int]]) -> None:
    for _ in range(10):
        append(log, 1)
        log.flush()
    assert steps == []


@pytest.mark.parametrize(
    "code", [errno.EOPNOTSUPP, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EINVAL, errno.ENOSYS]
)
def test_where_nothing_can_be_set_aside_it_is_asked_for_once(
    log: Log, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    asked = []

    def refuse(*_arguments: int) -> None:
        asked.append(code)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "_fallocate", refuse)
    append(log, 10)
    log.flush()
    append(log, 5)
    assert asked == [code]
    assert log.next_offset == 15
    log.check()
