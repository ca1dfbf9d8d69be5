"""`offsetfs diff` on logs: what is equal, where two logs part, and what compaction explains."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.planted_logs import PARTITION, plant
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.answers.diff import logs as logs_module
from offsetfs.answers.diff.logs import LogComparison, LogDiff
from offsetfs.storage import Log, LogDirectory, LogReader
from offsetfs.storage.directory import DirectoryAccess
from offsetfs.storage.records.format.batch import build, seal_checksum

pytestmark = pytest.mark.unit

Row = tuple[int, bytes | None, bytes | None]
"""Offset, key, value."""

ROWS: list[Row] = [(offset, b"k%d" % (offset % 5), b"v%d" % offset) for offset in range(40)]


def batches(rows: Sequence[Row], sizes: Sequence[int] = (), **fields: Any) -> list[bytes]:
    """Return the rows in batches of the sizes, or of one record each; offsets may have gaps."""
    made, at, sizes = [], 0, sizes or [1] * len(rows)
    for size in sizes:
        part = rows[at : at + size]
        at += size
        if part:
            made.append(_batch(part, **fields))
    return made


def _batch(rows: Sequence[Row], **fields: Any) -> bytes:

    base = rows[0][0]
    records = [(key, value, (), 1000 + offset) for offset, key, value in rows]
    if [offset for offset, *_ in rows] == list(range(base, base + len(rows))):
        return bytes(build(records, base_offset=base, **fields))
    return b"".join(
        bytes(build([record], base_offset=row[0], **fields)) for record, row in zip(records, rows, strict=True)
    )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Log]:
    directory = LogDirectory.open(str(path), read_only=True, access=DirectoryAccess(shows_log_end=True))
    with contextlib.closing(directory):
        yield directory.log(PARTITION)


def diff(a: Path, b: Path, **how: Any) -> LogDiff:
    with opened(a) as first, opened(b) as second:
        return LogComparison(first, second, **how).run()


def planted(path: Path, first: list[bytes], *others: list[bytes], start: int = 0) -> Path:
    """Write a log of segments: one that begins at `start`, and others that begin with their first batch."""
    plant(path, {start: first, **{int.from_bytes(each[0][:8], "big"): each for each in others}})
    return path


def test_equal_logs_are_compared_byte_by_byte_whatever_their_segments(tmp_path: Path) -> None:
    made = batches(ROWS)
    found = diff(planted(tmp_path / "a", made), planted(tmp_path / "b", made[:7], made[7:23], made[23:]))
    assert (found.batches, found.equal_records, found.parted_at, found.other_batches) == (40, 40, None, 0)


@pytest.mark.parametrize("is_quick", [False, True])
def test_blocks_smaller_than_a_batch_and_batches_larger_than_a_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_quick: bool
) -> None:
    monkeypatch.setattr(logs_module, "BLOCK_BYTES", 100)
    monkeypatch.setattr(logs_module, "QUICK_BLOCK_BYTES", 100)
    rows = [(offset, None, b"v" * (300 if offset % 7 == 3 else 5)) for offset in range(60)]
    a = planted(tmp_path / "a", batches(rows))
    assert diff(a, a, is_quick=is_quick).equal_records == 60
    rows[50] = (50, None, b"other")
    found = diff(a, planted(tmp_path / "b", batches(rows)), is_quick=is_quick)
    assert (found.equal_records, found.changed, found.parted_at) == (59, 1, 50)


def test_another_leader_epoch_is_reported_and_no_difference(tmp_path: Path) -> None:
    made = batches(ROWS)
    other = [*made[:30], *batches(ROWS[30:], leader_epoch=3)]
    found = diff(planted(tmp_path / "a", made), planted(tmp_path / "b", other))
    assert (found.batches, found.other_epochs, found.other_epoch_offset, found.parted_at) == (40, 10, 30, None)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
@pytest.mark.parametrize("sizes", [[10, 10, 10, 10], [1, 7, 30, 2], [40]])
def test_another_codec_and_other_batches_are_no_difference(tmp_path: Path, codec: str, sizes: list[int]) -> None:
    a = planted(tmp_path / "a", batches(ROWS, [10, 10, 10, 10]))
    found = diff(a, planted(tmp_path / "b", batches(ROWS, sizes, codec=codec)))
    assert (found.equal_records, found.batches, found.parted_at) == (40, 0, None)
    assert found.other_batches > 0


def test_logs_part_at_the_first_record_that_differs_and_are_compared_to_the_end(tmp_path: Path) -> None:
    other = [*ROWS[:12], *((offset, key, b"x") for offset, key, _ in ROWS[12:20]), *ROWS[20:]]
    found = diff(planted(tmp_path / "a", batches(ROWS)), planted(tmp_path / "b", batches(other)))
    assert (found.first_changed, found.changed, found.equal_records, found.batches) == (12, 8, 32, 32)


def test_where_one_log_ends_or_begins_the_other_is_not_compared(tmp_path: Path) -> None:
    a = planted(tmp_path / "a", batches(ROWS[:30]))
    b = planted(tmp_path / "b", batches(ROWS[10:]), start=10)
    found = diff(a, b)
    assert (found.start, found.end, found.equal_records, found.parted_at) == (10, 30, 20, None)


def test_a_log_start_inside_of_a_batch(tmp_path: Path) -> None:
    a = tmp_path / "a"
    plant(a, {0: batches(ROWS, [20, 20])}, log_start=7)
    b = planted(tmp_path / "b", batches(ROWS, [4, 16, 20]))
    found = diff(a, b)
    assert (found.start, found.equal_records, found.parted_at) == (7, 33, None)


def test_records_that_later_ones_of_their_key_supersede_are_explained(tmp_path: Path) -> None:
    kept = [row for row in ROWS if row[0] >= 30 or row[0] % 5 == 4]
    found = diff(planted(tmp_path / "a", batches(ROWS)), planted(tmp_path / "b", batches(kept)))
    assert found.missing_b.records == 24
    assert (found.missing_b.superseded, found.missing_b.lost, found.missing_a.records) == (24, 0, 0)


def test_the_last_record_of_a_key_is_lost(tmp_path: Path) -> None:
    rows = [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"1")]
    kept = [rows[1], rows[3]]
    found = diff(planted(tmp_path / "a", batches(rows)), planted(tmp_path / "b", batches(kept)))
    assert (found.missing_b.records, found.missing_b.superseded, found.missing_b.lost) == (2, 1, 1)


@pytest.mark.parametrize(("rows", "lost"), [([(0, b"a", b"1"), (3, b"c", b"1")], 1), ([(3, b"c", b"1")], 0)])
def test_a_tombstone_is_removed_only_after_what_it_deletes(tmp_path: Path, rows: list[Row], lost: int) -> None:
    everything: list[Row] = [(0, b"a", b"1"), (1, b"a", None), (3, b"c", b"1")]
    found = diff(planted(tmp_path / "a", batches(everything)), planted(tmp_path / "b", batches(rows)))
    assert found.missing_b.lost == lost


def test_records_without_a_key_are_lost(tmp_path: Path) -> None:
    rows: list[Row] = [(offset, None, b"v") for offset in range(5)]
    found = diff(planted(tmp_path / "a", batches(rows)), planted(tmp_path / "b", batches(rows[:2] + rows[4:])))
    assert (found.missing_b.lost, found.missing_b.unkeyed, found.missing_b.first_offset) == (2, 2, 2)


def test_more_missing_keys_than_are_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "MISSING_KEYS_MAX", 3)
    kept = ROWS[20:]
    found = diff(
        planted(tmp_path / "a", batches([(row[0], b"k%d" % row[0], row[2]) for row in ROWS])),
        planted(tmp_path / "b", batches(kept)),
    )
    assert found.missing_b.beyond > 0


@pytest.mark.damages
def test_a_damaged_batch_is_named_and_left_out(tmp_path: Path) -> None:
    made = batches(ROWS)
    broken = bytearray(made[5])
    broken[-1] ^= 1
    found = diff(
        planted(tmp_path / "a", made), planted(tmp_path / "b", [*made[:5], bytes(broken), *made[6:20]], made[20:])
    )
    assert len(found.damage) == 1
    assert "checksum" in found.damage[0]
    assert (found.missing_b.first_offset, found.missing_b.records, found.equal_records) == (5, 1, 39)


@pytest.mark.damages
def test_records_whose_offsets_do_not_rise_end_no_comparison(tmp_path: Path) -> None:
    made = bytearray(build([(None, b"a", (), 1), (None, b"b", (), 1), (None, b"c", (), 1)]))
    twisted = bytearray(made)
    at = bytes(made).index(b"\x02\x01\x02b")  # of the second record: offset, null key, size of the value
    twisted[at] = 2 * 9
    seal_checksum(twisted)
    tail = batches([(3, None, b"d")])
    found = diff(planted(tmp_path / "a", [bytes(made)], tail), planted(tmp_path / "b", [bytes(twisted)], tail))
    assert found.parted_at is not None


@pytest.mark.parametrize("name", ["kafka-0.8.2.2", "kafka-0.10.0.1", "kafka-3.6.2", "kafka-4.1"])
def test_every_golden_log_equals_itself(golden: Path, name: str, tmp_path: Path) -> None:
    path = str(golden.parent / name)
    directory = LogDirectory.open(path, read_only=True)
    with contextlib.closing(directory):
        for partition in directory.partitions():
            log = directory.log(partition)
            found = LogComparison(log, log).run()
            count = sum(1 for _ in LogReader(log).records())
            assert (found.parted_at, found.damage, found.other_batches) == (None, [], 0)
            assert found.equal_records >= count


CONTENTS = st.sampled_from([(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"c", None), (None, b"1"), (b"d", b"3" * 40)])


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    rows = [(offset, *draw(CONTENTS)) for offset in range(draw(st.integers(1, 25)))]
    other = []
    for row in rows:
        kind = draw(st.integers(0, 9))
        if kind == 0:
            continue
        other.append((row[0], *draw(CONTENTS)) if kind == 1 else row)
    one = [row for row in rows if draw(st.integers(0, 9))]
    return one or rows[:1], other or rows[:1]


@given(two_logs(), st.data())
@settings(max_examples=150, deadline=None)
def test_the_counts_are_those_of_a_comparison_of_two_dictionaries(
    tmp_path_factory: pytest.TempPathFactory, logs: tuple[list[Row], list[Row]], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("two")
    sides = []
    for name, rows in zip("ab", logs, strict=True):
        sizes = data.draw(st.lists(st.integers(1, 6), min_size=len(rows), max_size=len(rows)))
        codec = data.draw(st.sampled_from(["none", "none", "lz4"]))
        sides.append(planted(folder / name, batches(rows, sizes, codec=codec)))
    found = diff(*sides)
    one, other = ({row[0]: row[1:] for row in rows if row[0] < found.end} for rows in logs)
    both = one.keys() & other.keys()
    assert found.equal_records == sum(1 for offset in both if one[offset] == other[offset])
    assert found.changed == sum(1 for offset in both if one[offset] != other[offset])
    _check_missing(found.missing_a, one, other, logs[0])
    _check_missing(found.missing_b, other, one, logs[1])
    shutil.rmtree(folder)


def _check_missing(missing: Any, here: dict[int, Any], there: dict[int, Any], rows: list[Row]) -> None:
    lacking = sorted(there.keys() - here.keys())
    assert missing.records == len(lacking)
    assert missing.first_offset == (lacking[0] if lacking else None)
    lost = 0
    for offset in lacking:
        key, value = there[offset]
        later = any(row[1] == key and row[0] > offset for row in rows)
        later_missing = any(there[each][0] == key and each > offset for each in lacking)
        alive = any(row[1] == key and row[0] < offset for row in rows)
        if key is None or not (later or later_missing or (value is None and not alive)):
            lost += 1
    assert missing.lost == lost
