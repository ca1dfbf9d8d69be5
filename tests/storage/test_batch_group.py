"""Groups of plain batches have the records, and meet the damage, of their batches."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import marker

from offsetfs.storage import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Batch,
    BatchGroup,
    BatchSlice,
    LogDirectory,
    LogReader,
    Record,
    TopicPartition,
)
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records import COLUMNS, OFFSET_DELTA, TIMESTAMP_DELTA
from offsetfs.storage.records.format.batch import HEADER_SIZE, build, seal_checksum
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = [pytest.mark.unit, pytest.mark.damages]

NAME = TopicPartition("orders", 0)
SEGMENT = "orders-0/00000000000000000000.log"
TIME = 1_795_000_000_000
Key = tuple[bytes | None, int, int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(NAME)
        for number in range(40):
            records = [(b"%d.%d" % (number, each), b"v", (), TIME + number - each) for each in range(number % 3 + 1)]
            transaction = number == 20
            fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0} if transaction else {}
            codec = "zstd" if number == 30 else "none"
            kind = "LogAppendTime" if number == 10 else "CreateTime"
            built = build(records, codec=codec, transactional=transaction, timestamp_type=kind, **fields)  # type: ignore[arg-type]
            log.append(SealedBatch(memoryview(built), len(records), 1, Timestamp(TIME + number), len(built)))
            if transaction:
                log.append(marker(1, 0))
    return tmp_path


def keys_of(batch: Batch, first: int, stop: int) -> list[Key]:
    """Return the key, offset and time of each record, by rows for a group."""
    if not isinstance(batch, BatchGroup):
        return [key_of(record) for record in batch.records() if first <= record.offset < stop]
    rows, payload = batch.rows(), bytes(batch.payload())
    keys = list[Key]()
    for at in range(0, len(rows), COLUMNS):
        delta, time, position, size = rows[at : at + 4]
        assert (delta, time) == (rows[at + OFFSET_DELTA], rows[at + TIMESTAMP_DELTA])
        keys.append((payload[position : position + size], batch.base_offset + delta, batch.timestamp_of(time)))
    return [key for key in keys if first <= key[1] < stop]


def key_of(record: Record) -> Key:
    return record.key, record.offset, record.timestamp


def read(
    path: Path, start: int, stop: int, *, is_committed_only: bool, is_grouped: bool
) -> tuple[list[Key], list[str]]:
    """Return the records of a range, and the damage that was met."""
    damage, keys = list[str](), list[Key]()
    with contextlib.closing(LogDirectory.open(str(path), read_only=True)) as directory:
        log = directory.log(NAME)
        reader = LogReader(
            log,
            start=start,
            stop=stop,
            isolation=READ_COMMITTED if is_committed_only else READ_UNCOMMITTED,
            on_damage=lambda error: damage.append(str(error)),
        )
        slices: list[BatchSlice] = list(reader.groups() if is_grouped else reader.slices())
        for batch, first, end in slices:
            try:
                keys += keys_of(batch, first, end)
                continue
            except StorageError as error:
                if not isinstance(batch, BatchGroup):
                    damage.append(str(error))
            for each in batch.batches() if isinstance(batch, BatchGroup) else ():
                try:
                    keys += keys_of(each, first, end)
                except StorageError as error:
                    damage.append(str(error))
        if is_grouped:
            assert any(isinstance(batch, BatchGroup) for batch, _, _ in slices) or stop - start < 20
    return keys, damage


@pytest.mark.parametrize("is_committed_only", [False, True])
@pytest.mark.parametrize("bounds", [(0, 1000), (7, 8), (5, 50), (1, 2), (33, 61)])
def test_groups_have_the_records_of_their_batches(path: Path, bounds: tuple[int, int], is_committed_only: bool) -> None:
    expected = read(path, *bounds, is_committed_only=is_committed_only, is_grouped=False)
    assert read(path, *bounds, is_committed_only=is_committed_only, is_grouped=True) == expected
    assert expected[0] and not expected[1]


def positions(data: bytes) -> list[int]:
    found, position = list[int](), 0
    while position < len(data):
        found.append(position)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def test_groups_meet_the_damage_that_batches_meet(path: Path) -> None:
    segment = path / SEGMENT
    whole = segment.read_bytes()
    batches = positions(whole)
    for number in (0, 1, 2, 12, 38, len(batches) - 1):
        # Base offset, size, magic, checksum, attributes, last offset delta, count, the first record.
        for byte in (0, 5, 6, 7, 8, 10, 11, 16, 17, 22, 26, 60, 62):
            for bit in (1, 4, 128):
                damaged = bytearray(whole)
                damaged[batches[number] + byte] ^= bit
                segment.write_bytes(damaged)
                for bounds in ((0, 1000), (10, 70)):
                    expected = read(path, *bounds, is_committed_only=False, is_grouped=False)
                    found = read(path, *bounds, is_committed_only=False, is_grouped=True)
                    assert found == expected, (number, byte, bit, bounds)


def test_records_that_cannot_be_read_are_those_of_one_batch(path: Path) -> None:
    segment = path / SEGMENT
    data = bytearray(segment.read_bytes())
    begin = positions(bytes(data))[5]
    end = begin + 12 + int.from_bytes(data[begin + 8 : begin + 12], "big")
    batch = data[begin:end]
    batch[HEADER_SIZE] ^= 0x40  # the size of the first record; the checksum holds
    seal_checksum(batch)
    data[begin:end] = batch
    segment.write_bytes(data)
    expected = read(path, 0, 1000, is_committed_only=False, is_grouped=False)
    assert read(path, 0, 1000, is_committed_only=False, is_grouped=True) == expected
    assert len(expected[1]) == 1 and len(expected[0]) > 70
