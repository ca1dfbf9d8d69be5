"""Compaction of message formats v0 and v1: the format stays, and what it cannot say is kept by other rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from fixtures.logs.cleaner import Cleaner, MakeCleaner
from fixtures.logs.keyed_logs import Keyed, keyed, last_values, offsets_of, records_of
from fixtures.logs.old_messages import message, wrapper
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.storage import files
from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, MalformedBatch
from offsetfs.storage.names import TopicPartition, segment_name
from offsetfs.storage.records.format import record_row
from offsetfs.storage.records.format.record import Record

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

GOLDEN = Path(__file__).parents[1] / "golden"


def loose(magic: int, text: str, offset: int = 0, **fields: int) -> list[bytes]:
    """Messages whose keys are letters, "-" none; a capital one is the tombstone of the small one's key."""
    return [
        message(
            magic,
            offset + number,
            None if letter == "-" else letter.lower().encode(),
            None if letter.isupper() else b"%d" % (offset + number),
            1000 + offset + number,
            **fields,
        )
        for number, letter in enumerate(text)
    ]


def first_segment(each: Cleaner) -> bytes:
    return (each.partition / segment_name(0, ".log")).read_bytes()


@pytest.mark.parametrize("magic", [0, 1])
def test_loose_messages_stay_as_they_are_or_go(cleaner: MakeCleaner, magic: int) -> None:
    messages = loose(magic, "abab-cB")
    each = cleaner({0: messages[:4], 4: messages[4:], 7: [message(magic, 7, b"x", b"v")]})
    before = last_values(each.log)
    done = each.clean()
    assert first_segment(each) == messages[2] + messages[5] + messages[6]
    assert (done.records_without_key, last_values(each.log)) == (1, before)
    each.reopen()
    assert offsets_of(each.log) == [2, 5, 6, 7]


def test_many_small_messages_are_taken_in_runs_to_the_same_end(cleaner: MakeCleaner) -> None:
    messages = [message(1, n, b"%d" % (n % 700), b"v" * 40, 1000 + n) for n in range(2000)]
    each = cleaner({0: messages, 2000: [message(1, 2000, b"x", b"v")]})
    each.clean()
    assert first_segment(each) == b"".join(messages[1300:])
    assert each.log.find_timestamp(2500) == (1500, 2500)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_set_is_written_anew_around_what_stays(cleaner: MakeCleaner, magic: int, codec: str) -> None:
    inner = loose(magic, "abcab", 0 if magic else 10)
    each = cleaner({0: [wrapper(magic, 14, inner, codec, timestamp=1014)], 15: loose(magic, "bx", 15), 17: []})
    before: dict[int, Record] = {record.offset: record for record in records_of(each.log)}
    each.clean()
    (header, *_) = [header for _, header in each.log.snapshot().first.headers()]
    assert (header.magic, header.codec_name, header.last_offset) == (magic, codec, 13)
    assert header.max_timestamp == (1003 if magic else -1)
    assert offsets_of(each.log) == [12, 13, 15, 16]
    assert records_of(each.log) == [before[offset] for offset in (12, 13, 15, 16)]
    content = first_segment(each)
    if codec == "lz4":
        frame = content.index(b"\x04\x22\x4d\x18")
        assert content[frame + 6] == (0x82 if magic else 0x1A)
    each.reopen()
    batch = each.log.batch_at(13)
    assert batch is not None and batch.base_offset == 12 and batch.record(13) == before[13]


def test_a_set_of_which_all_stays_is_copied_and_one_of_which_nothing_does_goes(cleaner: MakeCleaner) -> None:
    gone = wrapper(1, 1, loose(1, "ab"), "gzip", timestamp=1001)
    kept = wrapper(1, 3, loose(1, "ab"), "gzip", timestamp=1001)
    each = cleaner({0: [gone, kept], 4: []})
    each.clean()
    assert first_segment(each) == kept


def test_the_time_of_an_append_stays(cleaner: MakeCleaner) -> None:
    each = cleaner({0: [wrapper(1, 2, loose(1, "aba"), "gzip", timestamp=5555, attributes=8)], 3: []})
    each.clean()
    assert [(r.offset, r.timestamp, r.timestamp_type) for r in records_of(each.log)] == [
        (1, 5555, "LogAppendTime"),
        (2, 5555, "LogAppendTime"),
    ]


def test_messages_in_a_wrapper_of_another_format_are_written_anew_in_its_own(cleaner: MakeCleaner) -> None:
    """LogCleanerTest.testCleanCorruptMessageSet (KAFKA-4298)."""
    each = cleaner({0: [wrapper(1, 2, [message(0, n, b"%d" % n, b"v") for n in range(3)], "gzip")], 3: []})
    each.clean()
    assert offsets_of(each.log) == [0, 1, 2]
    batch = next(each.log.snapshot().first.batches())
    assert {batch.payload()[at + 16] for at in batch.rows()[record_row.MESSAGE_POSITION :: record_row.COLUMNS]} == {1}
    assert [(r.timestamp, r.key, r.value) for r in records_of(each.log)] == [(-1, b"%d" % n, b"v") for n in range(3)]


def test_a_tombstone_goes_with_the_age_of_its_segment(cleaner: MakeCleaner) -> None:
    """The rule from before there were horizons: its segment is older than the newest clean one by the retention."""
    each = cleaner({0: loose(1, "aA"), 2: loose(1, "b", 2), 3: loose(1, "c", 3), 4: []}, delete_retention_ms="1000")
    each.checkpoint = 3

    def aged(first_ms: int) -> None:
        for base, ms in ((0, first_ms), (2, 10_000), (3, 20_000)):
            files.set_modified(str(each.partition / segment_name(base, ".log")), ms * 10**6)

    aged(9_001)
    each.log.configure(each.directory.config_of("orders"))
    object.__setattr__(each.log.config, "segment_bytes", 10)
    each.clean()
    assert offsets_of(each.log) == [0, 1, 2, 3]  # dirty was only c
    each.checkpoint = 0
    each.clean()
    assert offsets_of(each.log) == [1, 2, 3]  # nothing was clean yet
    aged(9_001)
    each.checkpoint = 3
    each.clean()
    assert offsets_of(each.log) == [1, 2, 3]
    aged(9_000)
    each.checkpoint = 3
    each.clean()
    assert offsets_of(each.log) == [2, 3]


def test_a_log_of_all_formats_is_cleaned_as_one(cleaner: MakeCleaner) -> None:
    batches = [
        *loose(0, "ab"),
        wrapper(1, 3, loose(1, "bc"), "gzip"),
        keyed(4, Keyed(0, b"a", b"4"), Keyed(1, b"d", b"5")),
    ]
    each = cleaner({0: batches, 6: [keyed(6, Keyed(0, b"b", b"6"))], 7: []})
    before = last_values(each.log)
    each.clean()
    assert offsets_of(each.log) == [3, 4, 5, 6] and last_values(each.log) == before


@pytest.mark.parametrize("block_bytes", [17, 70, 100, 333])
def test_blocks_of_any_size_give_the_same(
    cleaner: MakeCleaner, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offsetfs.storage.compaction.compaction.BLOCK_BYTES", block_bytes)
    batches = [
        *loose(0, "abc"),
        wrapper(1, 5, loose(1, "bcd"), "gzip"),
        *loose(1, "ea", 6),
        wrapper(0, 9, loose(0, "fb", 8)),
    ]
    each = cleaner({0: batches, 10: []})
    each.clean()
    assert offsets_of(each.log) == [4, 5, 6, 7, 8, 9]


DAMAGED = {
    "a loose message": ([*loose(1, "a"), loose(1, "b", 1)[0][:-1] + b"!", *loose(1, "c", 2)], CorruptBatch),
    "a wrapper": ([wrapper(1, 2, loose(1, "abc"), "gzip")[:-1] + b"!"], CorruptBatch),
    "inside a wrapper": (
        [wrapper(1, 2, [*loose(1, "ab"), loose(1, "c", 2)[0][:-1] + b"!"], "gzip")],
        CorruptBatch,
    ),
    "offsets that fall": ([*loose(1, "b", 1), *loose(1, "ac")[:1]], MalformedBatch),
    "offsets that fall inside": (
        [wrapper(0, 2, [*loose(0, "b", 1), *loose(0, "a"), *loose(0, "c", 2)])],
        MalformedBatch,
    ),
}


@pytest.mark.damages
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_message_ends_the_round(cleaner: MakeCleaner, name: str) -> None:
    batches, error = DAMAGED[name]
    each = cleaner({0: batches, 3: []})
    before = first_segment(each)
    with pytest.raises(error):
        each.clean()
    assert first_segment(each) == before and each.leftover_files() == []


PARTITIONS = sorted(
    f"{path.parent.name}/{path.name.removesuffix('.expected.ndjson')}"
    for version in ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2")
    for path in (GOLDEN / f"kafka-{version}").glob("*.expected.ndjson")
    if path.stat().st_size
)


def reported(record: Record) -> tuple[object, ...]:
    """Return what a record says; a message of v0 that is written again in a wrapper of v1 has a type of time after."""
    return record.offset, record.timestamp, record.key, record.value


@pytest.mark.long
@pytest.mark.parametrize("name", PARTITIONS)
def test_what_old_brokers_wrote_is_cleaned_and_no_key_loses_its_last_value(name: str, tmp_path: Path) -> None:
    version, partition = name.split("/")
    shutil.copytree(GOLDEN / version / partition, tmp_path / partition)
    (tmp_path / ".kafka_cleanshutdown").touch()
    clock = FakeClock()
    directory = LogDirectory.open(str(tmp_path), defaults={"cleanup.policy": "compact"}, clock=clock)
    try:
        log = directory.log(TopicPartition.parse(partition))
        log.roll()
        before = {record.offset: record for record in records_of(log)}
        wanted, checkpoint = last_values(log), None
        for _ in range(3):
            checkpoint = clean(log, find_dirty_range(log, checkpoint, clock.ms), now_ms=clock.ms).end_offset
            after = records_of(log)
            assert last_values(log) == wanted
            assert [reported(record) for record in after] == [reported(before[record.offset]) for record in after]
            assert len({record.key for record in after}) == len(after)
            log.check()
            clock.advance(86_400_001)
    finally:
        directory.close()


WILD = {
    "the least offset of all": (0, [-(2**63), 5]),
    "an offset below nothing": (0, [-1, 5]),
    "the last offset below nothing": (0, [5, -(2**63)]),
    "the largest offset of all": (0, [0, 2**63 - 1]),
    "relative offsets that begin below nothing": (1, [-(2**63), 5]),
    "relative offsets that end below nothing": (1, [2**63 - 1, -(2**63)]),
}


@pytest.mark.damages
@pytest.mark.parametrize("case", WILD)
def test_a_set_with_an_offset_that_no_log_can_hold_ends_a_round_with_its_place(case: str, cleaner: MakeCleaner) -> None:
    magic, inner = WILD[case]
    hostile = wrapper(magic, 5, [message(magic, offset, b"k", b"v", 1000) for offset in inner])
    each = cleaner({0: [message(magic, 0, b"k", b"v", 1000), hostile], 6: [message(magic, 6, b"x", b"v", 1000)]})
    before = first_segment(each)
    with pytest.raises(MalformedBatch, match="offset") as caught:
        each.clean()
    assert (caught.value.path, caught.value.position) == (
        each.log.snapshot().first.log_path,
        len(before) - len(hostile),
    )
    assert first_segment(each) == before
