"""A log that was opened for reading keeps up with the process that writes it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import follower
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("eager")]

PARTITION = TopicPartition("orders", 0)


def sealed(value: bytes) -> SealedBatch:
    builder = BatchBuilder(1 << 20, Compression("none"))
    assert builder.append(None, value, (), 1000 + int(value.split()[0]))
    return builder.seal()


def values_of(log: Log) -> list[bytes | None]:
    log.refresh()
    return [record.value for s in log.snapshot() for batch in s.batches() for record in batch.records()]


@pytest.fixture
def writer(tmp_path: Path) -> Log:
    directory = LogDirectory.open(str(tmp_path), defaults={"segment.bytes": "1000", "index.interval.bytes": "200"})
    return directory.create_partition(PARTITION)


@pytest.fixture
def reader(writer: Log, tmp_path: Path) -> Log:
    return LogDirectory.open(str(tmp_path), read_only=True).log(PARTITION)


def test_what_is_appended_is_seen_at_the_next_look(writer: Log, reader: Log) -> None:
    for number in range(100):
        writer.append(sealed(b"%d" % number))
        reader.refresh()
        assert reader.next_offset == number + 1
        batch = reader.batch_at(number)
        assert batch is not None and batch.records()[0].value == b"%d" % number
        assert reader.find_timestamp(1000 + number) == (number, 1000 + number)
        assert reader.max_timestamp() == (number, 1000 + number)
    assert len(reader.snapshot()) == len(writer.snapshot()) > 5
    reader.check()


def test_many_rolls_between_two_looks_are_caught_up_with(writer: Log, reader: Log) -> None:
    writer.append(sealed(b"0"))
    assert values_of(reader) == [b"0"]
    for number in range(1, 200):
        writer.append(sealed(b"%d" % number))
    assert values_of(reader) == [b"%d" % number for number in range(200)]
    assert reader.next_offset == 200


def test_an_append_that_is_not_finished_is_neither_data_nor_damage(writer: Log, reader: Log) -> None:
    batch = sealed(b"1 first")
    writer.append(sealed(b"0"))
    writer.append(batch)
    path = Path(writer.snapshot().active.log_path)
    whole = path.read_bytes()
    for end in range(len(whole) - batch.size, len(whole)):
        os.truncate(path, end)
        assert values_of(reader) == [b"0"] and reader.damage == ()
    path.write_bytes(whole)
    assert values_of(reader) == [b"0", b"1 first"]


def test_the_zeros_of_a_preallocated_file_are_no_data(writer: Log, reader: Log) -> None:
    writer.append(sealed(b"0"))
    path = writer.snapshot().active.log_path
    os.truncate(path, 1 << 20)
    assert values_of(reader) == [b"0"] and reader.next_offset == 1


def test_retention_moves_the_start_and_open_files_stay_readable(writer: Log, reader: Log) -> None:
    for number in range(100):
        writer.append(sealed(b"%d" % number))
    assert len(values_of(reader)) == 100
    first, second = list(reader.snapshot())[:2]
    assert first.find(0) is not None  # the reader has it open
    for suffix in (".log", ".index", ".timeindex"):
        path = Path(first.log_path).with_suffix(suffix)
        path.rename(f"{path}.deleted")
    reader.refresh()
    assert reader.log_start_offset == second.base_offset
    assert values_of(reader) == [b"%d" % number for number in range(second.base_offset, 100)]
    held = first.find(0)
    assert held is not None and held.records()[0].value == b"0"


def test_a_swap_replaces_segments_and_never_mixes_old_and_new(writer: Log, reader: Log) -> None:
    for number in range(60):
        writer.append(sealed(b"%d" % number))
    reader.refresh()
    old, untouched = list(reader.snapshot())[:2]
    path = Path(old.log_path)
    shutil.copy(path, f"{path}.swap")
    path.rename(f"{path}.deleted")
    reader.refresh()
    assert reader.snapshot().first is old  # under way: nothing changes yet
    Path(f"{path}.swap").rename(path)
    reader.refresh()
    new = reader.snapshot().first
    assert new is not old and new.base_offset == old.base_offset and untouched in list(reader.snapshot())
    old.pool.clear()
    held = old.find(0)
    assert held is not None and held.path == f"{path}.deleted", "as long as the broker leaves it"
    Path(f"{path}.deleted").unlink()
    old.pool.clear()
    with pytest.raises(OSError, match="replaced"):
        old.find(0)
    assert values_of(reader) == [b"%d" % number for number in range(60)]


def _delete(path: Path) -> None:
    path.rename(path.with_name("orders-0.0123456789abcdef0123456789abcdef-delete"))


def _make_anew(path: Path) -> None:
    _delete(path)
    path.mkdir()
    (path / f"{0:020d}.log").touch()


def _cut(path: Path) -> None:
    log = max(path.glob("*.log"))
    os.truncate(log, 0)


@pytest.mark.parametrize("what", [_delete, _make_anew, _cut])
def test_another_log_in_its_place_is_another_log(writer: Log, tmp_path: Path, what: Callable[[Path], None]) -> None:
    writer.append(sealed(b"0"))
    directory = LogDirectory.open(str(tmp_path), read_only=True)
    reader = directory.log(PARTITION)
    assert reader.next_offset == 1 and not reader.is_gone
    what(tmp_path / "orders-0")
    reader.refresh()
    assert reader.is_gone
    if what is not _delete:
        again = directory.log(PARTITION)
        assert again is not reader and again.next_offset == 0


def test_a_roll_within_one_tick_of_the_file_systems_clock_is_noticed(
    writer: Log, reader: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "TIMESTAMP_TICK_MS", 1e9)
    writer.append(sealed(b"0"))
    assert values_of(reader) == [b"0"]
    changed = os.stat(writer.path).st_mtime_ns
    writer.roll()
    writer.append(sealed(b"1"))
    os.utime(writer.path, ns=(changed, changed))
    assert values_of(reader) == [b"0", b"1"]


def test_names_that_changed_long_ago_are_not_listed_again(
    writer: Log, reader: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(writer.path, ns=(10**9, 10**9))
    reader.refresh()
    monkeypatch.setattr(files, "names_with_inodes", pytest.fail)
    writer.append(sealed(b"0"))
    assert values_of(reader) == [b"0"]


def test_a_log_start_inside_a_segment_is_followed(writer: Log, reader: Log, tmp_path: Path) -> None:
    for number in range(5):
        writer.append(sealed(b"%d" % number))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 3\n")
    reader.refresh()
    assert reader.log_start_offset == 3


def test_a_giant_batch_is_taken_in_whole(writer: Log, reader: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "CATCH_UP_BYTES_MAX", 100)
    for number in range(5):
        writer.append(sealed(b"%d %s" % (number, b"x" * 500)))
    for _ in range(10):
        reader.refresh()
    assert reader.next_offset == 5


def test_looking_again_and_again_costs_no_descriptors(writer: Log, reader: Log) -> None:
    for number in range(50):
        writer.append(sealed(b"%d" % number))
    reader.refresh()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        reader.refresh()
    assert len(os.listdir("/proc/self/fd")) <= before
