"""What clients of five old releases read from their brokers is what the engine reads from those brokers' files."""

import base64
import functools
import json
import os
import shutil
from pathlib import Path

import pytest
from fixtures.spies import no_damage

from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, LEADER_EPOCHS, RECOVERY_POINTS, read_epochs
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.units import Offset, Timestamp
from offsetfs.storage.views import line_index
from offsetfs.storage.views.line_index import LineIndex, LineIndexPool
from offsetfs.storage.views.partition_view import PartitionView

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2")
PARTITIONS = [
    (release, path.name.removesuffix(".expected.ndjson"))
    for release in RELEASES
    for path in sorted((GOLDEN / f"kafka-{release}").glob("*.expected.ndjson"))
]
NOW = 4_000_000_000_000  # after everything
every_partition = pytest.mark.parametrize(
    ("release", "partition"), PARTITIONS, ids=["/".join(each) for each in PARTITIONS]
)


@functools.cache
def expected(release: str, partition: str) -> list[Record]:
    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    lines = (GOLDEN / f"kafka-{release}" / f"{partition}.expected.ndjson").read_text().splitlines()
    return [
        Record(row["offset"], row["timestamp"], row["timestamp_type"], data(row["key_b64"]), data(row["value_b64"]))
        for row in map(json.loads, lines)
    ]


@pytest.fixture(scope="module")
def directories() -> dict[str, LogDirectory]:
    return {release: LogDirectory.open(str(GOLDEN / f"kafka-{release}"), read_only=True) for release in RELEASES}


@pytest.fixture
def log(directories: dict[str, LogDirectory], release: str, partition: str) -> Log:
    return directories[release].log(TopicPartition.parse(partition))


def all_records(log: Log) -> list[Record]:
    return [record for segment in log.snapshot() for batch in segment.batches() for record in batch.records()]


def test_there_is_something_to_compare_with() -> None:
    assert len(PARTITIONS) == 88
    assert sum(len(expected(*each)) for each in PARTITIONS) == 5572


@pytest.mark.promise("Every record that a broker wrote reads exactly as a Kafka client reads it.")
@every_partition
def test_every_record_of_an_old_broker_reads_as_its_client_read_it(release: str, partition: str, log: Log) -> None:
    assert all_records(log) == expected(release, partition)
    assert log.damage == ()
    log.check()


@every_partition
def test_every_record_of_an_old_broker_is_found_by_its_offset(release: str, partition: str, log: Log) -> None:
    for record in expected(release, partition):
        batch = log.batch_at(record.offset)
        assert batch is not None and batch.record(record.offset) == record
        assert batch.base_offset <= record.offset <= batch.header.last_offset


@every_partition
def test_offsets_that_compaction_took_are_in_no_batch(release: str, partition: str, log: Log) -> None:
    present = {record.offset for record in expected(release, partition)}
    for offset in set(range(log.log_start_offset, log.next_offset)) - present:
        batch = log.batch_at(offset)
        assert batch is None or batch.record(offset) is None


@every_partition
def test_a_time_finds_the_first_old_record_that_reaches_it(release: str, partition: str, log: Log) -> None:
    records = expected(release, partition)
    times = sorted({record.timestamp for record in records} - {-1})
    for time in [0, *times[::5], *(time + 1 for time in times[::5]), *times[-1:]]:
        first = next(((r.offset, r.timestamp) for r in records if r.timestamp >= time), None)
        assert log.find_timestamp(time) == first
    assert log.find_timestamp(times[-1] + 1 if times else 1) is None
    largest = next(((r.offset, r.timestamp) for r in records if r.timestamp == times[-1]), None) if times else None
    assert log.max_timestamp() == largest


# --- writing behind it ------------------------------------------------------------------------------------------------

BESIDE = shutil.ignore_patterns("*.txt", "*.ndjson")


def later(value: bytes) -> SealedBatch:
    builder = BatchBuilder(1 << 12, Compression("none"))
    assert builder.append(b"key", value, (), NOW)
    return builder.seal()


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_what_is_appended_behind_old_messages_is_v2_and_both_are_read(release: str, tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / f"kafka-{release}", tmp_path / release, ignore=BESIDE)
    directory = LogDirectory.open(str(copy))
    ends = {}
    for partition in directory.partitions():
        log = directory.log(partition)
        ends[partition] = log.next_offset
        assert log.append(later(b"one")).base_offset == ends[partition]
        log.append(later(b"two"))
        log.check()
    directory.close()
    again = LogDirectory.open(str(copy), read_only=True)
    for partition, end in ends.items():
        log = again.log(partition)
        log.check()
        appended = [
            Record(Offset(end + at), Timestamp(NOW), "CreateTime", b"key", (b"one", b"two")[at]) for at in (0, 1)
        ]
        assert all_records(log) == [*expected(release, str(partition)), *appended]
        batch = log.batch_at(end)
        assert batch is not None and (batch.header.magic, batch.record(end)) == (2, appended[0])
        assert log.find_timestamp(NOW) == (end, NOW)


def test_the_first_v2_batch_behind_old_messages_begins_the_leader_epochs(tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / "kafka-0.10.2.2", tmp_path / "log", ignore=BESIDE)
    directory = LogDirectory.open(str(copy))
    log = directory.log(TopicPartition.parse("mixed-v0v1-0"))
    end = log.next_offset
    assert log.leader_epoch == -1
    log.append(later(b"one"))
    directory.close()
    assert len(list((copy / "mixed-v0v1-0").glob("*.log"))) == 1
    assert read_epochs(str(copy / "mixed-v0v1-0" / LEADER_EPOCHS)) == [(0, end)]


# --- after a crash ----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_an_old_log_without_mark_and_indexes_is_recovered_whole(release: str, tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / f"kafka-{release}", tmp_path / release, ignore=BESIDE)
    (copy / CLEAN_SHUTDOWN).unlink()
    (copy / RECOVERY_POINTS).unlink()
    for index in copy.glob("*/*index"):
        index.unlink()
    directory = LogDirectory.open(str(copy))
    for partition in directory.partitions():
        log = directory.log(partition)
        log.check()
        records = expected(release, str(partition))
        assert all_records(log) == records
        assert log.damage == ()
        for record in records[::5]:
            batch = log.batch_at(record.offset)
            assert batch is not None and batch.record(record.offset) == record
        largest = max((record.timestamp for record in records), default=-1)
        first = next(((r.offset, r.timestamp) for r in records if r.timestamp == largest), None)
        assert log.max_timestamp() == (first if largest >= 0 else None)
    directory.close()


@pytest.mark.long
@pytest.mark.parametrize("cut", [1, 11, 12, 17, 30])
@pytest.mark.parametrize("partition", ["v0-none-0", "v1-none-0", "v0-snappy-0", "v1-lz4-0", "mixed-v0v1-0"])
def test_a_torn_end_of_an_old_log_is_cut_and_appends_go_on(partition: str, cut: int, tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / "kafka-0.10.2.2", tmp_path / "log", ignore=BESIDE)
    (copy / CLEAN_SHUTDOWN).unlink()
    (copy / RECOVERY_POINTS).unlink()
    file = copy / partition / f"{0:020d}.log"
    size = file.stat().st_size
    os.truncate(file, size - cut)
    directory = LogDirectory.open(str(copy))
    log = directory.log(TopicPartition.parse(partition))
    log.check()
    records = expected("0.10.2.2", partition)
    kept = all_records(log)
    assert 0 < len(kept) < len(records) and kept == records[: len(kept)]
    assert len(log.damage) == 1 and "cut" in log.damage[0].reason
    log.append(later(b"later"))
    directory.close()
    again = LogDirectory.open(str(copy), read_only=True).log(TopicPartition.parse(partition))
    assert [record.value for record in all_records(again)] == [*(record.value for record in kept), b"later"]


# --- views, and reading alone -----------------------------------------------------------------------------------------


def joined(view: PartitionView) -> bytes:
    whole, byte = b"", 0
    while (located := view.locate(byte)) is not None:
        whole += view.read(located)
        byte = located.end
    return whole


@every_partition
def test_the_values_of_an_old_partition_are_its_values_line_by_line(
    release: str, partition: str, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_index, "OUTPUT_BYTES_STEP", 200)
    damage: list[StorageError] = []
    view = PartitionView(log, FilePool(4), damage.append)
    assert view.refresh()
    assert joined(view) == b"".join((record.value or b"") + b"\n" for record in expected(release, partition))
    assert view.size == len(joined(view)) and damage == []


@pytest.mark.damages
def test_the_line_index_of_a_sealed_old_segment_is_kept_and_used(tmp_path: Path) -> None:
    copy = shutil.copytree(GOLDEN / "kafka-0.10.2.2", tmp_path / "log", ignore=BESIDE)
    for partition in ("v0-segs-none-0", "v1-segs-mix-0"):
        log = LogDirectory.open(str(copy), read_only=True).log(TopicPartition.parse(partition))
        for segment in log.snapshot():
            maps: LineIndexPool = FilePool(4)
            made = LineIndex(segment.base_offset)
            made.extend(segment, segment.size, on_damage=no_damage)
            made.save(segment, maps)
            kept = LineIndex.load(segment, maps)
            assert kept is not None and kept.is_stored and kept.reached == made.reached
        other = copy / partition / log.snapshot().first.log_path.rpartition("/")[2]
        other.write_bytes(other.read_bytes()[:17] + b"\7" + other.read_bytes()[18:])
        assert LineIndex.load(log.snapshot().first, FilePool(4)) is None


def test_reading_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    """Before 0.10.1 there were no time indexes; those of v0 logs in 0.10.2 speak of timestamps that the log has not."""
    for release in ("0.8.2.2", "0.10.0.1", "0.10.2.2"):
        copy = shutil.copytree(GOLDEN / f"kafka-{release}", tmp_path / release, ignore=BESIDE)
        before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
        directory = LogDirectory.open(str(copy), read_only=True)
        for partition in directory.partitions():
            log = directory.log(partition)
            log.max_timestamp()
            log.find_timestamp(0)
            log.batch_at(log.log_start_offset)
            PartitionView(log, FilePool(4), no_damage).refresh()
        assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before
