"""Searching index entries: what is found, and that the compiled search finds what its module finds."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest

from offsetfs.storage.reference import index_search as reference_index_search
from offsetfs.storage.segments import index_file

pytestmark = pytest.mark.unit

_OFFSETS = struct.pack(">6i", 4, 100, 9, 200, 30, 300)
_TIMES = struct.pack(">qiqi", 1000, 4, 2**40, 30)

AROUND = {
    "below all": (103, [(100, 0), (104, 100), (109, 200)]),
    "the first": (104, [(104, 100), (109, 200), (130, 300)]),
    "between two": (108, [(104, 100), (109, 200), (130, 300)]),
    "the last but one": (109, [(109, 200), (130, 300)]),
    "above all": (5000, [(130, 300)]),
    "further than an entry reaches": (2**80, [(130, 300)]),
    "as far below": (-(2**80), [(100, 0), (104, 100), (109, 200)]),
}


@pytest.mark.parametrize("search", [index_file, reference_index_search], ids=["in use", "plain"])
@pytest.mark.parametrize("case", AROUND)
def test_an_offset_lies_between_its_floor_and_the_two_entries_behind_it(case: str, search: ModuleType) -> None:
    offset, expected = AROUND[case]
    assert search.around(_OFFSETS, 3, 100, offset) == expected


def test_no_entries_stand_for_the_beginning() -> None:
    assert index_file.around(b"", 0, 100, 104) == [(100, 0)]
    assert index_file.time_floor(b"", 0, 100, 104) == (-1, 100)


@pytest.mark.parametrize("timestamp, expected", [(999, (-1, 100)), (1000, (1000, 104)), (2**70, (2**40, 130))])
def test_a_time_has_the_latest_entry_that_is_not_after_it(timestamp: int, expected: tuple[int, int]) -> None:
    assert index_file.time_floor(_TIMES, 2, 100, timestamp) == expected


def test_entries_that_are_not_there_are_not_looked_for() -> None:
    with pytest.raises(ValueError):
        index_file.around(_OFFSETS, 4, 0, 5)
    with pytest.raises(ValueError):
        index_file.time_floor(_TIMES, 3, 0, 5)
