"""Leader epochs: what is learned, what truncation leaves, where an epoch ends. Kafka's LeaderEpochFileCacheTest."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.storage import checkpoint
from offsetfs.storage.checkpoint import LEADER_EPOCHS, read_epochs
from offsetfs.storage.partition.epochs import LeaderEpochCache

pytestmark = pytest.mark.unit

Entries = Sequence[tuple[int, int]]
MakeCache = Callable[..., LeaderEpochCache]


@pytest.fixture
def make_cache(tmp_path: Path) -> MakeCache:
    def make(*entries: tuple[int, int]) -> LeaderEpochCache:
        cache = LeaderEpochCache(str(tmp_path / LEADER_EPOCHS), [])
        for entry in entries:
            cache.assign(*entry)
        return cache

    return make


ASSIGNMENTS: dict[str, tuple[Entries, Entries]] = {
    "nothing": ([], []),
    "one": ([(2, 6)], [(2, 6)]),
    "the same again": ([(2, 6), (2, 6)], [(2, 6)]),
    "the same epoch goes on": ([(2, 6), (2, 7)], [(2, 6)]),
    "epochs that rise": ([(2, 6), (3, 8), (5, 9)], [(2, 6), (3, 8), (5, 9)]),
    "a later epoch from the same start": ([(2, 9), (3, 9)], [(3, 9)]),
    "an earlier start for the same epoch": ([(5, 11), (6, 12), (7, 13), (7, 12)], [(5, 11), (7, 12)]),
    "an earlier start for a later epoch": ([(2, 6), (3, 8), (4, 7)], [(2, 6), (4, 7)]),
    "an earlier epoch with a later start": ([(2, 6), (4, 7), (3, 9)], [(2, 6), (3, 9)]),
    "all contradicted": ([(3, 6), (4, 7), (2, 5)], [(2, 5)]),
    "a first epoch that is not zero, at a start that is not zero": ([(9, 100)], [(9, 100)]),
}


@pytest.mark.parametrize(("assigned", "expected"), ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_what_is_assigned_is_kept_in_order_and_on_disk(
    assigned: Entries, expected: Entries, make_cache: MakeCache
) -> None:
    cache = make_cache(*assigned)
    cache.check()
    assert cache.entries == tuple(expected)
    assert cache.latest == (expected[-1][0] if expected else None)
    assert read_epochs(cache.path) == list(expected)


FROM_END: dict[str, tuple[int, Entries]] = {
    "beyond everything": (12, [(2, 6), (3, 8), (4, 11)]),
    "at a start": (8, [(2, 6)]),
    "between": (9, [(2, 6), (3, 8)]),
    "at the first start": (6, []),
    "below everything": (0, []),
}


@pytest.mark.parametrize(("end_offset", "expected"), FROM_END.values(), ids=FROM_END)
def test_truncation_at_the_end_drops_the_epochs_that_begin_there(
    end_offset: int, expected: Entries, make_cache: MakeCache
) -> None:
    cache = make_cache((2, 6), (3, 8), (4, 11))
    cache.truncate_from_end(end_offset)
    assert cache.entries == tuple(expected)
    assert read_epochs(cache.path) == list(expected)


FROM_START: dict[str, tuple[int, Entries]] = {
    "below everything": (5, [(2, 6), (3, 8), (4, 11)]),
    "at the first start": (6, [(2, 6), (3, 8), (4, 11)]),
    "inside the first": (7, [(2, 7), (3, 8), (4, 11)]),
    "at a start": (8, [(3, 8), (4, 11)]),
    "inside another": (9, [(3, 9), (4, 11)]),
    "at the last start": (11, [(4, 11)]),
    "beyond everything": (15, [(4, 15)]),
}


@pytest.mark.parametrize(("start_offset", "expected"), FROM_START.values(), ids=FROM_START)
def test_truncation_at_the_start_keeps_the_epoch_of_the_new_start(
    start_offset: int, expected: Entries, make_cache: MakeCache
) -> None:
    cache = make_cache((2, 6), (3, 8), (4, 11))
    cache.truncate_from_start(start_offset)
    cache.check()
    assert cache.entries == tuple(expected)
    assert read_epochs(cache.path) == list(expected)


def test_kafkas_case_of_a_start_that_was_corrected(make_cache: MakeCache) -> None:
    assert make_cache((5, 11), (6, 12), (7, 13), (7, 12)).entries == ((5, 11), (7, 12))


def test_clearing_empties_the_file(make_cache: MakeCache) -> None:
    cache = make_cache((2, 6))
    cache.clear()
    assert cache.latest is None and Path(cache.path).read_bytes() == b"0\n0\n"


def test_nothing_is_written_before_the_first_change(make_cache: MakeCache) -> None:
    cache = make_cache()
    cache.truncate_from_end(0)
    cache.truncate_from_start(9)
    cache.clear()
    assert not Path(cache.path).exists()


def test_a_change_that_cannot_be_written_is_not_made(make_cache: MakeCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = make_cache((2, 6), (3, 8))

    def full(path: str, epochs: object) -> None:
        raise OSError(errno.ENOSPC, "no space", path)

    monkeypatch.setattr(checkpoint, "write_epochs", full)
    changes: list[Callable[[], None]] = [
        lambda: cache.assign(4, 9),
        lambda: cache.truncate_from_end(7),
        lambda: cache.truncate_from_start(7),
        cache.clear,
    ]
    for change in changes:
        with pytest.raises(OSError, match="no space"):
            change()
        assert cache.entries == ((2, 6), (3, 8))


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 12)), max_size=20))
def test_entries_rise_whatever_is_done(
    steps: list[tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cache = LeaderEpochCache(str(tmp_path_factory.mktemp("epochs") / LEADER_EPOCHS), [])
    for kind, epoch, offset in steps:
        if kind == 0:
            cache.assign(epoch, offset)
            assert cache.latest == epoch
        elif kind == 1:
            cache.truncate_from_end(offset)
            assert all(start < offset for _, start in cache.entries)
        else:
            cache.truncate_from_start(offset)
            assert all(start >= offset for _, start in cache.entries)
        cache.check()
        assert tuple(read_epochs(cache.path)) == cache.entries
