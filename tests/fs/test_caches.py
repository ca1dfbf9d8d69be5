"""Caches stay within their bytes and answer with what was put in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.fs.caches.batch_cache import BatchCache
from offsetfs.fs.caches.lru import Lru
from offsetfs.storage.records.format.batch import Batch, build, read_batch

pytestmark = pytest.mark.unit


def test_what_was_used_longest_ago_goes_first() -> None:
    cache: Lru[str] = Lru(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("A", None, "C")
    assert cache.bytes == 8


def test_what_is_larger_than_all_space_is_not_kept_and_displaces_nothing() -> None:
    cache: Lru[str] = Lru(10)
    cache.put("a", "A", 4)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)
    cache.put("a", "new", 11)
    assert cache.get("a") is None and cache.bytes == 0


def test_a_value_put_again_counts_once() -> None:
    cache: Lru[int] = Lru(10)
    for number in range(5):
        cache.put("a", number, 6)
    assert cache.get("a") == 4 and cache.bytes == 6


def batch(base_offset: int, count: int) -> Batch:
    return read_batch(build([(None, b"v" * 20, (), 0)] * count, base_offset=base_offset))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 30)), max_size=60))
def test_a_kept_batch_is_found_by_each_of_its_offsets_and_space_is_bounded(steps: list[tuple[bool, int, int]]) -> None:
    cache, every = BatchCache(1000), {}
    for puts, partition, number in steps:
        base, count = number * 10, number % 9 + 1
        if puts:
            every[partition, number] = batch(base, count)
            cache.keep(partition, every[partition, number])
            assert cache.find(partition, base) is not None
        for offset in range(base, base + 10):
            found = cache.find(partition, offset)
            if offset >= base + count:
                assert found is None
            elif found is not None:
                assert (partition, number) in every
                assert found.header.base_offset == base
        assert cache.bytes <= 1000
        assert cache.bytes == sum(size for _, size in cache._batches.values())
        assert sum(len(bases) for bases in cache._bases.values()) == len(cache._batches)
