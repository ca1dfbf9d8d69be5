"""Where whole batches are in a segment file: `Log.find_range`, with which a broker answers fetches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.small_logs import SmallLog, record
from fixtures.machine.cached_reads import support_nowait
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import BatchBuilder, BatchRange, Log, LogDirectory, read_batch
from offsetfs.storage.errors import CorruptBatch, MalformedBatch, OffsetOutOfRange, WouldBlock
from offsetfs.storage.files import File
from offsetfs.storage.records import Compression
from offsetfs.storage.records.format.batch_chain import CHECK_BYTES, INLINE_INFLATE_BYTES_MAX

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000
EVERYTHING = 1 << 20


@pytest.fixture(autouse=True)
def _memory_is_read_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    support_nowait(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Two sealed segments of two batches each, and an active one of three; a record in each batch."""
    made = SmallLog(tmp_path / "log", FakeClock(NOW), index_interval_bytes="0")
    made.segment(NOW, NOW)
    made.segment(NOW, NOW)
    for _ in range(3):
        made.log.append(record(NOW))
    yield made.log
    made.directory.close()


def offsets(found: BatchRange | None) -> list[int]:
    """Return the base offsets of the batches in a range, each of which must be whole and sound."""
    assert found is not None
    result: list[int] = []
    data, position = found.file.read(found.position, found.size), 0
    while position < len(data):
        batch = read_batch(data, position)
        result.append(batch.header.base_offset)
        position += batch.header.size
    assert found.offset_end == result[-1] + 1
    return result


def test_a_range_has_whole_batches_from_the_offset_to_the_end_of_its_segment(log: Log) -> None:
    assert offsets(log.find_range(0, EVERYTHING, offset_end=7)) == [0, 1]
    assert offsets(log.find_range(3, EVERYTHING, offset_end=7)) == [3]
    assert offsets(log.find_range(5, EVERYTHING, offset_end=7)) == [5, 6]


def test_nowait_finds_the_same_range_in_memory(log: Log) -> None:
    assert offsets(log.find_range(5, EVERYTHING, offset_end=7)) == [5, 6]
    assert offsets(log.find_range(5, EVERYTHING, offset_end=7, nowait=True)) == [5, 6]


def test_a_range_ends_before_the_end_that_is_asked_for(log: Log) -> None:
    assert offsets(log.find_range(4, EVERYTHING, offset_end=6)) == [4, 5]
    assert log.find_range(4, EVERYTHING, offset_end=4) is None


def test_the_first_batch_is_there_above_the_limit_if_one_is_needed(log: Log) -> None:
    first = log.batch_at(4)
    assert first is not None
    size = first.header.size
    assert offsets(log.find_range(4, 1, offset_end=7)) == [4]
    assert log.find_range(4, size - 1, offset_end=7, needs_one=False) is None
    assert offsets(log.find_range(4, 2 * size, offset_end=7, needs_one=False)) == [4, 5]


def test_the_end_of_the_log_has_no_range_and_beyond_is_an_error(log: Log) -> None:
    assert log.find_range(7, EVERYTHING, offset_end=7) is None
    with pytest.raises(OffsetOutOfRange):
        log.find_range(8, EVERYTHING, offset_end=8)


def test_a_range_can_be_read_after_its_segment_was_deleted(log: Log) -> None:
    found = log.find_range(0, EVERYTHING, offset_end=7)
    log.truncate_fully(100)
    assert offsets(found) == [0, 1]


# --- the first batch is verified without being kept in memory ---------------------------------------------------------


@pytest.fixture
def large(tmp_path: Path) -> Iterator[SmallLog]:
    """Three batches of several blocks and a bit each."""
    made = SmallLog(tmp_path / "log", FakeClock(NOW))
    for _ in range(3):
        made.log.append(record(NOW, bytes(3 * CHECK_BYTES + 1000)))
    yield made
    made.directory.close()


def second(log: Log) -> BatchRange:
    """Return the range of the second of three batches."""
    found = log.find_range(1, 1, offset_end=3)
    assert offsets(found) == [1] and found is not None
    return found


def damage(found: BatchRange, back: int = 1) -> None:
    with Path(found.file.path).open("r+b") as file:
        file.seek(found.position + found.size - back)
        file.write(b"x")


def test_a_range_says_how_far_the_file_was_read(log: Log) -> None:
    found = log.find_range(4, EVERYTHING, offset_end=7)
    first = log.batch_at(4)
    assert found is not None and first is not None
    assert found.read_to == found.position + first.header.size < found.position + found.size


@pytest.mark.damages
@pytest.mark.parametrize("back", [1, CHECK_BYTES, 2 * CHECK_BYTES])
def test_damage_anywhere_in_a_large_first_batch_is_found(large: SmallLog, back: int) -> None:
    log = large.reopen()
    found = second(log)
    damage(found, back)
    for nowait in (False, True):
        with pytest.raises(CorruptBatch) as error:
            log.find_range(1, 1, offset_end=3, nowait=nowait)
        assert (error.value.path, error.value.position, error.value.offset) == (found.file.path, found.position, 1)
    assert offsets(log.find_range(2, EVERYTHING, offset_end=3, nowait=True)) == [2]


@pytest.mark.damages
def test_a_large_first_batch_that_another_process_cut_is_an_error(large: SmallLog) -> None:
    log = large.reopen()
    found = second(log)
    with Path(found.file.path).open("r+b") as file:
        file.truncate(found.read_to - 1)
    with pytest.raises(MalformedBatch):
        log.find_range(1, 1, offset_end=3)


def test_a_compressed_batch_is_not_inflated_for_its_range(log: Log) -> None:
    """It was, for each Fetch, in a thread where it inflates to more than the event loop may inflate."""
    builder = BatchBuilder(1 << 22, Compression("zstd"))
    builder.append(None, bytes(2 * INLINE_INFLATE_BYTES_MAX), (), NOW)
    log.append(builder.seal())
    assert offsets(log.find_range(7, EVERYTHING, offset_end=8, nowait=True)) == [7]
    with pytest.raises(WouldBlock):
        log.batch_at(7, nowait=True)


# --- a large batch that this process has appended is not verified again while it is in the page cache -----------------


@pytest.mark.damages
def test_after_damage_each_look_up_verifies_a_batch_appended_here(large: SmallLog) -> None:
    damage(second(large.log))
    assert large.log.find_range(1, 1, offset_end=3, nowait=True) is not None  # in the page cache: not verified
    for nowait in (False, True):
        with pytest.raises(CorruptBatch):
            large.log.find_range(1, 1, offset_end=3, nowait=nowait)


@pytest.mark.damages
def test_a_batch_that_left_the_page_cache_is_verified_when_it_is_read(
    large: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(second(large.log))
    monkeypatch.setattr(File, "is_cached", lambda *_: False)
    with pytest.raises(WouldBlock):
        large.log.find_range(1, 1, offset_end=3, nowait=True)
    with pytest.raises(CorruptBatch):
        large.log.find_range(1, 1, offset_end=3)


@pytest.mark.damages
def test_a_batch_of_another_process_is_always_verified(large: SmallLog) -> None:
    reader = LogDirectory.open(str(large.path), read_only=True)
    log = reader.log(large.log.partition)
    large.log.append(record(NOW, bytes(3 * CHECK_BYTES)))
    log.refresh(is_forced=True)
    found = log.find_range(3, EVERYTHING, offset_end=4)
    assert offsets(found) == [3] and found is not None
    damage(found)
    with pytest.raises(CorruptBatch):
        log.find_range(3, EVERYTHING, offset_end=4, nowait=True)
    reader.close()


@pytest.mark.damages
def test_what_is_appended_after_a_recovery_that_cut_the_log_is_found(large: SmallLog) -> None:
    position = second(large.log).position
    damage(second(large.log))
    log = large.reopen(in_order=False)
    assert log.next_offset == 1
    for offset in (1, 2, 3):
        log.append(record(NOW, b"%d" % offset * 2 * CHECK_BYTES))
        found = log.find_range(offset, 1, offset_end=offset + 1, nowait=True)
        assert offsets(found) == [offset] and found is not None
        assert found.position >= position


def test_a_range_after_a_truncation_has_the_batches_of_now(large: SmallLog) -> None:
    """Offsets and positions of other batches than before; nothing of the look-up is remembered."""
    assert offsets(large.log.find_range(1, EVERYTHING, offset_end=3, nowait=True)) == [1, 2]
    large.log.truncate_to(1)
    for value in (bytes(CHECK_BYTES + 1), bytes(2 * CHECK_BYTES), b"v"):
        large.log.append(record(NOW, value))
    assert offsets(large.log.find_range(1, EVERYTHING, offset_end=4, nowait=True)) == [1, 2, 3]
    assert offsets(large.log.find_range(2, EVERYTHING, offset_end=4, nowait=True)) == [2, 3]
