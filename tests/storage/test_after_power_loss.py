"""What power cuts on the simulated disk have found, one case each."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import System, simulated
from fixtures.simulation.simulated_log import NOW_MS, ORDERS, append, batch, compact, disk_with_directory, opened, shown

from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import LogFailed
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.settings.topic_settings import TopicSettings
from offsetfs.storage.units import Timestamp
from offsetfs.storage.verify.verify import Verification

pytestmark = pytest.mark.unit

# --- a log on a simulated disk


@pytest.fixture
def system() -> Iterator[System]:
    with simulated(disk_with_directory()) as system:
        yield system


def cut_power(system: System, kind: str = "none", seed: int = 0) -> LogDirectory:
    """Lose what was not synced (or what `kind` says of it), and open what is left."""
    system.disk = system.disk.crash(Random(seed), kind)
    return opened()


def kill_at(system: System, number: int, action: Callable[[], object]) -> bool:
    """Let the process die at the `number`-th change that `action` makes; return whether it made as many."""
    before = system.disk.clone()
    system.disk = before.clone()
    action()
    history = system.disk.history
    system.disk = before
    for change in history[:number]:
        before.apply(change)
    return number < len(history)


# --- opening

# What power loss may leave of a directory in which the first thing was being done.
BEGINNINGS = {
    "a partition without a name for its log": ["orders-0/leader-epoch-checkpoint"],
    "a partition with one file in the making": ["orders-0/leader-epoch-checkpoint.tmp"],
    "settings of topics in the making": [".offsetfs-topics.json.tmp"],
    "the first checkpoint in the making": ["recovery-point-offset-checkpoint.tmp"],
    "log starts": ["log-start-offset-checkpoint"],
    "only a partition that was deleted": ["orders-0.0123456789abcdef0123456789abcdef-delete/leader-epoch-checkpoint"],
}


@pytest.mark.parametrize("names", BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_directory_that_lost_power_at_its_first_change_can_be_opened(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    directory = LogDirectory.open(str(tmp_path))
    if not directory.has(ORDERS):
        directory.create_partition(ORDERS)
    assert (directory.log(ORDERS).log_start_offset, directory.log(ORDERS).next_offset) == (0, 0)
    directory.close()


@pytest.mark.long
def test_a_partition_that_is_found_after_a_kill_is_there_after_a_power_cut(system: System) -> None:
    number, goes_on = 0, True
    while goes_on:
        system.disk = disk_with_directory()
        goes_on = kill_at(system, number, lambda: opened().create_partition(ORDERS))
        directory = opened()
        if directory.has(ORDERS):
            append(directory.log(ORDERS), (b"k", b"v"))
            directory.log(ORDERS).flush()
            assert shown(cut_power(system).log(ORDERS)) == {0: (b"k", b"v")}, f"killed at change {number}"
        number += 1
    assert number > 10


def test_partitions_made_together_survive_a_power_cut_whole_or_not_at_all(system: System) -> None:
    wanted = [TopicPartition("orders", number) for number in range(3)]
    number, goes_on, found = 0, True, set()
    while goes_on:
        system.disk = disk_with_directory()
        goes_on = kill_at(system, number, lambda: opened().create_partitions(wanted))
        killed = system.disk
        for kind, seed in [
            ("all", 0),
            ("none", 0),
            *((kind, n) for kind in ("until", "names", "each") for n in range(3)),
        ]:
            system.disk = killed.clone().crash(Random(seed), kind)
            tree = system.disk.tree("logs") if "logs" in system.disk.directory(ROOT).names else {}
            ids = {
                content for path, content in tree.items() if _is_alive(path) and path.endswith("/partition.metadata")
            }
            there = {path.split("/")[1] for path in tree if _is_alive(path)}
            assert len(ids) == bool(there), f"killed at change {number}, {kind} {seed}"
            for name in there:
                assert {path.split("/")[2] for path in tree if f"/{name}/" in path} == WHOLE
                assert tree[f"logs/{name}/leader-epoch-checkpoint"] == b"0\n1\n0 0\n"
            directory = opened()
            assert {str(each) for each in directory.partitions()} == there
            directory.create_partitions([each for each in wanted if not directory.has(each)])
            directory.close()
            found.add(len(there))
        number += 1
    assert found == {0, 1, 2, 3}


WHOLE = {"00000000000000000000" + suffix for suffix in (".log", ".index", ".timeindex")} | {
    "leader-epoch-checkpoint",
    "partition.metadata",
}
"""What a partition has that was just made."""


def _is_alive(path: str) -> bool:
    return path.startswith("logs/orders-") and not path.split("/")[1].endswith("-delete")


def test_a_reader_is_shown_what_is_before_a_batch_known_to_the_index_only(system: System) -> None:
    log = opened().create_partition(ORDERS, {"index.interval.bytes": "0"})
    append(log, *((b"k", b"%d" % number) for number in range(4)))
    size = log.size_bytes
    append(log, (b"k", b"lost"))
    fd = system.open("/logs/orders-0/00000000000000000000.log", os.O_RDWR)
    system.pwrite(fd, memoryview(bytes(4)), log.size_bytes - 4)
    directory = LogDirectory.open("/logs", read_only=True)
    log = directory.log(ORDERS)
    assert (log.next_offset, log.size_bytes) == (4, size)


def test_the_indexes_of_a_rolled_segment_are_whole_after_a_kill_or_a_power_cut(system: System) -> None:
    """A recovery that begins at the next segment does not see them, and a broker takes zeros in them for entries."""
    directory = opened()
    log = directory.create_partition(ORDERS, {"segment.index.bytes": "120"})
    for number in range(5):
        log.append(batch(b"k", bytes(90), now_ms=NOW_MS + number))
    log.flush()
    directory.checkpoint()
    state, before = system.disk.clone(), len(system.disk.history)
    log.roll()
    append(log, (b"k", b"5"))
    log.flush()
    changes = system.disk.history[before:]
    assert len(changes) > 5
    for number in range(len(changes) + 1):
        for kind, seed in [("all", 0), ("none", 0), *(("each", seed) for seed in range(3))]:
            system.disk = state.crash(Random(seed), kind)
            opened().close()
            assert [each for each in verified() if "index" in each] == [], f"after {number} changes, {kind} {seed}"
        if number < len(changes):
            state.apply(changes[number])


def verified() -> list[str]:
    found: list[str] = []
    Verification("/logs", report=lambda each: found.append(str(each))).run()
    return found


# --- a disk that fails for a while


def test_a_roll_that_failed_hides_nothing_after_a_power_cut(system: System) -> None:
    log = opened().create_partition(ORDERS)
    append(log, (b"k", b"0"))

    def no_index(kind: str, path: str) -> None:
        if kind == "create" and "1.index" in path:
            raise OSError(errno.EMFILE, "injected", path)

    system.fault = no_index
    with pytest.raises(OSError, match="injected"):
        log.roll()
    system.fault = lambda _kind, _path: None
    append(log, (b"k", b"1"))
    log.flush()
    for seed in range(20):
        disk = system.disk
        assert shown(cut_power(system, "each", seed).log(ORDERS)).keys() == {0, 1}
        system.disk = disk


def test_a_partition_that_could_not_be_made_takes_no_records(system: System) -> None:
    syncs, failing = 0, 1

    def a_sync_fails(kind: str, path: str) -> None:
        nonlocal syncs
        syncs += kind == "sync"
        if kind == "sync" and syncs == failing:
            raise OSError(errno.EIO, "injected", path)

    before = system.disk
    while failing == 1 or syncs >= failing:
        system.disk, syncs = before.clone(), 0
        directory = opened()
        system.fault = a_sync_fails
        with contextlib.suppress(OSError):
            directory.create_partition(ORDERS)
        system.fault = lambda _kind, _path: None
        assert not directory.has(ORDERS) or syncs < failing
        log = directory.log(ORDERS) if directory.has(ORDERS) else directory.create_partition(ORDERS)
        append(log, (b"k", b"v"))
        log.flush()
        assert shown(cut_power(system, "none").log(ORDERS)) == {0: (b"k", b"v")}, f"sync number {failing}"
        failing += 1


def test_a_truncation_that_failed_leaves_no_recovery_point_beyond_the_cut(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    append(log, *((b"k", b"%d" % number) for number in range(4)))

    def the_cut_fails(kind: str, path: str) -> None:
        if kind == "sync" and path.endswith(".log") and log.size_bytes > system.stat(path).st_size:
            raise OSError(errno.EIO, "injected", path)

    system.fault = the_cut_fails
    with pytest.raises(OSError, match="injected"):
        log.truncate_to(2)
    with pytest.raises(OSError, match="injected"):
        directory.close()
    system.fault = lambda _kind, _path: None
    log = opened().log(ORDERS)
    assert log.damage == () and log.next_offset in (2, 4) and len(shown(log)) == log.next_offset


def append_on_a_full_disk(system: System, log: Log) -> None:
    """Append the record 1, of which a full disk takes only a part; afterwards there is space."""

    def full(kind: str, path: str) -> None:
        if kind == "write" and path.endswith(".log"):
            raise OSError(errno.ENOSPC, "injected", path)

    system.fault = full
    with pytest.raises(OSError, match="injected"):
        append(log, (b"k", b"1"))
    system.fault = lambda _kind, _path: None


def test_what_a_full_disk_tore_off_does_not_come_back_in_a_power_cut(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    append(log, (b"k", b"0"))
    log.flush()

    append_on_a_full_disk(system, log)
    log.roll()
    append(log, (b"k", b"1"))
    directory.close()
    left = system.disk
    for seed in range(20):
        system.disk = left
        log = cut_power(system, "each", seed).log(ORDERS)
        log.check()
        assert log.damage == () and shown(log) == {0: (b"k", b"0"), 1: (b"k", b"1")}


def test_what_a_full_disk_tore_off_does_not_come_back_behind_the_recovery_point(system: System) -> None:
    """The segment was on disk before, and is rolled: recovery begins at the next one."""
    directory = opened()
    log = directory.create_partition(ORDERS)
    append(log, (b"k", b"0"))
    log.flush()
    directory.checkpoint()

    append_on_a_full_disk(system, log)
    log.roll()
    left = system.disk
    for seed in range(20):
        system.disk = left
        log = cut_power(system, "each", seed).log(ORDERS)
        append(log, (b"k", b"1"))
        assert shown(log) == {0: (b"k", b"0"), 1: (b"k", b"1")}


def test_a_roll_on_a_full_disk_leaves_no_part_of_a_time_entry(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    log.append(batch(b"k", b"0", now_ms=NOW_MS))
    log.append(batch(b"k", b"1", now_ms=NOW_MS + 1))
    is_first = True

    def full_once(kind: str, path: str) -> None:
        nonlocal is_first
        if kind == "write" and path.endswith(".timeindex") and is_first:
            is_first = False
            raise OSError(errno.ENOSPC, "injected", path)  # what still had space was written

    system.fault = full_once
    log.roll()
    directory.close()
    assert not is_first
    assert len(system.disk.tree("logs")["logs/orders-0/00000000000000000000.timeindex"]) % 12 == 0
    assert [each for each in verified() if "time-index-end" not in each] == []


def test_a_directory_whose_sync_failed_is_not_synced_again(system: System) -> None:
    log = opened().create_partition(ORDERS)
    append(log, (b"k", b"0"))
    log.roll()  # its name is not on disk yet

    def a_sync_fails(kind: str, path: str) -> None:
        if kind == "sync":
            raise OSError(errno.EIO, "injected", path)

    system.fault = a_sync_fails
    with pytest.raises(OSError, match="injected"):
        files.sync_directory(log.path)  # for any caller
    system.fault = lambda _kind, _path: None
    with pytest.raises(OSError, match="an earlier sync of this directory failed"):
        log.flush()
    with pytest.raises(LogFailed):
        append(log, (b"k", b"1"))
    log = opened().log(ORDERS)  # which looks again
    append(log, (b"k", b"1"))
    log.flush()


def test_a_partition_whose_deletion_failed_comes_back_whole_or_not_at_all(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    for number in range(3):
        append(log, (b"k", b"%d" % number))
        log.roll()
    log.flush()

    def the_root_is_not_synced(kind: str, path: str) -> None:
        if kind == "sync" and path == "/logs":
            raise OSError(errno.EIO, "injected", path)

    system.fault = the_root_is_not_synced
    with pytest.raises(OSError, match="injected"):
        directory.delete_partition(ORDERS)
    system.fault = lambda _kind, _path: None
    directory.deletions.run_all()
    left, came_back = system.disk, 0
    for seed in range(20):
        system.disk = left
        after = cut_power(system, "each", seed)
        came_back += after.has(ORDERS)
        assert not after.has(ORDERS) or len(shown(after.log(ORDERS))) == 3
    assert came_back


@pytest.mark.parametrize("question", [files.exists, files.is_directory])
def test_a_disk_that_fails_to_check_a_name_is_reported(question: Callable[[str], bool], system: System) -> None:
    def fails(kind: str, path: str) -> None:
        raise OSError(errno.EIO, "injected", path)

    assert question("/logs") and not question("/logs/none") and not question("/logs/" + "x" * 300)
    system.fault = fails
    with pytest.raises(OSError, match="injected"):
        question("/logs")


# --- compaction


def test_compaction_leaves_nothing_out_for_a_record_that_a_power_cut_takes(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS, {"cleanup.policy": "compact"})
    append(log, (b"a", b"old" + bytes(600)))
    log.append(batch(b"b", b"", producer=(7, 0, 0)))
    log.roll()
    append(log, (b"c", bytes(600)))
    log.roll()
    log.append(batch(b"d", b"", producer=(7, 0, 1)))  # so that the producer's batch before may go
    compact(directory)
    log = cut_power(system).log(ORDERS)
    last = max(shown(log))
    assert log.producers()[7].last_offset == last, "the producer's last batch is neither old nor new"


def test_gaps_of_compaction_are_no_holes_when_the_policy_is_another_one_later(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS, {"cleanup.policy": "compact"})
    for number in range(4):
        append(log, (b"b%d" % number, bytes(400)), (b"a", b"%d" % number + bytes(400)))
        log.roll()
        if number == 0:
            log.flush()
            directory.checkpoint()
    compact(directory)
    directory.deletions.run_all()
    directory.configure("orders", {"cleanup.policy": "delete"})
    before = shown(log)
    log = cut_power(system).log(ORDERS)
    assert shown(log) == before and log.damage == ()


@pytest.mark.long
def test_a_topic_that_becomes_a_compacted_one_has_no_holes(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    _append_over_rolls(log)
    before = system.disk.clone()
    system.disk.history.clear()
    directory.configure("orders", {"cleanup.policy": "compact"})
    for change in system.disk.history:
        before.apply(change)
        for seed in range(5):
            system.disk = before.crash(Random(seed), "each")
            left = shown(opened().log(ORDERS))
            assert left.keys() == set(range(len(left))), f"{change}, seed {seed}"


def test_a_topic_that_becomes_compacted_elsewhere_is_synced_when_seen(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    _append_over_rolls(log)
    TopicSettings("/logs").change("orders", {"cleanup.policy": "compact"})
    directory.refresh_config()
    assert len(shown(cut_power(system).log(ORDERS))) == 4


def _append_over_rolls(log: Log) -> None:
    for number in range(4):
        append(log, (b"a", b"%d" % number))
        log.roll()


@pytest.mark.long
def test_a_swap_that_a_kill_cut_short_loses_nothing_to_a_power_cut_in_recovery(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS, {"cleanup.policy": "compact"})
    append(log, (b"a", b"0"), (b"a", b"1"), (b"b", b"2"))
    log.roll()
    append(log, (b"c", b"3"))
    killed = system.disk.clone()
    system.disk.history.clear()
    compact(directory)
    history = system.disk.history
    preparing = next(
        n for n, change in enumerate(history) if change[0] == "rename" and str(change[3]).endswith(".swap")
    )
    for change in history[: preparing + 3]:
        killed.apply(change)
    assert {"00000000000000000000.log", "00000000000000000000.log.swap"} <= set(_names(killed))
    system.disk = killed.clone()
    opened()
    recovering = killed
    for change in system.disk.history:
        recovering.apply(change)
        for seed in range(20):
            system.disk = recovering.crash(Random(seed), "each")
            left = shown(opened().log(ORDERS))
            assert {1: (b"a", b"1"), 2: (b"b", b"2")}.items() <= left.items(), f"{change}, seed {seed}"


def test_a_swap_of_several_segments_shows_the_old_ones_or_the_new_one(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS, {"cleanup.policy": "compact"})
    for number in range(4):
        append(log, (b"a", b"%d" % number))
        log.roll()
    append(log, (b"c", b""))
    log.flush()
    left = system.disk.clone()
    system.disk.history.clear()
    compact(directory)
    latest = {3: (b"a", b"3"), 4: (b"c", b"")}
    for change in system.disk.history:
        left.apply(change)
        for seed in range(5):
            system.disk = left.crash(Random(seed), "each")
            log = opened().log(ORDERS)
            log.check()
            found = shown(log)
            assert latest.items() <= found.items() and len(found) in (2, 5), f"{change}, seed {seed}: {found}"


def _names(disk: SimDisk) -> list[str]:
    return [path.rsplit("/")[-1] for path in disk.tree("logs")]


# --- retention, and records that are deleted


def test_what_retention_left_behind_hides_no_hole(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    for number in range(3):
        append(log, (b"a", b"%d" % number))
        log.roll()
    log.flush()
    directory.raise_log_starts({ORDERS: 2})
    append(log, (b"a", b"3"))
    log.roll()
    append(log, (b"a", b"4"))
    logs = system.disk
    # Of the two segments that retention renamed, one has its old name again; the end of a segment is lost.
    system.rename("/logs/orders-0/00000000000000000001.log", "/logs/orders-0/00000000000000000001.log.deleted")
    fd = system.open("/logs/orders-0/00000000000000000003.log", 2)
    system.ftruncate(fd, 0)
    system.close(fd)
    system.disk = logs.crash(Random(0), "all")
    log = opened().log(ORDERS)
    assert (log.log_start_offset, log.next_offset) == (2, 3), "behind the hole nothing is shown"


def test_a_log_start_that_was_seen_after_a_kill_does_not_fall_in_a_power_cut(system: System) -> None:
    directory = opened()
    append(directory.create_partition(ORDERS), *((b"a", b"%d" % number) for number in range(3)))
    directory.close()
    before = system.disk
    number, goes_on = 0, True
    while goes_on:
        system.disk = before.clone()
        goes_on = kill_at(system, number, lambda: opened().log(ORDERS).delete_records(2))
        seen = opened().log(ORDERS).log_start_offset
        assert cut_power(system).log(ORDERS).log_start_offset == seen, f"killed at change {number}"
        number += 1
    assert seen == 2


def test_a_log_that_was_cut_inside_a_batch_has_lost_nothing_at_the_next_start(system: System) -> None:
    directory = opened()
    log = directory.create_partition(ORDERS)
    append(log, (b"a", b"0"))
    data = build([(b"a", b"%d" % number, (), NOW_MS) for number in range(1, 5)])
    log.append(SealedBatch(memoryview(data), 4, 8, Timestamp(NOW_MS), len(data)))
    log.truncate_to(3)
    directory.close()
    log = opened().log(ORDERS)
    assert (log.next_offset, log.damage, list(shown(log))) == (3, (), [0])


def test_an_empty_log_keeps_its_leader_epoch(system: System) -> None:
    log = opened().create_partition(ORDERS)
    append(log, (b"a", b"0"))
    with log.changing():
        log.epochs.assign(4, 1)
    append(log, (b"a", b"1"))
    log.delete_records(2)
    directory = cut_power(system)  # which finds no batch of the epoch that the log shows
    log = directory.log(ORDERS)
    append(log, (b"a", b"2"))
    log.truncate_to(2)
    assert not log.truncate_to(2), "nothing is left to cut"
    append(log, (b"a", b"2"))
    assert [batch.header.leader_epoch for batch in log.snapshot().active.batches()] == [0, 4, 4]
    assert log.epochs.entries == ((4, 2),)
