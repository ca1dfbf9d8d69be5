"""Rows by the schema that they name: in whole columns of Arrow as in the engine's counts, and in golden records."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fixtures.logs.schema_records import Headers, write_log
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.schemas.named_rows import rows_by_schema
from offsetfs.schemas.references import KEY_FIELD, PATTERNS, VALUE_FIELD, NamedSchema
from offsetfs.schemas.schema_usage import TopicUsage
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.tables.arrow import header_column

pytestmark = pytest.mark.unit

NAMES = sorted({each.header.decode() for field in PATTERNS for each in PATTERNS[field] if each.header is not None})
PARTS = [each.prefix + b"\0\0\0\7" * size for field in PATTERNS for each in PATTERNS[field] for size in (1, 2, 5)]
CONTENTS = st.one_of(st.none(), st.sampled_from(PARTS), st.binary(max_size=20), st.just(b"\0\xff\xff\xff\xff1"))
HEADERS = st.lists(st.tuples(st.sampled_from([*NAMES, "trace"]), CONTENTS), max_size=4).map(tuple)
RECORDS = st.lists(st.tuples(CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=8)


def refuse(error: StorageError) -> None:
    raise error


def counted(records: list[tuple[bytes | None, bytes | None, Headers]]) -> TopicUsage:
    usage = TopicUsage()
    with tempfile.TemporaryDirectory() as path:
        write_log(Path(path), "orders-0", records)
        directory = LogDirectory.open(path, read_only=True)
        usage.count(directory.log(TopicPartition("orders", 0)), None, refuse)
        directory.close()
    return usage


@given(RECORDS)
@settings(max_examples=60)
def test_rows_have_the_names_that_the_engine_counts(records: list[tuple[bytes | None, bytes | None, Headers]]) -> None:
    usage = counted(records)
    headers = header_column(headers for _, _, headers in records)
    for place, field in enumerate((KEY_FIELD, VALUE_FIELD)):
        column = pa.array([record[place] for record in records], pa.binary())
        found: Counter[NamedSchema | None] = Counter()
        seen = []
        for each in rows_by_schema(column, headers, field):
            found[each.named] += len(each.rows)
            seen += each.rows.tolist()
        present = [row for row, record in enumerate(records) if record[place] is not None]
        assert sorted(seen) == present
        # The engine counts headers of nulls as well; a null has nothing to decode.
        if len(present) == len(records):
            expected = {named: count.count for named, count in usage.fields[field].names.items()}
            assert {named: count for named, count in found.items() if named is not None} == expected
            assert found[None] == usage.fields[field].unnamed


def test_a_slice_of_headers_has_those_of_its_rows() -> None:
    id_of = [(("__value_schema_id", b"\0\0\0\0" + bytes([number])),) for number in (1, 2, 3)]
    headers = header_column([*id_of[:2], (), id_of[2]]).slice(1)
    (two, three, none) = rows_by_schema(pa.array([b"a", b"b", b"c"], pa.binary()), headers, VALUE_FIELD)
    assert [each.named and each.named.name for each in (two, three, none)] == ["2", "3", None]
    assert [each.rows.tolist() for each in (two, three, none)] == [[0], [2], [1]]


def test_the_path_of_a_message_is_behind_the_name_in_a_header() -> None:
    guid = b"\1" + bytes(16)
    headers = header_column([(("__value_schema_id", guid + path),) for path in (b"", b"\0", b"\2\4", b"\0")])
    found = list(rows_by_schema(pa.array([b""] * 4, pa.binary()), headers, VALUE_FIELD))
    assert {each.path: each.rows.tolist() for each in found} == {b"": [0], b"\0": [1, 3], b"\2\4": [2]}
    assert len({each.named for each in found}) == 1


def test_rows_with_a_name_each_are_divided_in_one_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_rows: list[int] = []
    argsort = np.argsort

    def counted_sort(rows: Any, **how: Any) -> Any:
        sorted_rows.append(len(rows))
        return argsort(rows, **how)

    monkeypatch.setattr(np, "argsort", counted_sort)
    column = pa.array([b"\0" + number.to_bytes(4, "big") for number in (*range(1, 1000), 5)], pa.binary())
    found = list(rows_by_schema(column, None, VALUE_FIELD))
    assert (len(found), found[4].rows.tolist(), sorted_rows) == (999, [4, 999], [1000])
