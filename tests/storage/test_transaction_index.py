"""`.txnindex` files: the entries that are there, whatever stands behind them."""

import struct
from pathlib import Path

import pytest

from offsetfs.storage.errors import CorruptIndex
from offsetfs.storage.segments.transaction_index import AbortedTransaction, entries

pytestmark = pytest.mark.unit

KAFKA_ENTRY = bytes.fromhex("0000000000000000002a000000000000000a000000000000000f0000000000000010")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.txnindex"


def test_an_entry_of_kafkas_is_read(path: Path) -> None:
    path.write_bytes(KAFKA_ENTRY)
    assert list(entries(str(path))) == [
        AbortedTransaction(producer_id=42, first_offset=10, last_offset=15, last_stable_offset=16, version=0)
    ]


def test_entries_come_in_their_order_across_blocks(path: Path) -> None:
    path.write_bytes(b"".join(struct.pack(">hqqqq", 0, 1, number, number, number) for number in range(10_000)))
    assert [entry.last_offset for entry in entries(str(path))] == list(range(10_000))


@pytest.mark.parametrize("size", [0, 1, 33])
def test_what_is_no_whole_entry_at_the_end_is_passed_over(path: Path, size: int) -> None:
    path.write_bytes(KAFKA_ENTRY * 2 + KAFKA_ENTRY[:size])
    assert len(list(entries(str(path)))) == 2


def test_a_version_of_the_future_is_refused_and_the_entries_before_it_are_not(path: Path) -> None:
    path.write_bytes(KAFKA_ENTRY + b"\1" + KAFKA_ENTRY[1:])
    found = entries(str(path))
    assert next(found).producer_id == 42
    with pytest.raises(CorruptIndex, match="an entry of version 1"):
        next(found)


def test_only_the_first_byte_of_the_version_counts(path: Path) -> None:
    path.write_bytes(b"\0\7" + KAFKA_ENTRY[2:])
    assert [entry.version for entry in entries(str(path))] == [0]
