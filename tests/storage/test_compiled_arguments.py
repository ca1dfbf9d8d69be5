"""Arguments that no caller should pass to compiled code: refused as the references refuse them, and never trusted."""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.native import chain as native_chain
from offsetfs.storage.native import columns as native_columns
from offsetfs.storage.native import compaction as native_compaction
from offsetfs.storage.native import dump as native_dump
from offsetfs.storage.native import json_lines as native_json_lines
from offsetfs.storage.native import valid_batches as native_valid_batches
from offsetfs.storage.records.format.batch import build, read_batch, seal_checksum
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.reference import chain as reference_chain
from offsetfs.storage.reference import columns as reference_columns
from offsetfs.storage.reference import compaction as reference_compaction
from offsetfs.storage.reference import dump as reference_dump
from offsetfs.storage.reference import json_lines as reference_json_lines
from offsetfs.storage.reference import valid_batches as reference_valid_batches
from offsetfs.storage.reference.columns import Column, RecordColumns
from offsetfs.storage.reference.json_lines import JsonRules

pytestmark = pytest.mark.unit

BLOCK = bytes(build([(b"key", b"value", (), 1000)]))
ROW = reference_chain.headers(BLOCK, 0, len(BLOCK), len(BLOCK), 0)[0]
MESSAGE = [0, 0, 4, 3, 7, 2, 0, 0]
FAR = 2**63 - 1


def changed(row: Any, **values: int) -> array[int]:
    """Return a row with other numbers, by their place."""
    made = array("q", row)
    for place, value in values.items():
        made[int(place[1:])] = value
    return made


def compaction(module: ModuleType) -> tuple[Any, Any]:
    offsets = module.OffsetMap(24 * 10, 1.0, hash_key=bytes(16))
    return module.Indexer(offsets, 0), module.Filter(offsets, 10, 0, 0, {})


WRONG_ROWS = {
    "of another type": array("i", [0] * 24),
    "half a row": array("q", ROW[:-1]),
    "before the block": changed(ROW, p0=-1),
    "far before the block": changed(ROW, p0=-FAR - 1),
    "far behind the block": changed(ROW, p0=FAR),
    "a size below a header": changed(ROW, p2=60),
    "a negative size": changed(ROW, p2=-1),
    "a size behind the end": changed(ROW, p2=len(BLOCK) + 1),
    "the largest size": changed(ROW, p2=FAR),
}


@pytest.mark.parametrize(
    "implementations",
    [(native_chain, native_valid_batches), (reference_chain, reference_valid_batches)],
    ids=["compiled", "plain"],
)
@pytest.mark.parametrize("case", WRONG_ROWS)
def test_rows_of_another_block_are_refused(implementations: tuple[Any, Any], case: str) -> None:
    chain, valid_batches = implementations
    for ask in (chain.measure, chain.join, lambda block, at, rows: valid_batches.valid_until(block, at, rows, 0, 1000)):
        with pytest.raises(ValueError):
            ask(BLOCK, 0, WRONG_ROWS[case])


@pytest.mark.parametrize("chain", [native_chain, reference_chain], ids=["compiled", "plain"])
def test_rows_that_overlap_are_not_joined(chain: Any) -> None:
    assert chain.join(BLOCK, 0, ROW) == b"value\n"
    with pytest.raises(ValueError, match="overlap"):
        chain.join(BLOCK, 0, ROW * 3)


WRONG_MESSAGES = {
    "of another type": array("i", MESSAGE),
    "half a row": array("q", MESSAGE[:-1]),
    "a key before the messages": changed(MESSAGE, p2=-1),
    "a key that is not there": changed(MESSAGE, p2=98),
    "the largest position": changed(MESSAGE, p2=FAR),
    "the largest size": changed(MESSAGE, p3=FAR),
    "an offset below nothing": changed(MESSAGE, p0=-11),
    "an offset that wraps around": changed(MESSAGE, p0=FAR),
}


@pytest.mark.parametrize("module", [native_compaction, reference_compaction], ids=["compiled", "plain"])
@pytest.mark.parametrize("case", WRONG_MESSAGES)
def test_rows_of_other_messages_are_refused_by_compaction(module: ModuleType, case: str) -> None:
    indexer, records = compaction(module)
    with pytest.raises((ValueError, MalformedBatch)):
        indexer.add_rows(bytes(100), WRONG_MESSAGES[case], 10)
    with pytest.raises((ValueError, MalformedBatch)):
        records.mark(bytes(100), WRONG_MESSAGES[case], 10, False)
    assert indexer.add_rows(bytes(100), array("q", MESSAGE), 10)
    assert records.mark(bytes(100), array("q", MESSAGE), 10, False) == bytearray([1])


@pytest.mark.parametrize("module", [native_compaction, reference_compaction], ids=["compiled", "plain"])
@pytest.mark.parametrize("base_offset", [-(2**63) + 53, -(2**63), -1])
def test_messages_below_offset_zero_are_malformed_for_compaction(module: ModuleType, base_offset: int) -> None:
    """Their offsets are bytes from disk, so that the error is one of the log and not of the caller."""
    indexer, records = compaction(module)
    messages = array("q", changed(MESSAGE, p0=0))
    with pytest.raises(MalformedBatch, match="offset"):
        indexer.add_rows(bytes(100), messages, base_offset)
    with pytest.raises(MalformedBatch, match="offset"):
        records.mark(bytes(100), messages, base_offset, False)


def column(*values: bytes) -> Column:
    ends = array("i", [0])
    for value in values:
        ends.append(ends[-1] + len(value))
    return Column(ends, b"".join(values))


@pytest.mark.parametrize("module", [native_columns, reference_columns], ids=["compiled", "plain"])
@pytest.mark.parametrize("count, partitions", [(-1, 3), (3, 3), (2**60, 3), (2**62 - 1, 3), (2, 0), (2, -5)])
def test_keys_that_are_not_there_are_not_spread(module: ModuleType, count: int, partitions: int) -> None:
    with pytest.raises(ValueError):
        module.spread_keys(column(b"a", b"b"), count, partitions)


@pytest.mark.parametrize("module", [native_columns, reference_columns], ids=["compiled", "plain"])
def test_timestamps_further_apart_than_a_long_reaches_wrap_around_and_read_back(module: ModuleType) -> None:
    times = array("q", [-1, FAR])
    cursor = BatchCursor(bytearray(200), 0, 0, None)
    columns = RecordColumns(column(b"a", b"b"), column(b"v", b"w"), None, times)
    done = module.encode_columns(columns, array("i", [0, 1]), 0, cursor)
    assert (done.pick, done.cursor.max_timestamp) == (2, FAR)
    assert cursor.target is not None
    payload = bytes(cursor.target[: done.cursor.position])
    batch = bytearray(build([(b"", b"", (), 0), (b"", b"", (), 0)])[:61]) + payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[27:35] = (-1).to_bytes(8, "big", signed=True)
    assert [each.timestamp for each in read_batch(bytes(batch), check=False).records()] == [-1, FAR]


@pytest.mark.parametrize("module", [native_json_lines, reference_json_lines], ids=["compiled", "plain"])
def test_a_cursor_that_is_wrong_releases_what_it_held(module: ModuleType) -> None:
    good, wrong = bytearray(100), bytearray(100)
    with pytest.raises(ValueError):
        module.spread_json(
            b"{}\n", 0, 3, [BatchCursor(good, 0, 0, None), BatchCursor(wrong, -5, 0, None)], 0, JsonRules(7)
        )
    good.extend(b"x")  # BufferError while it is held
    wrong.extend(b"x")


@pytest.mark.parametrize("start, end, position", [(0, 97, -1), (0, 97, FAR), (5, 3, 0), (0, 10**6, 0)])
@pytest.mark.parametrize("module", [native_compaction, reference_compaction], ids=["compiled", "plain"])
def test_output_outside_of_a_log_is_not_indexed(module: ModuleType, start: int, end: int, position: int) -> None:
    with pytest.raises(ValueError):
        module.OutputIndexer(0, 0, 10).add(BLOCK, start, end, position)


# --- another thread --------------------------------------------------------------------------------------------------


def raced(ask: Callable[[], object], disturb: Callable[[], object], rounds: int = 300) -> None:
    """Call `ask` while another thread calls `disturb`; errors that are named are as good as answers."""
    ends = threading.Event()

    def disturbing() -> None:
        while not ends.is_set():
            with contextlib.suppress(BufferError):  # what is held is not resized
                disturb()

    thread = threading.Thread(target=disturbing)
    thread.start()
    try:
        for _ in range(rounds):
            with contextlib.suppress(ValueError):
                ask()
    finally:
        ends.set()
        thread.join()


def test_rows_that_another_thread_changes_are_never_read_out_of_bounds() -> None:
    block = BLOCK * 500
    rows = reference_chain.headers(block, 0, len(block), len(block), 0)[0]
    wild = [FAR, -1, 0, 61, 10**12]

    def disturb() -> None:
        for place in range(0, len(rows), 12):
            rows[place], rows[place + 2] = wild[place % 5], wild[place % 3]
        rows.extend(rows[:12])
        del rows[-12:]

    kept = array("q", rows)
    for ask in (
        lambda: native_chain.measure(block, 0, rows),
        lambda: native_chain.join(block, 0, rows),
        lambda: native_valid_batches.valid_until(block, 0, rows, 0, 1000),
    ):
        rows[:] = kept
        raced(ask, disturb, rounds=50)


def test_keys_that_another_thread_overwrites_are_never_read_out_of_bounds() -> None:
    keys = column(*([b"key"] * 5000))
    assert isinstance(keys.ends, array)

    def disturb() -> None:
        for place in range(0, 5000, 7):
            keys.ends[place] = 2**31 - 1 if place % 2 else -(2**31)
        for place in range(0, 5000, 7):
            keys.ends[place] = 3 * place

    raced(lambda: native_columns.spread_keys(keys, 5000, 7), disturb)


# --- extremes at which the implementations once differed -------------------------------------------------------------


def test_a_map_that_fills_amid_a_malformed_batch_leaves_the_batch_to_the_caller() -> None:
    whole = bytearray(build([(b"%d" % number, b"v", (), 0) for number in range(100)]))
    broken = whole[:-1] + b"\x7f"  # a count of headers in the last record
    seal_checksum(broken)
    outcomes = []
    for module in (native_compaction, reference_compaction):
        for block in (whole, broken):
            indexer = module.Indexer(module.OffsetMap(24 * 10, 1.0, hash_key=bytes(16)), 0)
            indexer.set_bounds(0, 1000)
            outcomes.append(indexer.run(bytes(block), 0, len(block)))
    assert outcomes[:2] == outcomes[2:] == [(0, reference_compaction.FULL), (0, reference_compaction.OTHER)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_cursor_whose_offset_deltas_are_used_up_is_named(count: int) -> None:
    cursors = [BatchCursor(bytearray(100), 0, 2**31, None)] * count
    spread = [
        module.spread_json(b'{"value":"v"}\n', 0, 14, cursors, 0, JsonRules(7))
        for module in (native_json_lines, reference_json_lines)
    ]
    assert spread[0] == spread[1] and (spread[0].partition, spread[0].start) == (0, 0)


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2, -(2**63), 0])
def test_batches_at_the_last_offsets_follow_alike_in_both_implementations(base: int) -> None:
    second = int.from_bytes(((base + 1) % 2**64).to_bytes(8, "big"), "big", signed=True)
    rows = changed(ROW, p1=base) + changed(ROW, p0=len(BLOCK), p1=second)
    quiet = [
        module.valid_until(BLOCK * 2, 0, rows, 0, 1000) for module in (native_valid_batches, reference_valid_batches)
    ]
    assert quiet[0] == quiet[1]
    scanned = array("q", [0, 0, 0, -1, 0, -1, 0, 0, 1, 0, 0, -1, 0, -1, 0, 0])
    gaps = array("q"), array("q")
    ends = [
        module.follow(scanned, base, base, found)
        for module, found in zip((native_dump, reference_dump), gaps, strict=True)
    ]
    assert ends[0] == ends[1] and gaps[0] == gaps[1]
