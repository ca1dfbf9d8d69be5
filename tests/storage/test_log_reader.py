"""The reader of a range of a log: what it shows, and what it does at damage, losses and replaced segments."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, marker, plant

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, MalformedBatch, OffsetOutOfRange, StorageError, UnknownPartition
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition import follower, segment_retry
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import RAW, READ_COMMITTED, LogReader
from offsetfs.storage.partition.producers import ABORT
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import seal_checksum, stamp
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.segments.segment import Segment

pytestmark = [pytest.mark.unit, pytest.mark.damages]

BASES = (0, 30, 60)
BATCH_BYTES = 61 + 10 * 109
"""A batch of ten records with values of 100 bytes."""


def value(offset: int) -> bytes:
    return b"value %d" % offset


def ten(offset: int) -> bytes:
    """Return a batch of the ten records from `offset` on."""
    return batch(offset, *(value(n) for n in range(offset, offset + 10)))


def opened(path: Path) -> Log:
    return LogDirectory.open(str(path), read_only=True).log(PARTITION)


def log_file(path: Path, base_offset: int) -> Path:
    return path / str(PARTITION) / segment_name(base_offset, ".log")


def damage(path: Path, base_offset: int, place: int) -> None:
    """Change one byte of a log file."""
    file = log_file(path, base_offset)
    data = bytearray(file.read_bytes())
    data[place] ^= 8
    file.write_bytes(data)


def replace(file: Path, data: bytes) -> None:
    """Put another file in the place of a segment, as a swap does."""
    copy = file.with_suffix(".cleaned")
    copy.write_bytes(data)
    copy.replace(file)


def offsets(reader: LogReader) -> list[int]:
    found: list[int] = [record.offset for record in reader.records()]
    assert b"".join(reader.values()) == b"".join(value(offset) + b"\n" for offset in found)
    assert [json.loads(line)["offset"] for line in b"".join(reader.ndjson()).splitlines()] == found
    return found


@pytest.fixture(autouse=True)
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log takes in what other processes do when it is forced to, and not by chance."""
    monkeypatch.setattr(follower, "LOOK_INTERVAL_S", 1e6)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ninety records in three segments of three batches."""
    plant(tmp_path, {base: [ten(base + n) for n in (0, 10, 20)] for base in BASES})
    return tmp_path


@pytest.fixture
def log(data: Path) -> Log:
    return opened(data)


# --- the range --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "stop", "expected"),
    [
        (None, None, range(90)),
        (0, 0, range(0)),
        (15, 17, range(15, 17)),
        (25, 65, range(25, 65)),
        (60, 1000, range(60, 90)),
        (90, None, range(0)),
        (90, 1000, range(0)),
        (50, 40, range(0)),
    ],
)
def test_a_range_is_cut_at_records(log: Log, start: int | None, stop: int | None, expected: range) -> None:
    reader = LogReader(log, start=start, stop=stop)
    assert offsets(reader) == list(expected)
    assert [batch.base_offset for batch in reader.batches()] == sorted({offset // 10 * 10 for offset in expected})


def test_only_the_segments_of_the_range_are_opened(data: Path, log: Log) -> None:
    log_file(data, 0).unlink()
    log_file(data, 60).unlink()
    assert offsets(LogReader(log, start=35, stop=60)) == list(range(35, 60))


@pytest.mark.parametrize("stop", [None, 200])
def test_a_start_beyond_the_end_is_an_offset_out_of_range(log: Log, stop: int | None) -> None:
    with pytest.raises(OffsetOutOfRange) as error:
        list(LogReader(log, start=91, stop=stop).batches())
    assert (error.value.offset, error.value.next_offset) == (91, 90)
    lost: list[StorageError] = []
    assert list(LogReader(log, start=91, stop=stop, on_lost=lost.append).batches()) == [] and len(lost) == 1


def test_isolation_levels_show_what_a_consumer_of_them_sees(tmp_path: Path) -> None:
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    aborted, plain, still_open = batch(0, b"a", **fields), batch(2, b"b"), batch(3, b"c", **fields)
    end = bytearray(marker(7, ABORT).data)
    stamp(end, 1, 0)
    plant(tmp_path, {0: [aborted, bytes(end), plain, still_open]})
    log = opened(tmp_path)
    assert [record.offset for record in LogReader(log).records()] == [0, 2, 3]
    assert [record.offset for record in LogReader(log, isolation=READ_COMMITTED).records()] == [2]
    assert [each.base_offset for each in LogReader(log, isolation=RAW).batches()] == [0, 1, 2, 3]


# --- size and pieces --------------------------------------------------------------------------------------------------


@pytest.fixture
def indexed(tmp_path: Path) -> Log:
    """Forty batches of ten records, all of one size, five in a segment, with an index entry for each but the first."""
    sealed = BatchBuilder(1 << 16)
    directory = LogDirectory.open(
        str(tmp_path), defaults={"segment.bytes": str(5 * BATCH_BYTES), "index.interval.bytes": "0"}
    )
    log = directory.create_partition(PARTITION)
    for _ in range(40):
        for _ in range(10):
            sealed.append(None, b"x" * 100, (), 1000)
        log.append(sealed.seal())
        sealed.reset()
    directory.close()
    return opened(tmp_path)


def test_the_size_of_a_range_is_that_of_its_batches(indexed: Log) -> None:
    assert indexed.size_bytes == 40 * BATCH_BYTES
    assert LogReader(indexed).size_bytes() == 40 * BATCH_BYTES
    for start, stop in ((0, 400), (10, 20), (30, 70), (45, 390)):
        taken = -(-stop // 10) - start // 10
        assert abs(LogReader(indexed, start=start, stop=stop).size_bytes() - taken * BATCH_BYTES) <= 2 * BATCH_BYTES


@pytest.mark.long
@pytest.mark.parametrize(("start", "stop"), [(0, 400), (17, 303), (399, 400)])
@pytest.mark.parametrize("batches", [1, 3, 7, 100])
def test_pieces_cover_a_range_and_have_about_the_size(indexed: Log, start: int, stop: int, batches: int) -> None:
    whole = LogReader(indexed, start=start, stop=stop)
    pieces = whole.cut(batches * BATCH_BYTES)
    assert [first for first, _, _ in pieces] + [stop] == [start] + [end for _, end, _ in pieces]
    assert sum(size for _, _, size in pieces) == whole.size_bytes()
    assert max(size for _, _, size in pieces) <= (batches + max(batches // 2, 1)) * BATCH_BYTES
    read = [offset for first, end, _ in pieces for offset in offsets_of(indexed, first, end)]
    assert read == list(range(start, stop))


def offsets_of(log: Log, start: int, stop: int) -> list[int]:
    return [record.offset for record in LogReader(log, start=start, stop=stop).records()]


# --- damage -----------------------------------------------------------------------------------------------------------


def both(log: Log, **bounds: Any) -> tuple[type[StorageError] | None, list[int], list[StorageError]]:
    """Return the error that is raised, or None; and what is read, and what reported, where it is left out."""
    found: list[StorageError] = []
    left: list[int] = [record.offset for record in LogReader(log, **bounds, on_damage=found.append).records()]
    try:
        assert [record.offset for record in LogReader(log, **bounds).records()] == left and not found
    except StorageError as error:
        return type(error), left, found
    return None, left, found


MAGIC, CHECKSUM, BASE_OFFSET = 16, 70, 6
"""Bytes of a batch: its header cannot be read; its checksum fails; its offset is wrong, which no checksum shows."""


@pytest.mark.parametrize("place", [MAGIC, CHECKSUM])
@pytest.mark.parametrize("start", [0, 5])
def test_damage_at_the_start_of_the_range_is_raised_or_reported(data: Path, start: int, place: int) -> None:
    damage(data, 0, place)
    error, left, found = both(opened(data), start=start)
    assert error in (MalformedBatch, CorruptBatch) and left == list(range(10, 90)) and len(found) == 1
    assert found[0].path == str(log_file(data, 0)) and found[0].position == 0


@pytest.mark.parametrize("place", [MAGIC, CHECKSUM])
@pytest.mark.parametrize("start", [10, 15])
def test_damage_where_an_offset_is_looked_for_is_raised_or_reported(data: Path, start: int, place: int) -> None:
    damage(data, 0, len(ten(0)) + place)
    error, left, found = both(opened(data), start=start)
    assert error in (MalformedBatch, CorruptBatch) and left == list(range(20, 90)) and len(found) == 1


@pytest.mark.parametrize("place", [MAGIC, CHECKSUM])
def test_damage_outside_of_the_range_is_not_met(data: Path, place: int) -> None:
    damage(data, 0, place)
    damage(data, 0, len(ten(0)) + len(ten(10)) + place)
    assert both(opened(data), start=10, stop=20) == (None, list(range(10, 20)), [])


def test_a_header_that_ends_early_hides_no_record_that_is_looked_for(data: Path) -> None:
    damage(data, 0, 26)  # the last offset delta of the first batch: 9 becomes 1
    error, left, found = both(opened(data), start=5)
    assert error is CorruptBatch and left == list(range(10, 90)) and len(found) == 1


def test_a_batch_whose_offset_cannot_be_true_does_not_end_the_range(data: Path) -> None:
    damage(data, 0, len(ten(0)) + BASE_OFFSET)  # 10 becomes 2058
    error, left, found = both(opened(data))
    assert error is MalformedBatch and left == [*range(10), *range(20, 90)] and len(found) == 1


def test_records_that_cannot_be_decoded_are_raised_or_reported(tmp_path: Path) -> None:
    bad = bytearray(ten(10))
    bad[61] = 0x7F  # the length of the first record
    seal_checksum(bad)
    plant(tmp_path, {0: [ten(0), bytes(bad), ten(20)]})
    log = opened(tmp_path)
    error, left, found = both(log)
    assert error is MalformedBatch and left == [*range(10), *range(20, 30)] and len(found) == 1
    for joined in (LogReader(log).values(), LogReader(log).ndjson()):
        with pytest.raises(MalformedBatch):
            list(joined)
    assert offsets(LogReader(log, on_damage=found.append)) == left and len(found) == 4


# --- segments that another process replaces or removes ----------------------------------------------------------------


def after_first(log: Log, **policies: Any) -> tuple[int, Iterator[int]]:
    """Return the first offset, and an iterator of the others."""
    records = (record.offset for record in LogReader(log, **policies).records())
    return next(records), records


def test_a_segment_that_was_replaced_is_read_from_its_replacement(data: Path, log: Log) -> None:
    first, rest = after_first(log)
    for base in BASES[:-1]:
        replace(log_file(data, base), log_file(data, base).read_bytes())
    assert [first, *rest] == list(range(90))


def test_no_record_is_repeated_when_a_replacement_has_larger_batches(data: Path, log: Log, monkeypatch: Any) -> None:
    """The segment's file vanishes when half of it was read, and its replacement holds it in one batch."""
    whole, load = batch(30, *(value(n) for n in range(30, 60))), batch_chain.load
    vanished: list[int] = []

    def load_once(file: Any, position: int, header: Any, seen: memoryview, **others: Any) -> Any:
        if header.base_offset == 50 and not vanished:
            vanished.append(position)
            replace(log_file(data, 30), whole)
            raise OSError(116, "gone")
        return load(file, position, header, seen, **others)

    monkeypatch.setattr(batch_chain, "load", load_once)
    assert [record.offset for record in LogReader(log).records()] == list(range(90)) and vanished
    vanished.clear()
    monkeypatch.setattr(batch_chain, "load", load)
    assert offsets(LogReader(opened(data))) == list(range(90))


def test_what_was_removed_is_raised_or_reported(data: Path) -> None:
    lost: list[StorageError] = []
    for policies in ({}, {"on_lost": lost.append}):
        log = opened(data)
        first, rest = after_first(log, **policies)
        removed = log_file(data, 30).read_bytes(), log_file(data, 0).read_bytes()
        log_file(data, 30).unlink()
        log_file(data, 0).unlink()
        if policies:
            assert [first, *rest] == [*range(30), *range(60, 90)]
        else:
            with pytest.raises(OffsetOutOfRange) as error:
                list(rest)
            assert (error.value.offset, error.value.log_start_offset) == (30, 60)
        log_file(data, 30).write_bytes(removed[0])
        log_file(data, 0).write_bytes(removed[1])
    assert [(each.offset, each.log_start_offset) for each in lost if isinstance(each, OffsetOutOfRange)] == [(30, 60)]


def test_a_partition_that_was_deleted_is_raised_or_reported(data: Path) -> None:
    log, other, lost = opened(data), opened(data), list[StorageError]()
    _, rest = after_first(log)
    _, reported = after_first(other, on_lost=lost.append)
    shutil.rmtree(data / str(PARTITION))
    with pytest.raises(UnknownPartition):
        list(rest)
    assert list(reported) == list(range(1, 30)) and [type(each) for each in lost] == [UnknownPartition]


def test_a_reader_waits_for_the_last_rename_of_a_swap(data: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    file = log_file(data, 30)
    swap = file.with_name(file.name + ".swap")
    _, rest = after_first(log)
    shutil.copy(file, swap)
    file.unlink()
    monkeypatch.setattr(time, "sleep", lambda _: swap.rename(file) if swap.exists() else None)
    assert list(rest) == list(range(1, 90))


def test_a_reader_gives_up_where_no_replacement_comes(data: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_retry, "REPLACEMENT_WAIT_S", 0.0)
    file = log_file(data, 30)
    _, rest = after_first(log)
    file.rename(file.with_name(file.name + ".swap"))
    with pytest.raises(OSError, match="removed or replaced"):
        list(rest)


def test_a_segment_that_vanishes_during_a_look_up_hides_no_batch(
    data: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, is_committed = [116], log.transactions.is_committed

    def look_up(header: Any, *, nowait: bool = False) -> bool:
        if header.base_offset == 40 and failures:
            replace(log_file(data, 60), log_file(data, 60).read_bytes())
            raise OSError(failures.pop(), "gone")
        return is_committed(header, nowait=nowait)

    monkeypatch.setattr(log.transactions, "is_committed", look_up)
    assert [record.offset for record in LogReader(log, isolation=READ_COMMITTED).records()] == list(range(90))
    assert not failures


def test_growth_that_two_threads_look_for_is_taken_in_once(data: Path, log: Log, monkeypatch: Any) -> None:
    with open(log_file(data, 60), "ab") as file:
        file.write(ten(90) + ten(100))
    note_growth, others = Segment.note_growth, list[threading.Thread]()

    def interrupted(segment: Segment, header: Any) -> None:
        if not others:
            others.append(threading.Thread(target=log.refresh, kwargs={"is_forced": True}))
            others[0].start()
            others[0].join(0.2)  # it waits for this thread, or it is through
        note_growth(segment, header)

    monkeypatch.setattr(Segment, "note_growth", interrupted)
    log.refresh(is_forced=True)
    others[0].join()
    assert log.next_offset == 110 and log.snapshot().active.size == log_file(data, 60).stat().st_size
    assert offsets(LogReader(log, start=80)) == list(range(80, 110))
