"""Compaction and producers: aborted data goes, markers stay as long as they are needed, sequences are never lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.cleaner import DAY_MS, Cleaner
from fixtures.logs.keyed_logs import Keyed, end_of_transaction, keyed, offsets_of, records_of, shape_of

from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.segments.transaction_index import TransactionIndex

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]


class Writing(Cleaner):
    """A partition that producers write to, each with its sequence. Keys are numbers."""

    def __init__(self, path: Path, **settings: Any) -> None:
        super().__init__(path, **settings)
        self._sequences: dict[int, int] = {}

    def write(self, producer_id: int, *keys: int, transactional: bool = True, codec: str = "none") -> None:
        records = [Keyed(number, b"%d" % key, b"v") for number, key in enumerate(keys)]
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + len(keys)
        producer = (producer_id, 0, sequence)
        self.append(keyed(0, *records, producer=producer, transactional=transactional, codec=codec))

    def end(self, producer_id: int, kind: int) -> None:
        self.append(end_of_transaction(0, producer_id, kind))

    def sealed(self) -> Writing:
        self.log.roll()
        return self

    def keys_left(self) -> list[int]:
        return [int(record.key or b"") for record in records_of(self.log)]

    def aborted(self) -> list[tuple[int, int, int]]:
        return self.log.aborted(0, self.log.next_offset)

    def again(self) -> None:
        """Open the log from its files as a crash leaves them: everything known of producers is read again."""
        self.log.flush()
        for path in self.partition.glob("*.snapshot"):
            path.unlink()
        self.crash()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Writing]:
    made = Writing(tmp_path)
    yield made
    made.close()


def other_active_producers(log: Writing, *producer_ids: int) -> None:
    """Let something newer of these producers be in the active segment, so that nothing older is kept for them."""
    for producer_id in producer_ids:
        log.write(producer_id, 1000 + producer_id, transactional=False)


def test_aborted_data_goes_and_committed_data_is_compacted(log: Writing) -> None:
    """LogCleanerTest.testBasicTransactionAwareCleaning, its offsets."""
    log.write(1, 1, 2)
    log.write(2, 2, 3)
    log.write(1, 3, 4)
    log.end(1, ABORT)
    log.end(2, COMMIT)
    log.write(1, 2)
    log.end(1, COMMIT)
    before = log.aborted()
    log.sealed().clean()
    assert (log.keys_left(), offsets_of(log.log)) == ([3, 2], [3, 6, 7, 8, 9])
    assert before == [(1, 0, 6)]
    index = TransactionIndex.read(str(log.partition / f"{0:020d}.txnindex"), 0)
    assert [(e.producer_id, e.first_offset, e.last_offset) for e in index.entries] == [(1, 0, 6)]


def test_compressed_data_of_transactions_is_treated_alike(log: Writing) -> None:
    log.write(1, 1, 2, codec="lz4")
    log.write(2, 2, 3, codec="zstd")
    log.end(1, ABORT)
    log.end(2, COMMIT)
    other_active_producers(log, 1, 2)
    log.sealed().clean()
    assert (log.keys_left()[:2], offsets_of(log.log)[:4]) == ([2, 3], [2, 3, 4, 5])


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_transaction_over_segments_is_one(log: Writing, kind: int) -> None:
    """LogCleanerTest.testCommittedTransactionSpanningSegments, testAbortedTransactionSpanningSegments."""
    log.write(1, 1)
    log.sealed().write(1, 2)
    log.sealed().end(1, kind)
    log.sealed().write(1, 9, transactional=False)
    log.sealed().clean()
    assert offsets_of(log.log) == ([0, 1, 2, 3] if kind == COMMIT else [2, 3])


def test_an_open_transaction_and_what_follows_it_is_not_cleaned(log: Writing) -> None:
    log.write(1, 1)
    log.write(1, 1)
    log.end(1, COMMIT)
    log.sealed().write(2, 1)
    log.write(3, 1, 1, transactional=False)
    log.sealed().write(3, 5, transactional=False)
    log.sealed()
    assert log.find_dirty_range().first_uncleanable == 3
    log.clean()
    assert offsets_of(log.log) == [1, 2, 3, 4, 5, 6]
    log.end(2, ABORT)
    log.sealed().clean()
    assert offsets_of(log.log) == [2, 5, 6, 7]


def test_the_marker_of_a_commit_goes_after_its_records_and_its_time(log: Writing) -> None:
    """LogCleanerTest.testCommitMarkerRemoval, its offsets."""
    log.write(1, 1)
    log.write(1, 2, 3)
    log.end(1, COMMIT)
    log.write(1, 2)
    log.end(1, COMMIT)
    log.sealed().clean()
    assert (log.keys_left(), offsets_of(log.log)) == ([1, 3, 2], [0, 2, 3, 4, 5])
    log.write(1, 1, 3)
    log.end(1, COMMIT)
    log.sealed().clean()
    assert (log.keys_left(), offsets_of(log.log)) == ([2, 1, 3], [3, 4, 5, 6, 7, 8])
    log.clean()
    assert offsets_of(log.log) == [3, 4, 5, 6, 7, 8]
    log.after(DAY_MS - 1)
    assert offsets_of(log.log) == [3, 4, 5, 6, 7, 8]
    log.after(1)
    assert offsets_of(log.log) == [4, 5, 6, 7, 8]


def test_the_marker_of_an_abort_goes_a_time_after_the_data(log: Writing) -> None:
    """LogCleanerTest.testAbortMarkerRemoval, its offsets."""
    log.write(1, 1)
    log.write(1, 2, 3)
    log.end(1, ABORT)
    log.write(1, 3)
    log.end(1, COMMIT)
    log.sealed().clean()
    assert (log.keys_left(), offsets_of(log.log)) == ([3], [3, 4, 5])
    log.clean()
    assert offsets_of(log.log) == [3, 4, 5]
    log.after()
    assert (log.keys_left(), offsets_of(log.log), log.aborted()) == ([3], [4, 5], [])


def test_the_last_batch_of_a_producer_stays_empty_until_it_writes_again(log: Writing) -> None:
    """LogCleanerTest.testAbortMarkerRetentionWithEmptyBatch, its offsets."""
    log.write(1, 2, 3)
    log.end(1, ABORT)
    log.sealed().clean()
    assert (log.keys_left(), offsets_of(log.log), shape_of(log.log)) == ([], [2], [(0, 1, 0), (2, 2, 1)])
    assert [each[0] for each in log.aborted()] == [1]
    log.after()
    assert shape_of(log.log) == [(0, 1, 0), (2, 2, 1)]
    log.write(1, 1)
    log.end(1, COMMIT)
    log.sealed().after()
    assert (log.keys_left(), shape_of(log.log)) == ([1], [(2, 2, 1), (3, 3, 1), (4, 4, 1)])
    log.after()
    assert shape_of(log.log) == [(2, 2, 1), (3, 3, 1), (4, 4, 1)]
    log.after()
    assert shape_of(log.log) == [(3, 3, 1), (4, 4, 1)]


def test_the_marker_of_a_commit_stays_as_long_as_an_empty_batch_of_it(log: Writing) -> None:
    """LogCleanerTest.testCommitMarkerRetentionWithEmptyBatch."""
    log.write(1, 2)
    log.write(2, 2)
    log.end(1, COMMIT)
    log.write(2, 2)
    log.end(2, COMMIT)
    log.sealed().clean()
    for _ in range(3):
        assert shape_of(log.log) == [(0, 0, 0), (2, 2, 1), (3, 3, 1), (4, 4, 1)]
        log.after()
    log.write(1, 3, transactional=False)
    log.sealed().after()
    assert shape_of(log.log) == [(2, 2, 1), (3, 3, 1), (4, 4, 1), (5, 5, 1)]
    log.after()
    log.after()
    assert shape_of(log.log) == [(3, 3, 1), (4, 4, 1), (5, 5, 1)]


def test_a_producer_of_which_only_a_marker_is_known_keeps_it(log: Writing) -> None:
    """LogCleanerTest.testCleanEmptyControlBatch."""
    log.end(1, COMMIT)
    log.write(2, 5, transactional=False)
    log.write(2, 5, transactional=False)
    log.sealed().clean()
    assert shape_of(log.log) == [(0, 0, 1), (2, 2, 1)]
    log.after()
    assert shape_of(log.log) == [(0, 0, 0), (2, 2, 1)]
    log.after()
    assert shape_of(log.log) == [(0, 0, 0), (2, 2, 1)]
    log.write(1, 6, transactional=False)
    log.sealed().clean()
    assert shape_of(log.log) == [(2, 2, 1), (3, 3, 1)]


@pytest.mark.parametrize("transactional", [False, True])
def test_what_is_known_of_producers_survives_compaction_and_a_crash(log: Writing, transactional: bool) -> None:
    """LogCleanerTest.testLogCleanerRetainsProducerLastSequence, ..RetainsLastSequenceEvenIfTransactionAborted."""
    for producer_id in (1, 2, 3):
        log.write(producer_id, 1, 2, 3, transactional=transactional)
        if transactional:
            log.end(producer_id, ABORT if producer_id == 2 else COMMIT)
    log.write(4, 1, 2, 3, transactional=False)
    before = log.log.producers()
    log.sealed().clean()
    log.after()
    assert log.keys_left() == [1, 2, 3]
    log.again()
    after = log.log.producers()
    fields = ("producer_epoch", "last_sequence", "last_offset", "offset_delta")
    assert {p: [getattr(e, f) for f in fields] for p, e in after.items()} == {
        p: [getattr(e, f) for f in fields] for p, e in before.items()
    }


def test_batches_that_all_begin_with_the_same_sequence_do_not_keep_each_other(log: Writing) -> None:
    """LogCleanerTest.testEmptyBatchRemovalWithSequenceReuse: a group coordinator writes sequence 0 each time."""
    for _ in range(3):
        log.append(keyed(0, Keyed(0, b"1", b"v"), producer=(1, 0, 0), transactional=True))
        log.end(1, COMMIT)
    log.append(keyed(0, Keyed(0, b"1", b"v")))
    log.sealed().clean()
    assert shape_of(log.log) == [(1, 1, 1), (3, 3, 1), (4, 4, 0), (5, 5, 1), (6, 6, 1)]
    log.after()
    log.after()
    assert shape_of(log.log) == [(4, 4, 0), (5, 5, 1), (6, 6, 1)]


def test_keys_that_look_like_those_of_markers_are_not_mixed_up_with_them(log: Writing) -> None:
    """LogCleanerTest.testCleaningWithKeysConflictingWithTxnMarkerKeys."""
    marker_key = b"\0\0\0\1"
    log.append(keyed(0, Keyed(0, marker_key, b"v"), producer=(1, 0, 0)))
    log.write(2, 7)
    log.end(2, COMMIT)
    log.sealed().clean()
    assert offsets_of(log.log) == [0, 1, 2]


def test_aborted_data_takes_no_space_in_the_map_and_hides_no_committed_value(log: Writing) -> None:
    log.write(1, 1, 2)
    log.end(1, COMMIT)
    log.write(1, 1, 2)
    log.end(1, ABORT)
    other_active_producers(log, 1)
    done = log.sealed().clean(keys_max=3)
    assert (done.is_complete, done.keys, log.keys_left()[:2]) == (True, 3, [1, 2])
    assert offsets_of(log.log) == [0, 1, 2, 5, 6]


def test_a_transaction_is_known_as_aborted_however_many_rounds_a_segment_takes(log: Writing) -> None:
    """LogCleanerTest.testMultiPassSegmentCleaningWithAbortedTransactions."""
    for number in range(5):
        log.write(1, number, number + 10)
        log.end(1, ABORT if number % 2 else COMMIT)
    before = log.aborted()
    other_active_producers(log, 1)
    log.sealed()
    wanted = [(1, 3, 5), (1, 9, 11)]
    assert before == wanted
    while not log.clean(keys_max=2).is_complete:
        assert [each for each in log.aborted() if each in wanted] == log.aborted()
        assert [key for key in log.keys_left() if key in (1, 11, 3, 13)] == []
    assert log.keys_left() == [0, 10, 2, 12, 4, 14, 1001]


def test_markers_of_other_kinds_stay(log: Writing) -> None:
    leader_change = keyed(0, Keyed(0, b"\0\0\0\2", b"\0\0 a message"), control=True)
    log.append(leader_change)
    log.append(keyed(0, Keyed(0, b"k", b"v")))
    log.sealed().clean()
    log.after()
    log.after()
    assert shape_of(log.log) == [(0, 0, 1), (1, 1, 1)]


def test_an_index_is_written_only_where_something_was_aborted(log: Writing) -> None:
    log.write(1, 1)
    log.end(1, COMMIT)
    log.sealed().clean()
    assert not list(log.partition.glob("*.txnindex"))
