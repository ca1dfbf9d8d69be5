"""Compaction: of the records of a key the latest stays, a tombstone for a time; and how a round fails."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from fixtures.logs.cleaner import DAY_MS, Cleaner, MakeCleaner
from fixtures.logs.keyed_logs import Keyed, keyed, last_values, offsets_of, records_of, shape_of
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage import files
from offsetfs.storage.compaction import block_reader as compaction_source
from offsetfs.storage.compaction import segment_writer as compaction_output
from offsetfs.storage.compaction.offset_map import SLOT_SIZE
from offsetfs.storage.compaction.throttle import Throttle
from offsetfs.storage.errors import CompactionCancelled, CorruptBatch, LogFailed, MalformedBatch, SegmentsChanged
from offsetfs.storage.names import MAP_SUFFIXES, segment_name
from offsetfs.storage.records.compression.compression import CODECS

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]


def one(offset: int, letter: str) -> bytes:
    """A batch of one record: a letter is its key, "-" none, a capital one the tombstone of the small one's key."""
    key = None if letter == "-" else letter.lower().encode()
    return keyed(offset, Keyed(0, key, None if letter.isupper() else b"%d" % offset))


def segments_of(*texts: str) -> dict[int, list[bytes]]:
    """Segments of batches of one record each; the last one is active."""
    planted, offset = dict[int, list[bytes]](), 0
    for text in texts:
        planted[offset] = [one(offset + number, letter) for number, letter in enumerate(text)]
        offset += len(text)
    return planted


# --- what stays -------------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[tuple[str, ...], list[int]]] = {
    "the latest of each key": (("abab", "x"), [2, 3, 4]),
    "the latest over segments": (("abab", "cac", "x"), [3, 5, 6, 7]),
    "the active segment as it is": (("aaa", "aa"), [2, 3, 4]),
    "keys met only once": (("abc", "def", "x"), [0, 1, 2, 3, 4, 5, 6]),
    "no record without a key": (("a-b-", "-a", "-"), [2, 5, 6]),
    "nothing of an emptied segment but the others": (("abc", "aaa", "bca", "x"), [6, 7, 8, 9]),
    "a tombstone that was not met before": (("abA", "x"), [1, 2, 3]),
    "no tombstone before a later value": (("Aa", "x"), [1, 2]),
    "tombstones where there is nothing else": (("ABC", "x"), [0, 1, 2, 3]),
}


@pytest.mark.parametrize("name", CASES)
def test_after_a_round_there_is(cleaner: MakeCleaner, name: str) -> None:
    texts, kept = CASES[name]
    each = cleaner(segments_of(*texts))
    before, end = last_values(each.log), sum(len(text) for text in texts[:-1])
    done = each.clean()
    assert offsets_of(each.log) == kept
    assert last_values(each.log) == before
    assert (done.end_offset, done.is_complete, done.records_read) == (end, True, end)
    assert done.records_kept == len([offset for offset in kept if offset < end])
    assert done.records_without_key == "".join(texts[:-1]).count("-")
    each.reopen()
    each.log.check()
    assert offsets_of(each.log) == kept and each.log.next_offset == end + len(texts[-1])
    each.crash()
    each.log.check()
    assert offsets_of(each.log) == kept and each.log.damage == ()


def test_a_tombstone_stays_for_delete_retention_from_its_first_round(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("abcA", "B", "x"), delete_retention_ms="5000")
    each.clean()
    assert offsets_of(each.log) == [2, 3, 4, 5]
    each.after(4999)
    assert offsets_of(each.log) == [2, 3, 4, 5]
    each.after(1)
    assert offsets_of(each.log) == [2, 5]
    assert shape_of(each.log) == [(2, 2, 1), (4, 4, 0), (5, 5, 1)]


def test_a_tombstone_far_in_the_past_has_its_time_all_the_same(cleaner: MakeCleaner) -> None:
    planted = {0: [keyed(0, Keyed(0, b"a", b"1", 0), Keyed(1, b"a", None, 0))], 2: [one(2, "b")], 3: [one(3, "x")]}
    each = cleaner(planted)
    each.clean()
    assert offsets_of(each.log) == [1, 2, 3]
    each.after(DAY_MS - 1)
    assert offsets_of(each.log) == [1, 2, 3]
    each.after(1)
    assert offsets_of(each.log) == [2, 3]


def test_a_log_whose_every_record_is_a_tombstone_ends_as_one_empty_batch(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("ABCABC", "BCA", "x"))
    each.clean()
    assert offsets_of(each.log) == [6, 7, 8, 9]
    each.after()
    assert shape_of(each.log) == [(8, 8, 0), (9, 9, 1)]
    assert each.log.log_start_offset == 0 and each.log.next_offset == 10
    each.reopen()
    assert shape_of(each.log) == [(8, 8, 0), (9, 9, 1)]


def test_times_at_their_limits_do_not_matter(cleaner: MakeCleaner) -> None:
    times = (0, -1, 2**63 - 1)
    batches = [keyed(n, Keyed(0, b"%d" % n, None if n % 2 else b"v", time)) for n, time in enumerate(times * 2)]
    each = cleaner({0: batches, 6: [one(6, "x")]})
    each.clean()
    records = records_of(each.log)
    assert [(record.offset, record.timestamp) for record in records[:-1]] == list(enumerate(times * 2))
    assert each.log.find_timestamp(2**63 - 1) == (2, 2**63 - 1)
    each.after()
    assert offsets_of(each.log) == [0, 2, 4, 6]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_keeps_its_codec_and_its_offsets_and_loses_records(cleaner: MakeCleaner, codec: str) -> None:
    first = keyed(0, *(Keyed(n, b"%d" % (n % 7), b"value" * n, 50 - n) for n in range(20)), codec=codec, last_delta=22)
    second = keyed(23, Keyed(0, b"1", None), Keyed(1, b"2", b"2"), codec=codec)
    each = cleaner({0: [first, second], 25: [one(25, "x")]})
    each.clean()
    headers = [header for _, header in next(iter(each.log.snapshot())).headers()]
    assert [(h.base_offset, h.last_offset, h.count, h.codec_name) for h in headers] == [
        (0, 22, 5, codec),
        (23, 24, 2, codec),
    ]
    assert (headers[0].max_timestamp, headers[1].has_delete_horizon) == (37, True)
    assert offsets_of(each.log) == [13, 14, 17, 18, 19, 23, 24, 25]
    assert [r.value for r in records_of(each.log)][:5] == [b"value" * n for n in (13, 14, 17, 18, 19)]
    each.after()
    assert offsets_of(each.log) == [13, 14, 17, 18, 19, 24, 25]


def test_keys_of_a_megabyte_and_empty_ones_are_keys_as_any(cleaner: MakeCleaner) -> None:
    large, other = b"k" * (1 << 20), b"k" * (1 << 20) + b"!"
    batches = [keyed(n, Keyed(0, key, b"%d" % n)) for n, key in enumerate((large, b"", other, large, b""))]
    each = cleaner({0: batches, 5: [one(5, "x")]})
    each.clean()
    assert offsets_of(each.log) == [2, 3, 4, 5]


def test_a_batch_longer_than_a_block_is_read_and_written_whole(cleaner: MakeCleaner) -> None:
    size = compaction_source.BLOCK_BYTES
    batches = [
        one(0, "a"),
        keyed(1, Keyed(0, b"b", bytes(size)), Keyed(1, b"c", bytes(size))),
        one(3, "b"),
        keyed(4, Keyed(0, b"d", None), Keyed(1, b"e", bytes(2 * size))),
        keyed(6, Keyed(0, b"f", bytes(3 * size)), codec="gzip"),
    ]
    each = cleaner({0: batches, 7: [one(7, "x")]})
    each.clean()
    assert offsets_of(each.log) == [0, 2, 3, 4, 5, 6, 7]
    assert [len(record.value or b"") for record in records_of(each.log)] == [1, size, 1, 0, 2 * size, 3 * size, 1]


@pytest.mark.parametrize("block_bytes", [17, 61, 200, 5000])
def test_blocks_and_buffers_of_any_size_give_the_same(
    cleaner: MakeCleaner, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetfs.storage.compaction.compaction.BLOCK_BYTES", block_bytes)
    monkeypatch.setattr("offsetfs.storage.compaction.compaction.BUFFER_BYTES", block_bytes)
    each = cleaner(segments_of("abcABcdD", "efgabc", "x"))
    each.clean()
    assert offsets_of(each.log) == [7, 8, 9, 10, 11, 12, 13, 14]


def test_the_indexes_of_a_new_segment_lead_to_its_records(cleaner: MakeCleaner) -> None:
    batches = [keyed(n, Keyed(0, b"%d" % (n % 300), b"v" * 100, 1000 + n)) for n in range(600)]
    each = cleaner({0: batches, 600: [one(600, "x")]}, index_interval_bytes="1000")
    each.clean()
    segment = each.log.snapshot().first
    opened = segment.open_files()
    assert opened.index.count > 20 and opened.time_index.last_entry == (1599, 599)
    for offset in (300, 437, 599):
        batch = each.log.batch_at(offset)
        assert batch is not None and batch.header.base_offset == offset
    assert each.log.find_timestamp(1437) == (437, 1437)
    assert segment.max_timestamp() == (1599, 599)


def test_a_new_segment_is_as_old_as_the_last_that_it_replaces(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("aa", "ab", "x"))
    for base, seconds in ((0, 1_000_000), (2, 2_000_000)):
        files.set_modified(str(each.partition / segment_name(base, ".log")), seconds * 10**9)
    each.clean()
    assert each.log.snapshot().first.modified_ns == 2_000_000 * 10**9
    for suffix in (".index", ".timeindex"):
        assert (each.partition / segment_name(0, suffix)).stat().st_mtime == 2_000_000


@pytest.mark.damages
def test_what_a_segment_leaves_behind_goes_with_it(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("aa", "ab", "x"))
    maps = [segment_name(base, suffix) for base in (0, 2) for suffix in MAP_SUFFIXES]
    for name in (*maps, segment_name(2, ".snapshot")):
        (each.partition / name).write_bytes(b"of old segments")
    (each.partition / segment_name(0, ".snapshot")).write_bytes(b"before the new segment too")
    each.clean()
    names = {path.name for path in each.partition.iterdir() if path.suffix != ".deleted"}
    assert {name for name in names if "map" in name or "snapshot" in name} == {segment_name(0, ".snapshot")}
    each.clock.advance(60_000)
    each.directory.deletions.run_due()
    assert [path.name for path in each.partition.iterdir() if path.suffix == ".deleted"] == []


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_a_map_of_one_slot_cleans_a_record_a_round(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("bababb", "x"))
    before, seen = last_values(each.log), []
    while not (done := each.clean(keys_max=1)).is_complete:
        seen.append((done.end_offset, offsets_of(each.log)))
        assert last_values(each.log) == before
    assert seen[0] == (1, [0, 1, 2, 3, 4, 5, 6])
    assert [end for end, _ in seen] == [1, 2, 3, 4, 5]
    assert (done.end_offset, offsets_of(each.log)) == (6, [3, 5, 6])


def test_a_map_that_is_full_ends_the_round_in_the_middle_of_a_batch(cleaner: MakeCleaner) -> None:
    """LogCleanerTest.testBuildPartialOffsetMap: keys 0 1 0 1 0, dirty from offset 2 on, two slots filled to 0.75."""
    each = cleaner({0: [keyed(0, *(Keyed(n, b"%d" % (n % 2), b"%d" % n) for n in range(5)))], 5: [one(5, "x")]})
    each.checkpoint = 2
    left = []
    while each.checkpoint < 5:
        each.clean(map_bytes=2 * SLOT_SIZE, load_factor=0.75)
        left.append((each.checkpoint, offsets_of(each.log)[:-1]))
    assert left == [(3, [1, 2, 3, 4]), (4, [2, 3, 4]), (5, [3, 4])]


def test_the_next_round_begins_behind_a_gap_at_the_end_of_a_segment(cleaner: MakeCleaner) -> None:
    """LogCleanerTest.testCleaningBeyondMissingOffsets."""
    each = cleaner({0: [one(0, "a"), one(1, "a")], 100: [], 200: [one(200, "a")], 300: [one(350, "x")]})
    assert each.clean().end_offset == 300
    assert offsets_of(each.log) == [200, 350]


def test_a_clean_part_is_rewritten_with_the_dirty_one(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("abc", "x"))
    each.clean()
    for number in range(3):
        each.append(keyed(0, Keyed(0, b"a", b"new %d" % number)))
    each.log.roll()
    done = each.clean()
    assert (done.bytes_indexed < done.bytes_read, done.records_read) == (True, 7)
    assert offsets_of(each.log) == [1, 2, 3, 6]


def test_several_groups_share_what_is_known_of_keys(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of(*["abcdefgh"] * 6, "x"), segment_bytes="1200")
    done = each.clean()
    assert done.segments_before == 6 and 1 < done.segments_after < 6
    assert offsets_of(each.log) == [*range(40, 49)]


def test_what_is_open_is_read_on_while_a_round_replaces_it(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("abab", "x"))
    held = each.log.snapshot()
    batches = next(iter(held)).batches()
    first = next(batches)
    each.clean()
    assert [first.header.base_offset, *(batch.header.base_offset for batch in batches)] == [0, 1, 2, 3]
    assert [header.base_offset for segment in held for _, header in segment.headers()] == [0, 1, 2, 3, 4]
    assert offsets_of(each.log) == [2, 3, 4]


def test_records_may_be_appended_while_a_round_is_under_way(cleaner: MakeCleaner) -> None:
    each = cleaner(segments_of("abab", "x"))
    appended: list[int] = []

    def is_cancelled() -> bool:
        if len(appended) < 3:
            appended.append(each.append(keyed(0, Keyed(0, b"a", b"while it runs"))))
        return False

    each.clean(is_cancelled=is_cancelled)
    assert appended == [6, 7, 8] and offsets_of(each.log) == [2, 3, 4, 5, 6, 7]


def test_offsets_that_span_more_than_a_segment_can_hold_do_not_end_up_in_one(cleaner: MakeCleaner) -> None:
    """LogCleanerTest.testSegmentWithOffsetOverflow: such a segment is split when the log is opened."""
    far = 2**31 + 10
    planted = {0: [one(0, "a"), one(5, "b"), one(far, "c"), one(far + 1, "a")], far + 2: [one(far + 2, "x")]}
    each = cleaner(planted)
    assert each.clean().segments_after == 2
    assert [segment.base_offset for segment in each.log.snapshot()] == [0, far, far + 2]
    assert offsets_of(each.log) == [5, far, far + 1, far + 2]


def test_one_group_becomes_several_segments_where_it_has_to(
    cleaner: MakeCleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_output, "RELATIVE_OFFSET_MAX", 4)
    each = cleaner(segments_of("abcdefg", "hijaklmn", "x"))
    done = each.clean()
    assert (done.segments_before, done.segments_after) == (2, 3)
    assert [segment.base_offset for segment in each.log.snapshot()] == [0, 5, 10, 15]
    left = [offset for offset in range(16) if offset != 0]
    assert offsets_of(each.log) == left
    each.reopen()
    assert offsets_of(each.log) == left and each.log.damage == ()
    each.crash()
    assert offsets_of(each.log) == left and each.log.damage == ()


def test_the_largest_offsets_are_cleaned_as_any(cleaner: MakeCleaner) -> None:
    top = 2**63 - 10
    each = cleaner({top: [one(top, "a"), one(top + 1, "b"), one(top + 2, "a")], top + 3: [one(top + 3, "x")]})
    assert each.clean().end_offset == top + 3
    assert offsets_of(each.log) == [top + 1, top + 2, top + 3]


# --- when a round cannot ----------------------------------------------------------------------------------------------


def sound() -> dict[int, list[bytes]]:
    return segments_of("abab", "abc", "x")


def with_byte(batch: bytes, position: int, byte: int) -> bytes:
    return batch[:position] + bytes([byte]) + batch[position + 1 :]


DAMAGE: dict[str, tuple[Callable[[list[bytes]], list[bytes]], type[Exception]]] = {
    "a byte of a record": (lambda b: [b[0], with_byte(b[1], 65, 77), b[2]], CorruptBatch),
    "an offset, which no checksum covers": (lambda b: [b[0], with_byte(b[1], 0, 1), b[2]], MalformedBatch),
    "an offset that does not rise": (lambda b: [b[1], b[0], b[2]], MalformedBatch),
    "an offset of the next segment": (lambda b: [b[0], b[1], with_byte(b[2], 7, 7)], MalformedBatch),
    "a size of nothing": (lambda b: [b[0], with_byte(b[1], 11, 0), b[2]], MalformedBatch),
    "a size beyond the file": (lambda b: [b[0], with_byte(b[1], 8, 0x7F), b[2]], MalformedBatch),
    "a negative size": (lambda b: [b[0], with_byte(b[1], 8, 0x80), b[2]], MalformedBatch),
    "a format that is none": (lambda b: [b[0], with_byte(b[1], 16, 9), b[2]], MalformedBatch),
    "an end that is missing": (lambda b: [b[0], b[1], b[2][:-3]], MalformedBatch),
    "an end with a few bytes too many": (lambda b: [*b, b"\0" * 9], MalformedBatch),
}


@pytest.mark.damages
@pytest.mark.promise(
    "An unreadable batch ends a round of compaction with an error that has path and position; no "
    "record is dropped because of it."
)
@pytest.mark.parametrize("in_the_clean_part", [False, True], ids=["dirty", "clean"])
@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_batch_ends_the_round_by_name_and_nothing_is_left_out(
    cleaner: MakeCleaner, name: str, in_the_clean_part: bool
) -> None:
    spoil, error = DAMAGE[name]
    planted = sound()
    planted[4] = spoil(planted[4])
    each = cleaner(planted)
    each.checkpoint = 7 if in_the_clean_part else None
    before = each.files()
    with pytest.raises(error) as raised:
        each.clean()
    assert raised.value.path == str(each.partition / segment_name(4, ".log"))  # type: ignore[attr-defined]
    assert raised.value.position is not None  # type: ignore[attr-defined]
    assert {name: data for name, data in each.files().items() if name.endswith(".log")} == {
        name: data for name, data in before.items() if name.endswith(".log")
    }
    assert each.leftover_files() == [] and each.log.failure is None


@pytest.mark.damages
def test_groups_before_a_damaged_one_stay_cleaned(cleaner: MakeCleaner) -> None:
    planted = segments_of("aaa", "bbb", "ccc", "x")
    planted[6][1] = with_byte(planted[6][1], 65, 77)
    each = cleaner(planted, segment_bytes="300")
    each.checkpoint = 9
    with pytest.raises(CorruptBatch):
        each.clean()
    assert each.leftover_files() == [] and len(each.log.snapshot()) == 4


@pytest.mark.parametrize("asked", range(5))
def test_a_cancelled_round_leaves_the_log_as_it_was(cleaner: MakeCleaner, asked: int) -> None:
    each = cleaner(sound())
    before, answers = each.files(), iter([False] * asked)
    with pytest.raises(CompactionCancelled):
        each.clean(is_cancelled=lambda: next(answers, True))
    assert {k: v for k, v in each.files().items() if "index" not in k} == {
        k: v for k, v in before.items() if "index" not in k
    }
    assert each.leftover_files() == []
    each.clean()
    assert offsets_of(each.log) == [4, 5, 6, 7]


def test_a_log_that_is_cut_while_a_round_is_under_way_is_not_put_back(cleaner: MakeCleaner) -> None:
    each = cleaner(sound())
    asked = []

    def is_cancelled() -> bool:
        asked.append(1)
        if len(asked) == 6:
            each.log.truncate_to(3)
        return False

    with pytest.raises(SegmentsChanged):
        each.clean(is_cancelled=is_cancelled)
    assert each.leftover_files() == [] and offsets_of(each.log) == [0, 1, 2]


@pytest.mark.long
@pytest.mark.parametrize("count", range(20))
def test_a_full_disk_ends_the_round_and_leaves_the_log_as_it_was(
    cleaner: MakeCleaner, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = cleaner(sound())
    each.find_dirty_range()
    left = count

    def failing(real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **more: object) -> object:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.ENOSPC, "no space left")
            return real(*arguments, **more)

        return call

    monkeypatch.setattr(files.File, "write", failing(files.File.write))
    monkeypatch.setattr(files.File, "sync", failing(files.File.sync))
    monkeypatch.setattr(files, "set_modified", failing(files.set_modified))
    try:
        each.clean()
    except OSError as error:
        assert error.errno == errno.ENOSPC
        assert offsets_of(each.log) == list(range(8)) and each.log.failure is None
        assert each.leftover_files() == []
    else:
        assert count > 8
    monkeypatch.undo()
    each.clean()
    assert offsets_of(each.log) == [4, 5, 6, 7]


def test_a_failed_log_is_not_cleaned(cleaner: MakeCleaner) -> None:
    each = cleaner(sound())
    each.log.failure = OSError(errno.EIO, "broken")
    with pytest.raises(LogFailed):
        each.clean()
    assert each.leftover_files() == [] and offsets_of(each.log) == list(range(8))
    each.log.failure = None


def test_a_round_reads_and_writes_no_faster_than_its_limit(
    cleaner: MakeCleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetfs.storage.compaction.compaction.BLOCK_BYTES", 5000)
    monkeypatch.setattr("offsetfs.storage.compaction.compaction.BUFFER_BYTES", 5000)
    each = cleaner({0: [keyed(n, Keyed(0, b"%d" % n, bytes(1000))) for n in range(100)], 100: [one(100, "x")]})
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def monotonic() -> float:
        now[0] += 0.01
        return now[0]

    done = each.clean(throttle=Throttle(50_000, monotonic=monotonic, sleep=sleep))
    bytes_moved = done.bytes_indexed + done.bytes_read + done.bytes_written
    assert bytes_moved > 300_000 and now[0] >= bytes_moved / 50_000 * 0.9 and slept


# --- for any sequence -------------------------------------------------------------------------------------------------

STEP = st.one_of(
    st.tuples(
        st.just("append"),
        st.lists(
            st.tuples(st.sampled_from([b"a", b"b", b"c", b"d", b""]), st.one_of(st.none(), st.binary(max_size=4))),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from(["none", "none", "lz4"]),
    ),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.sampled_from([1, 2, 3, 1000])),
    st.tuples(st.just("wait"), st.sampled_from([1, DAY_MS])),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("crash")),
)


@pytest.mark.long
@pytest.mark.promise(
    "The latest value of each key is readable at every moment of a compaction, and after a crash at any moment."
)
@settings(max_examples=25)
@given(steps=st.lists(STEP, max_size=14))
def test_compaction_never_changes_the_last_value_of_a_key(
    steps: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    each = Cleaner(tmp_path_factory.mktemp("log"), segment_bytes="400", file_delete_delay_ms="0")
    wanted: dict[bytes, tuple[int, bytes]] = {}
    try:
        for name, *arguments in steps:
            if name == "append":
                records, codec = arguments
                base = each.log.next_offset
                assert isinstance(records, list) and isinstance(codec, str)
                each.append(keyed(0, *(Keyed(n, key, value) for n, (key, value) in enumerate(records)), codec=codec))
                for number, (key, value) in enumerate(records):
                    wanted.pop(key, None)
                    if value is not None:
                        wanted[key] = (base + number, value)
            elif name == "roll":
                each.log.roll()
            elif name == "clean":
                (keys_max,) = arguments
                assert isinstance(keys_max, int)
                each.clean(keys_max=keys_max)
            elif name == "wait":
                (milliseconds,) = arguments
                assert isinstance(milliseconds, int)
                each.clock.advance(milliseconds)
            else:
                getattr(each, str(name))()
            assert last_values(each.log) == wanted
            offsets = offsets_of(each.log)
            assert offsets == sorted(set(offsets))
        each.log.check()
    finally:
        each.close()


def test_the_output_is_not_gathered_in_memory(cleaner: MakeCleaner, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = compaction_output.SegmentWriter._append_part

    def seen(self: compaction_output.SegmentWriter, data: memoryview) -> None:
        sizes.append(len(data))
        real(self, data)

    monkeypatch.setattr(compaction_output.SegmentWriter, "_append_part", seen)
    batches = [keyed(n, Keyed(0, b"%d" % n, bytes(50_000))) for n in range(60)]
    each = cleaner({0: batches, 60: [one(60, "x")]})
    done = each.clean()
    assert done.bytes_written == sum(sizes) > 3_000_000 and max(sizes) <= compaction_output.BUFFER_BYTES
