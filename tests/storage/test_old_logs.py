"""Logs of v0 and v1 with what happens to logs: sparse indexes, gaps, damage, a log start inside a set, a new owner."""

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.old_messages import message, wrapper
from fixtures.spies import no_damage

from offsetfs.storage import files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCHS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_epochs,
    write_offsets,
)
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.hand_over import hand_over
from offsetfs.storage.errors import CorruptBatch, MalformedBatch, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.legacy import NO_RUNS, RUNS
from offsetfs.storage.segments import segment_indexes
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.views.partition_view import PartitionView

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("old", 0)


def loose(magic: int, offset: int) -> bytes:
    return message(magic, offset, None, b"%04d" % offset, 1000 + offset)


def packed(magic: int, *offsets: int, codec: str = "gzip") -> bytes:
    """A wrapper around these offsets."""
    inner = [offset if magic == 0 else offset - offsets[0] for offset in offsets]
    messages = [
        message(magic, at, None, b"%04d" % offset, 1000 + offset) for at, offset in zip(inner, offsets, strict=True)
    ]
    return wrapper(magic, offsets[-1], messages, codec, timestamp=1000 + offsets[-1])


def current(*offsets: int) -> bytes:
    records = [(None, b"%04d" % offset, (), 1000 + offset) for offset in offsets]
    return bytes(build(records, base_offset=offsets[0]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "log" / str(PARTITION)
    folder.mkdir(parents=True)
    (folder.parent / CLEAN_SHUTDOWN).touch()
    return folder


@pytest.fixture
def opened(path: Path) -> Callable[..., Log]:
    """Write these batches as a log file and open it for reading."""

    def open_log(*batches: bytes, index: bytes | None = None, base_offset: int = 0) -> Log:
        name = path / f"{base_offset:020d}"
        name.with_suffix(".log").write_bytes(b"".join(batches))
        if index is not None:
            name.with_suffix(".index").write_bytes(index)
            name.with_suffix(".timeindex").write_bytes(b"")
        return LogDirectory.open(str(path.parent), read_only=True).log(PARTITION)

    return open_log


def offsets_found(log: Log, offsets: range) -> list[int]:
    found = []
    for offset in offsets:
        batch = log.batch_at(offset)
        if batch is not None and batch.record(offset) is not None:
            found.append(offset)
    return found


# --- walking ----------------------------------------------------------------------------------------------------------

MIXED = [
    message(0, 0, None, None),
    packed(0, 1, 2, 3),
    loose(1, 4),
    packed(1, 7, 8, 11),
    current(12, 13),
    message(1, 14, None, b"x" * 300),
    *(message(0, offset, None, None) for offset in range(15, 22)),
    loose(1, 22),
    message(0, 23, None, None),
]


@pytest.mark.parametrize("runs", [NO_RUNS, RUNS], ids=["one by one", "in runs"])
@pytest.mark.parametrize("block_bytes", [61, 64, 77, 100, 333, 1 << 20])
def test_a_chain_of_all_formats_is_walked_whatever_the_block(
    path: Path, block_bytes: int, runs: tuple[int, ...]
) -> None:
    (path / "chain").write_bytes(b"".join(MIXED))
    with files.open_file(str(path / "chain")) as file:
        batches = list(batch_chain.batches(file, 0, file.size(), block_bytes=block_bytes, runs=runs))
        headers = [header for _, header, _ in batch_chain.headers(file, 0, file.size(), block_bytes=block_bytes)]
    assert b"".join(bytes(batch.data) for batch in batches) == b"".join(MIXED)
    records = [record.offset for batch in batches for record in batch.records()]
    assert records == [0, 1, 2, 3, 4, 7, 8, 11, *range(12, 24)]
    assert [(header.magic, header.last_offset) for header in headers] == [
        (0, 0), (0, 3), (1, 4), (1, 11), (2, 13), (1, 14), *((0, offset) for offset in range(15, 22)), (1, 22), (0, 23)
    ]  # fmt: skip
    assert runs == NO_RUNS or block_bytes < 1000 or len(batches) < len(MIXED)


@pytest.mark.parametrize("cut", range(1, 34))
def test_a_chain_that_ends_inside_a_message_reports_it(path: Path, cut: int) -> None:
    (path / "chain").write_bytes((loose(0, 0) + message(1, 1, None, None))[:-cut])
    with files.open_file(str(path / "chain")) as file:
        chain = batch_chain.batches(file, 0, file.size())
        assert next(chain).record(0) is not None
        with pytest.raises(MalformedBatch):
            next(chain)


def test_the_log_of_all_formats_answers_every_offset(opened: Callable[..., Log]) -> None:
    log = opened(*MIXED)
    log.check()
    assert offsets_found(log, range(24)) == [0, 1, 2, 3, 4, 7, 8, 11, *range(12, 24)]
    assert (log.log_start_offset, log.next_offset) == (0, 24)
    in_gap = log.batch_at(5)
    assert in_gap is not None and (in_gap.base_offset, in_gap.header.base_offset) == (7, 11)
    assert log.find_timestamp(1008) == (8, 1008) and log.find_timestamp(1009) == (11, 1011)
    assert log.max_timestamp() == (22, 1022)


# --- sparse indexes ---------------------------------------------------------------------------------------------------

SETS = [packed(1, *range(first, first + 5)) for first in range(0, 50, 5)]
POSITIONS = [sum(map(len, SETS[:number])) for number in range(10)]


def entries(*numbers: int, first: bool) -> bytes:
    """Index entries of these sets, with the first or the last offset of each."""
    return b"".join(struct.pack(">ii", number * 5 + (0 if first else 4), POSITIONS[number]) for number in numbers)


@pytest.mark.parametrize("first", [True, False], ids=["before 0.11: the first offset", "since: the last offset"])
def test_offset_indexes_of_either_age_are_used(
    opened: Callable[..., Log], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(*SETS, index=entries(2, 3, 7, 9, first=first))
    monkeypatch.setattr(segment_indexes, "rebuild", pytest.fail)
    assert offsets_found(log, range(50)) == list(range(50))
    log.check()


@pytest.mark.damages
def test_an_index_that_names_an_offset_before_its_set_is_made_anew(opened: Callable[..., Log]) -> None:
    lies = struct.pack(">ii", 11, POSITIONS[7])  # the set there begins at 35
    log = opened(*SETS, index=lies)
    assert offsets_found(log, range(50)) == list(range(50))


def test_an_index_of_appends_names_the_last_offset_and_the_first_place(opened: Callable[..., Log]) -> None:
    messages = [loose(1, offset) for offset in range(30)]
    size = len(messages[0])
    log = opened(*messages, index=struct.pack(">iiii", 14, 10 * size, 29, 20 * size))
    assert offsets_found(log, range(30)) == list(range(30))


# --- damage -----------------------------------------------------------------------------------------------------------


def damaged(batches: list[bytes], number: int, position: int) -> list[bytes]:
    """The batches with one byte of one of them changed."""
    changed = bytearray(batches[number])
    changed[position] ^= 0x41
    return [*batches[:number], bytes(changed), *batches[number + 1 :]]


DAMAGES = {"the length": 10, "the checksum": 13, "the magic": 16, "the attributes": 17, "the key": 19, "the end": -1}
ROW = [packed(1, 0, 1, 2), loose(0, 3), loose(0, 4), loose(0, 5), packed(0, 6, 7), loose(1, 8), current(9, 10)]


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("position", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("number", range(6))
def test_damage_to_an_old_batch_leaves_its_neighbors_readable(
    path: Path, opened: Callable[..., Log], number: int, position: int
) -> None:
    write_offsets(str(path.parent / RECOVERY_POINTS), {PARTITION: 11})
    log = opened(*damaged(ROW, number, position))
    lost = [{0, 1, 2}, {3}, {4}, {5}, {6, 7}, {8}][number]
    for offset in range(11):
        if offset in lost:
            with pytest.raises((CorruptBatch, MalformedBatch)):
                log.batch_at(offset)
        else:
            batch = log.batch_at(offset)
            record = batch.record(offset) if batch else None
            assert record is not None and record.value == b"%04d" % offset
    problems: list[StorageError] = []
    view = PartitionView(log, FilePool(4), problems.append)
    assert view.refresh()
    located = view.locate(0)
    assert located is not None
    assert view.read(located) == b"".join(b"%04d\n" % offset for offset in range(11) if offset not in lost)
    assert len(problems) == 1 and problems[0].position == sum(map(len, ROW[:number]))


@pytest.mark.parametrize("between", [bytes(5000), random.Random(0).randbytes(5000), b"\0\0\0\x20\1\1" * 900])
def test_an_old_message_is_found_behind_whatever(path: Path, between: bytes) -> None:
    for follower in (loose(0, 3), loose(1, 3), packed(0, 3), packed(1, 3), current(3)):
        (path / "chain").write_bytes(b"?" * 17 + between + follower)
        with files.open_file(str(path / "chain")) as file:
            assert batch_chain.next_sound(file, 0, file.size()) == 17 + len(between)
            assert batch_chain.next_sound(file, 0, file.size(), offset_min=4) == file.size()


def test_a_message_near_the_end_of_a_block_is_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_chain, "BLOCK_BYTES", 200)
    for size in range(130, 210):
        (path / "chain").write_bytes(b"?" * size + message(0, 3, None, None))
        with files.open_file(str(path / "chain")) as file:
            assert batch_chain.next_sound(file, 0, file.size()) == size


# --- a log start inside a set -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
def test_what_a_log_start_cut_out_of_a_set_is_not_shown(path: Path, opened: Callable[..., Log], magic: int) -> None:
    write_offsets(str(path.parent / LOG_STARTS), {PARTITION: 3})
    log = opened(packed(magic, 0, 1, 3, 4), loose(magic, 5))
    assert log.log_start_offset == 3
    view = PartitionView(log, FilePool(4), no_damage)
    assert view.refresh()
    located = view.locate(0)
    assert located is not None
    assert bytes(view.read(located))[-located.start :] == b"0003\n0004\n0005\n"
    assert view.size == 15


# --- a new owner ------------------------------------------------------------------------------------------------------


def test_old_messages_are_handed_over_as_they_are_and_v2_gets_the_brokers_epoch(path: Path, golden_copy: Path) -> None:
    empty = TopicPartition("empty", 0)
    (golden_copy / "empty-0" / LEADER_EPOCHS).write_text("0\n1\n7 0\n")
    os.rename(path, path.parent / str(empty))
    old = [packed(0, 0, 1), loose(0, 2), loose(0, 3), packed(1, 4, 5), loose(1, 6)]
    (path.parent / str(empty) / f"{0:020d}.log").write_bytes(b"".join([*old, current(7, 8)]))
    write_offsets(str(path.parent / RECOVERY_POINTS), {empty: 9})
    hand_over(str(path.parent), empty, str(golden_copy))
    log = LogDirectory.open(str(golden_copy), read_only=True).log(empty)
    log.check()
    batches = [batch for segment in log.snapshot() for batch in segment.batches()]
    assert [bytes(batch.data) for batch in batches[:-1]] == old
    assert [batch.header.leader_epoch for batch in batches] == [-1] * 5 + [7]
    assert read_epochs(str(golden_copy / "empty-0" / LEADER_EPOCHS)) == [(7, 7)]


def test_a_log_of_old_messages_alone_is_handed_over_without_epochs(path: Path, golden_copy: Path) -> None:
    empty = TopicPartition("empty", 0)
    os.rename(path, path.parent / str(empty))
    (path.parent / str(empty) / f"{0:020d}.log").write_bytes(loose(0, 0) + packed(1, 1, 2))
    write_offsets(str(path.parent / RECOVERY_POINTS), {empty: 3})
    result = hand_over(str(path.parent), empty, str(golden_copy))
    assert (result.log_start_offset, result.next_offset) == (0, 3)
    assert read_epochs(str(golden_copy / "empty-0" / LEADER_EPOCHS)) == []


@pytest.mark.damages
@pytest.mark.parametrize("following", [[], [current(12, 13)]], ids=["at the end", "before another"])
@pytest.mark.parametrize("change", [(16, b"\1"), (16, b"\0"), (23, b"\0\0\0\0")], ids=["v1", "v0", "a smaller delta"])
def test_a_header_that_hides_records_is_no_gap(
    path: Path, opened: Callable[..., Log], change: tuple[int, bytes], following: list[bytes]
) -> None:
    """A damaged magic or delta makes a batch end early; offsets behind that must not pass for taken by compaction."""
    write_offsets(str(path.parent / RECOVERY_POINTS), {PARTITION: 14})
    position, new = change
    batch = current(5, 6, 7)
    lying = batch[:position] + new + batch[position + len(new) :]
    log = opened(current(0, 1), lying, *following)
    for offset in (5, 6, 7):
        with pytest.raises(CorruptBatch):
            log.batch_at(offset)
    assert offsets_found(log, range(2)) == [0, 1]
    assert offsets_found(log, range(12, 14 if following else 12)) == [12, 13][: 2 * len(following)]


def test_bytes_that_look_like_a_header_cause_no_read_of_a_gigabyte(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(0).randbytes(1 << 18)
    (path / "chain").write_bytes(noise + loose(1, 3))
    os.truncate(path / "chain", 1 << 30)
    read: list[int] = []
    with files.open_file(str(path / "chain")) as file:
        original = file.read

        def counted(position: int, size: int, *, nowait: bool = False) -> bytes | bytearray:
            read.append(size)
            return original(position, size, nowait=nowait)

        monkeypatch.setattr(type(file), "read", lambda self, *a, **k: counted(*a, **k))
        assert batch_chain.next_sound(file, 0, file.size()) == len(noise)
    assert sum(read) < 4 << 20
