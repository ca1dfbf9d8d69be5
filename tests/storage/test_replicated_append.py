"""Batches of another log, appended as they are: to the byte, at their offsets, in any pieces."""

from __future__ import annotations

import errno
import itertools
import random
import shutil
from pathlib import Path

import pytest
from fixtures.logs.keyed_logs import Keyed, keyed

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch, MalformedBatch, StorageError
from offsetfs.storage.files import File
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import producer_loading
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format import chain
from offsetfs.storage.verify import Verification

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

GOLDEN = Path(__file__).parents[1] / "golden"
PARTITION = TopicPartition("orders", 0)
SOURCES = sorted(
    str(path.relative_to(GOLDEN))
    for pattern in ("kafka-4.1/*-[0-9]*", "kafka-3.6.2/mixed-*", "kafka-0.10.2.2/v*")
    for path in GOLDEN.glob(pattern)
    if path.is_dir()
)


def bytes_of(log: Log) -> bytes:
    """Return all batches of a log, without what is behind the valid end of a segment."""
    return b"".join(Path(each.log_path).read_bytes()[: each.size] for each in log.snapshot())


def batch(offset: int, values: int = 1, *, epoch: int = 0, timestamp: int = 1000) -> bytes:
    made = bytearray(keyed(offset, *(Keyed(n, None, b"value %d" % n, timestamp, ()) for n in range(values))))
    made[12:16] = epoch.to_bytes(4, "big")
    return bytes(made)


def fed(log: Log, data: bytes, step: int) -> None:
    """Append `data` as fetches return it that end anywhere: each begins with the batch that was cut."""
    done, size = 0, step
    while done < len(data):
        taken = log.append_replicated(data[done : done + size])
        size = step if taken else size * 2
        done += taken


@pytest.mark.long
@pytest.mark.parametrize("name", SOURCES)
def test_a_golden_log_arrives_to_the_byte(name: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / name, tmp_path / "source" / Path(name).name)
    with_source = LogDirectory.open(str(tmp_path / "source"), read_only=True)
    (tmp_path / "mirror").mkdir()
    directory = LogDirectory.open(str(tmp_path / "mirror"))
    source = with_source.log(TopicPartition.parse(Path(name).name))
    log = directory.create_partition(PARTITION, {"segment.bytes": "20000", "index.interval.bytes": "500"})
    log.truncate_fully(source.log_start_offset)
    data = bytes_of(source)
    fed(log, data, max(len(data) // 5, 1))
    assert bytes_of(log) == data
    log.check()
    assert (log.log_start_offset, log.last_stable_offset()) == (source.log_start_offset, source.last_stable_offset())
    assert log.next_offset == (source.next_offset if data else source.log_start_offset)
    whole = 0, 2**62
    assert log.aborted(*whole) == source.aborted(*whole)
    replayed = producer_loading.load(source.path, source.snapshot(), source.next_offset, log_start=0, clean=False)
    assert log.producers() == replayed.entries
    if "compact" in name:
        directory.set_cleaner_offset(PARTITION, log.log_start_offset)
    directory.close()
    found = list[str]()
    Verification(directory.path, report=lambda each: found.append(str(each))).run()
    assert found == []


@pytest.mark.parametrize("seed", range(3))
def test_indexes_and_rolls_are_those_of_single_batches(seed: int, directory: LogDirectory) -> None:
    chosen, offset, data = random.Random(seed), 0, list[bytes]()
    for _ in range(300):
        offset += chosen.choice([0, 0, 0, 5])
        count = chosen.randrange(1, 6)
        data.append(batch(offset, count, timestamp=chosen.randrange(0, 10**6)))
        offset += count
    settings = {"segment.bytes": "4000", "index.interval.bytes": "300", "segment.ms": "600000"}
    one, many = (TopicPartition(topic, 0) for topic in ("one", "many"))
    for each in (one, many):
        directory.create_partition(each, settings)
    for piece in data:
        assert directory.log(one).append_replicated(piece) == len(piece)
    whole = b"".join(data)
    assert directory.log(many).append_replicated(whole) == len(whole)
    found = [directory.log(each) for each in (one, many)]
    assert len({log.next_offset for log in found}) == 1 and offset == found[0].next_offset
    shapes = [
        [
            (segment.base_offset, segment.size, segment.max_timestamp(), [*segment.open_files().index.entries()])
            for segment in log.snapshot()
        ]
        for log in found
    ]
    assert shapes[0] == shapes[1]
    times = [[[*each.open_files().time_index.entries()] for each in log.snapshot()] for log in found]
    assert times[0] == times[1]


def test_what_the_log_has_is_skipped_and_a_cut_batch_is_left_out(directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    first, second, third = batch(0, 5), batch(5, 5), batch(12, 5)
    assert log.append_replicated(first) == len(first)
    assert log.append_replicated(first + second + third[:-1]) == len(first + second)
    assert log.append_replicated(third) == len(third)
    assert (log.next_offset, bytes_of(log)) == (17, first + second + third)
    for count in (0, 5, 16, 40, len(third) - 1):
        assert log.append_replicated(batch(17, 5)[:count]) == 0


def test_a_batch_across_the_end_of_a_log_is_refused(directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    log.append_replicated(batch(0, 5))
    with pytest.raises(MalformedBatch, match="offsets 3 to 7, but the log ends at 5"):
        log.append_replicated(batch(3, 5))
    assert log.next_offset == 5


def test_an_empty_log_begins_with_the_batch_that_contains_its_start(directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    log.truncate_fully(103)
    log.append_replicated(batch(100, 5) + batch(105))
    assert (log.log_start_offset, log.next_offset, log.snapshot().first.base_offset) == (103, 106, 100)


def test_a_log_begins_after_a_gap(directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    log.truncate_fully(100)
    log.append_replicated(batch(140, 5))
    assert (log.log_start_offset, log.next_offset) == (100, 145)


@pytest.mark.parametrize("before", [b"", batch(0)])
def test_a_gap_that_no_index_holds_begins_a_segment(before: bytes, tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION, {"cleanup.policy": "compact"})
    data = before + batch(2**32, 5)
    log.append_replicated(data)
    assert (log.next_offset, log.snapshot().active.base_offset) == (2**32 + 5, 2**32)
    directory._lock.release()  # as after a crash
    with_recovery = LogDirectory.open(str(tmp_path))
    assert (with_recovery.log(PARTITION).next_offset, bytes_of(with_recovery.log(PARTITION))) == (2**32 + 5, data)
    assert not with_recovery.cuts()
    with_recovery.close()


@pytest.mark.parametrize("at", [17, 40, 70])
def test_batches_before_a_damaged_one_are_appended_and_then_it_is_refused(at: int, directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    good, bad = batch(0, 3), bytearray(batch(3, 3))
    bad[at] ^= 1
    assert log.append_replicated(good + bad + batch(6)) == len(good)
    with pytest.raises(CorruptBatch) as caught:
        log.append_replicated(bad + batch(6))
    assert (caught.value.offset, caught.value.path) == (3, log.path)
    assert (log.next_offset, bytes_of(log)) == (3, good)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:], id="size"),
        pytest.param(lambda data: data[:16] + b"\x07" + data[17:], id="magic"),
        pytest.param(lambda data: b"\xff" + data[1:], id="offset"),
        pytest.param(lambda data: data[:8] + b"\0\0\0\x10" + data[12:], id="too small"),
    ],
)
def test_bytes_that_are_no_batch_are_refused(damage: object, directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    assert callable(damage)
    with pytest.raises(StorageError):
        log.append_replicated(damage(batch(0, 3)))
    assert log.next_offset == 0


def test_leader_epochs_are_those_of_the_batches(directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    log.truncate_fully(10)
    log.append_replicated(batch(10, epoch=4) + batch(11, epoch=4) + batch(12, epoch=9))
    assert log.epochs.entries == ((4, 10), (9, 12))
    assert log.epochs.end_of(4, log.next_offset) == (4, 12)


def test_a_full_disk_leaves_whole_batches_and_later_appends_continue(
    directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = directory.create_partition(PARTITION, {"segment.bytes": "1000"})
    data = [batch(3 * number, 3) for number in range(20)]
    writes = itertools.count()

    def write(file: File, position: int, content: bytes) -> None:
        if file.path.endswith(".log") and next(writes) == 1:
            genuine(file, position, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device", file.path)
        genuine(file, position, content)

    genuine = File.write
    monkeypatch.setattr(File, "write", write)
    with pytest.raises(OSError, match="No space left"):
        log.append_replicated(b"".join(data))
    assert 0 < log.next_offset < 60
    log.check()
    assert log.append_replicated(b"".join(data)) == len(b"".join(data))
    assert bytes_of(log) == b"".join(data)


def test_a_crash_leaves_a_prefix_to_which_the_rest_is_appended(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION, {"segment.bytes": "1000"})
    data = b"".join(batch(3 * number, 3, epoch=number // 7) for number in range(20))
    log.append_replicated(data)
    epochs, active = log.epochs.entries, log.snapshot().active
    with open(active.log_path, "r+b") as file:
        file.truncate(active.size - 10)
    directory._lock.release()
    recovered = LogDirectory.open(str(tmp_path))
    log = recovered.log(PARTITION)
    assert log.next_offset == 57
    log.append_replicated(data)
    assert (bytes_of(log), log.epochs.entries) == (data, epochs)
    recovered.close()


def test_more_batches_than_one_walk_takes(directory: LogDirectory) -> None:
    log = directory.create_partition(PARTITION)
    data = b"".join(batch(number) for number in range(chain.ROWS_MAX + 10))
    assert log.append_replicated(memoryview(bytearray(data))) == len(data)
    assert log.next_offset == chain.ROWS_MAX + 10
