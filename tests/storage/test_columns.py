"""Records as columns, compiled and in Python: the same answers to everything, and nothing read out of bounds."""

from __future__ import annotations

from array import array
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fixtures.logs.random_columns import DATA, RECORDS, as_columns, column
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.records.columns import columns
from offsetfs.storage.records.columns.columns import KEY, VALUE, Column, RecordColumns
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.batch import read_batch
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.records.format.partitioner import partition_of
from offsetfs.storage.reference import columns as reference_columns

pytestmark = pytest.mark.unit

IMPLEMENTATIONS = (columns, reference_columns)
GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"


@given(RECORDS)
def test_what_is_encoded_from_columns_is_what_the_codec_encodes(records: list[tuple[Any, ...]]) -> None:
    wanted = codec.encode(records, records[0][3], 0)
    for module in IMPLEMENTATIONS:
        builder = BatchBuilder(1 << 16)
        encoded = module.encode_columns(as_columns(records), array("i", range(len(records))), 0, builder.cursor)
        builder.grown(encoded.cursor)
        assert (encoded.pick, encoded.record_bytes) == (len(records), 0)
        sealed = builder.seal()
        batch = read_batch(sealed.data)
        assert bytes(batch.payload()) == wanted
        assert sealed.max_timestamp == max(record[3] for record in records)
        assert sealed.values_bytes == sum(len(record[1] or b"") + 1 for record in records)


@given(RECORDS)
def test_gathered_columns_have_the_values_that_were_encoded(records: list[tuple[Any, ...]]) -> None:
    payload = codec.encode(records, 0, 0)
    scanned = codec.scan(payload, len(records))
    wanted = as_columns(records)
    for module in IMPLEMENTATIONS:
        assert same(module.gather(payload, scanned, KEY), wanted.keys)
        assert same(module.gather(payload, scanned, VALUE), wanted.values)
        found = module.gather_headers(payload, scanned)
        assert wanted.headers is not None and found.ends == wanted.headers.ends
        assert same(found.names, wanted.headers.names) and same(found.values, wanted.headers.values)


def same(found: Column, wanted: Column | None) -> bool:
    assert wanted is not None
    return (found.ends, bytes(found.data), found.validity) == (wanted.ends, wanted.data, wanted.validity)


@given(st.lists(DATA, max_size=20), st.integers(1, 20))
def test_keys_are_spread_as_kafkas_producer_spreads_them(keys: list[bytes | None], partitions: int) -> None:
    wanted = [-1 if key is None else partition_of(key, partitions) for key in keys]
    for module in IMPLEMENTATIONS:
        assert module.spread_keys(column(keys), len(keys), partitions).tolist() == wanted


def test_both_implementations_gather_the_same_from_what_a_broker_wrote() -> None:
    directory = LogDirectory.open(str(GOLDEN), read_only=True)
    for partition in directory.partitions():
        for segment in directory.log(partition).snapshot():
            for batch in segment.batches():
                payload, scanned = batch.payload(), batch.rows()
                for name in (KEY, VALUE):
                    assert columns.gather(payload, scanned, name) == reference_columns.gather(payload, scanned, name)
                assert columns.gather_headers(payload, scanned) == reference_columns.gather_headers(payload, scanned)
    directory.close()


ROW = [0, 0, 0, 2, 2, 2, 4, 1]

WRONG_ROWS = {
    "a key beyond the payload": (KEY, 0, 9),
    "a key that begins before it": (KEY, -1, 2),
    "a size that wraps": (KEY, 1, 2**63 - 1),
    "headers beyond the payload": (6, 50, 1),
    "more headers than bytes": (6, 4, 2**40),
    "headers that begin before it": (6, -3, 1),
}


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", WRONG_ROWS)
def test_rows_of_another_payload_are_refused(module: ModuleType, name: str) -> None:
    place, position, size = WRONG_ROWS[name]
    row = list(ROW)
    row[place : place + 2] = position, size
    with pytest.raises(ValueError):
        if place == KEY:
            module.gather(b"kkvv\2h\2x", array("q", row), KEY)
        else:
            module.gather_headers(b"kkvv\2h\2x", array("q", row))


GOOD = column([b"ab", b"c"])

WRONG_COLUMNS = {
    "ends beyond the data": GOOD._replace(ends=array("i", [0, 2, 9])),
    "ends that fall": GOOD._replace(ends=array("i", [0, 2, 1])),
    "too few ends": GOOD._replace(ends=array("i", [0, 2])),
    "an end below zero": GOOD._replace(ends=array("i", [-1, 2, 3])),
}


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", WRONG_COLUMNS)
def test_columns_that_contradict_themselves_are_refused(module: ModuleType, name: str) -> None:
    wrong, times = WRONG_COLUMNS[name], array("q", [1, 1])
    with pytest.raises(ValueError):
        module.spread_keys(wrong, 2, 3)
    for records in (RecordColumns(wrong, GOOD, None, times), RecordColumns(None, wrong, None, times)):
        with pytest.raises(ValueError):
            module.encode_columns(records, array("i", [0, 1]), 0, BatchBuilder(1000).cursor)


@pytest.mark.parametrize("module", IMPLEMENTATIONS)
def test_rows_and_timestamps_that_cannot_be_are_refused(module: ModuleType) -> None:
    for picks, times in ((array("i", [2]), [1, 1]), (array("i", [-1]), [1, 1]), (array("i", [0]), [-2, 1])):
        records = RecordColumns(GOOD, GOOD, None, array("q", times))
        with pytest.raises(ValueError):
            module.encode_columns(records, picks, 0, BatchBuilder(1000).cursor)
