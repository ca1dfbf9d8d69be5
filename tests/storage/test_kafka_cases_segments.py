"""Kafka's cases for segments and transaction indexes that no other test has, with the numbers of its tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, crash, marker, plant, sealed, values_of

from offsetfs.storage.checkpoint import LEADER_EPOCHS, read_epochs
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptIndex
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ProducerEntry, ProducerState
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.segments.transaction_index import AbortedTransaction, TransactionIndex, entries
from offsetfs.storage.settings.config import DEFAULTS, LogConfig

pytestmark = pytest.mark.unit

OpenLog = Callable[..., Log]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[OpenLog]:
    """Opens the planted log, and closes it at the end of the test or before it is opened again."""
    opened: list[LogDirectory] = []

    def open_again(**settings: str) -> Log:
        close()
        opened.append(LogDirectory.open(str(tmp_path), defaults={k.replace("_", "."): v for k, v in settings.items()}))
        return opened[-1].log(PARTITION)

    def close() -> None:
        if opened:
            opened.pop().close()

    yield open_again
    close()


def found(log: Log, offset: int) -> int | None:
    """The offset of the batch that a read of `offset` begins with."""
    batch_found = log.batch_at(offset)
    return None if batch_found is None else batch_found.header.base_offset


# --- LogSegmentTest: reading ------------------------------------------------------------------------------------------


def test_an_empty_segment_has_nothing_to_read(tmp_path: Path, open_log: OpenLog) -> None:
    plant(tmp_path, {40: []})
    log = open_log()
    assert (log.log_start_offset, log.next_offset, found(log, 40), log.read(40, 300)) == (40, 40, None, b"")


def test_a_read_before_a_batch_or_in_a_gap_begins_with_the_next_batch(tmp_path: Path, open_log: OpenLog) -> None:
    plant(tmp_path, {40: [batch(50, b"hello", b"there"), batch(60, b"alpha", b"beta")]})
    log = open_log()
    assert [found(log, offset) for offset in (40, 41, 50, 51, 52, 55, 60, 61, 62)] == [50] * 4 + [60] * 4 + [None]


def test_the_next_offset_is_behind_the_last_whatever_the_gaps(tmp_path: Path, open_log: OpenLog) -> None:
    plant(tmp_path, {40: [batch(50, b"hello", b"there", b"you")]})
    assert open_log().next_offset == 53
    crash(tmp_path)
    assert open_log().next_offset == 53


def test_times_lead_to_kafkas_offsets(tmp_path: Path, open_log: OpenLog) -> None:
    plant(tmp_path, {40: []})
    size = sealed(b"msg40").size
    log = open_log(index_interval_bytes=str(2 * size - 1))
    for offset in range(40, 50):
        log.append(sealed(b"msg%d" % offset, 10 * offset))
    assert log.max_timestamp() == (49, 490)
    expected = {420: (42, 420), 421: (43, 430), 430: (43, 430), 431: (44, 440), 491: None, 401: (41, 410)}
    expected[399] = (40, 400)
    assert {time: log.find_timestamp(time) for time in expected} == expected


def test_thirty_appends_make_fourteen_entries_that_survive_reopening(tmp_path: Path, open_log: OpenLog) -> None:
    plant(tmp_path, {40: []})
    interval = str(2 * sealed(b"hello").size - 1)
    log = open_log(index_interval_bytes=interval)
    for offset in range(40, 70):
        log.append(sealed(b"hello", 10 * offset))
    opened = log.snapshot().active.open_files()
    assert (opened.index.count, opened.time_index.count) == (14, 14)
    log = open_log(index_interval_bytes=interval)
    assert (log.next_offset, log.snapshot().active.max_timestamp()) == (70, (690, 69))


# --- LogSegmentTest: rolling ------------------------------------------------------------------------------------------


@pytest.fixture
def make_segment(tmp_path: Path) -> Iterator[Callable[..., Segment]]:
    made: list[Segment] = []

    def make(config: LogConfig = DEFAULTS, base_offset: int = 40) -> Segment:
        pool: FilePool[SegmentFiles] = FilePool(2)
        made.append(Segment.create(str(tmp_path), base_offset, config, pool))
        made[-1].activate()
        return made[-1]

    yield make
    for segment in made:
        segment.deactivate()


@pytest.mark.parametrize(("above_base", "must_roll"), [(0, False), (1, False), (2**31 - 1, False), (2**31, True)])
def test_an_offset_that_no_index_entry_can_hold_belongs_into_another_segment(
    above_base: int, must_roll: bool, make_segment: Callable[..., Segment]
) -> None:
    segment = make_segment()
    assert segment.must_roll(100, 40 + above_base, 1000) == must_roll


def test_a_log_file_never_grows_beyond_what_a_position_can_say(make_segment: Callable[..., Segment]) -> None:
    segment = make_segment(LogConfig.from_properties({"segment.bytes": str(2**31 - 1)}))
    segment.append(sealed(), 40, 1000)
    segment.size = 2**31 - 1 - 100
    assert not segment.must_roll(100, 41, 1000)
    assert segment.must_roll(101, 41, 1000)


# --- LogSegmentTest: recovery -----------------------------------------------------------------------------------------


def test_recovery_takes_the_leader_epochs_from_the_batches(tmp_path: Path, open_log: OpenLog) -> None:
    epochs = [(104, 0), (106, 1), (108, 1), (110, 2)]
    batches = [batch(offset, b"a", b"b", leader_epoch=epoch) for offset, epoch in epochs]
    partition = plant(tmp_path, {100: batches}, is_clean=False)
    assert open_log().epochs.entries == ((0, 104), (1, 106), (2, 110))
    assert read_epochs(str(partition / LEADER_EPOCHS)) == [(0, 104), (1, 106), (2, 110)]


def transactional(offset: int, producer_id: int, sequence: int) -> bytes:
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "leader_epoch": 15}
    return batch(offset, b"a", b"b", transactional=True, **fields)


def marker_at(offset: int, producer_id: int, kind: int) -> bytes:
    made = bytearray(marker(producer_id, kind).data)
    made[:8] = offset.to_bytes(8, "big")
    return bytes(made)


PRODUCER_1, PRODUCER_2 = 5, 10
TWO_TRANSACTIONS = [
    transactional(100, PRODUCER_1, 0),
    transactional(102, PRODUCER_2, 0),
    batch(104, b"a", b"b"),
    marker_at(106, PRODUCER_2, 0),
    marker_at(107, PRODUCER_1, 1),
]


def test_recovery_makes_the_entry_of_an_aborted_transaction(tmp_path: Path, open_log: OpenLog) -> None:
    partition = plant(tmp_path, {100: TWO_TRANSACTIONS}, is_clean=False)
    assert open_log().damage == ()
    assert list(entries(str(partition / f"{100:020d}.txnindex"))) == [AbortedTransaction(PRODUCER_2, 102, 106, 100)]


def test_recovery_finds_an_earlier_transaction_in_the_snapshot(tmp_path: Path, open_log: OpenLog) -> None:
    partition = plant(tmp_path, {100: TWO_TRANSACTIONS}, is_clean=False)
    open_since_75 = ProducerEntry(0, 10, 90, 5, 1000, 0, current_txn_first_offset=75)
    (partition / f"{100:020d}.snapshot").write_bytes(ProducerState({PRODUCER_2: open_since_75}).dump())
    assert open_log().damage == ()
    assert list(entries(str(partition / f"{100:020d}.txnindex"))) == [AbortedTransaction(PRODUCER_2, 75, 106, 100)]


def test_a_segment_in_which_nothing_was_aborted_has_no_transaction_index(tmp_path: Path, open_log: OpenLog) -> None:
    partition = plant(tmp_path, {100: [transactional(100, 5, 0), marker_at(102, 5, 1)]}, is_clean=False)
    assert open_log().last_stable_offset() == 103
    assert list(partition.glob("*.txnindex")) == []


# --- TransactionIndexTest, LogSegmentsTest ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "last_offsets", [(99,), (5, 5), (105, 104), (100, 100)], ids=["below the base", "both", "falling", "the same"]
)
def test_a_transaction_index_below_its_base_or_not_rising_is_refused(last_offsets: tuple[int, ...]) -> None:
    index = TransactionIndex(100, [AbortedTransaction(1, 0, last, 0) for last in last_offsets], 34 * len(last_offsets))
    with pytest.raises(CorruptIndex, match="cannot follow"):
        index.check()


def test_the_segment_map_answers_for_offsets_between_its_keys(tmp_path: Path) -> None:
    pool: FilePool[SegmentFiles] = FilePool(2)
    first, second, third = (Segment.create(str(tmp_path), base, DEFAULTS, pool) for base in (10, 20, 30))
    segments = Segments([second, third, first])
    assert list(segments) == [first, second, third]
    assert [segments.floor(offset) for offset in (9, 10, 19, 20, 99)] == [None, first, first, second, third]
    assert list(segments.from_floor(25)) == [second, third] and list(segments.from_floor(5)) == [first, second, third]
    assert (segments.first, segments.active, len(segments.without([second]))) == (first, third, 2)
    assert len(segments) == 3 and len(segments.plus(Segment.create(str(tmp_path), 30, DEFAULTS, pool))) == 3


def test_segments_with_gaps_between_them_read_on(tmp_path: Path, open_log: OpenLog) -> None:
    plant(tmp_path, {0: [batch(0, b"a")], 10: [batch(12, b"b")], 20: [], 30: [batch(30, b"c")]})
    log = open_log()
    assert [found(log, offset) for offset in (0, 1, 9, 10, 12, 13, 20, 29, 30, 31)] == [0] + [12] * 4 + [30] * 4 + [
        None
    ]
    assert values_of(log) == [b"a", b"b", b"c"]
