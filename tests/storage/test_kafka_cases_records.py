"""Kafka's cases for batches, control records and record files that no other test has, with the numbers of its tests."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, plant, sealed, values_of

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.dump import decoders
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.partition.producers import ProducerState, end_marker
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.batch import (
    HEADER_SIZE,
    BatchHeader,
    build,
    parse_header,
    read_batch,
    seal_checksum,
    stamp,
)
from offsetfs.storage.records.format.batch_header import write_header
from offsetfs.storage.records.format.record import CREATE_TIME, LOG_APPEND_TIME
from offsetfs.storage.units import Offset, Timestamp

pytestmark = pytest.mark.unit


# --- DefaultRecordBatchTest, MemoryRecordsBuilderTest ----------------------------------------------------------------


def header(attributes: int, **fields: int) -> BatchHeader:
    """Kafka's empty header: offsets 15 to 37, sequence 983."""
    given = {"last_offset_delta": 22, "base_timestamp": -1, "count": 0, "size": HEADER_SIZE} | fields
    return BatchHeader(
        base_offset=Offset(15),
        size=given["size"],
        leader_epoch=3,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=given["last_offset_delta"],
        base_timestamp=Timestamp(given["base_timestamp"]),
        max_timestamp=Timestamp(12345),
        producer_id=23423,
        producer_epoch=145,
        base_sequence=983,
        count=given["count"],
    )


FLAGS = list(itertools.product((False, True), repeat=3))


@pytest.mark.parametrize(("is_append_time", "is_transactional", "is_control"), FLAGS)
def test_an_empty_header_keeps_the_fields_of_its_batch(
    is_append_time: bool, is_transactional: bool, is_control: bool
) -> None:
    written = bytearray(HEADER_SIZE)
    write_header(written, header(8 * is_append_time | 16 * is_transactional | 32 * is_control))
    seal_checksum(written)
    empty = read_batch(written)
    seen = empty.header
    assert (seen.base_offset, seen.last_offset, seen.base_timestamp, seen.max_timestamp) == (15, 37, -1, 12345)
    assert (seen.producer_id, seen.producer_epoch, seen.base_sequence, seen.leader_epoch) == (23423, 145, 983, 3)
    assert (seen.is_transactional, seen.is_control) == (is_transactional, is_control)
    assert seen.timestamp_type == (LOG_APPEND_TIME if is_append_time else CREATE_TIME)
    assert empty.records() == []


def test_the_last_sequence_of_an_emptied_batch_is_that_of_its_last_offset() -> None:
    state = ProducerState()
    state.replay(header(0))
    entry = state.entries[23423]
    assert (entry.last_sequence, entry.last_offset, entry.producer_epoch) == (983 + 22, 37, 145)


def test_a_batch_that_is_moved_keeps_its_checksum() -> None:
    moved = bytearray(batch(0, b"a", b"b", b"c"))
    stamp(moved, 498, 7)
    read = read_batch(moved)
    assert (read.header.base_offset, read.header.last_offset, read.header.leader_epoch) == (498, 500, 7)
    assert [record.offset for record in read.records()] == [498, 499, 500]


def test_records_around_a_delete_horizon_keep_their_times() -> None:
    payload = codec.encode([(None, b"v", (), time) for time in (50, 100, 150)], 100, 0)
    written = bytearray(HEADER_SIZE) + payload
    write_header(written, header(0x40, last_offset_delta=2, base_timestamp=100, count=3, size=len(written)))
    seal_checksum(written)
    read = read_batch(written)
    assert read.header.has_delete_horizon and read.header.base_timestamp == 100
    assert [record.timestamp for record in read.records()] == [50, 100, 150]


# --- MemoryRecordsTest, EndTransactionMarkerTest, ControlRecordTypeTest, ControlRecordUtilsTest -----------------------


def control(type_id: int, value: bytes, *, version: int = 0, **fields: Any) -> bytes:
    return bytes(build([(struct.pack(">hh", version, type_id), value, (), 1000)], control=True, **fields))


def test_a_leader_change_is_a_control_batch_without_a_producer() -> None:
    leader_change = read_batch(control(2, b"\0\0\0\0\0\1\1\1\0"))
    assert leader_change.header.is_control and not leader_change.header.is_transactional
    assert leader_change.header.producer_id == -1
    state = ProducerState()
    state.replay(leader_change.header, end_marker(leader_change))
    assert state.entries == {}


def end(version: int, epoch: int) -> bytes:
    return struct.pack(">hi", version, epoch)


SHOWN = {
    "commit": (0, 1, end(0, 15), "endTxnMarker: COMMIT coordinatorEpoch: 15"),
    "abort": (0, 0, end(0, 15), "endTxnMarker: ABORT coordinatorEpoch: 15"),
    "a value of a version to come": (0, 0, end(1, 0) + b"more", "endTxnMarker: ABORT coordinatorEpoch: 0"),
    "a key of a version to come": (1, 0, end(0, 0), "endTxnMarker: ABORT coordinatorEpoch: 0"),
    "an unknown type": (0, 337, b"", "controlType: UNKNOWN(337)"),
}


@pytest.mark.parametrize(("version", "type_id", "value", "text"), SHOWN.values(), ids=SHOWN)
def test_a_later_control_record_is_read_and_an_unknown_type_is_unknown(
    version: int, type_id: int, value: bytes, text: str
) -> None:
    assert decoders.show_control_record(struct.pack(">hh", version, type_id), value) == text


REFUSED = {
    "no key": (None, end(0, 0)),
    "a key below 4 bytes": (b"\0\0\0", end(0, 0)),
    "a key of a negative version": (struct.pack(">hh", -1, 0), end(0, 0)),
    "a value below 6 bytes": (struct.pack(">hh", 0, 0), end(0, 0)[:5]),
    "no value": (struct.pack(">hh", 0, 1), None),
    "a value of a negative version": (struct.pack(">hh", 0, 1), end(-1, 0)),
}


@pytest.mark.parametrize(("key", "value"), REFUSED.values(), ids=REFUSED)
def test_a_control_record_that_is_too_short_or_of_a_negative_version_is_refused(
    key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(MalformedBatch):
        decoders.show_control_record(key, value)


def test_a_marker_that_is_too_short_is_refused_where_it_would_count() -> None:
    with pytest.raises(MalformedBatch, match="too short"):
        end_marker(read_batch(control(0, end(0, 0)[:5], transactional=True, producer_id=1, producer_epoch=0)))


# --- FileRecordsTest -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [2, 4, 5, 6, 60, 61, 70])
def test_iteration_over_a_cut_last_batch_ends_before_it(cut: int, tmp_path: Path) -> None:
    whole = [batch(0, b"abcd"), batch(1, b"efgh")]
    plant(tmp_path, {0: [*whole, batch(2, b"ijkl")[:cut]]}, is_clean=False)
    for read_only in (True, False):
        directory = LogDirectory.open(str(tmp_path), read_only=read_only)
        log = directory.log(PARTITION)
        assert (values_of(log), log.next_offset) == ([b"abcd", b"efgh"], 2)
        directory.close()


def test_the_first_batch_that_reaches_an_offset_is_found_over_a_gap(tmp_path: Path) -> None:
    first, last = batch(0, b"abcd"), batch(50, b"test")
    plant(tmp_path, {0: [first, last]})
    log = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    for offset in (1, 3, 49, 50):
        found = log.batch_at(offset)
        assert found is not None
        assert (found.header.base_offset, found.position, found.header.size) == (50, len(first), len(last))


def test_what_was_read_stays_as_it_is_while_others_append(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    log.append(sealed(b"a"))
    log.append(sealed(b"b"))
    read, walk = log.read(0, 1 << 20), log.snapshot().active.batches()
    first = next(walk)
    log.append(sealed(b"c"))
    assert [parse_header(read).base_offset, len(read)] == [0, 2 * first.header.size]
    assert [each.header.base_offset for each in (first, *walk)] == [0, 1]
    directory.close()
