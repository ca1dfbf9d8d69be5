"""The offset map, and the two scans of compaction over records."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import pytest
from fixtures.logs.keyed_logs import Keyed, end_of_transaction, keyed

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.native import compaction as native_compaction
from offsetfs.storage.partition.producers import COMMIT
from offsetfs.storage.records.format.batch import HEADER_SIZE, parse_header, read_batch, seal_checksum
from offsetfs.storage.reference import compaction as reference_compaction
from offsetfs.storage.reference.compaction import FULL, MORE, NO_SPACE, OTHER, SLOT_SIZE

pytestmark = pytest.mark.unit

IMPLEMENTATIONS = (native_compaction, reference_compaction)
OFFSET_MAX = 2**63 - 2


@pytest.fixture(params=IMPLEMENTATIONS, ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


# --- the map ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10, 100, 1000, 5000])
def test_keys_that_were_put_are_found_with_their_latest_offset(module: ModuleType, count: int) -> None:
    offsets = module.OffsetMap(count * 2 * SLOT_SIZE, 0.9)
    for number in range(count):
        assert offsets.put(b"key %d" % number, number)
    for number in range(0, count, 3):
        assert offsets.put(b"key %d" % number, count + number)
    assert [offsets.get(b"key %d" % n) for n in range(count)] == [n if n % 3 else count + n for n in range(count)]
    assert offsets.get(b"another") == -1
    assert (offsets.count, offsets.latest_offset) == (count, count + (count - 1) // 3 * 3)


def test_a_map_takes_the_keys_its_bytes_and_load_factor_allow(
    module: ModuleType,
) -> None:
    offsets = module.OffsetMap(100 * SLOT_SIZE + 23, 0.75)
    assert offsets.count_max == 75
    taken = [offsets.put(b"%d" % number, number) for number in range(80)]
    assert taken == [True] * 75 + [False] * 5
    assert not offsets.put(b"3", 99) and offsets.get(b"3") == 3 and offsets.latest_offset == 74


def test_a_full_map_still_finds_no_missing_key(module: ModuleType) -> None:
    offsets = module.OffsetMap(10 * SLOT_SIZE, 1.0)
    assert all(offsets.put(b"%d" % number, number) for number in range(10))
    assert offsets.get(b"absent") == -1
    assert [offsets.get(b"%d" % number) for number in range(10)] == list(range(10))


@pytest.mark.parametrize(
    ("bytes_max", "load_factor"), [(0, 0.9), (-1, 0.9), (23, 1.0), (24, 0.9), (240, 0.0), (240, 1.1), (240, -1.0)]
)
def test_a_map_without_space_for_a_key_is_refused(module: ModuleType, bytes_max: int, load_factor: float) -> None:
    with pytest.raises(ValueError):
        module.OffsetMap(bytes_max, load_factor)


def test_keys_of_any_size_and_offsets_up_to_the_largest_are_kept(module: ModuleType) -> None:
    keys = [b"", b"\0", b"\0\0", b"x" * 7, b"x" * 8, b"x" * 9, bytes(1 << 20), b"y" * (1 << 20)]
    offsets = module.OffsetMap(64 * SLOT_SIZE, 0.9)
    for number, key in enumerate(keys):
        assert offsets.put(memoryview(key), OFFSET_MAX - number)
    assert [offsets.get(bytearray(key)) for key in keys] == [OFFSET_MAX - number for number in range(len(keys))]
    assert offsets.latest_offset == OFFSET_MAX - len(keys) + 1


def test_no_two_maps_hash_alike() -> None:
    assert reference_compaction.OffsetMap(240)._hash(b"key") != reference_compaction.OffsetMap(240)._hash(b"key")
    assert reference_compaction.OffsetMap(240, hash_key=bytes(16))._hash(b"k") == reference_compaction.OffsetMap(
        240, hash_key=bytes(16)
    )._hash(b"k")
    for module in IMPLEMENTATIONS:
        with pytest.raises(ValueError):
            module.OffsetMap(240, hash_key=b"short")


@pytest.mark.parametrize(
    ("size", "digest"),
    [  # the published vectors of SipHash-2-4-128, checked with OpenSSL
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_the_compiled_hash_is_siphash(size: int, digest: str) -> None:
    assert native_compaction.siphash_128(bytes(range(16)), bytes(range(size))).hex() == digest


# --- the first walk ---------------------------------------------------------------------------------------------------


BATCHES = (
    keyed(0, Keyed(0, b"a", b"1"), Keyed(1, None, b"2"), Keyed(2, b"b", None)),
    keyed(5, Keyed(0, b"a", b"3"), Keyed(4, b"c", b"4"), last_delta=9),
    keyed(15, last_delta=3, producer=(7, 0, 3)),
)


def test_the_first_walk_notes_the_latest_offset_of_every_key(module: ModuleType) -> None:
    offsets = module.OffsetMap(100 * SLOT_SIZE)
    indexer = module.Indexer(offsets, 0)
    indexer.set_bounds(0, 100)
    block = b"".join(BATCHES)
    assert indexer.run(block, 0, len(block)) == (len(block), MORE)
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [5, 2, 9]
    assert (offsets.count, offsets.latest_offset, indexer.records_read, indexer.floor) == (3, 18, 5, 19)


def test_the_first_walk_passes_over_what_is_below_the_first_dirty_offset(module: ModuleType) -> None:
    offsets = module.OffsetMap(100 * SLOT_SIZE)
    indexer = module.Indexer(offsets, 6)
    indexer.set_bounds(0, 100)
    indexer.run(BATCHES[0], 0, len(BATCHES[0]))
    assert (offsets.count, offsets.latest_offset) == (0, -1)
    indexer.run(BATCHES[1], 0, len(BATCHES[1]))
    assert [offsets.get(key) for key in (b"a", b"b", b"c")] == [-1, -1, 9] and offsets.latest_offset == 14


def test_the_first_walk_ends_in_the_middle_of_a_batch_when_the_map_is_full(module: ModuleType) -> None:
    offsets = module.OffsetMap(2 * SLOT_SIZE, 1.0)
    indexer = module.Indexer(offsets, 0)
    indexer.set_bounds(0, 100)
    block = b"".join(BATCHES)
    assert indexer.run(block, 0, len(block)) == (len(BATCHES[0]), FULL)
    assert (offsets.latest_offset, offsets.get(b"a"), offsets.get(b"b")) == (2, 0, 2)


def test_a_batch_that_is_not_whole_is_left_for_the_next_block(module: ModuleType) -> None:
    block = b"".join(BATCHES)
    whole = [len(b"".join(BATCHES[:count])) for count in range(4)]
    for end in range(len(block) + 1):
        indexer = module.Indexer(module.OffsetMap(2400), 0)
        indexer.set_bounds(0, 100)
        assert indexer.run(block, 0, end) == (max(size for size in whole if size <= end), MORE)


SEVERAL = keyed(0, Keyed(0, b"a", b"1"), Keyed(3, b"b", b"2"))


def damaged(position: int, byte: int) -> bytes:
    changed = bytearray(SEVERAL)
    changed[position] = byte
    if position > 20:
        seal_checksum(changed)
    return bytes(changed)


def with_first_delta(delta: int) -> bytes:
    first, second = Keyed(delta, b"a", b"1"), Keyed(3, b"b", b"2")
    return keyed(0, first, second, last_delta=3)


NOT_PLAIN = {
    "compressed": keyed(0, Keyed(0, b"a", b"1"), codec="lz4"),
    "transactional": keyed(0, Keyed(0, b"a", b"1"), producer=(1, 0, 0), transactional=True),
    "a marker": end_of_transaction(0, 1, COMMIT),
    "an older format": SEVERAL[:16] + b"\1" + SEVERAL[17:],
    "another format": damaged(16, 3),
    "a checksum that differs": SEVERAL[:17] + bytes(4) + SEVERAL[21:],
    "a size below the smallest": SEVERAL[:8] + (48).to_bytes(4, "big") + SEVERAL[12:],
    "an offset below what may follow": keyed(0, Keyed(0, b"a", b"1"))[:0] + b"\xff" * 8 + SEVERAL[8:],
    "an offset above what may follow": b"\0\0\0\0\0\0\0\x62" + SEVERAL[8:],
    "a last offset below the first": SEVERAL[:23] + b"\xff" * 4 + SEVERAL[27:],
    "more records than there is space for": damaged(60, 100),
    "a negative number of records": damaged(57, 0xFF),
    "more records than there are": damaged(60, 3),
    "fewer records than there are": damaged(60, 1),
    "a record that is none": damaged(61, 1),
    "an offset that does not rise": with_first_delta(3),
    "an offset behind the last": with_first_delta(4),
    "an offset before the first": with_first_delta(0)[:64] + b"\1" + with_first_delta(0)[65:],
}


def sealed(batch: bytes) -> bytes:
    changed = bytearray(batch)
    seal_checksum(changed)
    return bytes(changed)


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_an_unsound_batch_is_left_to_the_caller_and_nothing_is_written(module: ModuleType, name: str) -> None:
    batch = NOT_PLAIN[name]
    if name in ("a last offset below the first", "an offset before the first"):
        batch = sealed(batch)
    offsets = module.OffsetMap(2400)
    indexer = module.Indexer(offsets, 0)
    indexer.set_bounds(0, 101)
    assert indexer.run(batch, 0, len(batch)) == (0, OTHER)
    assert (indexer.floor, offsets.latest_offset > 3) == (0, False)
    records = module.Filter(module.OffsetMap(2400), 1000, 0, 0, {})
    records.set_bounds(0, 101)
    out = bytearray(1000)
    assert records.run(batch, 0, len(batch), out, 0) == (0, 0, OTHER)
    assert (records.records_read, records.records_kept, records.floor) == (0, 0, 0)


@pytest.mark.parametrize(
    "name", [name for name in NOT_PLAIN if "record" in name or "not rise" in name or "behind" in name]
)
def test_records_that_are_none_are_refused_by_name(module: ModuleType, name: str) -> None:
    batch = NOT_PLAIN[name]
    header, payload = parse_header(batch), batch[HEADER_SIZE:]
    indexer = module.Indexer(module.OffsetMap(2400), 0)
    with pytest.raises(MalformedBatch):
        indexer.add(payload, header.count, 0, header.last_offset_delta)
    records = module.Filter(module.OffsetMap(2400), 1000, 0, 0, {})
    with pytest.raises(MalformedBatch):
        records.retain(payload, header.count, 0, header.last_offset_delta, 0, False)


def test_a_walk_outside_of_its_buffers_is_refused(module: ModuleType) -> None:
    indexer = module.Indexer(module.OffsetMap(2400), 0)
    records = module.Filter(module.OffsetMap(2400), 1000, 0, 0, {})
    for start, end in ((-1, 0), (1, 0), (0, 4)):
        with pytest.raises(ValueError):
            indexer.run(b"abc", start, end)
        with pytest.raises(ValueError):
            records.run(b"abc", start, end, bytearray(3), 0)
    with pytest.raises(ValueError):
        records.run(b"abc", 0, 3, bytearray(3), 4)


# --- the second walk --------------------------------------------------------------------------------------------------


def filtered(
    module: ModuleType,
    block: bytes,
    latest: dict[bytes, int],
    *,
    latest_offset: int = 10**6,
    upper_bound: int = 10**7,
    now_ms: int = 5000,
    last_offsets: dict[int, int] | None = None,
) -> bytes:
    """Return what the second walk leaves of a block of plain batches."""
    offsets = module.OffsetMap(1000 * SLOT_SIZE)
    for key, offset in latest.items():
        offsets.put(key, offset)
    offsets.latest_offset = latest_offset
    records = module.Filter(offsets, upper_bound, now_ms, 9_000, last_offsets or {})
    records.set_bounds(0, OFFSET_MAX)
    out = bytearray(1 << 16)
    position, size, status = records.run(block, 0, len(block), out, 0)
    assert (position, status) == (len(block), MORE)
    return bytes(out[:size])


def shown(data: bytes) -> list[tuple[Any, ...]]:
    """Return (base, last, horizon, [(offset, timestamp, key, value)]) of each batch."""
    found, position = list[tuple[object, ...]](), 0
    while position < len(data):
        batch = read_batch(data, position)
        header = batch.header
        horizon = header.base_timestamp if header.has_delete_horizon else None
        records = [(r.offset, r.timestamp, r.key, r.value) for r in batch.records()]
        found.append((header.base_offset, header.last_offset, horizon, records))
        position += header.size
    return found


def test_a_batch_of_which_everything_stays_is_copied_byte_for_byte(module: ModuleType) -> None:
    block = BATCHES[1] + keyed(20, Keyed(0, b"x", None), horizon_ms=8000)
    assert filtered(module, block, {b"a": 5, b"c": 9, b"x": 20}) == block


def test_of_a_key_only_the_latest_record_stays_and_the_batch_keeps_its_offsets(module: ModuleType) -> None:
    block = keyed(
        10,
        Keyed(0, b"a", b"1", 50),
        Keyed(1, b"b", b"2", 90),
        Keyed(3, b"a", b"3", 70),
        last_delta=5,
        producer=(4, 1, 9),
    )
    left = filtered(module, block, {b"a": 13, b"b": 77})
    assert shown(left) == [(10, 15, None, [(13, 70, b"a", b"3")])]
    before, after = parse_header(block), parse_header(left)
    same = ("leader_epoch", "attributes", "producer_id", "producer_epoch", "base_sequence")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    assert (after.count, after.max_timestamp) == (1, 70)


def test_records_without_a_key_are_counted_up_to_where_the_map_is(module: ModuleType) -> None:
    offsets = module.OffsetMap(2400)
    offsets.put(b"k", 1)
    records = module.Filter(offsets, 100, 0, 0, {})
    records.set_bounds(0, 100)
    block = keyed(0, Keyed(0, None, b"1"), Keyed(1, b"k", b"2"), Keyed(2, None, b"3"))
    out = bytearray(1000)
    _, size, _ = records.run(block, 0, len(block), out, 0)
    assert [record[0] for record in shown(bytes(out[:size]))[0][3]] == [1, 2]
    assert (records.records_read, records.records_kept, records.records_without_key) == (3, 2, 1)


def test_a_tombstone_gets_a_horizon_first_and_goes_when_that_is_past(module: ModuleType) -> None:
    block = keyed(0, Keyed(0, b"a", b"1", 5), Keyed(1, b"b", None, 10), Keyed(2, b"c", b"3", 15))
    latest = {b"a": 0, b"b": 1, b"c": 2}
    stamped = filtered(module, block, latest)
    records = [(0, 5, b"a", b"1"), (1, 10, b"b", None), (2, 15, b"c", b"3")]
    assert shown(stamped) == [(0, 2, 9_000, records)]
    assert parse_header(stamped).max_timestamp == 15
    assert filtered(module, stamped, latest, now_ms=8_999) == stamped
    assert shown(filtered(module, stamped, latest, now_ms=9_000)) == [(0, 2, 9_000, [records[0], records[2]])]


def test_records_keep_the_time_of_their_append_whatever_horizon_they_get(module: ModuleType) -> None:
    block = keyed(0, Keyed(0, b"a", b"1", 5), Keyed(1, b"b", None, 10), append_time=777)
    stamped = filtered(module, block, {b"a": 5, b"b": 1})
    assert shown(stamped) == [(0, 1, 9_000, [(1, 777, b"b", None)])]
    assert parse_header(stamped).timestamp_type == "LogAppendTime"


@pytest.mark.parametrize("timestamp", [0, -1, 1, 2**63 - 1, 2**62])
def test_times_at_their_limits_survive_a_horizon(module: ModuleType, timestamp: int) -> None:
    block = keyed(0, Keyed(0, b"a", None, timestamp), Keyed(1, b"b", b"1", 3))
    stamped = filtered(module, block, {b"a": 0, b"b": 1})
    assert shown(stamped) == [(0, 1, 9_000, [(0, timestamp, b"a", None), (1, 3, b"b", b"1")])]


def test_an_emptied_batch_keeps_its_header_for_a_producer_and_the_end(
    module: ModuleType,
) -> None:
    def emptied(**fields: Any) -> list[tuple[int, int, int]]:
        left = filtered(module, block, {b"a": 100}, **fields)
        return [(parse_header(left).size, parse_header(left).count, parse_header(left).base_timestamp)] if left else []

    block = keyed(
        10, Keyed(0, b"a", b"1", 50), Keyed(2, b"a", b"2", 60), producer=(4, 1, 9), horizon_ms=3, append_time=61
    )
    assert emptied() == []
    assert emptied(last_offsets={4: 12}) == [(61, 0, -1)]
    assert emptied(last_offsets={4: 11, 5: 12}) == []
    assert emptied(upper_bound=13) == [(61, 0, -1)]
    kept = parse_header(filtered(module, block, {b"a": 100}, upper_bound=13))
    assert (kept.base_offset, kept.last_offset, kept.max_timestamp) == (10, 12, 61)
    assert (kept.producer_id, kept.producer_epoch, kept.base_sequence, kept.attributes) == (4, 1, 9, 0x08)


def test_a_batch_that_does_not_fit_states_how_much_it_needs_and_is_not_begun(module: ModuleType) -> None:
    offsets = module.OffsetMap(2400)
    for number in range(3):
        offsets.put(b"%d" % number, number)
    block = keyed(0, *(Keyed(number, b"%d" % number, None, number) for number in range(3)))
    records = module.Filter(offsets, 100, 0, 2**62, {})
    records.set_bounds(0, 100)
    needed = 0
    for space in itertools.count(len(block) - 1):
        out = bytearray(space)
        position, size, status = records.run(block, 0, len(block), out, 0)
        if status == MORE:
            break
        assert (position, size, status) == (0, 0, NO_SPACE) and space < records.space_needed
        needed = records.space_needed
        assert (records.records_read, records.records_kept) == (0, 0)
    assert space == needed > len(block)
    assert [record[0] for record in shown(bytes(out[:size]))[0][3]] == [0, 1, 2] and records.records_read == 3


# --- timestamps and indexes -------------------------------------------------------------------------------------------


def test_neither_implementation_rebases_without_records() -> None:
    for module, payload in itertools.product(IMPLEMENTATIONS, (bytes(8), b"\x7f" * 9)):
        with pytest.raises(MalformedBatch):
            module.rebase(payload, 1, 5, False)


def test_an_index_that_gets_too_long_keeps_every_second_entry_and_the_last_time(module: ModuleType) -> None:
    indexer = module.OutputIndexer(0, 0, 4)
    size = 0
    for number in range(100):
        batch = keyed(number, Keyed(0, b"k", b"v", 1000 + number))
        indexer.add(batch, 0, len(batch), size)
        size += len(batch)
    indexer.finish()
    entries = [indexer.offsets[at : at + 8] for at in range(0, len(indexer.offsets), 8)]
    offsets = [int.from_bytes(entry[:4], "big") for entry in entries]
    assert 2 <= len(offsets) <= 4 and offsets == sorted(set(offsets))
    assert all(
        int.from_bytes(entry[4:], "big") == offset * size // 100 for entry, offset in zip(entries, offsets, strict=True)
    )
    assert int.from_bytes(indexer.times[-12:-4], "big") == 1099
