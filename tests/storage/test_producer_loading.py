"""Producers replayed from rows of headers are those that a replay batch by batch finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.logs.planted_logs import batch, crash, data, marker, plant
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import producer_loading
from offsetfs.storage.partition.producers import ABORT, COMMIT, ProducerState, end_marker
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import build

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


def one_by_one(file: files.File) -> ProducerState:
    state = ProducerState()
    for each in batch_chain.batches(file, 0, file.size()):
        state.replay(each.header, end_marker(each) if each.header.is_control else None)
    return state


def by_rows(file: files.File) -> ProducerState:
    state = ProducerState()
    for rows in row_walk.sound_rows(file, 0, file.size()):
        producer_loading.replay(state, rows, file)
    return state


def control(producer_id: int, kind: int, offset: int) -> bytearray:
    record = (b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\7", (), 1000 + offset)
    return build(
        [record], base_offset=offset, transactional=True, control=True, producer_id=producer_id, producer_epoch=1
    )


STEP = st.tuples(st.integers(-1, 2), st.sampled_from(["data", "data", "transactional", "abort", "commit", "other"]))


@given(st.lists(STEP, max_size=25), st.sampled_from([100, 300, 1 << 20]))
@settings(max_examples=120)
def test_rows_and_batches_yield_the_same_producers(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, str]], block_bytes: int
) -> None:
    log = bytearray()
    for offset, (producer, what) in enumerate(steps):
        if producer < 0:
            log += batch(offset, b"x")
        elif what in ("data", "transactional"):
            fields = {"producer_id": producer, "producer_epoch": offset // 9, "base_sequence": offset}
            log += batch(offset, b"x", transactional=what == "transactional", timestamp=offset, **fields)
        else:
            log += control(producer, {"abort": ABORT, "commit": COMMIT, "other": 5}[what], offset)
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(log)
    with pytest.MonkeyPatch.context() as patch, files.open_file(str(path)) as file:
        patch.setattr(row_walk, "BLOCK_BYTES", block_bytes)
        assert by_rows(file).dump() == one_by_one(file).dump()


def test_producers_of_the_golden_logs_are_those_of_their_snapshots(golden: Path) -> None:
    for name in ("transactions-0", "idempotent-0"):
        for path in sorted((golden / name).glob("*.log")):
            with files.open_file(str(path)) as file:
                assert by_rows(file).dump() == one_by_one(file).dump(), path


def test_a_state_in_the_middle_of_a_log_leaves_out_what_comes_later(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    for sequence in range(6):
        log.append(data(1, sequence, 1, is_transactional=False))
    for end in range(7):
        state = producer_loading.load(log.path, log.snapshot(), end, log_start=0, clean=False)
        assert [entry.last_sequence for entry in state.entries.values()] == ([end - 1] if end else [])
    directory.close()


def test_a_transaction_cut_by_the_log_start_opens_when_its_marker_goes(
    tmp_path: Path,
) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    log.append(data(1, 0, 3))
    log.append(marker(1, COMMIT))
    assert (log.delete_records(1), log.truncate_to(3)) == (1, True)
    assert (log.last_stable_offset(), log.producers()[1].last_sequence) == (1, 2)
    directory.close()


@pytest.mark.damages
def test_an_unreadable_marker_ends_no_transaction_and_prevents_no_write(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    log.append(data(1, 0, 1))
    log.append(marker(1, ABORT))
    log.append(data(2, 0, 1, is_transactional=False))
    directory.close()
    for path in tmp_path.glob("*/*.snapshot"):
        path.unlink()
    file = tmp_path / "orders-0" / f"{0:020d}.log"
    spoilt = bytearray(file.read_bytes())
    position = 12 + int.from_bytes(spoilt[8:12], "big")
    spoilt[position + 70] ^= 1
    file.write_bytes(spoilt)
    with files.open_file(str(file)) as opened, pytest.raises(StorageError):
        one_by_one(opened)
    (tmp_path / ".kafka_cleanshutdown").unlink()  # a recovery point behind it all: nothing is cut
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (log.append(data(2, 1, 1, is_transactional=False)).base_offset, log.last_stable_offset()) == (3, 0)
    assert log.producers()[1].current_txn_first_offset == 0
    directory.close()


def test_a_log_without_producers_has_none(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a", b"b")]})
    crash(tmp_path)
    directory = LogDirectory.open(str(tmp_path))
    assert directory.log(PARTITION).producers() == {}
    directory.close()
