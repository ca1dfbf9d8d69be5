"""State batches of share groups that overlap: which of them holds for an offset."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage.coordinators.share_groups import StateBatch, combined

pytestmark = pytest.mark.unit

BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: StateBatch(first, first + length, state, count),
        *(st.integers(0, 30), st.integers(0, 12), st.sampled_from([0, 2, 4]), st.integers(0, 3)),
    ),
    max_size=12,
)


def by_offset(batches: list[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """Return delivery count and state of each offset, asked one by one."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (batch.delivery_count, batch.state))
    return found


@given(BATCHES, st.integers(-1, 40))
def test_each_offset_has_its_highest_delivery_count_and_of_it_the_highest_state(
    batches: list[StateBatch], start: int
) -> None:
    found = combined(batches, start)
    assert by_offset(found, start) == by_offset(batches, start)
    for one, following in itertools.pairwise(found):
        assert one.last_offset < following.first_offset
        assert one.last_offset + 1 < following.first_offset or one[2:] != following[2:]
    assert combined(found, start) == found
    assert all(start <= batch.first_offset <= batch.last_offset for batch in found)


@given(BATCHES, BATCHES, st.integers(-1, 20), st.integers(0, 20))
def test_it_does_not_matter_when_batches_are_combined(
    before: list[StateBatch], after: list[StateBatch], start: int, moved: int
) -> None:
    at_once = combined(before + after, start + moved)
    assert combined(combined(before, start) + after, start + moved) == at_once


def test_the_widest_batch_that_there_can_be() -> None:
    end = 2**63 - 1
    batches = [StateBatch(0, end, 0, 0), StateBatch(5, 5, 2, 1)]
    assert combined(batches, 0) == [StateBatch(0, 4, 0, 0), StateBatch(5, 5, 2, 1), StateBatch(6, end, 0, 0)]
