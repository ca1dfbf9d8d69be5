"""Lines of several ranges in one order: compared with a sort, read at every place, and the newest records of all."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import offsetfs
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.views import merged_lines
from offsetfs.storage.views.line_index import LineIndexPool
from offsetfs.storage.views.merged_lines import LineMerge, newest_starts
from offsetfs.storage.views.range_view import RangeView
from offsetfs.storage.views.record_row_walk import record_rows
from offsetfs.storage.views.view_blocks import OnDamage
from offsetfs.storage.views.view_format import VALUES, JsonFormat

pytestmark = pytest.mark.unit

Stamps = list[list[int]]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(str(tmp_path))
    yield directory
    directory.close()


def views(directory: LogDirectory, stamps: Stamps, seed: int = 0) -> list[LogView]:
    """Return logs with records of these timestamps, in batches of random sizes; the values name their place."""
    chosen, made = random.Random(seed), []
    for number, times in enumerate(stamps):
        name = TopicPartition("orders", number)
        directory.create_partition(name)
        log = directory.log(name)
        while log.next_offset < len(times):
            first = log.next_offset
            builder = BatchBuilder(1 << 16)
            for offset in range(first, min(first + chosen.randint(1, 5), len(times))):
                assert builder.append(None, place(number, offset), (), times[offset])
            log.append(builder.seal())
            if chosen.random() < 0.2:
                log.roll()
        made.append(LogView(log, is_committed_only=False, on_damage=fail))
    return made


def place(number: int, offset: int) -> bytes:
    return b"%d:%d" % (number, offset) + b"\n" * (offset % 3 == 1)


def fail(error: Exception) -> None:
    raise error


def ranges(logs: list[LogView], starts: list[int], ends: list[int], is_json: bool = False) -> list[RangeView]:
    pool, made = LineIndexPool(100), []
    for log, start, end in zip(logs, starts, ends, strict=True):
        form = JsonFormat(log.log.partition) if is_json else VALUES
        made.append(RangeView(log, start, end, pool, fail, view_format=form, known=lambda segment: None))
        assert made[-1].refresh()
    return made


def in_order(stamps: Stamps, starts: list[int], ends: list[int]) -> list[tuple[int, int]]:
    """Return partition and offset of the records, sorted: a record is as late as the latest before it."""
    keyed = []
    for number, times in enumerate(stamps):
        start, end = starts[number], ends[number]
        keyed += [(max(times[start : offset + 1]), number, offset) for offset in range(start, end)]
    return [(number, offset) for _, number, offset in sorted(keyed)]


def random_stamps(chosen: random.Random) -> Stamps:
    made = []
    for _ in range(chosen.randint(1, 4)):
        times = [chosen.randint(0, 40) for _ in range(chosen.randint(0, 30))]
        made.append(sorted(times) if chosen.random() < 0.5 else times)
    return made


@pytest.mark.parametrize("seed", range(30))
def test_lines_are_in_the_order_of_timestamp_partition_and_offset(
    directory: LogDirectory, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged_lines, "MARK_BYTES", 8)
    monkeypatch.setattr(merged_lines, "MARKS_MAX", 4)
    chosen = random.Random(seed)
    stamps = random_stamps(chosen)
    logs = views(directory, stamps, seed)
    starts = [chosen.randint(0, len(times)) for times in stamps]
    ends = [chosen.randint(start, len(times)) for start, times in zip(starts, stamps, strict=True)]
    parts = ranges(logs, starts, ends)
    expected = b"".join(place(*record) + b"\n" for record in in_order(stamps, starts, ends))
    merge = LineMerge(parts, starts)
    assert sum(part.size for part in parts) == len(expected)
    assert merge.read(0, 1 << 20) == expected
    for _ in range(50):
        position, size = chosen.randint(0, len(expected) + 2), chosen.randint(1, len(expected) + 2)
        assert merge.read(position, size) == expected[position : position + size], (position, size)
        if chosen.random() < 0.1:
            merge.close()


@pytest.mark.parametrize("seed", range(10))
def test_the_library_reads_a_topic_in_the_same_order(directory: LogDirectory, seed: int) -> None:
    stamps = random_stamps(random.Random(seed))
    views(directory, stamps, seed)
    with offsetfs.open(directory.path) as data:
        found = [(record.partition, record.offset) for record in data.topic("orders").read()]
    assert found == in_order(stamps, [0] * len(stamps), [len(times) for times in stamps])


def test_lines_of_json_are_in_the_same_order(directory: LogDirectory) -> None:
    stamps = [[5, 6, 6], [1, 6, 9], [6]]
    logs = views(directory, stamps)
    lines = LineMerge(ranges(logs, [0, 0, 0], [3, 3, 1], is_json=True), [0, 0, 0]).read(0, 1 << 20).splitlines()
    places = [(int(line.split(b",")[1].split(b":")[1]), int(line.split(b",")[2].split(b":")[1])) for line in lines]
    assert places == [(1, 0), (0, 0), (0, 1), (0, 2), (1, 1), (2, 0), (1, 2)]


@pytest.mark.parametrize("seed", range(30))
def test_the_newest_records_are_the_last_of_the_order(directory: LogDirectory, seed: int) -> None:
    chosen = random.Random(seed)
    stamps = [sorted(times) for times in random_stamps(chosen)]
    logs, ends = views(directory, stamps, seed), [len(times) for times in stamps]
    whole = in_order(stamps, [0] * len(stamps), ends)
    for count in (0, 1, 2, 7, len(whole), len(whole) + 5):
        starts = newest_starts(logs, ends, count, fail)
        assert in_order(stamps, starts, ends) == whole[max(len(whole) - count, 0) :], count


def test_the_newest_records_of_unordered_logs_are_as_many_as_wanted(directory: LogDirectory) -> None:
    stamps = [[90, 1, 2], [50, 60, 70], [5]]
    logs, ends = views(directory, stamps), [3, 3, 1]
    for count in range(8):
        starts = newest_starts(logs, ends, count, fail)
        assert sum(end - start for start, end in zip(starts, ends, strict=True)) == count


def test_the_newest_records_are_found_from_the_end(directory: LogDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = views(directory, [[1] * 300, list(range(2, 302))])
    asked: list[tuple[int, int]] = []

    def counted(view: LogView, begin: int, end: int, on_damage: OnDamage) -> Iterator[object]:
        asked.append((begin, end))
        return record_rows(view, begin, end, on_damage)

    monkeypatch.setattr(merged_lines, "record_rows", counted)
    assert newest_starts(logs, [300, 300], 20, fail) == [300, 280]
    assert sorted(asked) == [(280, 300), (284, 300), (284, 300)]


def test_a_merge_reads_no_batch_before_it_is_needed(directory: LogDirectory) -> None:
    parts = ranges(views(directory, [list(range(200)), list(range(200))]), [0, 0], [200, 200])
    taken = [0, 0]

    class Counted:
        def __init__(self, number: int) -> None:
            self.number, self.size = number, parts[number].size

        def timed_lines(self, offset: int) -> Iterator[merged_lines.TimedLines]:
            for lines in parts[self.number].timed_lines(offset):
                taken[self.number] += len(lines.offsets)
                yield lines

    merge = LineMerge([Counted(0), Counted(1)], [0, 0])
    assert merge.read(0, 8) == b"0:0\n1:0\n"
    assert max(taken) <= 10
