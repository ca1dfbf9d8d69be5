"""Kafka's cases for a whole log that no other test has: rolling, gaps, transactions, readers beside a writer."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, crash, data, marker, plant, sealed, values_of

from offsetfs.storage.checkpoint import LOG_STARTS, read_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import RecordTooLarge
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT, ProducerState
from offsetfs.storage.partition.retention import take_out_below_start
from offsetfs.storage.segments.transaction_index import AbortedTransaction, entries

pytestmark = pytest.mark.unit

MakeLog = Callable[..., Log]


@pytest.fixture
def make_log(tmp_path: Path) -> Iterator[MakeLog]:
    made: list[LogDirectory] = []

    def make(**settings: str) -> Log:
        made.append(LogDirectory.open(str(tmp_path)))
        return made[-1].create_partition(PARTITION, {k.replace("_", "."): v for k, v in settings.items()})

    yield make
    for directory in made:
        directory.close()


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.snapshot()]


# --- rolling ----------------------------------------------------------------------------------------------------------


def test_the_eleventh_append_is_in_the_second_segment(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=str(10 * (sealed(b"test").size - 1)))
    for _ in range(11):
        log.append(sealed(b"test"))
    assert bases(log) == [0, 9]


class Clock:
    """A clock that only the test moves, milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms * 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "time_ns", made)
    return made


def test_records_only_in_remote_storage_are_a_warning_of_each_partition(clock: Clock, make_log: MakeLog) -> None:
    log = make_log(segment_ms="3600000")
    clock.now_ms += 3_600_001
    log.append(sealed(timestamp=-1))
    assert bases(log) == [0]
    log.append(sealed(timestamp=-1))
    assert bases(log) == [0, 1]
    log.append(sealed(timestamp=-1))
    assert bases(log) == [0, 1]
    clock.now_ms += 3_600_001
    log.append(sealed(timestamp=-1))
    assert bases(log) == [0, 1, 3]


def test_records_with_a_time_roll_by_it_and_not_by_the_clock(clock: Clock, make_log: MakeLog) -> None:
    log = make_log(segment_ms="3600000")
    begin = clock.now_ms
    log.append(sealed(timestamp=begin))
    clock.now_ms += 3_600_001
    log.append(sealed(timestamp=begin + 3_600_000))
    assert bases(log) == [0]
    log.append(sealed(timestamp=begin + 3_600_001))
    assert bases(log) == [0, 2]
    log.append(sealed(timestamp=begin))  # earlier than the first of its segment: it has waited for less than nothing
    assert bases(log) == [0, 2]


def test_a_segment_rolls_within_the_jitter_before_its_time(monkeypatch: pytest.MonkeyPatch, make_log: MakeLog) -> None:
    monkeypatch.setattr(random, "randrange", lambda limit: limit - 1)
    log = make_log(segment_ms="3600000", segment_jitter_ms="20000")
    jitter = 19_999
    for timestamp in (1000, 1000 + 3_600_000 - jitter, 1000 + 3_600_000 - jitter + 1):
        log.append(sealed(timestamp=timestamp))
    assert bases(log) == [0, 2]


def test_to_roll_an_empty_segment_changes_nothing(make_log: MakeLog) -> None:
    log = make_log()
    log.roll()
    assert bases(log) == [0]
    log.append(sealed())
    log.roll()
    log.roll()
    assert bases(log) == [0, 1]


def test_a_batch_that_fits_no_segment_is_refused(make_log: MakeLog) -> None:
    log = make_log(segment_bytes="100")
    with pytest.raises(RecordTooLarge):
        log.append(sealed(b"x" * 100))
    assert (log.next_offset, log.size_bytes) == (0, 0)


def test_an_offset_too_far_for_the_index_begins_a_segment_with_a_snapshot(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a"), batch(2**31 - 1, b"b")]})
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert log.append(sealed(b"c")).base_offset == 2**31
    assert bases(log) == [0, 2**31]
    assert (partition / f"{2**31:020d}.snapshot").exists()
    directory.close()
    crash(tmp_path)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (values_of(log), log.next_offset, log.damage) == ([b"a", b"b", b"c"], 2**31 + 1, ())
    directory.close()


def test_each_roll_leaves_a_snapshot_named_by_the_new_segment(make_log: MakeLog, tmp_path: Path) -> None:
    log = make_log()
    for sequence in range(3):
        log.append(data(7, sequence, 1, is_transactional=False))
        log.roll()
    snapshots = sorted((tmp_path / "orders-0").glob("*.snapshot"))
    assert [int(path.stem) for path in snapshots] == bases(log)[1:] == [1, 2, 3]
    assert [ProducerState.load(path.read_bytes()).entries[7].last_sequence for path in snapshots] == [0, 1, 2]


# --- gaps -------------------------------------------------------------------------------------------------------------


def test_offsets_that_do_not_follow_each_other_are_all_read(tmp_path: Path) -> None:
    offsets = [*range(50), *range(50, 200, 7)]
    planted = [batch(offset, b"%d" % offset) for offset in offsets]
    plant(tmp_path, {0: planted[:30], 30: planted[30:60], offsets[60]: planted[60:]})
    directory = LogDirectory.open(str(tmp_path), defaults={"index.interval.bytes": "72"})
    log = directory.log(PARTITION)
    log.check()
    for offset in range(offsets[-1] + 1):
        found = log.batch_at(offset)
        following = next(each for each in offsets if each >= offset)
        assert found is not None and found.records()[0].value == b"%d" % following
    directory.close()


# --- transactions -----------------------------------------------------------------------------------------------------

INTERLEAVED = [  # of UnifiedLogTest and LogLoaderTest: (producer, records, False), or the end of its transaction
    (1, 5, False),
    (-1, 3, False),
    (2, 2, False),
    (1, 4, False),
    (3, 3, False),
    (-1, 2, False),
    (1, 10, False),
    (1, ABORT, True),
    (2, 6, False),
    (4, 3, False),
    (-1, 10, False),
    (3, 9, False),
    (3, COMMIT, True),
    (4, 8, False),
    (2, 7, False),
    (2, ABORT, True),
    (-1, 10, False),
    (4, 4, False),
    (4, COMMIT, True),
]
KAFKAS = [AbortedTransaction(1, 0, 29, 8), AbortedTransaction(2, 8, 74, 36)]


def append_interleaved(log: Log) -> None:
    sequences = dict.fromkeys(range(-1, 5), 0)
    for producer_id, number, is_end in INTERLEAVED:
        log.append(marker(producer_id, number) if is_end else data(producer_id, sequences[producer_id], number))
        sequences[producer_id] += 0 if is_end else number


def test_interleaved_transactions_are_reported_as_by_kafka(make_log: MakeLog) -> None:
    log = make_log()
    append_interleaved(log)
    assert (log.next_offset, log.last_stable_offset()) == (90, 90)
    assert log.transactions.aborted(0, 90) == KAFKAS


@pytest.mark.parametrize("segment_bytes", ["1000000", "300"])
def test_the_transaction_index_comes_back_when_every_index_is_lost(tmp_path: Path, segment_bytes: str) -> None:
    directory = LogDirectory.open(str(tmp_path), defaults={"segment.bytes": segment_bytes})
    log = directory.create_partition(PARTITION)
    append_interleaved(log)
    assert (len(log.snapshot()) > 3) == (segment_bytes == "300")
    directory.close()
    crash(tmp_path)
    for path in [*tmp_path.glob("*/*index"), *tmp_path.glob("*/*.snapshot")]:
        path.unlink()
    directory = LogDirectory.open(str(tmp_path))
    indexes = sorted(tmp_path.glob("*/*.txnindex"))
    assert [entry for path in indexes for entry in entries(str(path))] == KAFKAS
    assert directory.log(PARTITION).last_stable_offset() == 90
    directory.close()


def test_the_last_stable_offset_is_never_below_the_log_start(tmp_path: Path) -> None:
    fields = {"transactional": True, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    plant(tmp_path, {0: [batch(0, b"a", b"b", **fields), batch(2, b"c", b"d")]}, log_start=3)
    log = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    assert (log.log_start_offset, log.last_stable_offset(), log.next_offset) == (3, 3, 4)


# --- checkpoints, closing ---------------------------------------------------------------------------------------------


def test_a_log_start_is_in_the_checkpoint_only_where_no_segment_is_named_by_it(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a", b"b", b"c", b"d")], 4: [batch(4, b"a", b"b", b"c")]})
    directory = LogDirectory.open(str(tmp_path))
    directory.raise_log_starts({PARTITION: 4})
    assert read_offsets(str(tmp_path / LOG_STARTS)) == {PARTITION: 4}
    take_out_below_start(directory.log(PARTITION))
    directory.close()
    assert read_offsets(str(tmp_path / LOG_STARTS)) == {}


def test_a_log_may_be_closed_twice(make_log: MakeLog, tmp_path: Path) -> None:
    log = make_log()
    log.append(sealed(b"a"))
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    log.close()
    log.close()
    directory.close()
    directory.close()
    log = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    assert values_of(log) == [b"a"]


# --- LogConcurrencyTest -----------------------------------------------------------------------------------------------


def test_readers_beside_a_writer_that_rolls_see_every_record_whole_and_in_order(make_log: MakeLog) -> None:
    log, count = make_log(segment_bytes="300", index_interval_bytes="100"), 100
    errors: list[BaseException] = []

    def read() -> None:
        try:
            offset = 0
            while offset < count:
                if offset == log.next_offset:
                    time.sleep(0)  # not to wait: to give the interpreter away
                    continue
                found = log.batch_at(offset)
                assert found is not None and [record.value for record in found.records()] == [b"%d" % offset]
                offset += 1
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(count):
        log.append(sealed(b"%d" % number))
    for reader in readers:
        reader.join(timeout=30)
    assert errors == [] and not any(reader.is_alive() for reader in readers)
