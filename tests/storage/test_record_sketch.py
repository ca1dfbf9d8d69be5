"""Sketches of records, compiled and in Python: the same state after everything, and errors within their bounds."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType

import pytest

from offsetfs.storage.native import record_sketch as native_record_sketch
from offsetfs.storage.records.columns import record_sketch
from offsetfs.storage.records.columns.record_sketch import RecordSketch, quantile
from offsetfs.storage.records.format import codec
from offsetfs.storage.reference import record_sketch as layout

pytestmark = pytest.mark.unit

IMPLEMENTATIONS = (native_record_sketch, layout)
Fields = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "reference"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Each of the implementations, which `RecordSketch` uses meanwhile."""
    monkeypatch.setattr(record_sketch, "_record_sketch", request.param)
    chosen: ModuleType = request.param
    return chosen


def sketch_of(records: Sequence[Fields], base_offset: int = 0) -> RecordSketch:
    sketch = RecordSketch()
    payload = codec.encode(records, 0, 0)
    sketch.add_rows(payload, codec.scan(payload, len(records)), base_offset)
    return sketch


def with_keys(keys: Iterable[bytes | None]) -> list[Fields]:
    return [(key, b"", [], 0) for key in keys]


@pytest.mark.usefixtures("module")
def test_nulls_tombstones_and_headers_are_counted() -> None:
    sketch = sketch_of(
        [(b"k", None, [], 0), (None, None, [], 0), (b"", b"", [("a", None), ("b", b"1")], 0), (None, b"12", [], 0)], 7
    )
    assert (sketch.records, sketch.keyed, sketch.null_values, sketch.tombstones) == (4, 2, 2, 1)
    assert (sketch.with_headers, sketch.headers, sketch.key_bytes, sketch.value_bytes) == (1, 2, 1, 2)
    assert sketch.largest() == [(2, 10), (1, 7)]
    assert sketch.value_size_buckets() == [(0, 1, 1), (2, 3, 1)]
    assert (sketch.distinct_keys, [each.key for each in sketch.heavy_keys(9)]) == (2, [b"", b"k"])


@pytest.mark.usefixtures("module")
def test_the_largest_records_keep_their_offsets_and_the_first_of_equal_size_wins() -> None:
    sizes = [3, 50, 50, *range(1, 20)]
    sketch = sketch_of([(None, b"x" * size, [], 0) for size in sizes], 100)
    assert sketch.largest()[:3] == [(50, 101), (50, 102), (19, 121)]
    assert len(sketch.largest()) == layout.LARGEST


def test_each_size_is_in_a_bucket_whose_middle_is_near() -> None:
    for size in [*range(5000), 2**20 - 1, 2**20, 2**31 - 1]:
        low, beyond = layout.bucket_bounds(layout.bucket_of(size))
        assert low <= size < beyond
        assert abs((low + beyond - 1) // 2 - size) <= max(size * 0.016, 0)
    assert layout.bucket_of(2**31 - 1) == layout.BUCKETS - 1


def test_quantiles_are_those_of_the_sizes_within_the_stated_error() -> None:
    rng = random.Random(5)
    sizes = sorted(int(rng.paretovariate(0.9)) for _ in range(3000))
    buckets = sketch_of([(None, b"x" * min(size, 50_000), [], 0) for size in sizes]).value_size_buckets()
    for share in (0.1, 0.5, 0.9, 0.99):
        exact = min(sizes[int(share * len(sizes)) - 1], 50_000)
        assert quantile(buckets, share) == pytest.approx(exact, rel=0.016, abs=0.5)
    assert quantile([], 0.5) is None


@pytest.mark.parametrize("different", [100, 1536, 20_000, 100_000])
def test_distinct_keys_are_within_four_standard_errors(different: int) -> None:
    sketch = RecordSketch()
    for start in range(0, different, 20_000):
        records = with_keys(b"customer-%d" % number for number in range(start, min(start + 20_000, different)))
        sketch.merge(sketch_of(records).state)
    assert sketch.distinct_keys == pytest.approx(different, rel=0 if different <= 1536 else 0.033)


@pytest.mark.usefixtures("module")
def test_counts_of_heavy_keys_are_between_their_bounds() -> None:
    rng = random.Random(6)
    keys = [b"%d" % int(rng.paretovariate(0.2)) for _ in range(6000)]
    sketch, exact = sketch_of(with_keys(keys)), Counter(keys)
    assert 0 < sketch.heavy_error <= len(keys) // 768
    heaviest = sketch.heavy_keys(20)
    for each in heaviest:
        assert each.records <= exact[each.key] <= each.records + sketch.heavy_error
    assert {key for key, _ in exact.most_common(3)} <= {each.key for each in heaviest}


@pytest.mark.usefixtures("module")
def test_a_long_key_is_told_from_others_with_its_beginning() -> None:
    sketch = sketch_of(with_keys([b"x" * 50, b"x" * 50 + b"y", b"x" * 50]))
    assert [(each.records, len(each.key), each.key_size) for each in sketch.heavy_keys(9)] == [(2, 40, 50), (1, 40, 51)]


def test_both_implementations_reach_the_same_state_and_merge_to_it() -> None:
    rng = random.Random(7)
    states = [bytearray(layout.STATE_BYTES) for _ in IMPLEMENTATIONS]
    for number in range(12):
        records: list[Fields] = [
            (
                None if rng.random() < 0.1 else b"k" * rng.randrange(20) + b"%d" % rng.randrange(10**5),
                None if rng.random() < 0.1 else bytes(int(rng.paretovariate(1)) % 9999),
                [("h", b"v")] * rng.randrange(3),
                rng.randrange(1000),
            )
            for _ in range(400)
        ]
        payload = codec.encode(records, 0, 0)
        rows = codec.scan(payload, len(records))
        given = [
            module.add_rows(state, payload, rows, number * 400)
            for module, state in zip(IMPLEMENTATIONS, states, strict=True)
        ]
        assert given[0] == given[1]
        assert states[0] == states[1]
    assert int.from_bytes(states[0][layout.HEAVY_ERROR * 8 :][:8], "little") > 0
    other = bytes(states[0])
    for module, state in zip(IMPLEMENTATIONS, states, strict=True):
        module.merge(state, other)
    assert states[0] == states[1]


def test_rows_and_states_of_something_else_are_refused(module: ModuleType) -> None:
    payload = codec.encode(with_keys([b"key"]), 0, 0)
    rows = codec.scan(payload, 1)
    for state in (bytearray(), bytearray(layout.STATE_BYTES - 1)):
        with pytest.raises(ValueError, match="no state"):
            module.add_rows(state, payload, rows, 0)
        with pytest.raises(ValueError, match="no state"):
            module.merge(bytearray(layout.STATE_BYTES), state)
    for column, number in ((2, -1), (2, 99), (3, 2**62), (4, 2**63 - 1), (5, 99)):
        wrong = array("q", rows)
        wrong[column] = number
        if column == 4:
            wrong[5] = 1
        with pytest.raises(ValueError, match="outside of its payload"):
            module.add_rows(bytearray(layout.STATE_BYTES), payload, wrong, 0)
    assert module.add_rows(bytearray(layout.STATE_BYTES), payload, rows[:0], 0) == (2**63 - 1, -(2**63))
