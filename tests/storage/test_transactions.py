"""Transactions: what a broker's indexes and the log itself say of them, and how far a log is decided."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage import files
from offsetfs.storage.directory import directory_checkpoints
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptIndex, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import follower, transactions
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.segments.transaction_index import AbortedTransaction, TransactionIndex, entries
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
INDEXES = sorted(path for path in GOLDEN.glob("*/*.txnindex") if path.stat().st_size)
PARTITIONS = ("transactions-0", "compacted-tx-0", "compacted-tx2-0", "keyed-0")
PARTITION = TopicPartition("orders", 0)


# --- the index -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", INDEXES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_indexes_of_a_broker_read_as_its_own_tool_prints_them(path: Path) -> None:
    dump = (GOLDEN / f"{path.parent.name}.indexes.dump.txt").read_text()
    section = dump.split(f"Dumping {path.parent.name}/{path.name}\n")[1].split("Dumping")[0]
    printed = [[int(number) for number in re.findall(r": (-?\d+)", line)] for line in section.splitlines()]
    index = TransactionIndex.read(str(path), int(path.stem))
    assert [[entry.version, *entry[:4]] for entry in index.entries] == printed != []
    assert b"".join(entry.pack() for entry in entries(str(path))) == path.read_bytes()


KAFKAS = [  # (first, last, last stable), of Kafka's TransactionIndexTest
    AbortedTransaction(number, *offsets)
    for number, offsets in enumerate([(0, 10, 11), (5, 15, 13), (18, 35, 25), (32, 50, 40)])
]


@pytest.mark.parametrize(
    ("begin", "upper", "found", "is_complete"),
    [(0, 32, 3, True), (0, 35, 4, True), (11, 35, 3, True), (20, 41, 2, False)],
)
def test_collecting_stops_where_everything_is_decided(begin: int, upper: int, found: int, is_complete: bool) -> None:
    collected, complete = TransactionIndex(0, KAFKAS, 4 * 34).collect(begin, upper)
    assert (len(collected), complete) == (found, is_complete)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], "no whole number"),
        (lambda data: data[:34] + b"\1" + data[35:], "version 1"),
        (lambda data: data[34:68] + data[:34] + data[68:], "cannot follow"),
        (lambda data: bytes(len(data)), "cannot follow"),
        (lambda data: b"\0\0\xff" + data[3:], "no transaction"),
    ],
    ids=["torn", "a version to come", "out of order", "zeros", "no producer"],
)
def test_an_index_that_cannot_be_true_is_refused(damage: Callable[[bytes], bytes], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000023.txnindex"
    path.write_bytes(damage((GOLDEN / "transactions-0" / path.name).read_bytes()))
    with pytest.raises(CorruptIndex, match=reason):
        TransactionIndex.read(str(path), 23)


# --- a broker's logs -------------------------------------------------------------------------------------------------


def fates(log: Log) -> dict[int, bool]:
    """Return of each record, by offset, whether it is of no transaction or of a committed one."""
    return {
        record.offset: log.transactions.is_committed(batch.header)
        for segment in log.snapshot()
        for batch in segment.batches()
        if not batch.header.is_control
        for record in batch.records()
    }


def expected(partition: str) -> dict[int, bool]:
    lines = (GOLDEN / f"{partition}.expected.ndjson").read_text().splitlines()
    return {record["offset"]: record["committed"] for record in map(json.loads, lines)}


def _change_entry(path: Path, **fields: int) -> None:
    index = list(entries(str(path)))
    path.write_bytes(b"".join(entry.pack() for entry in [*index[:-1], index[-1]._replace(**fields)]))


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-34])
    (path.parents[1] / "recovery-point-offset-checkpoint").unlink(missing_ok=True)


def _remove(path: Path, *suffixes: str) -> None:
    for each in list(path.parent.iterdir()):
        if each.suffix in suffixes:
            each.unlink()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "intact": lambda path: None,
    "missing": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "an entry short, and not known to be synced": lambda path: _shorten(path),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-10]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "of another log": lambda path: path.write_bytes(AbortedTransaction(9, 364, 365, 366).pack()),
    "with a marker that is a record": lambda path: _change_entry(path, last_offset=int(path.stem) + 8),
    "with another producer": lambda path: _change_entry(path, producer_id=77),
    "without snapshots": lambda path: _remove(path, ".snapshot"),
    "with damaged snapshots": lambda path: [each.write_bytes(b"\0" * 56) for each in path.parent.glob("*.snapshot")],
    "nothing but the log": lambda path: _remove(path, ".snapshot", ".txnindex", ".index"),
}


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
@pytest.mark.parametrize("partition", [p for p in PARTITIONS if p != "keyed-0"])
def test_a_record_is_committed_as_a_client_saw_it_whatever_the_index_states(
    golden_copy: Path, partition: str, damage: Callable[[Path], object]
) -> None:
    for path in [each for each in golden_copy.glob(f"{partition}/*.txnindex") if each.stat().st_size]:
        if path.exists():
            damage(path)
    log = LogDirectory.open(str(golden_copy), read_only=True).log(TopicPartition.parse(partition))
    assert fates(log) == expected(partition)
    assert log.last_stable_offset() == log.next_offset
    if partition == "transactions-0":
        original = [entry for path in INDEXES if path.parent.name == partition for entry in entries(str(path))]
        assert log.transactions.aborted(0, log.next_offset) == original


@pytest.mark.long
@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_fate_of_one_record_needs_no_other(golden: Path, partition: str) -> None:
    wanted = expected(partition)
    for offset in list(wanted)[:: len(wanted) // 20]:
        log = LogDirectory.open(str(golden), read_only=True).log(TopicPartition.parse(partition))
        batch = log.batch_at(offset)
        assert batch is not None and log.transactions.is_committed(batch.header) == wanted[offset]
        around = [first <= offset <= last for _, first, last in log.aborted(offset, offset + 1)]
        assert wanted[offset] or any(around)


# --- a log of our own ------------------------------------------------------------------------------------------------


def data(producer_id: int = -1, count: int = 1) -> SealedBatch:
    sequence = 0 if producer_id >= 0 else -1
    batch = build(
        [(None, b"x" * 100, (), 1000)] * count,
        transactional=producer_id >= 0,
        producer_id=producer_id,
        producer_epoch=min(producer_id, 0),
        base_sequence=sequence,
    )
    return SealedBatch(memoryview(batch), count, 101 * count, Timestamp(1000), len(batch))


def marker(producer_id: int, kind: int) -> SealedBatch:
    record = (b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\7", (), 1000)
    batch = build([record], transactional=True, control=True, producer_id=producer_id, producer_epoch=0)
    return SealedBatch(memoryview(batch), 1, 0, Timestamp(1000), len(batch))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(str(tmp_path), defaults={"segment.bytes": "1000", "index.interval.bytes": "200"})
    yield directory
    directory.close()


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    return directory.create_partition(PARTITION)


@pytest.mark.damages
def test_the_last_stable_offset_is_the_first_of_the_oldest_open_transaction(log: Log) -> None:
    steps: list[tuple[SealedBatch, int]] = [
        (data(), 1),
        (data(1, 2), 1),  # open from 1 on
        (data(2), 1),
        (data(), 1),
        (marker(1, COMMIT), 3),
        (data(2), 3),
        (marker(2, ABORT), 8),
        (marker(2, ABORT), 9),  # ends nothing
        (data(), 10),
    ]
    for batch, stable in steps:
        log.append(batch)
        assert log.last_stable_offset() == stable
    assert log.aborted(0, 100) == [(2, 3, 7)]
    assert fates(log) == {0: True, 1: True, 2: True, 3: False, 4: True, 6: False, 9: True}


def test_what_is_appended_later_is_taken_in_without_waiting(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_NOWAIT", 0)  # everything is cached; a file system in memory could not tell
    log.append(data(1))
    reader = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    with pytest.raises(WouldBlock):
        reader.last_stable_offset(nowait=True)
    assert reader.last_stable_offset() == log.last_stable_offset() == 0
    log.append(marker(1, COMMIT))
    assert log.last_stable_offset(nowait=True) == 2
    with log.transactions._lock, pytest.raises(WouldBlock):
        log.last_stable_offset(nowait=True)


def test_a_long_range_is_left_to_a_thread(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "NOWAIT_BYTES_MAX", 100)
    assert log.last_stable_offset() == 0
    log.append(data(1))
    with pytest.raises(WouldBlock):
        log.last_stable_offset(nowait=True)


def test_a_batch_of_an_open_transaction_is_not_committed(log: Log) -> None:
    log.append(data(1))
    batch = log.batch_at(0)
    assert batch is not None and not log.transactions.is_committed(batch.header)
    log.append(marker(1, COMMIT))
    assert log.transactions.is_committed(batch.header)


@pytest.mark.damages
def test_a_damaged_batch_opens_no_transaction_that_would_hide_all_behind_it(log: Log) -> None:
    log.append(data(1))
    log.append(data())
    path = Path(log.snapshot().active.log_path)
    content = bytearray(path.read_bytes())
    content[80] ^= 1
    path.write_bytes(content)
    assert log.last_stable_offset() == 2


@pytest.mark.damages
def test_only_so_many_segments_are_kept_in_mind(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "SEGMENTS_KEPT_MAX", 3)
    model = Model()
    for number in range(60):
        model.append(log, [("data", number % 3), ("commit", number % 3), ("abort", 2)][number % 7 % 3])
    assert len(log.snapshot()) > 5
    model.check(log)
    assert len(log.transactions._known) <= 3


class Model:
    """What the log should say: every batch, with its producer and its fate (None: open)."""

    def __init__(self) -> None:
        self.batches: dict[int, tuple[int, bool | None]] = {}
        self.aborted: list[tuple[int, int, int]] = []
        self.end = 0

    def append(self, log: Log, step: tuple[str, int]) -> None:
        kind, producer_id = step
        if kind == "data":
            log.append(data(producer_id))
            self.batches[self.end] = (producer_id, None if producer_id >= 0 else True)
        elif producer_id >= 0:
            log.append(marker(producer_id, COMMIT if kind == "commit" else ABORT))
            mine = [offset for offset, batch in self.batches.items() if batch == (producer_id, None)]
            self.batches.update(dict.fromkeys(mine, (producer_id, kind == "commit")))
            if mine and kind == "abort":
                self.aborted.append((producer_id, mine[0], self.end))
        else:
            return
        self.end += 1

    def check(self, log: Log) -> None:
        still_open = [offset for offset, (_, fate) in self.batches.items() if fate is None]
        assert log.last_stable_offset() == min(still_open, default=self.end)
        assert fates(log) == {offset: bool(fate) for offset, (_, fate) in self.batches.items()}
        for begin in range(0, self.end, 7):
            reaching = [each for each in self.aborted if each[2] >= begin and each[1] < begin + 5]
            assert log.aborted(begin, begin + 5) == reaching


STEPS = st.lists(st.tuples(st.sampled_from(["data", "data", "commit", "abort"]), st.integers(-1, 2)), max_size=80)


@pytest.mark.long
@settings(max_examples=40)
@given(before=STEPS, after=STEPS)
def test_log_and_follower_agree_with_a_model_over_rolls_and_reopenings(
    tmp_path_factory: pytest.TempPathFactory, before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    path, model = tmp_path_factory.mktemp("log"), Model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "LOOK_INTERVAL_S", 0.0)
        patch.setattr(directory_checkpoints, "LOG_START_CHECK_S", 0.0)
        directory = LogDirectory.open(str(path), defaults={"segment.bytes": "1000", "index.interval.bytes": "200"})
        log = directory.create_partition(PARTITION)
        for step in before:
            model.append(log, step)
        reader = LogDirectory.open(str(path), read_only=True).log(PARTITION)
        model.check(reader)
        for number, step in enumerate(after):
            model.append(log, step)
            if number % 10 == 0:
                reader.refresh()
                model.check(reader)
        reader.refresh()
        model.check(reader)
        model.check(log)
        directory.close()
        again = LogDirectory.open(str(path))
        model.check(again.log(PARTITION))
        again.close()
        for each in (path / "orders-0").glob("*.snapshot"):
            each.unlink()
        model.check(LogDirectory.open(str(path), read_only=True).log(PARTITION))


def test_recovery_makes_the_index_anew(golden_copy: Path) -> None:
    partition = golden_copy / "transactions-0"
    paths = sorted(partition.glob("*.txnindex"))
    before = [path.read_bytes() for path in paths]
    paths[0].write_bytes(before[0][:-34])
    paths[1].unlink()
    (golden_copy / ".kafka_cleanshutdown").unlink()
    (golden_copy / "recovery-point-offset-checkpoint").unlink()
    directory = LogDirectory.open(str(golden_copy))
    assert [path.read_bytes() for path in paths] == before
    assert fates(directory.log(TopicPartition("transactions", 0))) == expected("transactions-0")
    directory.close()


@pytest.mark.parametrize("ends", ["by a close", "by a roll", "by a truncation"])
def test_an_existing_index_has_what_is_aborted_behind_it(tmp_path: Path, ends: str) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    for producer in (1, 2):
        log.append(data(producer, 2))
        log.append(marker(producer, ABORT))
        if producer == 1:
            directory.close()  # the index is on disk, and will be used
            (tmp_path / ".kafka_cleanshutdown").unlink()
            directory = LogDirectory.open(str(tmp_path))
            log = directory.log(PARTITION)
            assert (tmp_path / str(PARTITION) / f"{0:020d}.txnindex").stat().st_size == 34
    log.append(data(count=3))
    if ends == "by a roll":
        log.roll()
    if ends == "by a truncation":
        log.truncate_to(8)
    directory.close()
    log = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    assert log.aborted(0, log.next_offset) == [(1, 0, 2), (2, 3, 5)]
