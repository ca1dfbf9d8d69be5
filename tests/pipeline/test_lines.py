"""Lines of files as staged batches, however the files are cut; and pieces of logs, however those are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import offsetfs
from offsetfs.pipeline.jobs import import_files, lines
from offsetfs.pipeline.jobs.lines import FileRange, stage_lines
from offsetfs.pipeline.journal import Job
from offsetfs.pipeline.log_directories import opened
from offsetfs.pipeline.publication import publish
from offsetfs.pipeline.read_options import ReadOptions
from offsetfs.pipeline.scan_range import Range, resolve
from offsetfs.pipeline.splits import cut
from offsetfs.pipeline.staging import Target, TopicShape
from offsetfs.storage.records.compression.compression import UNCOMPRESSED
from offsetfs.storage.records.format.batch_writer import BatchLimit
from offsetfs.storage.records.format.partitioner import partition_of

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"


def imported(path: Path, data: bytes, size: int, **kind: bool) -> list[list[offsetfs.Record]]:
    """Import a file in ranges of `size` bytes into two partitions, with batches of at most 300 bytes."""
    source, logs = path / "in", path / "logs"
    logs.mkdir()
    source.write_bytes(data)
    with offsetfs.open(logs, "a") as made:
        made.create("t", 2)
    target = Target(str(logs), "job", {"t": TopicShape((0, 1), BatchLimit(300, UNCOMPRESSED), False)}, "t")
    ranges = [FileRange(str(source), at, min(at + size, len(data))) for at in range(0, len(data), size)]
    kind = {"is_json": False, **kind}
    found = [stage_lines(each, target, split, 0, rejects_max=9, **kind) for split, each in enumerate(ranges)]
    assert sum(each.rejected for each in found) == 0
    publish(str(logs), Job("job", "test", 1), [each.staged for each in found])
    with offsetfs.open(logs) as read:
        return [list(partition.read()) for partition in read.partitions()]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30).map(lambda each: each.replace(b"\n", b"")), max_size=12), st.integers(1, 90))
def test_each_line_is_taken_once_wherever_the_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, wanted: list[bytes], size: int
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _fd: None)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 16)
    data = b"".join(line + b"\n" for line in wanted)
    found = imported(tmp_path_factory.mktemp("lines"), data, size)
    assert sorted(record.value or b"" for rows in found for record in rows) == sorted(wanted)


def test_json_values_are_taken_as_their_text_where_that_is_wanted(tmp_path: Path) -> None:
    lines = b'{"value": {"a" : 1} ,"partition":0}\n{"value":5,"partition":1}\n{"value":null,"key":"k","partition":1}\n'
    found = imported(tmp_path, lines, len(lines), is_json=True, values_as_text=True)
    assert [[record.value for record in each] for each in found] == [[b'{"a" : 1}'], [b"5", None]]


def test_a_line_longer_than_a_batch_gets_one_that_is_as_long(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "in").write_bytes(b"a\n" + b"x" * 1_500_000 + b"\nb\n")
    with offsetfs.open(logs, "a", settings={"max.message.bytes": "3000000"}) as made:
        made.create("t", 2)
        target = Target(str(logs), "job", {"t": TopicShape((0, 1), BatchLimit(3_000_000, UNCOMPRESSED), False)}, "t")
    wanted = FileRange(str(tmp_path / "in"), 0, 2_000_000)
    staged = stage_lines(wanted, target, 0, 0, is_json=False, rejects_max=0).staged
    assert sum(batch.count for batches in staged.batches.values() for batch in batches) == 3
    assert max(batch.size for batches in staged.batches.values() for batch in batches) < 1_500_200
    with pytest.raises(offsetfs.errors.RecordTooLarge):
        small = Target(str(logs), "job", {"t": TopicShape((0, 1), BatchLimit(1_000_000, UNCOMPRESSED), False)}, "t")
        stage_lines(wanted, small, 0, 1, is_json=False, rejects_max=0)


def test_the_last_line_may_lack_its_newline(tmp_path: Path) -> None:
    found = imported(tmp_path, b"a\nb\nlast", 3)
    assert sorted(record.value or b"" for rows in found for record in rows) == [b"a", b"b", b"last"]


def test_lines_of_json_go_to_the_partition_of_their_key_in_their_order(tmp_path: Path) -> None:
    rows = [{"key": f"k{n % 7}", "value": str(n)} for n in range(200)]
    found = imported(tmp_path, b"".join(json.dumps(row).encode() + b"\n" for row in rows), 700, is_json=True)
    for number, partition in enumerate(found):
        assert all(partition_of(record.key or b"", 2) == number for record in partition)
        for key in {record.key for record in partition}:
            numbers = [int(record.value or b"") for record in partition if record.key == key]
            assert numbers == sorted(numbers)
    assert sum(map(len, found)) == 200


def test_an_imported_line_goes_to_the_partition_that_it_names(tmp_path: Path) -> None:
    rows = [{"key": "k", "value": str(n), "partition": n % 2} for n in range(200)]
    found = imported(tmp_path, b"".join(json.dumps(row).encode() + b"\n" for row in rows), 700, is_json=True)
    values = [[int(record.value or b"") for record in partition] for partition in found]
    assert values == [list(range(0, 200, 2)), list(range(1, 200, 2))]


def test_an_imported_line_that_names_a_partition_beyond_the_topic_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b'{"value":"a"}\n{"value":"a","partition":2}\n')
    target = Target(str(tmp_path), "job", {"t": TopicShape((0, 1), BatchLimit(9000, UNCOMPRESSED), False)}, "t")
    found = stage_lines(FileRange(str(source), 0, 99), target, 0, 0, is_json=True, rejects_max=5)
    assert [(line, reason.partition(";")[0]) for line, reason in found.rejects] == [
        (2, "partition must be null or a number that the topic has, from 0 to 1")
    ]


def test_an_invalid_line_is_reported_with_its_number_in_the_file(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b'{"value":"a"}\n' * 40 + b"oops\n" + b'{"value":"a"}\n' * 3 + b'{"value":"\xff"}\n')
    target = Target(str(tmp_path), "job", {"t": TopicShape((0,), BatchLimit(9000, UNCOMPRESSED), False)}, "t")
    found = stage_lines(FileRange(str(source), 300, 700), target, 0, 0, is_json=True, rejects_max=5)
    assert (found.rejected, [line for line, _ in found.rejects]) == (2, [41, 45])


def test_a_line_beyond_the_limit_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 1000)
    (tmp_path / "in").write_bytes(b"x" * 5000)
    target = Target(str(tmp_path), "job", {"t": TopicShape((0,), BatchLimit(9000, UNCOMPRESSED), False)}, "t")
    with pytest.raises(offsetfs.errors.RecordTooLarge, match="a line of more than 1000 bytes"):
        stage_lines(FileRange(str(tmp_path / "in"), 0, 5000), target, 0, 0, is_json=False, rejects_max=0)
    assert os.listdir(tmp_path) == ["in"]


# --- splits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 5_000, 60_000, 1 << 30])
@pytest.mark.parametrize("splits_min", [1, 7])
def test_tasks_cover_what_is_read_once_and_in_order(size: int, splits_min: int) -> None:
    options = ReadOptions.parse({"path": str(GOLDEN)})
    with opened(options.paths) as directory:
        ranges = resolve(directory, options)
        tasks = cut(directory, ranges, splits_min=splits_min, bytes_per_split=size)
    assert len(tasks) >= min(splits_min, len(ranges))
    together: list[Range] = []
    for piece in (piece for task in tasks for piece in task):
        if together and together[-1].name == piece.name:
            assert together[-1].end == piece.start < piece.end
            together[-1] = Range(piece.topic, piece.partition, together[-1].start, piece.end)
        else:
            together.append(piece)
    assert together == ranges


def test_tasks_by_records_have_no_more_than_that() -> None:
    options = ReadOptions.parse({"path": str(GOLDEN), "subscribe": "keyed"})
    with opened(options.paths) as directory:
        ranges = resolve(directory, options)
        tasks = cut(directory, ranges, splits_min=1, bytes_per_split=1 << 30, records_per_split_max=50)
    assert all(piece.end - piece.start <= 50 for (piece,) in tasks)
    assert sum(piece.end - piece.start for (piece,) in tasks) == sum(each.end - each.start for each in ranges)


@pytest.mark.parametrize("size", [0, 1, 50, 99, 100, 149, 151, 260, 1001])
def test_files_are_cut_into_ranges_that_are_about_equal(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_files, "SPLIT_BYTES", 100)
    ranges = import_files.file_ranges("lines", size)
    assert [each.start for each in ranges] == [0, *(each.end for each in ranges)][: len(ranges)]
    assert sum(each.end - each.start for each in ranges) == size
    assert all(75 <= each.end - each.start <= 150 for each in ranges) or (len(ranges) < 2 and size <= 150)
