"""Which part of a log is compacted, how urgently, and in which groups: the cases of Kafka's LogCleanerManagerTest."""

from __future__ import annotations

import pytest
from fixtures.logs.cleaner import DAY_MS, Cleaner, MakeCleaner
from fixtures.logs.keyed_logs import Keyed, keyed

from offsetfs.storage import files
from offsetfs.storage.compaction.compaction import DirtyRange, groups, most_dirty
from offsetfs.storage.names import segment_name

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

NOW = 1_800_000_000_000


def batch(offset: int, timestamp: int = NOW, *, count: int = 1) -> bytes:
    """Records with keys of their own."""
    return keyed(offset, *(Keyed(n, b"%d" % (offset + n), b"v", timestamp) for n in range(count)))


SIZE = len(batch(0))
THREE = {0: [batch(0)], 1: [batch(1)], 2: [batch(2)], 3: [batch(3)]}


def test_all_but_the_active_segment_is_dirty_at_first(cleaner: MakeCleaner) -> None:
    found = cleaner(THREE).find_dirty_range()
    assert (found.first_dirty, found.first_uncleanable) == (0, 3)
    assert (found.clean_bytes, found.cleanable_bytes, found.ratio) == (0, 3 * SIZE, 1.0)
    assert (found.is_due, found.is_overdue) == (True, False)


def test_what_is_below_the_checkpoint_is_clean(cleaner: MakeCleaner) -> None:
    each = cleaner(THREE)
    each.checkpoint = 2
    found = each.find_dirty_range()
    assert (found.first_dirty, found.clean_bytes, found.cleanable_bytes) == (2, 2 * SIZE, SIZE)
    assert found.ratio == pytest.approx(1 / 3) and not found.is_due


def test_a_segment_that_is_dirty_from_its_middle_counts_for_both(cleaner: MakeCleaner) -> None:
    each = cleaner({0: [batch(0), batch(1)], 2: [batch(2)]})
    each.checkpoint = 1
    assert (each.find_dirty_range().clean_bytes, each.find_dirty_range().cleanable_bytes) == (2 * SIZE, 2 * SIZE)


def test_the_ratio_must_be_above_the_least(cleaner: MakeCleaner) -> None:
    each = cleaner({0: [batch(0)], 1: [batch(1)], 2: []}, min_cleanable_dirty_ratio="0.5")
    each.checkpoint = 1
    assert (each.find_dirty_range().ratio, each.find_dirty_range().is_due) == (0.5, False)


def test_an_empty_log_is_never_due(cleaner: MakeCleaner) -> None:
    each = cleaner({0: []}, min_cleanable_dirty_ratio="0", max_compaction_lag_ms="1")
    assert (each.find_dirty_range().ratio, each.find_dirty_range().is_due) == (0.0, False)


@pytest.mark.parametrize("checkpoint", [0, 4, -7, 10**12, 2**63 - 1])
def test_a_checkpoint_outside_of_the_log_is_ignored(cleaner: MakeCleaner, checkpoint: int) -> None:
    each = cleaner({5: [batch(5)], 6: [batch(6)], 7: [batch(7)]})
    each.checkpoint = checkpoint
    found = each.find_dirty_range()
    assert (found.first_dirty, found.first_uncleanable) == (5, 7)
    each.clean()
    assert each.checkpoint == 7


def test_a_checkpoint_within_the_active_segment_leaves_nothing_to_clean(cleaner: MakeCleaner) -> None:
    each = cleaner({0: [batch(0)], 1: [batch(1), batch(2)]})
    each.checkpoint = 2
    found = each.find_dirty_range()
    assert (found.first_dirty, found.first_uncleanable, found.cleanable_bytes) == (2, 1, 0)
    assert not found.is_due
    each.clean()
    assert each.checkpoint == 2


def test_records_stay_uncleaned_for_as_long_as_the_lag_states(cleaner: MakeCleaner) -> None:
    """LogCleanerManagerTest.testCleanableOffsetsForTime."""
    old, young = NOW - 10_000, NOW - 999
    planted = {0: [batch(0, old)], 1: [batch(1, old)], 2: [batch(2, young)], 3: [batch(3, old)], 4: [batch(4)]}
    each = cleaner(planted, min_compaction_lag_ms="1000")
    assert each.find_dirty_range().first_uncleanable == 2
    each.clock.advance(1)
    assert each.find_dirty_range().first_uncleanable == 4


def test_without_a_time_in_records_that_of_the_file_counts_for_the_lag(cleaner: MakeCleaner) -> None:
    each = cleaner({0: [batch(0, -1)], 1: [batch(1, -1)], 2: []}, min_compaction_lag_ms="1000")
    for base, age_ms in ((0, 5000), (1, 500)):
        files.set_modified(str(each.partition / segment_name(base, ".log")), (NOW - age_ms) * 10**6)
    assert each.find_dirty_range().first_uncleanable == 1


def test_what_has_waited_for_too_long_is_due_whatever_the_ratio(cleaner: MakeCleaner) -> None:
    planted = {0: [batch(0, NOW, count=50)], 50: [batch(50, NOW)], 51: [batch(51)]}
    each = cleaner(planted, max_compaction_lag_ms="5000")
    each.checkpoint = 50
    each.clock.advance(5000)
    assert not each.find_dirty_range().is_due
    each.clock.advance(1)
    assert (each.find_dirty_range().is_overdue, each.find_dirty_range().is_due) == (True, True)
    each.checkpoint = 51
    assert not each.find_dirty_range().is_due


@pytest.mark.parametrize("timestamp", [0, -1])
def test_records_without_a_time_are_never_overdue(cleaner: MakeCleaner, timestamp: int) -> None:
    each = cleaner({0: [batch(0, timestamp)], 1: []}, max_compaction_lag_ms="1")
    each.clock.advance(DAY_MS)
    assert not each.find_dirty_range().is_overdue


def test_a_clock_far_from_the_records_delays_only_by_the_lag(cleaner: MakeCleaner) -> None:
    planted = {0: [batch(0, 2**63 - 1)], 1: [batch(1, 0)], 2: []}
    each = cleaner(planted, min_compaction_lag_ms="1000")
    assert each.find_dirty_range().first_uncleanable == 0
    each.clock.jump_to(0)
    assert each.find_dirty_range().first_uncleanable == 0


def find_dirty_range(clean: int, dirty: int, *, is_overdue: bool = False) -> DirtyRange:
    return DirtyRange(0, 1, clean, dirty, 0.5, is_overdue)


def test_the_dirtiest_of_those_that_are_due_is_next() -> None:
    candidates = [
        ("half", find_dirty_range(50, 50)),
        ("more", find_dirty_range(40, 60)),
        ("most", find_dirty_range(10, 90)),
        ("overdue", find_dirty_range(99, 1, is_overdue=True)),
        ("nothing", find_dirty_range(0, 0, is_overdue=True)),
    ]
    assert most_dirty(candidates) == "most"
    assert most_dirty(candidates[:2]) == "more"
    assert most_dirty([candidates[0], *candidates[3:]]) == "overdue"
    assert most_dirty([candidates[0], candidates[4]]) is None
    assert most_dirty(list[tuple[str, DirtyRange]]()) is None


# --- groups -----------------------------------------------------------------------------------------------------------


def grouped(each: Cleaner) -> list[list[int]]:
    segments = [s for s in each.log.snapshot() if s is not each.log.snapshot().active]
    return [[s.base_offset for s in group] for group in groups(segments, each.log.snapshot().active.base_offset)]


@pytest.mark.parametrize(
    ("fit", "wanted"),
    [(10, [[0, 1, 2]]), (3, [[0, 1, 2]]), (2, [[0, 1], [2]]), (1, [[0], [1], [2]]), (0.5, [[0], [1], [2]])],
)
def test_neighbors_are_grouped_that_fit_one_segment(cleaner: MakeCleaner, fit: float, wanted: list[list[int]]) -> None:
    """LogCleanerTest.testSegmentGrouping."""
    assert grouped(cleaner(THREE, segment_bytes=str(int(fit * SIZE)))) == wanted


@pytest.mark.parametrize(("index_bytes", "wanted"), [("150", [[0, 10], [20]]), ("100", [[0], [10], [20]])])
def test_neighbors_are_grouped_whose_indexes_fit_one(
    cleaner: MakeCleaner, index_bytes: str, wanted: list[list[int]]
) -> None:
    planted = {base: [batch(base + n) for n in range(10)] for base in (0, 10, 20)} | {30: []}
    each = cleaner(planted, index_interval_bytes="1", segment_index_bytes=index_bytes)
    assert [segment.open_files().index.count for segment in each.log.snapshot()][:3] == [9, 9, 9]
    assert grouped(each) == wanted


@pytest.mark.parametrize(("index_bytes", "wanted"), [("120", [[0, 10], [20]]), ("100", [[0], [10], [20]])])
def test_the_index_of_times_counts_as_well(cleaner: MakeCleaner, index_bytes: str, wanted: list[list[int]]) -> None:
    planted = {base: [batch(base + n, NOW + base + n) for n in range(6)] for base in (0, 10, 20)} | {30: []}
    each = cleaner(planted, index_interval_bytes="1", segment_index_bytes=index_bytes)
    assert [segment.open_files().time_index.count for segment in each.log.snapshot()][:3] == [5, 5, 5]
    assert grouped(each) == wanted


def test_neighbors_are_grouped_whose_offsets_fit_one(cleaner: MakeCleaner) -> None:
    """LogCleanerTest.testSegmentGroupingWithSparseOffsets: what counts is where the next segment begins."""
    far = 2**31
    planted = {0: [batch(0)], 1: [batch(1), batch(far - 1)], far: [batch(far)], far + 1: [batch(far + 1)], far + 2: []}
    assert grouped(cleaner(planted)) == [[0, 1], [far, far + 1]]


def test_an_empty_segment_joins_whatever_its_offsets(cleaner: MakeCleaner) -> None:
    """LogCleanerTest.testSegmentGroupingWithSparseOffsetsAndEmptySegments."""
    far = 2**31
    planted = {0: [], far: [], 2 * far: [batch(2 * far)], 2 * far + 1: []}
    assert grouped(cleaner(planted)) == [[0, far], [2 * far]]
