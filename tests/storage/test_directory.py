"""The log directory: which processes may open it, what opening and closing leave behind."""

import errno
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.spies import spy

from offsetfs.storage import files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    read_offsets,
    read_topic_id,
)
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import (
    InvalidConfig,
    InvalidName,
    LogDirectoryLocked,
    NotALogDirectory,
    PartitionExists,
    ReadOnlyLog,
    StorageError,
    UnknownPartition,
)
from offsetfs.storage.lock import writer_of
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format.batch_builder import BatchBuilder, SealedBatch

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


def line(value: bytes) -> SealedBatch:
    builder = BatchBuilder(1 << 16, Compression("none"))
    assert builder.append(None, value, (), 1000)
    return builder.seal()


def content(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.promise("Opening a directory and closing it without a write changes no byte.")
def test_opening_and_closing_without_a_write_leaves_everything_as_it_was(golden_copy: Path) -> None:
    before = content(golden_copy)
    directory = LogDirectory.open(str(golden_copy))
    for partition in directory.partitions():
        log = directory.log(partition)
        if log.next_offset > log.log_start_offset:
            assert log.batch_at(log.log_start_offset) is not None
    directory.close()
    assert {name: data for name, data in content(golden_copy).items() if name != ".lock"} == before


def test_a_reader_writes_nothing_at_all_not_even_a_lock(golden_copy: Path) -> None:
    before = content(golden_copy)
    directory = LogDirectory.open(str(golden_copy), read_only=True)
    for partition in directory.partitions():
        directory.log(partition).max_timestamp()
    directory.close()
    assert content(golden_copy) == before


def test_every_partition_of_a_broker_is_listed_and_nothing_else(golden_copy: Path) -> None:
    (golden_copy / "orders-0.0123456789abcdef0123456789abcdef-delete").mkdir()
    (golden_copy / "notes").mkdir()
    (golden_copy / "planted-0").symlink_to("/")
    names = [str(p) for p in LogDirectory.open(str(golden_copy), read_only=True).partitions()]
    assert names == sorted(names, key=TopicPartition.parse) and "keyed-3" in names and "__consumer_offsets-0" in names
    assert not {"notes-0", "planted-0"} & set(names) and len(names) == 28


def test_the_first_write_takes_the_clean_mark_away_and_closing_brings_it_back(golden_copy: Path) -> None:
    mark = (golden_copy / CLEAN_SHUTDOWN).read_bytes()
    directory = LogDirectory.open(str(golden_copy))
    log = directory.log(TopicPartition("codec-lz4", 0))
    assert (golden_copy / CLEAN_SHUTDOWN).exists()
    log.append(line(b"x"))
    assert not (golden_copy / CLEAN_SHUTDOWN).exists()
    directory.close()
    assert (golden_copy / CLEAN_SHUTDOWN).read_bytes() == mark


def test_closing_writes_the_checkpoints_that_a_broker_reads(golden_copy: Path) -> None:
    before = {name: read_offsets(str(golden_copy / name)) for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS)}
    directory = LogDirectory.open(str(golden_copy))
    partition = TopicPartition("truncated-head", 0)
    log = directory.log(partition)
    assert log.log_start_offset == 137
    end = log.append(line(b"x")).last_offset + 1
    directory.close()
    for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
        assert read_offsets(str(golden_copy / name)) == before[name] | {partition: end}
    assert read_offsets(str(golden_copy / LOG_STARTS)) == before[LOG_STARTS]


def test_closing_leaves_indexes_trimmed_and_the_producer_state_at_the_end(golden_copy: Path) -> None:
    directory = LogDirectory.open(str(golden_copy))
    log = directory.log(TopicPartition("idempotent", 0))
    end = log.append(line(b"x")).last_offset + 1
    directory.close()
    partition = golden_copy / "idempotent-0"
    assert all(index.stat().st_size < 4096 for index in partition.glob("*index"))
    old, new = (partition / f"{offset:020d}.snapshot" for offset in (end - 1, end))
    assert new.read_bytes()[6:] == old.read_bytes()[6:]  # no producer wrote, so their state is the same


def test_a_log_is_appended_to_under_its_latest_leader_epoch(golden_copy: Path) -> None:
    directory = LogDirectory.open(str(golden_copy))
    log = directory.log(TopicPartition("epochs", 0))
    offset = log.append(line(b"x")).base_offset
    batch = log.batch_at(offset)
    assert batch is not None and batch.header.leader_epoch == 6
    directory.close()


def test_a_created_partition_is_what_kafka_makes(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    for number in (0, 1):
        directory.create_partition(TopicPartition("orders", number))
    path = tmp_path / "orders-0"
    assert sorted(p.name for p in path.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
    assert (path / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n", "as after a broker has become the leader"
    ids = {read_topic_id(str(tmp_path / name / PARTITION_METADATA)) for name in ("orders-0", "orders-1")}
    assert len(ids) == 1 and None not in ids


def test_partitions_made_together_are_all_there_or_none(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    wanted = [TopicPartition("orders", number) for number in range(40)]
    directory.create_partition(wanted[20])
    with pytest.raises(PartitionExists, match="orders-20"):
        directory.create_partitions(wanted)
    assert directory.partitions() == [wanted[20]]
    with pytest.raises(InvalidConfig):
        directory.create_partitions(wanted[:20], {"segment.bytes": "-3"})
    directory.create_partitions([each for each in wanted if each != wanted[20]], {"segment.bytes": "5000"})
    assert directory.partitions() == wanted and directory.config_of("orders").segment_bytes == 5000
    directory.close()
    assert len({read_topic_id(str(tmp_path / str(each) / PARTITION_METADATA)) for each in wanted}) == 1
    assert read_offsets(str(tmp_path / RECOVERY_POINTS)) == dict.fromkeys(wanted, 0)
    again = LogDirectory.open(str(tmp_path))
    assert [again.log(each).next_offset for each in wanted] == [0] * 40
    again.close()


@pytest.mark.parametrize("fails", ["fsync", "rename"])
def test_of_partitions_that_cannot_be_made_nothing_stays(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(PARTITION)
    calls, call = itertools.count(), getattr(os, fails)

    def failing(*arguments: object) -> object:
        if next(calls) == 30:
            raise OSError(errno.EIO, "injected")
        return call(*arguments)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="injected"):
        patched.setattr(os, fails, failing)
        directory.create_partitions([TopicPartition("other", number) for number in range(40)])
    assert directory.partitions() == [PARTITION]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["orders-0"]


def test_partitions_made_together_cost_one_listing_and_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(PARTITION)
    said: list[str] = []

    def telling(name: str, call: Callable[[str], object]) -> Callable[[str], object]:
        return spy(said, lambda path: f"{name} {path}", call)

    for name in ("directory_names", "names", "sync_directory"):
        monkeypatch.setattr(files, name, telling(name, getattr(files, name)))
    directory.create_partitions([TopicPartition("other", number) for number in range(100)])
    own = [each for each in said if each.endswith(f" {tmp_path}")]
    assert sorted(own) == [f"directory_names {tmp_path}", f"sync_directory {tmp_path}"]
    assert len(said) == 102, "and one sync for each partition"


def test_settings_of_a_topic_are_kept_and_hold_for_all_its_partitions(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path), defaults={"segment.bytes": "5000"})
    directory.create_partition(PARTITION, {"compression.type": "zstd"})
    directory.close()
    again = LogDirectory.open(str(tmp_path), defaults={"segment.bytes": "6000"})
    config = again.config_of("orders")
    assert (config.compression_type, config.segment_bytes) == ("zstd", 6000)
    assert again.config_of("payments").compression_type == "producer"


def test_what_cannot_be_created_is_refused_by_name(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(PARTITION)
    with pytest.raises(PartitionExists):
        directory.create_partition(PARTITION)
    with pytest.raises(InvalidConfig, match=r"segment\.bytes"):
        directory.create_partition(TopicPartition("other", 0), {"segment.bytes": "-3"})
    assert not (tmp_path / "other-0").exists()
    with pytest.raises(InvalidName):
        TopicPartition.parse("a/b-0")
    directory.close()
    with pytest.raises(ReadOnlyLog):
        LogDirectory.open(str(tmp_path), read_only=True).create_partition(TopicPartition("other", 0))


def test_an_unknown_partition_is_an_error_of_its_own(golden_copy: Path) -> None:
    with pytest.raises(UnknownPartition):
        LogDirectory.open(str(golden_copy), read_only=True).log(TopicPartition("missing", 0))


@pytest.mark.parametrize("what", ["missing", "a file", "full of other things", "with names like partitions"])
def test_what_is_no_log_directory_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    if what == "a file":
        path.write_text("")
    elif what == "full of other things":
        path.mkdir()
        (path / "photo.jpg").write_text("")
    elif what == "with names like partitions":
        (path / "dbus-1").mkdir(parents=True)
        (path / "dbus-1" / "session.conf").write_text("")
    before = content(tmp_path)
    with pytest.raises(NotALogDirectory):
        LogDirectory.open(str(path))
    assert content(tmp_path) == before


@pytest.mark.damages
def test_a_strangers_directory_among_partitions_is_left_alone(golden_copy: Path) -> None:
    (golden_copy / CLEAN_SHUTDOWN).unlink()
    (golden_copy / "dbus-1").mkdir()
    (golden_copy / "dbus-1" / "session.conf").write_text("")
    directory = LogDirectory.open(str(golden_copy))
    with pytest.raises(StorageError, match=r"session\.conf"):
        directory.log(TopicPartition("dbus", 1))
    directory.close()
    assert [p.name for p in (golden_copy / "dbus-1").iterdir()] == ["session.conf"]


@pytest.mark.security("Two programs cannot write to a log directory at the same time.")
@pytest.mark.promise("A log directory never has two writers, whether the other one is a broker or another mount.")
def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    script = (
        "import sys; from offsetfs.storage.directory.directory import LogDirectory\n"
        "d = LogDirectory.open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"open\n"
        with pytest.raises(LogDirectoryLocked, match=f"process {other.pid}") as caught:
            LogDirectory.open(str(tmp_path))
        assert caught.value.pid == other.pid == writer_of(str(tmp_path))
        LogDirectory.open(str(tmp_path), read_only=True)
        other.communicate(b"")
    assert writer_of(str(tmp_path)) is None
    LogDirectory.open(str(tmp_path)).close()


def test_the_same_process_cannot_open_a_directory_twice_for_writing(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    with pytest.raises(LogDirectoryLocked, match=f"process {os.getpid()}"):
        LogDirectory.open(str(tmp_path))
    directory.close()
    LogDirectory.open(str(tmp_path)).close()


@pytest.mark.damages
def test_a_damaged_partition_does_not_hide_the_others(golden_copy: Path) -> None:
    (golden_copy / CLEAN_SHUTDOWN).unlink()
    log = golden_copy / "codec-lz4-0" / "00000000000000000000.log"
    log.unlink()
    log.mkdir()
    directory = LogDirectory.open(str(golden_copy))
    with pytest.raises((StorageError, OSError)):
        directory.log(TopicPartition("codec-lz4", 0))
    assert directory.log(TopicPartition("codec-gzip", 0)).next_offset == 400
    directory.close()
    assert not (golden_copy / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"topics": {"a": {"segment.bytes": "x"}}}', '{"topics": {"a/b": {}}}'])
def test_settings_that_cannot_be_read_are_a_problem_that_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / ".offsetfs-topics.json"
    file.write_text(text)
    directory = LogDirectory.open(str(tmp_path))
    problem = directory.refresh_config()
    assert isinstance(problem, StorageError) and problem.path == str(file)
    assert not directory.knows_policy("a")
    file.unlink()
    directory.close()


def test_a_log_is_compacted_by_its_settings_or_the_cleaners_checkpoint(golden_copy: Path) -> None:
    directory = LogDirectory.open(str(golden_copy))
    known = {str(p): directory.log(p).is_compacted for p in directory.partitions()}
    assert {name for name, compacted in known.items() if compacted} == {
        "compacted-0",
        "compacted-tx-0",
        "compacted-tx2-0",
    }
    log = directory.create_partition(PARTITION, {"cleanup.policy": "compact"})
    assert log.is_compacted


def test_ten_thousand_partitions_cost_no_open_files(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"orders-{number}").mkdir()
    (tmp_path / CLEAN_SHUTDOWN).write_text(json.dumps({"version": 0, "brokerEpoch": 3}))
    before = len(os.listdir("/proc/self/fd"))
    directory = LogDirectory.open(str(tmp_path))
    assert len(directory.partitions()) == 10_000
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    directory.close()


def test_the_unclean_golden_directory_is_recovered(unclean_copy: Path) -> None:
    directory = LogDirectory.open(str(unclean_copy))
    assert {str(p): directory.log(p).next_offset for p in directory.partitions()} == {
        "epochs-0": 180,
        "transactions-0": 365,
    }
    for partition in directory.partitions():
        log = directory.log(partition)
        log.check()
        assert log.damage == ()
    directory.close()
    assert (unclean_copy / CLEAN_SHUTDOWN).exists()
    assert all(p.stat().st_size < 1 << 20 for p in unclean_copy.rglob("*index"))
