"""All partitions of a directory are recovered: several at a time as one by one, with word of how far it is."""

from __future__ import annotations

import _thread
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import batch, plant

from offsetfs.storage.checkpoint import CLEAN_SHUTDOWN, META_PROPERTIES, RECOVERY_POINTS, write_offsets
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.columns import row_walk
from offsetfs.storage.recovery.recover_all import RecoveryProgress, bytes_to_verify, recover_all
from offsetfs.storage.recovery.recovery import OnBytes
from offsetfs.storage.settings.directory_config import DirectoryConfig

pytestmark = pytest.mark.unit


def partition(number: int) -> TopicPartition:
    return TopicPartition("orders", number)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """Seven partitions of different sizes, one torn, one damaged, one with a segment behind a hole."""
    path = tmp_path / "crashed"
    path.mkdir()
    for number in range(7):
        where = path / str(partition(number))
        where.mkdir()
        (where / f"{0:020d}.log").write_bytes(b"".join(batch(n, b"v" * 200) for n in range(10 * number)))
    (path / "orders-2" / f"{0:020d}.log").write_bytes(batch(0, b"a") + batch(1, b"b")[:-1])
    (path / "orders-3" / f"{0:020d}.log").write_bytes(batch(0, b"a") + bytes(100) + batch(1, b"b"))
    (path / "orders-4" / f"{99:020d}.log").write_bytes(batch(99, b"behind"))
    return path


def files_of(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


def opened(path: Path, threads: int, on_progress: Callable[[RecoveryProgress], None] | None = None) -> LogDirectory:
    config = DirectoryConfig(num_recovery_threads_per_data_dir=threads)
    return LogDirectory.open(str(path), config=config, on_progress=on_progress)


def test_several_at_a_time_come_to_what_one_by_one_comes_to(crashed: Path, tmp_path: Path) -> None:
    shutil.copytree(crashed, tmp_path / "serial")
    outcomes = []
    for path, threads in ((tmp_path / "serial", 1), (crashed, 4)):
        directory = opened(path, threads)
        logs = [directory.log(each) for each in directory.partitions()]
        outcomes.append([(log.next_offset, [damage.reason for damage in log.damage]) for log in logs])
        directory.close()
    assert outcomes[0] == outcomes[1]
    assert files_of(crashed) == files_of(tmp_path / "serial")


@pytest.mark.parametrize("threads", [1, 3])
def test_progress_only_rises_and_ends_at_the_total(
    crashed: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_walk, "BLOCK_BYTES", 1000)
    said: list[RecoveryProgress] = []
    size = sum(path.stat().st_size for path in crashed.rglob("*.log"))
    opened(crashed, threads, said.append).close()
    assert {each.bytes_total for each in said} == {size} and {each.partitions_total for each in said} == {7}
    for counts in ([each.bytes_done for each in said], [each.partitions_done for each in said]):
        assert counts == sorted(counts)
    assert (said[-1].bytes_done, said[-1].partitions_done) == (size, 7)
    assert len(said) > 2 * 7  # within a partition, too
    assert {each.partition for each in said} == {partition(number) for number in range(7)}


def test_only_what_lies_beyond_the_recovery_point_is_counted(tmp_path: Path) -> None:
    where = plant(tmp_path, {0: [batch(0, b"a")], 5: [batch(5, b"b")], 9: [batch(9, b"cc")]})
    sizes = [path.stat().st_size for path in sorted(where.glob("*.log"))]
    assert [bytes_to_verify(str(where), point) for point in (0, 4, 5, 8, 9, 99)] == [
        sum(sizes),
        sum(sizes),
        *[sum(sizes[1:])] * 2,
        *[sizes[2]] * 2,
    ]
    assert bytes_to_verify(str(tmp_path / "none"), 0) == 0


@pytest.mark.damages
@pytest.mark.parametrize("threads", [1, 2])
def test_a_partition_that_fails_fails_alone(crashed: Path, threads: int) -> None:
    shutil.rmtree(crashed / "orders-5")
    (crashed / "orders-5").mkdir()
    (crashed / "orders-5" / "notes.txt").write_text("no partition")
    directory = opened(crashed, threads)
    assert list(directory.failed) == [partition(5)]
    with pytest.raises(StorageError, match="is not a partition"):
        directory.log(partition(5))
    assert directory.log(partition(6)).next_offset == 60
    directory.close()
    assert not (crashed / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_all_of_them_and_the_directory_recovers_again(crashed: Path, threads: int, tmp_path: Path) -> None:
    shutil.copytree(crashed, tmp_path / "whole")
    opened(tmp_path / "whole", 1).close()

    def stop(progress: RecoveryProgress) -> None:
        if progress.partitions_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        opened(crashed, threads, stop)
    assert not (crashed / CLEAN_SHUTDOWN).exists()
    opened(crashed, threads).close()  # the lock is free, too
    assert files_of(crashed) == files_of(tmp_path / "whole")


def test_where_no_thread_can_be_started_the_calling_one_recovers_all(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(function: object, arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    directory = opened(crashed, 4)
    assert (directory.failed, directory.log(partition(6)).next_offset) == ({}, 60)
    directory.close()


def test_when_one_ends_for_no_fault_of_its_partition_none_is_begun_any_more() -> None:
    begun: list[TopicPartition] = []

    def recover(each: TopicPartition, _on_bytes: OnBytes) -> None:
        begun.append(each)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        recover_all({partition(number): 0 for number in range(100)}, recover, threads=2)
    assert len(begun) < 100


def test_the_largest_go_first_and_a_log_that_is_gone_over_twice_counts_once() -> None:
    said: list[tuple[int, int]] = []

    def recover(each: TopicPartition, on_bytes: OnBytes) -> None:
        for _ in range(3):
            on_bytes(sizes[each] * 2 // 3)

    sizes = {partition(0): 30, partition(1): 90, partition(2): 30}
    recover_all(sizes, recover, threads=1, on_progress=lambda p: said.append((p.partition.partition, p.bytes_done)))
    assert list(dict.fromkeys(number for number, _ in said)) == [1, 0, 2]
    assert [done for number, done in said if number == 1] == [0, 60, 90, 90, 90]
    assert said[-1] == (2, 150)


# --- directories of a broker ------------------------------------------------------------------------------------------


def test_a_gap_between_segments_in_a_brokers_directory_is_no_damage(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a")], 5: [batch(5, b"b")]}, is_clean=False)
    (tmp_path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(partition(0))
    assert (log.next_offset, log.damage) == (6, ())
    directory.close()


def test_a_log_that_goes_on_behind_its_start_has_no_hole(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, b"a")], 7: [batch(7, b"b")]}, is_clean=False, log_start=7)
    directory = LogDirectory.open(str(tmp_path))
    log = directory.log(partition(0))
    assert (log.next_offset, log.damage) == (8, ())
    directory.close()


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_producers_are_saved_at_each_base_and_at_the_end(tmp_path: Path) -> None:
    fields = {"producer_id": 7, "producer_epoch": 0}
    segments = {base: [batch(base, b"a", base_sequence=base, **fields)] for base in range(4)}
    where = plant(tmp_path, segments, is_clean=False)
    directory = LogDirectory.open(str(tmp_path))
    assert sorted(int(path.stem) for path in where.glob("*.snapshot")) == [1, 2, 3, 4]
    assert directory.log(partition(0)).producers()[7].last_sequence == 3
    directory.close()
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    write_offsets(str(tmp_path / RECOVERY_POINTS), {partition(0): 2})
    (where / f"{3:020d}.snapshot").unlink()
    LogDirectory.open(str(tmp_path)).close()
    assert sorted(int(path.stem) for path in where.glob("*.snapshot")) == [1, 2, 3, 4]


def test_an_empty_log_has_no_snapshot(tmp_path: Path) -> None:
    where = plant(tmp_path, {0: []}, is_clean=False)
    LogDirectory.open(str(tmp_path)).close()
    assert list(where.glob("*.snapshot")) == []
