"""Producer state: a broker's snapshots byte by byte, replay of its logs, Kafka's rules for epochs and transactions."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.errors import InvalidSnapshot
from offsetfs.storage.partition.producers import ABORT, COMMIT, NONE, ProducerEntry, ProducerState
from offsetfs.storage.records.format.batch import BatchHeader, parse_header, read_batch
from offsetfs.storage.units import Offset, Timestamp

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
SNAPSHOTS = sorted(GOLDEN.glob("*/*.snapshot"))
REPLAYED = sorted(path for path in SNAPSHOTS if path.parent.name in ("idempotent-0", "transactions-0", "java-0"))

ONE_PRODUCER = bytes.fromhex(
    "0001ecc24c0900000001000000000000002a000300000009000000000000000e0000000100000000000003e800000007ffffffffffffffff"
)


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


# --- snapshots -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SNAPSHOTS, ids=name)
def test_the_snapshots_of_a_broker_are_read_and_written_again_byte_by_byte(path: Path) -> None:
    assert ProducerState.load(path.read_bytes(), str(path)).dump() == path.read_bytes()


@pytest.mark.parametrize("path", [p for p in SNAPSHOTS if p.parent.name != "wide-0"], ids=name)
def test_the_snapshots_of_a_broker_read_as_its_own_tool_prints_them(path: Path) -> None:
    state = ProducerState.load(path.read_bytes())
    assert [printed(*item) for item in state.entries.items()] == dumped(path)


def printed(producer_id: int, entry: ProducerEntry) -> str:
    open_txn = entry.current_txn_first_offset
    batch = (
        f"firstSequence: {entry.last_sequence - entry.offset_delta} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )
    return (
        f"producerId: {producer_id} producerEpoch: {entry.producer_epoch} coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: OptionalLong{'.empty' if open_txn == NONE else f'[{open_txn}]'} "
        f"lastTimestamp: {entry.timestamp} {batch if entry.last_offset != NONE else ''}"
    )


def dumped(path: Path) -> list[str]:
    """Return the lines that Kafka's DumpLogSegments prints for this file."""
    text = path.parent.with_name(f"{path.parent.name}.indexes.dump.txt").read_text()
    sections = re.split(r"^Dumping (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))[name(path)].splitlines()


def test_a_known_snapshot_has_its_meaning() -> None:
    state = ProducerState.load(ONE_PRODUCER)
    assert state.entries == {42: ProducerEntry(3, 9, 14, 1, 1000, 7, NONE)}
    assert state.dump() == ONE_PRODUCER


def test_no_producers_make_a_snapshot_of_ten_bytes() -> None:
    assert ProducerState().dump() == (GOLDEN / "codec-none-0" / "00000000000000000400.snapshot").read_bytes()
    assert len(ProducerState().dump()) == 10
    assert ProducerState.load(ProducerState().dump()).entries == {}


def sealed(body: bytes, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


DAMAGED = {
    "empty": b"",
    "zeros, as after power loss": bytes(56),
    "only a header cut short": ONE_PRODUCER[:9],
    "cut short": ONE_PRODUCER[:-1],
    "a byte over": ONE_PRODUCER + b"\0",
    "unknown version": sealed(ONE_PRODUCER[6:], version=2),
    "older version": sealed(ONE_PRODUCER[6:], version=0),
    "count too high": sealed(b"\0\0\0\2" + ONE_PRODUCER[10:]),
    "count too low": sealed(b"\0\0\0\0" + ONE_PRODUCER[10:]),
    "count beyond all reason": sealed(b"\x7f\xff\xff\xff"),
    "negative count": sealed(b"\xff\xff\xff\xff"),
    "a bit of an entry flipped": ONE_PRODUCER[:20] + bytes([ONE_PRODUCER[20] ^ 1]) + ONE_PRODUCER[21:],
    "a bit of the checksum flipped": ONE_PRODUCER[:2] + bytes([ONE_PRODUCER[2] ^ 1]) + ONE_PRODUCER[3:],
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_snapshot_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(InvalidSnapshot) as caught:
        ProducerState.load(data, "/logs/a-0/x.snapshot")
    assert caught.value.path == "/logs/a-0/x.snapshot"


@given(data=st.binary(max_size=200) | st.binary(max_size=200).map(sealed))
def test_any_bytes_are_refused_or_read_as_a_state_that_survives_being_written(data: bytes) -> None:
    try:
        state = ProducerState.load(data)
    except InvalidSnapshot:
        return
    assert ProducerState.load(state.dump()).entries == state.entries


def test_an_entry_without_an_offset_has_no_batch() -> None:
    entry = (
        bytes.fromhex("000000000000002a 0003 00000009 fffffffffffffffe 00000001 00000000000003e8 00000007")
        + b"\xff" * 8
    )
    state = ProducerState.load(sealed(b"\0\0\0\1" + entry))
    assert state.entries[42] == ProducerEntry(3, NONE, NONE, 0, 1000, 7, NONE)


# --- replay of what a broker wrote -----------------------------------------------------------------------------------


def replay(directory: Path, state: ProducerState, start: int, end: int) -> ProducerState:
    for header, control in batches(directory):
        if start <= header.base_offset < end:
            state.replay(header, control)
    return state


def batches(directory: Path) -> Iterator[tuple[BatchHeader, tuple[int, int] | None]]:
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while position < len(data):
            header = parse_header(data, position)
            yield header, marker(data, position) if header.is_control else None
            position += header.size


def marker(data: bytes, position: int) -> tuple[int, int] | None:
    record = next(iter(read_batch(data, position).records()), None)
    if record is None or record.key is None or record.value is None:
        return None
    return int.from_bytes(record.key[2:4], "big"), int.from_bytes(record.value[2:6], "big")


@pytest.mark.parametrize("path", REPLAYED, ids=name)
def test_replaying_the_log_up_to_a_snapshot_gives_its_bytes(path: Path) -> None:
    assert replay(path.parent, ProducerState(), 0, int(path.stem)).dump() == path.read_bytes()


@pytest.mark.parametrize(
    ("older", "newer"),
    [(a, b) for a in REPLAYED for b in REPLAYED if a.parent == b.parent and a.stem < b.stem],
    ids=name,
)
def test_replaying_from_one_snapshot_on_gives_the_next(older: Path, newer: Path) -> None:
    state = ProducerState.load(older.read_bytes())
    assert replay(older.parent, state, int(older.stem), int(newer.stem)).dump() == newer.read_bytes()


def test_replaying_a_compacted_log_gives_the_last_batch_of_each_producer() -> None:
    for topic in ("compacted-tx-0", "compacted-tx2-0"):
        path = max((GOLDEN / topic).glob("*.snapshot"))
        state = replay(path.parent, ProducerState(), 0, int(path.stem))
        expected = ProducerState.load(path.read_bytes())
        assert state.entries.keys() == expected.entries.keys()
        assert {pid: e.last_offset for pid, e in state.entries.items()} == {
            pid: e.last_offset for pid, e in expected.entries.items()
        }


# --- the rules -------------------------------------------------------------------------------------------------------

TRANSACTIONAL, CONTROL = 0x10, 0x20


def data_batch(
    base_offset: int,
    sequence: int = 0,
    *,
    count: int = 1,
    producer_id: int = 1,
    epoch: int = 0,
    timestamp: int = 1000,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=Offset(base_offset),
        size=100,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=(TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
        last_offset_delta=count - 1,
        base_timestamp=Timestamp(timestamp),
        max_timestamp=Timestamp(timestamp),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        count=count,
    )


def marker_batch(base_offset: int, epoch: int = 0, timestamp: int = 2000) -> BatchHeader:
    return data_batch(base_offset, NONE, epoch=epoch, timestamp=timestamp, transactional=True, control=True)


def after(*steps: BatchHeader | tuple[BatchHeader, tuple[int, int] | None]) -> ProducerEntry | None:
    state = ProducerState()
    for step in steps:
        header, control = (step, None) if isinstance(step, BatchHeader) else step
        state.replay(header, control)
    return state.entries.get(1)


def test_a_batch_without_a_producer_changes_nothing() -> None:
    state = ProducerState()
    state.replay(data_batch(0, NONE, producer_id=-1))
    assert state.entries == {}


def test_the_last_batch_of_a_producer_is_remembered() -> None:
    entry = after(data_batch(10, 0, count=5, timestamp=7), data_batch(30, 5, count=3, timestamp=9))
    assert entry == ProducerEntry(0, 7, 32, 2, 9, NONE, NONE)


SEQUENCES = {
    "one record": (5, 1, 5),
    "several": (5, 10, 14),
    "up to the largest": (2**31 - 3, 3, 2**31 - 1),
    "over the largest": (2**31 - 2, 3, 0),
    "far over the largest": (2**31 - 6, 11, 4),
    "none": (NONE, 3, NONE),
}


@pytest.mark.parametrize(("base", "count", "last"), SEQUENCES.values(), ids=SEQUENCES)
def test_sequences_go_from_the_largest_on_to_zero(base: int, count: int, last: int) -> None:
    entry = after(data_batch(0, base, count=count))
    assert entry is not None and entry.last_sequence == last


def test_gaps_and_older_epochs_are_taken_for_they_were_accepted_once() -> None:
    entry = after(data_batch(0, 0, epoch=3), data_batch(5, 99, epoch=3), data_batch(9, 4, epoch=2))
    assert entry == ProducerEntry(2, 4, 9, 0, 1000, NONE, NONE)


def test_the_first_batch_of_a_transaction_opens_it_and_a_marker_ends_it() -> None:
    first, second = data_batch(10, 0, transactional=True), data_batch(11, 1, transactional=True)
    opened = after(first, second)
    assert opened is not None and opened.current_txn_first_offset == 10
    for kind in (COMMIT, ABORT):
        ended = after(first, second, (marker_batch(12), (kind, 7)))
        assert ended == ProducerEntry(0, 1, 11, 0, 2000, 7, NONE)


def test_a_marker_of_another_epoch_makes_the_producer_begin_anew() -> None:
    entry = after(data_batch(10, 5, transactional=True), (marker_batch(11, epoch=1), (ABORT, 7)))
    assert entry == ProducerEntry(1, NONE, NONE, 0, 2000, 7, NONE)


def test_a_marker_without_a_transaction_is_remembered_for_its_epochs() -> None:
    assert after((marker_batch(11, epoch=4), (COMMIT, 7))) == ProducerEntry(4, NONE, NONE, 0, 2000, 7, NONE)


def test_data_after_a_marker_keeps_the_coordinators_epoch() -> None:
    entry = after(data_batch(10, 0, transactional=True), (marker_batch(11), (COMMIT, 7)), data_batch(12, 1))
    assert entry == ProducerEntry(0, 1, 12, 0, 1000, 7, NONE)


def test_a_batch_outside_an_open_transaction_does_not_end_it() -> None:
    entry = after(data_batch(10, 0, transactional=True), data_batch(11, 1))
    assert entry is not None and (entry.current_txn_first_offset, entry.last_offset) == (10, 11)


IGNORED: dict[str, tuple[int, int] | None] = {
    "emptied by compaction": None,
    "leader change": (2, 7),
    "unknown type": (99, 7),
    "negative type": (-1, 7),
}


@pytest.mark.parametrize("control", IGNORED.values(), ids=IGNORED)
def test_a_control_batch_that_ends_no_transaction_changes_nothing(control: tuple[int, int] | None) -> None:
    before = data_batch(10, 0, transactional=True)
    assert after(before, (marker_batch(11), control)) == after(before)


def test_producers_are_kept_apart_and_written_in_the_order_of_their_ids() -> None:
    state = ProducerState()
    for producer_id in (9, 3, 7):
        state.replay(data_batch(producer_id, 0, producer_id=producer_id))
    loaded = ProducerState.load(state.dump())
    assert list(loaded.entries) == [3, 7, 9]
    assert {pid: entry.last_offset for pid, entry in loaded.entries.items()} == {3: 3, 7: 7, 9: 9}


I16, I32, I64 = (st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (16, 32, 64))


@given(
    producers=st.dictionaries(
        I64, st.builds(ProducerEntry, I16, I32, st.integers(0, 2**63 - 1), I32, I64, I32, I64), max_size=5
    )
)
def test_every_state_survives_a_snapshot(producers: dict[int, ProducerEntry]) -> None:
    expected = {
        producer_id: replace(entry, current_txn_first_offset=max(entry.current_txn_first_offset, NONE))
        for producer_id, entry in producers.items()
    }
    assert ProducerState.load(ProducerState(producers).dump()).entries == expected
