"""`preallocate`: the file of a new segment is as long as it may become, and no reader takes the zeros for data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import BATCH_BYTES, SmallLog, record
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage.directory.directory import LogDirectory

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000
SEGMENT_BYTES = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLog]:
    made = SmallLog(tmp_path / "log", FakeClock(NOW), segment_bytes=str(SEGMENT_BYTES), preallocate="true")
    made.log.append(record(NOW))
    yield made
    made.directory.close()


def length(small: SmallLog, base_offset: int = 0) -> int:
    return os.stat(small.path / str(PARTITION) / f"{base_offset:020d}.log").st_size


def test_the_file_of_a_new_segment_has_its_full_length_over_a_sync(small: SmallLog) -> None:
    small.log.flush()
    small.log.append(record(NOW))
    assert length(small) == SEGMENT_BYTES
    status = os.stat(small.path / str(PARTITION) / f"{0:020d}.log")
    assert status.st_blocks * 512 < SEGMENT_BYTES // 2, "the blocks come with the records, as in a broker"
    assert small.log.size_bytes == 2 * BATCH_BYTES and list(small.offsets()) == [0, 1]
    small.log.check()


def test_a_roll_a_rest_and_a_clean_close_trim_it(small: SmallLog) -> None:
    small.log.roll()
    small.log.append(record(NOW))
    assert (length(small), length(small, 1)) == (BATCH_BYTES, SEGMENT_BYTES)
    assert small.log.rest()
    assert length(small, 1) == BATCH_BYTES
    small.log.append(record(NOW))
    small.reopen()
    assert length(small, 1) == 2 * BATCH_BYTES and list(small.offsets()) == [0, 1, 2]
    small.log.append(record(NOW))
    assert length(small, 1) == 3 * BATCH_BYTES, "only a new file is preallocated, as in a broker"


def test_a_recovery_cuts_the_zeros_and_keeps_no_copy_of_them(small: SmallLog) -> None:
    small.log.append(record(NOW))
    small.reopen(in_order=False)
    assert small.log.damage == () and list(small.offsets()) == [0, 1]
    assert length(small) == 2 * BATCH_BYTES and not [name for name in os.listdir(small.log.path) if ".cut-" in name]
    assert small.log.append(record(NOW)).base_offset == 2
    small.log.check()


def test_a_reader_beside_the_writer_sees_the_records_and_no_damage(small: SmallLog) -> None:
    following = LogDirectory.open(str(small.path), read_only=True)
    log = following.log(PARTITION)
    assert (log.next_offset, log.damage) == (1, ())
    small.log.append(record(NOW))
    small.log.roll()
    small.log.append(record(NOW))
    log._follower._next_look = 0.0  # type: ignore[union-attr]
    log.refresh()
    assert (log.next_offset, log.damage) == (3, ())
    following.close()


def test_a_full_disk_or_a_limit_of_file_size_costs_only_preallocation(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate = os.ftruncate

    def refusing(fd: int, size: int) -> None:
        if size == SEGMENT_BYTES:
            raise OSError(27, "File too large")
        truncate(fd, size)

    monkeypatch.setattr(os, "ftruncate", refusing)
    small.log.roll()
    assert small.log.append(record(NOW)).base_offset == 1
    assert length(small, 1) == BATCH_BYTES
