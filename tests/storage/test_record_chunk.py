"""Records from a position on, a chunk at a time: all of them, once, whole, whatever the batches are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import OffsetOutOfRange, StorageError, WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views.record_chunk import ReadPosition, RecordChunk, read_chunk
from offsetfs.storage.views.view_format import VALUES, JsonFormat, ViewFormat

pytestmark = pytest.mark.unit

JSON = JsonFormat(PARTITION)


def sealed(values: Sequence[bytes | None], codec: str = "none", **more: Any) -> SealedBatch:
    built = build([(None, value, (), 1000) for value in values], codec=codec, **more)
    return SealedBatch(memoryview(built), len(values), 0, Timestamp(1000), len(built))


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    return directory.create_partition(PARTITION, {"segment.bytes": "2000", "max.message.bytes": "1900"})


def chunks(log: Log, place: ReadPosition, form: ViewFormat = VALUES, bytes_max: int = 1 << 20) -> Iterator[RecordChunk]:
    while (chunk := read_chunk(LogView(log), place, form, bytes_max, raising)) is not None:
        yield chunk
        assert chunk.following != place
        place = chunk.following


def raising(error: StorageError) -> None:
    raise error


MIXED: list[tuple[list[bytes | None], str]] = [
    ([b"a", b"b", b"c"], "none"),
    ([b"two\nlines", b"", None], "none"),
    ([b"d" * 50, b"e" * 700], "zstd"),
    ([b"\n", b"\n\n"], "gzip"),
    ([b"f" * 1000], "none"),
    ([b"g", None], "lz4"),
]


def mixed(log: Log, rounds: int = 4) -> list[bytes]:
    """Fill the log with everything there is; return what the values view shows of each record."""
    for values, codec in MIXED * rounds:
        log.append(sealed(values, codec))
    return [(value or b"") + b"\n" for values, _ in MIXED * rounds for value in values]


@pytest.mark.parametrize("bytes_max", [1, 100, 1 << 20])
def test_all_records_come_once_from_every_offset(log: Log, bytes_max: int) -> None:
    shown = mixed(log)
    assert len(log.snapshot()) > 3
    for offset in range(0, len(shown), 5 if bytes_max == 1 else 1):
        seen = b"".join(each.data for each in chunks(log, ReadPosition(offset), VALUES, bytes_max))
        assert seen == b"".join(shown[offset:])


def test_lines_of_json_come_once_from_every_offset(log: Log) -> None:
    count = len(mixed(log))
    for offset in range(count):
        lines = b"".join(each.data for each in chunks(log, ReadPosition(offset), JSON, 500)).splitlines()
        assert [int(line.split(b'"offset":')[1].split(b",")[0]) for line in lines] == list(range(offset, count))


@pytest.mark.parametrize("size", [1, 2, 7, 60, 2000])
def test_what_is_cut_off_is_whole_records_where_they_fit(log: Log, size: int) -> None:
    shown, pieces = mixed(log), list[bytes]()
    for chunk in chunks(log, ReadPosition(0)):
        done = 0
        while done < len(chunk.data):
            end = chunk.cut(done, size)
            pieces.append(bytes(chunk.data[done:end]))
            done = end
    assert b"".join(pieces) == b"".join(shown) and all(0 < len(piece) <= size for piece in pieces)
    ends, position = set[int](), 0
    for record in shown:
        ends.add(position := position + len(record))
    begin = 0
    for piece in pieces:  # a piece ends with a record, or is full of one that is larger
        end = begin + len(piece)
        assert end in ends or not any(begin < each <= begin + size for each in ends)
        begin = end


def test_nothing_comes_at_the_end_until_something_is_appended(log: Log) -> None:
    view = LogView(log)
    assert read_chunk(view, ReadPosition(0), VALUES, 100, raising) is None
    log.append(sealed([b"one"]))
    first = read_chunk(view, ReadPosition(0), VALUES, 100, raising)
    assert first is not None and read_chunk(view, first.following, VALUES, 100, raising) is None
    log.roll()
    log.append(sealed([b"two"]))
    second = read_chunk(view, first.following, VALUES, 100, raising)
    assert second is not None and (bytes(first.data), bytes(second.data)) == (b"one\n", b"two\n")


def test_an_offset_that_is_yet_to_come_is_waited_for(log: Log) -> None:
    view = LogView(log)
    log.append(sealed([b"one"]))
    assert read_chunk(view, ReadPosition(2), VALUES, 100, raising) is None
    log.append(sealed([b"two", b"three", b"four"]))
    chunk = read_chunk(view, ReadPosition(2), VALUES, 100, raising)
    assert chunk is not None and chunk.data == b"three\nfour\n"


def test_a_place_below_the_log_start_is_out_of_range(log: Log) -> None:
    mixed(log)
    log.delete_records(7)
    with pytest.raises(OffsetOutOfRange):
        read_chunk(LogView(log), ReadPosition(6), VALUES, 100, raising)
    chunk = read_chunk(LogView(log), ReadPosition(7), VALUES, 1 << 20, raising)
    assert chunk is not None and chunk.data.startswith(b"e" * 700)


def test_control_batches_show_nothing_and_are_passed(log: Log) -> None:
    log.append(sealed([b"one"]))
    marker = build(
        [(b"\0\0\0\0", b"\0\0\0\0\0\0", (), 1000)], producer_id=5, producer_epoch=0, transactional=True, control=True
    )
    log.append(SealedBatch(memoryview(marker), 1, 0, Timestamp(1000), len(marker)))
    log.append(sealed([b"two"]))
    assert b"".join(each.data for each in chunks(log, ReadPosition(0), VALUES, 1)) == b"one\ntwo\n"
    assert b"".join(each.data for each in chunks(log, ReadPosition(0))) == b"one\ntwo\n"


@pytest.mark.damages
def test_damage_is_reported_and_stepped_over_in_a_thread(log: Log) -> None:
    for number in range(3):
        log.append(sealed([b"%d" % number * 40]))
    log.flush()
    path, size = Path(log.snapshot().active.log_path), log.snapshot().active.size
    with path.open("r+b") as file:
        file.seek(size // 3 + 80)
        file.write(b"\xff")
    problems: list[StorageError] = []
    with pytest.raises(WouldBlock):
        read_chunk(LogView(log), ReadPosition(1), VALUES, 1 << 20, problems.append, nowait=True)
    chunk = read_chunk(LogView(log), ReadPosition(0), VALUES, 1 << 20, problems.append)
    seen = b""
    while chunk is not None:
        seen += chunk.data
        chunk = read_chunk(LogView(log), chunk.following, VALUES, 1 << 20, problems.append)
    assert seen == b"0" * 40 + b"\n" + b"2" * 40 + b"\n" and [problem.position for problem in problems] == [size // 3]


GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
PARTITIONS = sorted(path.name.removesuffix(".expected.ndjson") for path in GOLDEN.glob("*.expected.ndjson"))


@pytest.mark.parametrize("bytes_max", [1, 5000])
@pytest.mark.parametrize("is_committed_only", [False, True])
def test_what_a_broker_wrote_is_shown_as_its_clients_read_it(is_committed_only: bool, bytes_max: int) -> None:
    directory = LogDirectory.open(str(GOLDEN), read_only=True)
    for name in PARTITIONS:
        with open(GOLDEN / f"{name}.expected.ndjson") as lines:
            expected = [json.loads(line) for line in lines]
        offsets = [each["offset"] for each in expected if each["committed"] or not is_committed_only]
        log = directory.log(TopicPartition.parse(name))
        view, seen, problems = LogView(log, is_committed_only=is_committed_only), list[int](), list[StorageError]()
        place, form = ReadPosition(log.log_start_offset), JsonFormat(log.partition)
        while (chunk := read_chunk(view, place, form, bytes_max, problems.append)) is not None:
            seen += [json.loads(line)["offset"] for line in chunk.data.splitlines()]
            place = chunk.following
        assert (name, seen, problems) == (name, offsets, [])
    directory.close()
