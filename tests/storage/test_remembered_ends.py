"""Where a reader ended is remembered for the next look-up, and no reader gets wrong batches: `Segment.end_before`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.cleaner import Cleaner
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.planted_logs import PARTITION
from fixtures.logs.small_logs import SmallLog, record
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError
from offsetfs.storage.segments.segment import ENDS_MAX, Segment

pytestmark = pytest.mark.unit

NOW = 1_800_000_000_000


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallLog]:
    """A log of ten batches of a record each, fewer bytes than an index interval."""
    made = SmallLog(tmp_path / "log", FakeClock(NOW))
    for number in range(10):
        made.log.append(record(NOW, b"%d" % number))
    yield made
    made.directory.close()


def ranges(log: Log, offset: int = 0, bytes_max: int = 1) -> list[tuple[int, int, bytes]]:
    """Read as a consumer; return for each range where it begins, the offset behind it, and its bytes."""
    found: list[tuple[int, int, bytes]] = []
    while offset < log.next_offset:
        each = log.find_range(offset, bytes_max, offset_end=log.next_offset)
        assert each is not None
        found.append((each.position, each.offset_end, bytes(each.file.read(each.position, each.size))))
        offset = each.offset_end
    return found


def expected(log: Log) -> list[tuple[int, int, bytes]]:
    """Return what `ranges` returns for batches that are looked up without what is remembered."""
    found: list[tuple[int, int, bytes]] = []
    offset = log.log_start_offset
    while (batch := log.batch_at(offset)) is not None:
        assert batch.position is not None
        found.append((batch.position, batch.header.next_offset, bytes(batch.data)))
        offset = batch.header.next_offset
    return found


def test_the_next_range_is_found_without_a_search(small: SmallLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a log of small batches, half an index interval was walked for each Fetch."""
    before = expected(small.log)
    assert ranges(small.log)[0] == before[0]

    def search(*_: object, **__: object) -> int:
        raise AssertionError("a search")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "floor_position", search)
        assert ranges(small.log, 1) == before[1:]
        for number in (10, 11):
            small.log.append(record(NOW, b"%d" % number))
            assert len(ranges(small.log, number)) == 1
    assert ranges(small.log) == expected(small.log)


def test_the_end_of_a_segment_is_not_the_begin_of_what_is_in_the_next(small: SmallLog) -> None:
    ranges(small.log)
    small.log.roll()
    small.log.append(record(NOW, b"next"))
    assert ranges(small.log) == expected(small.log)


def test_ends_are_bounded(small: SmallLog) -> None:
    for number in range(10, 3 * ENDS_MAX):
        small.log.append(record(NOW, b"%d" % number))
    assert ranges(small.log) == ranges(small.log) == expected(small.log)
    (segment,) = small.log.snapshot()
    assert len(segment._ends) == ENDS_MAX


def test_a_truncated_segment_remembers_nothing(small: SmallLog) -> None:
    ranges(small.log)
    small.log.truncate_to(4)
    for number in range(8):
        small.log.append(record(NOW, b"another" * number))
    assert ranges(small.log) == expected(small.log)


def test_a_partition_that_was_created_again_remembers_nothing(small: SmallLog) -> None:
    ranges(small.log)
    small.directory.delete_partition(PARTITION)
    log = small.directory.create_partition(PARTITION)
    for number in range(10):
        log.append(record(NOW, b"another" * (9 - number)))
    assert ranges(log) == expected(log)


def test_a_compacted_segment_remembers_nothing(tmp_path: Path) -> None:
    def batch(offset: int, key: bytes, size: int) -> bytes:
        return keyed(offset, Keyed(0, key, b"v" * size))

    first = [batch(0, b"a", 100), batch(1, b"b", 50), batch(2, b"a", 30), batch(3, b"b", 70)]
    each = Cleaner(tmp_path, {0: first, 4: [batch(4, b"c", 10)]})
    before = ranges(each.log)
    each.clean()
    after = ranges(each.log)
    assert after == expected(each.log) and after != before
    each.close()


@pytest.mark.damages
@pytest.mark.parametrize("base_offset", [3, 5, 2**40])
def test_a_damaged_offset_at_an_end_is_met_as_without_it(small: SmallLog, base_offset: int) -> None:
    position = ranges(small.log)[4][0]
    (segment,) = small.log.snapshot()
    with Path(segment.log_path).open("r+b") as file:
        file.seek(position)
        file.write(base_offset.to_bytes(8, "big"))

    def found(*, remembers: bool) -> object:
        if not remembers:
            segment._ends.clear()
        try:
            return small.log.find_range(4, 1, offset_end=10)
        except StorageError as error:
            return type(error), error.position, error.reason

    end = segment.end_before(4)
    assert end is not None and end[0] == position
    assert found(remembers=True) == found(remembers=False)
