"""Headers by the block: the compiled walk, its reference, and the walk batch by batch never differ."""

from __future__ import annotations

import random
import struct
from array import array
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage import files
from offsetfs.storage.errors import MalformedBatch, OffsetBeyondSegment, StorageError
from offsetfs.storage.native import chain as native_chain
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.records.format import batch_chain, chain
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_header import seal_checksum, stamp
from offsetfs.storage.records.format.legacy import TIMELESS_RUNS
from offsetfs.storage.reference import chain as reference_chain

pytestmark = pytest.mark.unit

LONG_MAX = 2**63 - 1


@pytest.fixture(params=[native_chain, reference_chain], ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def log_of(sizes: list[int], first: int = 0, **fields: Any) -> bytearray:
    """Return a log of batches with so many records each."""
    log, offset = bytearray(), first
    for count in sizes:
        records = [(None, b"v" * (offset % 40), (), 1000 + offset % 7) for _ in range(count)]
        log += build(records, base_offset=offset, **fields)
        offset += count
    return log


# --- one block --------------------------------------------------------------------------------------------------------


def test_a_row_states_what_the_header_states(module: ModuleType) -> None:
    log = bytes(
        build([(None, b"v", (), 7), (None, b"w", (), 5)], base_offset=2**40, leader_epoch=9)
        + build(
            [(b"k", b"v", (), 8)], base_offset=2**40 + 2, producer_id=77, producer_epoch=3, base_sequence=5,
            transactional=True,
        )
    )  # fmt: skip
    rows, stop = module.headers(log, 0, len(log), len(log), 1000)
    assert (type(rows), rows.typecode, stop) == (array, "q", len(log))
    first, second = rows[: chain.COLUMNS].tolist(), rows[chain.COLUMNS :].tolist()
    assert first == [1000, 2**40, first[2], 9, 2, 0, 1, 7, -1, -1, -1, 2]
    assert second == [1000 + first[2], 2**40 + 2, len(log) - first[2], -1, 2, 0x10, 0, 8, 77, 3, 5, 1]
    assert (rows, stop) == module.sound(log, 0, len(log), 1000, 0, LONG_MAX)


def spoilt(log: bytes, position: int, layout: str, number: int, *, seals: bool = True) -> bytearray:
    """Return the log with a number of its second batch changed."""
    size = struct.unpack_from(">i", log, 8)[0] + 12
    changed = bytearray(log)
    struct.pack_into(layout, changed, size + position, number)
    if seals:
        seal_checksum(memoryview(changed)[size:])
    return changed


TWO = bytes(log_of([1, 1]))
STOPS = {
    "a checksum": spoilt(TWO, 17, ">i", 1, seals=False),
    "a length below a header's": spoilt(TWO, 8, ">i", 48, seals=False),
    "a length beyond the end": spoilt(TWO, 8, ">i", 2**31 - 1, seals=False),
    "a negative length": spoilt(TWO, 8, ">i", -1, seals=False),
    "an old format": spoilt(TWO, 16, ">b", 1),
    "a format to come": spoilt(TWO, 16, ">b", 3),
    "a negative offset": spoilt(TWO, 0, ">q", -1),
    "the last offset there is": spoilt(TWO, 0, ">q", LONG_MAX),
    "a negative delta": spoilt(TWO, 23, ">i", -1),
    "a negative count": spoilt(TWO, 57, ">i", -1),
    "an offset that does not rise": spoilt(TWO, 0, ">q", 0),
    "an offset beyond the bound": spoilt(TWO, 0, ">q", 1001),
}


@pytest.mark.parametrize("log", STOPS.values(), ids=STOPS)
def test_a_walk_ends_before_what_is_not_sound(module: ModuleType, log: bytes) -> None:
    rows, stop = module.sound(log, 0, len(log), 0, 0, 1000)
    assert (len(rows), stop) == (chain.COLUMNS, 12 + struct.unpack_from(">i", TWO, 8)[0])


def test_a_walk_ends_before_a_batch_that_the_block_does_not_hold(module: ModuleType) -> None:
    log = bytes(log_of([1, 1, 1]))
    sizes = [12 + struct.unpack_from(">i", log, 8)[0]]
    for end in range(sizes[0], len(log)):
        rows, stop = module.sound(log, 0, end, 0, 0, LONG_MAX)
        assert stop <= end and stop == rows[-chain.COLUMNS] + rows[2 - chain.COLUMNS]


def test_headers_reach_beyond_the_block_up_to_a_limit(module: ModuleType) -> None:
    log = bytes(log_of([1, 5]))
    size = 12 + struct.unpack_from(">i", log, 8)[0]
    assert module.headers(log, 0, size + 61, len(log), 0)[1] == len(log)
    assert module.headers(log, 0, size + 60, len(log), 0)[1] == size
    assert module.headers(log, 0, size + 61, len(log) - 1, 0)[1] == size


def test_offsets_may_be_taken_as_they_come(module: ModuleType) -> None:
    log = bytes(log_of([1]) * 3)
    rows, stop = module.sound(log, 0, len(log), 0, *chain.ANY_OFFSETS)
    assert (len(rows), stop) == (3 * chain.COLUMNS, len(log))


def test_one_call_returns_so_many_rows_at_most(module: ModuleType) -> None:
    one = bytes(log_of([1]))
    log = one * (chain.ROWS_MAX + 1)
    rows, stop = module.sound(log, 0, len(log), 0, *chain.ANY_OFFSETS)
    assert (len(rows), stop) == (chain.ROWS_MAX * chain.COLUMNS, chain.ROWS_MAX * len(one))


@pytest.mark.parametrize("bounds", [(-1, 5), (3, 2), (0, 101)])
def test_bounds_outside_of_the_block_are_refused(module: ModuleType, bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError):
        module.sound(bytes(100), *bounds, 0, 0, 0)
    with pytest.raises(ValueError):
        module.headers(bytes(100), *bounds, 1000, 0)
    with pytest.raises(ValueError):
        module.headers(bytes(100), 0, 50, 49, 0)


# --- checksums --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_tables", [False, True])
def test_checksums_are_those_of_the_package(by_tables: bool) -> None:
    assert native_chain.checksum(b"Some String", by_tables) == 608512271
    noise = random.Random(5).randbytes(1 << 16)
    sizes = [*range(70), *range(380, 390), 767, 768, 3071, 3072, 3073, 3456, 6144, 9999, 1 << 16]
    for size in sizes:
        for start in (0, 1, 7):
            piece = noise[start : start + size]
            assert native_chain.checksum(piece, by_tables) == crc32c(piece), (start, size)


# --- indexes ----------------------------------------------------------------------------------------------------------


def test_a_state_of_something_else_is_refused(module: ModuleType) -> None:
    with pytest.raises(ValueError):
        module.index(array("q"), array("q", [1, 2]))


# --- whole files ------------------------------------------------------------------------------------------------------


def one_by_one(file: files.File, end: int) -> tuple[list[list[int]], str]:
    found = []
    try:
        for batch in batch_chain.batches(file, 0, end, runs=TIMELESS_RUNS):
            found += [chain.row(batch.position or 0, batch.header).tolist()]
    except StorageError as error:
        return found, str(error)
    return found, ""


def by_rows(file: files.File, end: int) -> tuple[list[list[int]], str]:
    found: list[list[int]] = []
    try:
        for rows in row_walk.sound_rows(file, 0, end):
            found += split(rows)
            assert rows.end == found[-1][0] + found[-1][2]
    except StorageError as error:
        return found, str(error)
    return found, ""


def split(rows: row_walk.Rows) -> list[list[int]]:
    numbers = rows.numbers.tolist()
    return [numbers[at : at + chain.COLUMNS] for at in range(0, len(numbers), chain.COLUMNS)]


def test_every_golden_log_is_walked_alike(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_walk, "BLOCK_BYTES", 20_000)  # smaller than some of the batches
    logs = sorted(golden.parent.glob("*/*/*.log"))
    assert len(logs) > 50
    for path in logs:
        with files.open_file(str(path)) as file:
            assert by_rows(file, file.size()) == one_by_one(file, file.size()), path


@given(st.data())
@settings(max_examples=80)
def test_a_damaged_log_is_walked_alike(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    log = log_of(data.draw(st.lists(st.integers(1, 3), max_size=9))) + data.draw(st.binary(max_size=30))
    for _ in range(data.draw(st.integers(0, 2))):
        if log:
            log[data.draw(st.integers(0, len(log) - 1))] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_bytes(log)
    with pytest.MonkeyPatch.context() as patch, files.open_file(str(path)) as file:
        for name in ("BLOCK_BYTES", "HEADER_BLOCK_BYTES"):
            patch.setattr(row_walk, name, data.draw(st.sampled_from([61, 100, 150, 1 << 20])))
        assert by_rows(file, len(log)) == one_by_one(file, len(log))
        walked = [chain.row(place, header).tolist() for place, header, _ in batch_chain.walk(file, 0, len(log))]
        assert [row for rows in row_walk.header_rows(file, 0, len(log)) for row in split(rows)] == walked


def test_a_batch_larger_than_a_block_is_verified_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_walk, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(row_walk, "_PIECE_BYTES", 700)
    giant = build([(None, b"g" * 5000, (), 1)], base_offset=3)
    log = log_of([1, 2]) + giant + log_of([1], first=4)
    path = tmp_path / "log"
    path.write_bytes(log)
    with files.open_file(str(path)) as file:
        assert by_rows(file, len(log)) == one_by_one(file, len(log))
        rows = next(each for each in row_walk.sound_rows(file, 0, len(log)) if each.next_offset == 4)
        assert rows.batch(0)[1].size == len(giant)
    log[-len(giant)] ^= 1
    path.write_bytes(log)
    with files.open_file(str(path)) as file:
        found, error = by_rows(file, len(log))
        assert (found, error) == one_by_one(file, len(log)) and "checksum" in error


def test_a_descending_offset_and_one_too_far_ahead_have_different_errors(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log_of([1, 1]) * 2)
    with files.open_file(str(path)) as file, pytest.raises(MalformedBatch, match="offset 0 cannot follow 1"):
        list(row_walk.sound_rows(file, 0, file.size(), offset_min=0))
    with files.open_file(str(path)) as file, pytest.raises(OffsetBeyondSegment) as error:
        list(row_walk.sound_rows(file, 0, file.size(), offset_min=0, offset_max=0))
    assert error.value.offset == 1


def test_a_row_leads_to_its_batch(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = log_of([1, 2, 3])
    path.write_bytes(log)
    with files.open_file(str(path)) as file:
        (rows,) = row_walk.sound_rows(file, 0, len(log))
        assert rows.column(chain.BASE_OFFSET).tolist() == [0, 1, 3]
        position, header, seen = rows.batch(1)
        assert (header.base_offset, header.count) == (1, 2)
        assert bytes(seen[: header.size]) == log[position : position + header.size]


def test_stamping_leaves_a_batch_sound(module: ModuleType) -> None:
    log = log_of([1])
    stamp(log, 2**50, 7)
    rows, _ = module.sound(log, 0, len(log), 0, 0, LONG_MAX)
    assert (rows[chain.BASE_OFFSET], rows[chain.LEADER_EPOCH]) == (2**50, 7)


# --- values -----------------------------------------------------------------------------------------------------------


def test_lines_of_batches_are_joined(module: ModuleType) -> None:
    log = bytes(
        build([(b"k", b"one", (), 1), (None, None, (), 1)])
        + build([(None, b"", (), 1)], base_offset=2)
        + build(
            [(b"\0\0\0\1", b"\0\0\0\0\0\7", (), 1)], base_offset=3, control=True, transactional=True,
            producer_id=1, producer_epoch=0,
        )
        + build([(None, b"four", (("h", b"x"),), 1)], base_offset=4)
    )  # fmt: skip
    rows, _ = module.sound(log, 0, len(log), 1000, *chain.ANY_OFFSETS)
    assert module.join(log, 1000, rows) == b"one\n\n\nfour\n"
    assert module.measure(log, 1000, rows).tolist() == [5, 1, 0, 5]


def test_a_batch_that_has_to_be_asked_itself_is_not_joined(module: ModuleType) -> None:
    plain, packed = build([(None, b"a", (), 1)]), build([(None, b"b" * 50, (), 1)], codec="gzip", base_offset=1)
    malformed = spoilt(bytes(plain + build([(None, b"c", (), 1)], base_offset=2)), 57, ">i", 2)
    for log, sizes in ((plain + packed, [2, -1]), (malformed, [2, -1])):
        rows, stop = module.sound(bytes(log), 0, len(log), 0, *chain.ANY_OFFSETS)
        assert (module.measure(log, 0, rows).tolist(), module.join(log, 0, rows), stop) == (sizes, None, len(log))


def test_rows_of_another_block_are_refused(module: ModuleType) -> None:
    log = bytes(log_of([2, 3]))
    rows, _ = module.sound(log, 0, len(log), 50, *chain.ANY_OFFSETS)
    for block, position in ((log, 49), (log, 51), (log[:-1], 50), (b"", 50)):
        for ask in (module.measure, module.join):
            with pytest.raises(ValueError):
                ask(block, position, rows)
