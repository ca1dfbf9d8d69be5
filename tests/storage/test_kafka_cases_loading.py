"""Kafka's cases for opening a log that no other test has: clean or not, rest of a swap, snapshots, lost files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import PARTITION, batch, crash, data, marker, plant, sealed, values_of

from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, LOG_STARTS, RECOVERY_POINTS, read_offsets, write_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import follower, producer_loading
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT, ProducerState
from offsetfs.storage.records.format.batch import HEADER_SIZE, parse_header, seal_checksum
from offsetfs.storage.recovery.recover_all import RecoveryProgress

pytestmark = pytest.mark.unit


def flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


# --- clean or not -----------------------------------------------------------------------------------------------------


def test_a_log_that_was_closed_cleanly_is_not_verified_and_any_other_is(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a"), batch(1, b"b")]})
    flip(partition / f"{0:020d}.log", 67)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (log.next_offset, log.damage) == (2, ())
    directory.close()
    crash(tmp_path)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (log.next_offset, len(log.damage)) == (0, 1)
    directory.close()


def test_recovery_begins_in_the_segment_of_the_recovery_point(tmp_path: Path) -> None:
    partition = plant(
        tmp_path, {0: [batch(0, b"a")], 1: [batch(1, b"b")], 2: [batch(2, b"c")]}, is_clean=False, recovery_point=2
    )
    for base in (0, 1):
        flip(partition / f"{base:020d}.log", 67)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (log.next_offset, log.damage) == (3, ())
    directory.close()
    crash(tmp_path)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (log.next_offset, len(log.damage)) == (0, 3)
    directory.close()


def test_a_crash_while_a_directory_is_opened_leaves_it_to_be_recovered(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a"), batch(1, b"b")[:-1]]}, is_clean=False)
    (tmp_path / "orders-1").mkdir()

    def die(progress: RecoveryProgress) -> None:
        if progress.partitions_done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LogDirectory.open(str(tmp_path), on_progress=die)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    recovered: set[TopicPartition] = set()
    directory = LogDirectory.open(str(tmp_path), on_progress=lambda progress: recovered.add(progress.partition))
    assert recovered == {PARTITION, TopicPartition("orders", 1)}
    directory.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()


def test_indexes_without_a_log_do_no_harm_and_make_way(tmp_path: Path) -> None:
    partition = plant(tmp_path, {0: [batch(0, b"a")]}, is_clean=False)
    bogus = [partition / f"{base:020d}{suffix}" for base in (2, 9) for suffix in (".index", ".timeindex")]
    for path in bogus:
        path.write_bytes(b"\0\1")
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    for value in (b"b", b"c", b"d"):
        log.append(sealed(value))
        log.roll()
    log.check()
    assert values_of(log) == [b"a", b"b", b"c", b"d"]
    directory.close()
    assert (partition / f"{2:020d}.index").read_bytes() != b"\0\1"


def test_a_partition_without_any_file_is_an_empty_log(tmp_path: Path) -> None:
    plant(tmp_path, {}, is_clean=False)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    assert (log.log_start_offset, log.next_offset, log.damage) == (0, 0, ())
    assert log.append(sealed()).base_offset == 0
    directory.close()


# --- a swap that was cut short ----------------------------------------------------------------------------------------

OLD, FIRST, SECOND = batch(0, b"old 0") + batch(2, b"old 2"), batch(0, b"new 0"), batch(2, b"new 2")
AFTER = batch(4, b"after")
SPLITS: dict[str, tuple[Mapping[str, bytes], list[bytes]]] = {
    "one part is cleaned": ({"0.log": OLD, "0.log.cleaned": FIRST}, [b"old 0", b"old 2"]),
    "both are cleaned": (
        {"0.log": OLD, "0.log.cleaned": FIRST, "2.log.cleaned": SECOND},
        [b"old 0", b"old 2"],
    ),
    "one is ready, from above": (
        {"0.log": OLD, "0.log.cleaned": FIRST, "2.log.swap": SECOND},
        [b"old 0", b"old 2"],
    ),
    "both are ready": ({"0.log": OLD, "0.log.swap": FIRST, "2.log.swap": SECOND}, [b"new 0", b"new 2"]),
    "the old one is set aside": (
        {"0.log.deleted": OLD, "0.log.swap": FIRST, "2.log.swap": SECOND},
        [b"new 0", b"new 2"],
    ),
    "one is in place": ({"0.log.deleted": OLD, "0.log.swap": FIRST, "2.log": SECOND}, [b"new 0", b"new 2"]),
    "both are in place": ({"0.log.deleted": OLD, "0.log": FIRST, "2.log": SECOND}, [b"new 0", b"new 2"]),
}


@pytest.mark.promise(
    "After a crash during the replacement of segments, the log has either the old or the new segments."
)
@pytest.mark.parametrize(("files", "values"), SPLITS.values(), ids=SPLITS)
def test_a_split_that_was_cut_short_is_finished_or_undone(
    files: Mapping[str, bytes], values: list[bytes], tmp_path: Path
) -> None:
    partition = plant(tmp_path, {4: [AFTER]}, is_clean=False)
    for name, content in files.items():
        number, suffix = name.split(".", 1)
        (partition / f"{int(number):020d}.{suffix}").write_bytes(content)
        for index in ("index", "timeindex"):
            (partition / f"{int(number):020d}.{suffix.replace('log', index)}").write_bytes(b"")
    before = {path.name: path.read_bytes() for path in partition.iterdir()}
    reader = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    assert (values_of(reader), reader.next_offset, reader.damage) == ([*values, b"after"], 5, ())
    assert {path.name: path.read_bytes() for path in partition.iterdir()} == before
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(PARTITION)
    log.check()
    assert (values_of(log), log.next_offset, log.damage) == ([*values, b"after"], 5, ())
    reader.refresh()
    assert values_of(reader) == [*values, b"after"]
    directory.close()
    assert {path.suffix for path in partition.iterdir()} <= {".log", ".index", ".timeindex", ".snapshot", ""}


def test_a_log_that_is_opened_while_a_broker_swaps_reads_on_when_it_has_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK_INTERVAL_S", 0.0)
    partition = plant(tmp_path, {4: [AFTER]}, is_clean=False)
    swapped, old = partition / f"{0:020d}.log.swap", partition / f"{0:020d}.log.deleted"
    swapped.write_bytes(FIRST + SECOND)
    old.write_bytes(OLD)
    reader = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    reader.refresh()
    swapped.rename(swapped.with_suffix(""))
    old.unlink()
    reader.refresh()
    assert values_of(reader) == [b"new 0", b"new 2", b"after"]
    assert [segment.log_path for segment in reader.snapshot()] == [
        str(path) for path in sorted(partition.glob("*.log"))
    ]


# --- offsets that were given out ------------------------------------------------------------------------------------


@pytest.mark.promise("Offsets that were on disk once are never assigned again.")
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("checkpoint", [{"log_start": 10}, {"recovery_point": 10}], ids=lambda known: next(iter(known)))
def test_a_log_that_ends_below_its_start_or_recovery_point_goes_on_behind_it(
    checkpoint: Mapping[str, int], is_clean: bool, tmp_path: Path
) -> None:
    plant(tmp_path, {0: [batch(0, b"a", b"b")]}, is_clean=is_clean, **checkpoint)
    start = checkpoint.get("log_start", 0)
    for _ in range(2):  # it is not forgotten when nothing is appended
        directory = LogDirectory.open(str(tmp_path))
        log = directory.log(PARTITION)
        assert (log.log_start_offset, log.next_offset) == (start, 10)
        assert [(each.position, each.offset) for each in log.damage] == [(log.size_bytes, 2)]
        directory.close()
    directory = LogDirectory.open(str(tmp_path))
    assert directory.log(PARTITION).append(sealed(b"c")).base_offset == 10
    directory.close()
    crash(tmp_path)
    log = LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)
    assert (log.log_start_offset, log.next_offset) == (start, 11)
    found = log.batch_at(max(start, 2))
    assert found is not None and found.records()[0].value == b"c"


def test_a_partition_made_again_under_its_name_begins_at_zero(tmp_path: Path) -> None:
    plant(tmp_path, {}, recovery_point=10, log_start=5).rmdir()
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    assert (log.log_start_offset, log.next_offset, log.damage) == (0, 0, ())
    assert read_offsets(str(tmp_path / RECOVERY_POINTS)) == read_offsets(str(tmp_path / LOG_STARTS)) == {}
    directory.close()


# --- producer snapshots -----------------------------------------------------------------------------------------------


def append_of_producers(path: Path) -> None:
    """Three segments of one record of producer 1 each, so snapshots at 1, 2 and, from the end, 3."""
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(PARTITION)
    for sequence in range(3):
        if sequence:
            log.roll()
        log.append(data(1, sequence, 1, is_transactional=False))
    directory.close()


def state_of(path: Path, *, is_clean: bool = True) -> ProducerState:
    if not is_clean:
        crash(path)
    directory = LogDirectory.open(str(path))
    try:
        return producer_loading.load_producers(directory.log(PARTITION), clean=is_clean)
    finally:
        directory.close()


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


SPOILT = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": truncated,
    "a flipped bit": lambda path: flip(path, 20),
    "a version to come": lambda path: flip(path, 0),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.long
@pytest.mark.damages
@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("spoil", SPOILT.values(), ids=list(SPOILT))
def test_a_snapshot_that_cannot_be_read_gives_way_to_the_one_before(
    spoil: Callable[[Path], object], is_clean: bool, tmp_path: Path
) -> None:
    append_of_producers(tmp_path)
    snapshots = sorted(tmp_path.glob("*/*.snapshot"))
    assert [int(path.stem) for path in snapshots] == [1, 2, 3]
    expected = ProducerState.load(snapshots[-1].read_bytes())
    spoil(snapshots[-1])
    assert state_of(tmp_path, is_clean=is_clean).dump() == expected.dump()
    spoil(snapshots[-2])
    assert state_of(tmp_path, is_clean=is_clean).dump() == expected.dump()


def test_after_a_crash_producers_are_known_without_any_snapshot(tmp_path: Path) -> None:
    append_of_producers(tmp_path)
    expected = state_of(tmp_path).dump()
    for path in tmp_path.glob("*/*.snapshot"):
        path.unlink()
    assert state_of(tmp_path, is_clean=False).dump() == expected


def test_records_below_the_log_start_do_not_take_their_producers_with_them(tmp_path: Path) -> None:
    append_of_producers(tmp_path)
    write_offsets(str(tmp_path / LOG_STARTS), {PARTITION: 3})
    assert state_of(tmp_path).entries[1].last_sequence == 2


def test_an_emptied_batch_keeps_its_producer(tmp_path: Path) -> None:
    emptied = bytearray(batch(0, b"a", b"b", producer_id=9, producer_epoch=3, base_sequence=5)[:HEADER_SIZE])
    struct.pack_into(">i", emptied, 8, HEADER_SIZE - 12)
    struct.pack_into(">i", emptied, 57, 0)
    seal_checksum(emptied)
    assert parse_header(emptied).count == 0
    plant(tmp_path, {0: [bytes(emptied), batch(2, b"c")]}, is_clean=False)
    entry = state_of(tmp_path, is_clean=False).entries[9]
    assert (entry.producer_epoch, entry.last_sequence, entry.last_offset) == (3, 6, 1)


def test_a_coordinator_epoch_that_falls_is_taken_as_it_was_written(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    for sequence, (kind, epoch) in enumerate([(COMMIT, 5), (ABORT, 3)]):
        log.append(data(1, sequence, 1))
        log.append(marker(1, kind, coordinator_epoch=epoch))
    directory.close()
    crash(tmp_path)
    for path in tmp_path.glob("*/*.snapshot"):
        path.unlink()
    entry = state_of(tmp_path, is_clean=False).entries[1]
    assert (entry.coordinator_epoch, entry.last_sequence, entry.current_txn_first_offset) == (3, 1, -1)


def test_an_unclean_end_leaves_no_snapshot_above_the_log(tmp_path: Path) -> None:
    append_of_producers(tmp_path)
    crash(tmp_path)
    last = max(tmp_path.glob("*/*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    directory = LogDirectory.open(str(tmp_path))
    log: Log = directory.log(PARTITION)
    assert (log.next_offset, len(log.damage)) == (2, 1)
    assert sorted(int(path.stem) for path in tmp_path.glob("*/*.snapshot")) == [1, 2]
    directory.close()
