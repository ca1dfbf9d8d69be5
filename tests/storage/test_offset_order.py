"""Batches that lie about their offsets, and what is found around them."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from fixtures.logs.old_messages import message
from fixtures.logs.planted_logs import PARTITION, batch, crash, plant, sealed

from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, RECOVERY_POINTS, write_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import MalformedBatch, StorageError
from offsetfs.storage.names import segment_name
from offsetfs.storage.partition.log import Log
from offsetfs.storage.segments.offset_order import consistent_offsets
from offsetfs.storage.segments.time_index import TIME_ENTRY

pytestmark = pytest.mark.unit

BATCHES = 12
EACH = 10


@dataclass(frozen=True)
class Case:
    """Offsets of batches in the order of the file, and which of them are consistent."""

    name: str
    bounds: Sequence[tuple[int, int]]
    trusted: Sequence[int]
    offset_end: int | None = None


CASES = [
    Case("all rise", [(0, 9), (10, 19), (40, 49)], [0, 1, 2]),
    Case("one too high", [(0, 9), (60, 69), (20, 29), (30, 39)], [0, 2, 3]),
    Case("one too high, before the last", [(0, 9), (60, 69), (20, 29)], [0, 2]),
    Case("the last beyond the next segment", [(0, 9), (10, 19), (60, 69)], [0, 1], 30),
    Case("one too low", [(0, 9), (4, 13), (20, 29)], [0, 2]),
    Case("one below the segment", [(-5, -1), (10, 19), (20, 29)], [1, 2]),
    Case("two of the same", [(0, 3), (5, 5), (5, 5), (6, 6)], [0, 3]),
    Case("one too low, of two", [(0, 9), (10, 19), (4, 13)], [0, 1]),
    Case(
        "one too high among gaps",
        [(17, 17), (18, 18), (27, 27), (26, 26), (28, 28), (30, 30), (36, 36)],
        [0, 1, 4, 5, 6],
    ),
    Case("three places swapped", [(1, 5), (42, 42), (32, 32), (19, 19)], [0, 3]),
    Case("ends before it begins", [(5, 4)], []),
    Case("nothing", [], []),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_longest_ascending_sequence_is_trusted(case: Case) -> None:
    found = consistent_offsets(case.bounds, 0, case.offset_end)
    assert [place for place, is_true in enumerate(found) if is_true] == list(case.trusted)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Two segments with twelve batches of ten records each, timestamps 1000, 1001 … by the batch, no indexes."""
    base, contents = BATCHES * EACH, dict[int, list[bytes]]()
    for start in (0, base):
        contents[start] = [
            batch(start + n * EACH, *[b"%d" % (start + n * EACH + i) for i in range(EACH)], timestamp=1000 + n)
            for n in range(BATCHES)
        ]
    return plant(tmp_path, contents) / segment_name(0, ".log")


def place_of(number: int) -> int:
    return sum(
        len(batch(n * EACH, *[b"%d" % (n * EACH + i) for i in range(EACH)], timestamp=1000 + n)) for n in range(number)
    )


def change(file: Path, position: int, form: str, value: int) -> None:
    with file.open("r+b") as stream:
        stream.seek(position)
        stream.write(struct.pack(form, value))


def opened(file: Path) -> Log:
    return LogDirectory.open(os.fspath(file.parents[1]), read_only=True).log(PARTITION)


def value_at(log: Log, offset: int) -> bytes | None:
    found = log.batch_at(offset)
    record = found.record(offset) if found is not None else None
    return None if record is None else record.value


def check_all_but(log: Log, damaged: int, error: type[StorageError]) -> None:
    """Every record reads as itself; those of batch `damaged` raise `error`."""
    for offset in range(2 * BATCHES * EACH):
        if offset // EACH == damaged:
            with pytest.raises(error):
                log.batch_at(offset)
        else:
            assert value_at(log, offset) == b"%d" % offset, offset


@pytest.mark.damages
@pytest.mark.promise(
    "A damaged batch affects only itself: the batches around it stay readable, and `info` or the "
    "error has path, position and offset."
)
@pytest.mark.parametrize("bit", [0, 3, 7, 20, 30])
def test_a_damaged_header_that_reaches_over_its_neighbors_hides_none(log_file: Path, bit: int) -> None:
    change(log_file, place_of(4) + 23, ">i", (EACH - 1) ^ (1 << bit))  # the last offset delta
    check_all_but(opened(log_file), 4, StorageError)


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("bit", [3, 4, 7, 16, 30, 40, 62])
@pytest.mark.parametrize("number", [2, 6, BATCHES - 1])
def test_a_batch_whose_offset_cannot_stand_where_it_is_fails_alone(log_file: Path, number: int, bit: int) -> None:
    change(log_file, place_of(number), ">q", (number * EACH) ^ (1 << bit))
    check_all_but(opened(log_file), number, MalformedBatch)


@pytest.mark.damages
def test_batches_that_strayed_to_the_beginning_hide_none(log_file: Path) -> None:
    data, strays = bytearray(log_file.read_bytes()), slice(place_of(7), place_of(10))
    data[: strays.stop - strays.start] = data[strays]  # over the first three, and a bit of the fourth
    log_file.write_bytes(data)
    log = opened(log_file)
    for offset in range(BATCHES * EACH):
        if offset < 4 * EACH:
            with pytest.raises(StorageError):
                log.batch_at(offset)
        else:
            assert value_at(log, offset) == b"%d" % offset


@pytest.mark.damages
def test_several_damaged_places_are_stepped_over(log_file: Path) -> None:
    for number in (3, 5, 6):
        change(log_file, place_of(number) + 16, ">b", 99)
    log = opened(log_file)
    for offset in range(BATCHES * EACH):
        if offset // EACH in (3, 5, 6):
            with pytest.raises(StorageError):
                log.batch_at(offset)
        else:
            assert value_at(log, offset) == b"%d" % offset


@pytest.mark.damages
def test_a_time_leads_to_no_batch_that_lies_about_its_offset(log_file: Path) -> None:
    change(log_file, place_of(4), ">q", 999)
    log = opened(log_file)
    assert log.find_timestamp(1003) == (3 * EACH, 1003)
    assert log.find_timestamp(1004) == (5 * EACH, 1005)


@pytest.mark.damages
@pytest.mark.promise(
    "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer."
)
@pytest.mark.parametrize(
    "entries",
    [
        [(1003, 39), (1009, 99), (1004, 49), (1011, 119)],
        [(1003, 39), (-(2**60), 99), (-(2**61), 99), (2**62, 119)],
        [(1011, 119), (1003, 39), (1002, 29), (1011, 119)],
    ],
    ids=["out of order", "below zero", "falling"],
)
def test_a_time_index_out_of_order_costs_no_answer(log_file: Path, entries: list[tuple[int, int]]) -> None:
    index = log_file.with_suffix(".index")
    index.write_bytes(b"".join(struct.pack(">ii", n * EACH + EACH - 1, place_of(n)) for n in range(1, BATCHES)))
    log_file.with_suffix(".timeindex").write_bytes(b"".join(TIME_ENTRY.pack(*entry) for entry in entries))
    log = opened(log_file)
    for number in range(BATCHES):
        assert log.find_timestamp(1000 + number) == (number * EACH, 1000 + number)


@pytest.mark.damages
@pytest.mark.promise(
    "A damaged, missing or inconsistent offset or time index slows look-ups down but never changes an answer."
)
def test_an_offset_index_out_of_order_costs_no_answer(log_file: Path) -> None:
    entries = [(n * EACH + EACH - 1, place_of(n)) for n in range(1, BATCHES)]
    entries[2:8] = entries[7:1:-1]
    log_file.with_suffix(".index").write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    log_file.with_suffix(".timeindex").write_bytes(b"")
    check_all_but(opened(log_file), -1, StorageError)


# --- after a crash ---------------------------------------------------------------------------------------------------


def crashed(file: Path, recovery_point: int) -> LogDirectory:
    """Open for writing what a crash left, with this recovery point."""
    directory = file.parents[1]
    crash(directory)
    write_offsets(os.fspath(directory / RECOVERY_POINTS), {PARTITION: recovery_point})
    return LogDirectory.open(os.fspath(directory))


@pytest.mark.damages
@pytest.mark.promise("Recovery removes data only beyond the recovery point, and keeps it in a file beside the log.")
@pytest.mark.parametrize("bit", [3, 7, 30, 40, 62])
def test_a_batch_with_a_wrong_offset_is_skipped_below_the_recovery_point(log_file: Path, bit: int) -> None:
    change(log_file, place_of(4), ">q", (4 * EACH) ^ (1 << bit))
    before = log_file.read_bytes()
    directory = crashed(log_file, BATCHES * EACH - 1)
    log = directory.log(PARTITION)
    check_all_but(log, 4, MalformedBatch)
    assert [(each.position, each.offset) for each in log.damage] == [(place_of(4), 4 * EACH)]
    directory.close()
    assert log_file.read_bytes() == before


def test_a_batch_with_a_wrong_offset_cuts_the_log_beyond_the_recovery_point(log_file: Path) -> None:
    change(log_file, place_of(4), ">q", 4 * EACH + (1 << 30))
    directory = crashed(log_file, 0)
    log = directory.log(PARTITION)
    assert (log.next_offset, log_file.stat().st_size) == (4 * EACH, place_of(4))
    directory.close()


@pytest.mark.damages
def test_an_index_made_from_a_batch_with_a_wrong_offset_is_rejected(log_file: Path) -> None:
    change(log_file, place_of(4), ">q", 6 * EACH)
    log_file.with_suffix(".index").write_bytes(struct.pack(">ii", 7 * EACH - 1, place_of(4)))
    log_file.with_suffix(".timeindex").touch()
    log = opened(log_file)
    assert value_at(log, 7 * EACH - 1) == b"%d" % (7 * EACH - 1)
    assert value_at(log, 6 * EACH) == b"%d" % (6 * EACH)


def test_a_gap_before_rubbish_is_no_lie(log_file: Path) -> None:
    log_file.write_bytes(batch(5, b"after a gap that compaction left") + bytes(100))
    log_file.with_name(segment_name(BATCHES * EACH, ".log")).unlink()
    directory = crashed(log_file, 0)
    assert value_at(directory.log(PARTITION), 5) == b"after a gap that compaction left"
    directory.close()


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("count", [1, 2, 40, 61, 100])
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
def test_an_append_to_a_log_without_its_end_does_not_begin_amid_the_rest(
    log_file: Path, count: int, is_clean: bool
) -> None:
    log_file.with_name(segment_name(BATCHES * EACH, ".log")).unlink()
    os.truncate(log_file, log_file.stat().st_size - count)
    write_offsets(os.fspath(log_file.parents[1] / RECOVERY_POINTS), {PARTITION: BATCHES * EACH})
    if not is_clean:
        (log_file.parents[1] / CLEAN_SHUTDOWN).unlink()
    directory = LogDirectory.open(os.fspath(log_file.parents[1]))
    log = directory.log(PARTITION)
    appended = [log.append(sealed(b"later %d" % number)).base_offset for number in range(3)]
    assert appended == [BATCHES * EACH + number for number in range(3)]
    directory.close()
    for again in (log, opened(log_file)):
        assert [value_at(again, offset) for offset in appended] == [b"later 0", b"later 1", b"later 2"]
        assert value_at(again, (BATCHES - 1) * EACH - 1) == b"%d" % ((BATCHES - 1) * EACH - 1)
    assert log_file.stat().st_size == place_of(BATCHES) - count


@pytest.mark.damages
def test_a_log_whose_first_batch_is_damaged_takes_more(log_file: Path) -> None:
    change(log_file, BATCHES, ">q", 0)
    log_file.with_name(segment_name(BATCHES * EACH, ".log")).unlink()
    directory = LogDirectory.open(os.fspath(log_file.parents[1]))
    assert value_at(directory.log(PARTITION), directory.log(PARTITION).append(sealed(b"later")).base_offset) == b"later"
    directory.close()


@pytest.mark.damages
@pytest.mark.parametrize("number", [1, 5, 10])
def test_a_reader_of_a_crashed_log_sees_what_is_sound_behind_damage(log_file: Path, number: int) -> None:
    log_file.with_name(segment_name(BATCHES * EACH, ".log")).unlink()
    crash(log_file.parents[1])
    write_offsets(os.fspath(log_file.parents[1] / RECOVERY_POINTS), {PARTITION: BATCHES * EACH})
    change(log_file, place_of(number) + 70, ">b", 99)
    log = opened(log_file)
    assert [(each.position, each.offset) for each in log.damage] == [(place_of(number), number * EACH)]
    assert log.next_offset == BATCHES * EACH
    for offset in range(BATCHES * EACH):
        if offset // EACH != number:
            assert value_at(log, offset) == b"%d" % offset


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("number", [3, BATCHES - 1], ids=["in the middle", "at the end"])
@pytest.mark.parametrize("bit", [9, 20, 30, 40])
def test_a_swap_whose_offsets_lie_takes_no_segment_away(log_file: Path, number: int, bit: int) -> None:
    for offset in range(240, 1000, 120):
        written = [batch(offset + n, b"%d" % (offset + n)) for n in range(120)]
        log_file.with_name(segment_name(offset, ".log")).write_bytes(b"".join(written))
    swap = log_file.rename(log_file.with_suffix(".log.swap"))
    change(swap, place_of(number), ">q", (number * EACH) ^ (1 << bit))
    directory = crashed(log_file, 960)
    log = directory.log(PARTITION)
    assert [segment.base_offset for segment in log.snapshot()] == list(range(0, 961, 120))
    assert value_at(log, 400) == b"400"
    directory.close()


@pytest.mark.damages
@pytest.mark.parametrize("read_only", [True, False])
def test_what_lies_in_a_damaged_set_and_looks_like_a_message_is_none(log_file: Path, read_only: bool) -> None:
    log_file.with_name(segment_name(BATCHES * EACH, ".log")).unlink()
    inside = message(1, 2**60 + 7, None, b"x" * 20, 1000)
    data = bytearray(log_file.read_bytes())
    data[place_of(5) : place_of(6)] = (b"\xff" * 30 + inside).ljust(place_of(6) - place_of(5), b"\xff")
    log_file.write_bytes(data)
    crash(log_file.parents[1])
    write_offsets(os.fspath(log_file.parents[1] / RECOVERY_POINTS), {PARTITION: BATCHES * EACH - 1})
    directory = LogDirectory.open(os.fspath(log_file.parents[1]), read_only=read_only)
    log = directory.log(PARTITION)
    assert (log.next_offset, len(log.damage)) == (BATCHES * EACH, 1)
    for offset in (49, 60, BATCHES * EACH - 1):
        assert value_at(log, offset) == b"%d" % offset
    directory.close()


def test_a_swap_of_several_segments_takes_all_of_them_away(log_file: Path) -> None:
    records = [b"%d" % (BATCHES * EACH * 2 - EACH + i) for i in range(EACH)]
    last = batch(BATCHES * EACH * 2 - EACH, *records, timestamp=1000 + BATCHES - 1)
    log_file.with_name(segment_name(2 * BATCHES * EACH, ".log")).write_bytes(b"")
    log_file.with_suffix(".log.swap").write_bytes(log_file.read_bytes()[: place_of(2)] + last)
    directory = crashed(log_file, 2 * BATCHES * EACH)
    log = directory.log(PARTITION)
    assert [segment.base_offset for segment in log.snapshot()] == [0, 2 * BATCHES * EACH]
    assert value_at(log, 2 * BATCHES * EACH - 1) == records[-1]
    directory.close()


def test_a_damaged_swap_does_not_take_the_place_of_what_is_there_yet(log_file: Path) -> None:
    swap = log_file.with_suffix(".log.swap")
    swap.write_bytes(log_file.read_bytes())
    change(swap, place_of(4) + 70, ">b", 99)
    for read_only in (True, False):
        crash(log_file.parents[1])
        directory = LogDirectory.open(os.fspath(log_file.parents[1]), read_only=read_only)
        check_all_but(directory.log(PARTITION), -1, StorageError)
        assert swap.exists() == read_only
    directory.close()
