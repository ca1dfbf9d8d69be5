"""Caches stay within their bytes and answer with what was put in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.fs.caches import BatchCache
from offsetfs.storage.records.format.batch import Batch, build, read_batch

pytestmark = pytest.mark.unit


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
        assert cache.size <= 1000
        assert cache.size == sum(size for _, size in cache._batches.values())
        assert sum(len(bases) for bases in cache._bases.values()) == len(cache._batches)
