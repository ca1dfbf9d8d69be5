"""Append, roll, read, find by time and flush, on real files."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed, OffsetOutOfRange, ReadOnlyLog, RecordTooLarge
from offsetfs.storage.files import File
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import CODECS, Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


def sealed(values: Sequence[bytes], timestamp: int = 1000, codec: str = "none") -> SealedBatch:
    builder = BatchBuilder(1 << 20, Compression(codec))
    for value in values:
        assert builder.append(None, value, (), timestamp)
    return builder.seal()


def values_of(log: Log) -> list[bytes | None]:
    return [record.value for s in log.snapshot() for batch in s.batches() for record in batch.records()]


@pytest.fixture
def make_log(tmp_path: Path) -> Callable[..., Log]:
    def make(**settings: str) -> Log:
        directory = LogDirectory.open(str(tmp_path))
        return directory.create_partition(PARTITION, {k.replace("_", "."): v for k, v in settings.items()})

    return make


def test_offsets_are_given_in_order_and_every_record_is_found(make_log: Callable[..., Log]) -> None:
    log = make_log(index_interval_bytes="0", segment_bytes="2000")
    for number in range(60):
        appended = log.append(sealed([b"%d-%d" % (number, i) for i in range(3)]))
        assert (appended.base_offset, appended.last_offset) == (3 * number, 3 * number + 2)
        log.check()
    assert len(log.snapshot()) > 1
    for offset in range(180):
        batch = log.batch_at(offset)
        record = batch.record(offset) if batch else None
        assert record is not None and record.value == b"%d-%d" % (offset // 3, offset % 3)
    assert log.batch_at(180) is None


@pytest.mark.parametrize("codec", ["uncompressed", *CODECS[1:]])
def test_every_codec_reads_back(make_log: Callable[..., Log], codec: str) -> None:
    log = make_log(compression_type=codec)
    values = [b"value %d " % i * 20 for i in range(100)]
    log.append(sealed(values, codec=log.config.compression.name))
    assert values_of(log) == values


@pytest.mark.parametrize("offset", [-1, 3, 1 << 62])
def test_an_offset_outside_is_refused_with_the_legal_range(make_log: Callable[..., Log], offset: int) -> None:
    log = make_log()
    log.append(sealed([b"a", b"b"]))
    with pytest.raises(OffsetOutOfRange) as caught:
        log.batch_at(offset)
    assert (caught.value.log_start_offset, caught.value.next_offset) == (0, 2)


def test_a_read_gives_whole_batches_and_at_least_one(make_log: Callable[..., Log]) -> None:
    log = make_log()
    batches = [sealed([b"x" * 100]) for _ in range(5)]
    size = batches[0].size
    for batch in batches:
        log.append(batch)
    assert len(log.read(0, 1)) == size
    assert len(log.read(1, 2 * size)) == 2 * size
    assert len(log.read(2, 2 * size + size - 1)) == 2 * size
    assert len(log.read(0, 1 << 20)) == 5 * size
    assert log.read(5, 1 << 20) == b""


def test_a_batch_above_the_limit_is_refused_and_nothing_of_it_is_kept(make_log: Callable[..., Log]) -> None:
    log = make_log(max_message_bytes="200")
    with pytest.raises(RecordTooLarge):
        log.append(sealed([b"x" * 200]))
    assert (log.next_offset, log.size_bytes) == (0, 0)


def test_a_segment_rolls_before_it_would_exceed_its_size(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes="1000")
    for _ in range(20):
        log.append(sealed([b"x" * 100]))
    assert all(segment.size <= 1000 for segment in log.snapshot())
    size = sealed([b"x" * 100]).size
    assert [segment.size for segment in log.snapshot()] == [5 * size] * 4


def test_a_segment_rolls_when_its_records_are_older_than_segment_ms(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_ms="60000")
    for timestamp in (1000, 61_000, 61_001, 61_002):
        log.append(sealed([b"x"], timestamp))
    assert [segment.base_offset for segment in log.snapshot()] == [0, 2]


def test_a_segment_rolls_when_its_index_is_full(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_index_bytes="24", index_interval_bytes="0")
    for number in range(20):
        log.append(sealed([b"x"], 1000 + number))
    assert len(log.snapshot()) > 3
    log.check()


def test_the_active_index_has_its_full_length_and_a_sealed_one_its_own(
    make_log: Callable[..., Log], tmp_path: Path
) -> None:
    log = make_log(index_interval_bytes="0")
    for _ in range(3):
        log.append(sealed([b"x"]))
    index = tmp_path / "orders-0" / "00000000000000000000.index"
    time_index = index.with_suffix(".timeindex")
    assert (index.stat().st_size, time_index.stat().st_size) == (10485760, 10485756)
    log.roll()
    assert (index.stat().st_size, time_index.stat().st_size) == (16, 12)


def test_an_index_entry_names_the_last_offset_and_the_place_of_its_batch(make_log: Callable[..., Log]) -> None:
    log = make_log(index_interval_bytes="0")
    for number in range(5):
        log.append(sealed([b"x" * number] * 3))
    segment = log.snapshot().active
    batches = [(header.last_offset, position) for position, header in segment.headers()]
    assert list(segment.open_files().index.entries()) == batches[1:], "none for the first, which needs none"


def test_append_time_is_stamped_when_the_topic_asks_for_it(make_log: Callable[..., Log]) -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    appended = log.append(sealed([b"x", b"y"], 5))
    batch = log.batch_at(0)
    assert batch is not None and appended.timestamp > 1_600_000_000_000
    assert [(r.timestamp, r.timestamp_type) for r in batch.records()] == [(appended.timestamp, "LogAppendTime")] * 2


def test_times_are_found_across_segments_also_out_of_order(make_log: Callable[..., Log]) -> None:
    log = make_log(segment_bytes="400", index_interval_bytes="0")
    times = [50, 40, 90, 10, 70, 90, 95, 20, 100, 3]
    for time in times:
        log.append(sealed([b"x" * 50], time))
    for wanted in range(102):
        first = next(((o, t) for o, t in enumerate(times) if t >= wanted), None)
        assert log.find_timestamp(wanted) == first
    assert log.max_timestamp() == (8, 100)


def test_flush_moves_the_recovery_point(make_log: Callable[..., Log]) -> None:
    log = make_log()
    log.append(sealed([b"a", b"b"]))
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 2


def test_a_full_disk_leaves_the_log_as_it_was_and_usable_afterwards(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    log.append(sealed([b"before"]))
    write = File.write

    def torn(self: File, position: int, data: memoryview) -> None:
        write(self, position, memoryview(data)[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(File, "write", torn)
    with pytest.raises(OSError, match="No space"):
        log.append(sealed([b"lost"]))
    monkeypatch.undo()
    assert log.failure is None, "the file is as long as it was"
    log.check()
    log.append(sealed([b"after"]))
    assert values_of(log) == [b"before", b"after"]


@pytest.mark.promise("After a failed sync, a log acknowledges no further writes.")
def test_a_failed_sync_ends_writing_to_the_log(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log()
    log.append(sealed([b"a"]))

    def fail(self: File) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(File, "sync", fail)
    with pytest.raises(OSError, match="Input/output"):
        log.flush()
    monkeypatch.undo()
    with pytest.raises(LogFailed):
        log.append(sealed([b"b"]))
    with pytest.raises(LogFailed):
        log.flush()
    assert values_of(log) == [b"a"] and log.recovery_point == 0


def test_a_failed_write_with_space_left_ends_writing_to_the_log(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    log.append(sealed([b"a"]))

    def fail(self: File, position: int, data: memoryview) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(File, "write", fail)
    with pytest.raises(OSError, match="Input/output"):
        log.append(sealed([b"b"]))
    monkeypatch.undo()
    with pytest.raises(LogFailed):
        log.append(sealed([b"c"]))


def test_a_reader_may_not_write(make_log: Callable[..., Log], tmp_path: Path) -> None:
    make_log().append(sealed([b"a"]))
    log = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    with pytest.raises(ReadOnlyLog):
        log.append(sealed([b"b"]))


def test_list_offsets_finds_times_and_special_timestamps(make_log: Callable[..., Log]) -> None:
    log = make_log()
    assert [log.list_offset(mark) for mark in (-1, -2, -3, -4, 5)] == [(0, -1), (0, -1), None, (0, -1), None]
    for time in (50, 90, 70):
        log.append(sealed([b"x"], time))
    assert [log.list_offset(mark) for mark in (-1, -2, -3, -4)] == [(3, -1), (0, -1), (1, 90), (0, -1)]
    assert [log.list_offset(time) for time in (0, 51, 91)] == [(0, 50), (1, 90), None]
    assert log.list_offset(-5) is None


@pytest.mark.parametrize("step", ["Segment.create", "OffsetIndex.preallocate", "TimeIndex.preallocate", "snapshot"])
def test_a_roll_that_finds_the_disk_full_leaves_the_log_as_it_was(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    log = make_log(segment_bytes="1000")
    log.append(sealed([b"first"]))
    files_before = sorted(os.listdir(log.path))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    places = {
        "Segment.create": "offsetfs.storage.segments.segment.files.created",
        "OffsetIndex.preallocate": "offsetfs.storage.segments.offset_index.OffsetIndex.preallocate",
        "TimeIndex.preallocate": "offsetfs.storage.segments.time_index.TimeIndex.preallocate",
        "snapshot": "offsetfs.storage.files.replace_file",
    }
    with monkeypatch.context() as patch:
        patch.setattr(places[step], full)
        for action in (log.roll, lambda: log.append(sealed([b"x" * 900]))):
            with pytest.raises(OSError, match="no space"):
                action()
    assert sorted(os.listdir(log.path)) == files_before
    log.append(sealed([b"second"]))
    log.roll()
    log.append(sealed([b"third"]))
    log.check()
    assert values_of(log) == [b"first", b"second", b"third"] and len(log.snapshot()) == 2


def test_an_index_that_cannot_be_ended_on_a_full_disk_costs_no_roll(
    make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = make_log()
    log.append(sealed([b"first"], timestamp=7))

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("offsetfs.storage.segments.time_index.TimeIndex.maybe_append", full)
        log.roll()
    log.append(sealed([b"second"], timestamp=9))
    log.check()
    assert values_of(log) == [b"first", b"second"]
    assert log.find_timestamp(7) == (0, 7) and log.find_timestamp(8) == (1, 9)
