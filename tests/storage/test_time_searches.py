"""What the time index says already is not read out of the log: a listing shows the first time in a log by that."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures.logs.small_logs import SmallLog
from fixtures.simulation.fake_clock import FakeClock
from fixtures.spies import spy

from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.segments.segment import Segment

pytestmark = pytest.mark.unit


@pytest.fixture
def small(tmp_path: Path) -> SmallLog:
    """Two sealed segments: in the first all records are of one time, so that its time index ends at its beginning."""
    small = SmallLog(tmp_path / "logs", FakeClock(2_000_000), index_interval_bytes="0")
    small.segment(*[1_000_000] * 50)
    small.segment(1_000_001, 1_000_003, 1_000_002)
    return small


def test_a_time_that_the_index_reaches_is_found_without_measuring_its_segment(
    small: SmallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small.reopen()
    monkeypatch.setattr(Segment, "measure_max_timestamp", lambda segment: pytest.fail("measured"))
    assert log.find_timestamp(0) == (0, 1_000_000)
    assert log.find_timestamp(1_000_000) == (0, 1_000_000)
    assert log.snapshot().first.has_timestamp(1_000_000, nowait=True), "nor is a thread asked again"
    small.directory.close()


def test_a_time_that_it_does_not_reach_is_looked_for_behind_it(small: SmallLog) -> None:
    log = small.reopen()
    with pytest.raises(WouldBlock):
        log.find_timestamp(1_000_001, nowait=True)
    assert log.find_timestamp(1_000_001) == (50, 1_000_001)
    assert log.find_timestamp(1_000_003) == (51, 1_000_003)
    assert log.find_timestamp(1_000_004) is None
    assert log.max_timestamp() == (51, 1_000_003)
    small.directory.close()


@pytest.mark.long
def test_of_a_hundred_segments_a_search_asks_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallLog(tmp_path / "logs", FakeClock(2_000_000), index_interval_bytes="0")
    times = [1_000_000 + (number if number % 7 else -number) for number in range(100)]
    for time in times:
        small.segment(time)
    log, asked = small.reopen(), list[int]()
    has_timestamp = Segment.has_timestamp
    monkeypatch.setattr(
        Segment,
        "has_timestamp",
        spy(asked, lambda self, *words, **named: self.base_offset, has_timestamp),
    )
    for _ in range(2):
        for wanted in sorted({*times, 0, 1_000_050, 1_000_100}):
            first = next(((offset, time) for offset, time in enumerate(times) if time >= wanted), None)
            asked.clear()
            assert log.find_timestamp(wanted) == first
    assert len(asked) <= 2, "the last search of the second round"
    asked.clear()
    assert log.find_timestamp(1_000_064) == (64, 1_000_064)
    assert asked == [64]
    small.segment(1_000_200)
    assert log.find_timestamp(1_000_150) == (100, 1_000_200)
    small.directory.close()


@pytest.mark.damages
def test_the_latest_time_is_of_its_first_batch_even_behind_damage(small: SmallLog) -> None:
    log = small.reopen()
    path = Path(list(log.snapshot())[1].log_path)
    small.directory.close()
    data = path.read_bytes()
    path.with_suffix(".timeindex").write_bytes(b"")
    size = len(data) // 3
    for damaged, expected in ((b"", (1_000_003, 51)), (b"\xff" * 20, (1_000_003, 51))):
        path.write_bytes(damaged + data[len(damaged) :])
        segment = Segment(str(path.parent), 50, log.config, log.snapshot().first.pool)
        assert segment.measure_max_timestamp() == expected
        segment.pool.clear()
    path.write_bytes(data[:size] + b"\xff" * size + data[2 * size :])
    segment = Segment(str(path.parent), 50, log.config, log.snapshot().first.pool)
    assert segment.measure_max_timestamp() == (1_000_002, 52)
