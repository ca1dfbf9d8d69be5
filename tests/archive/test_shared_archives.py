"""Several log directories in one archive: partitions of one each, replicas, topics of one name, a take-over."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.kafka.tools import dump_log_segments
from fixtures.logs.planted_logs import batch, data, marker, sealed, sealed_records

from offsetfs.archive import ownership, reading
from offsetfs.archive.archiver import DEFAULT_SIZES, Archiver, ArchiveRun
from offsetfs.archive.expiry import Expired, expire
from offsetfs.archive.manifest import ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.reading import ReadSettings
from offsetfs.archive.restore_to_directory import ArchiveRestore, RestoreSelection
from offsetfs.archive.segment_upload import ObjectSizes
from offsetfs.archive.verifying import VerifiedArchive, verify_archive
from offsetfs.storage import READ_COMMITTED, Log, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.directory import log_directory_ids
from offsetfs.storage.partition.producers import ABORT

pytestmark = pytest.mark.interop

ORDERS, USERS = TopicPartition("orders", 0), TopicPartition("users", 0)
DAY_MS = 86_400_000
TOPIC_ID = bytes(range(1, 17))

Opened = Callable[[str], LogDirectory]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open the log directory of a broker by its name, for writing; `directory.id` is the name."""
    with contextlib.ExitStack() as stack:

        def of(name: str) -> LogDirectory:
            path = tmp_path / name
            path.mkdir()
            (path / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={name}\n")
            return stack.enter_context(contextlib.closing(LogDirectory.open(str(path))))

        yield of


def create(directory: LogDirectory, partition: TopicPartition, count: int, *, topic_id: bytes = TOPIC_ID) -> None:
    settings = {"segment.bytes": "4096", "retention.ms": "1000"}
    directory.create_partitions([partition], settings, topic_id=topic_id)
    append(directory, partition, count)


def append(directory: LogDirectory, partition: TopicPartition, count: int) -> None:
    log = directory.log(partition)
    for number in range(log.next_offset, log.next_offset + count):
        log.append(sealed(b"%06d" % number * 40))


def replicate(leader: LogDirectory, follower: LogDirectory, *, first: int = 0) -> None:
    """Copy the records of the leader that the follower lacks, in segments of other sizes, from `first` on."""
    source = leader.log(ORDERS)
    if ORDERS not in follower.partitions():
        follower.create_partitions([ORDERS], {"segment.bytes": "3000", "retention.ms": "1000"}, topic_id=TOPIC_ID)
        if first:
            follower.log(ORDERS).truncate_fully(first)
    copy = follower.log(ORDERS)
    while data := source.read(copy.next_offset, 1):
        copy.append_replicated(data)


def archive(
    directory: LogDirectory, store: ObjectStore, *, takes_over: bool = False, sizes: ObjectSizes = DEFAULT_SIZES
) -> ArchiveRun:
    archiver = Archiver(directory, store, takes_over=takes_over, sizes=sizes)
    try:
        return archiver.run()
    finally:
        archiver.close()


def newest(store: ObjectStore, partition: TopicPartition = ORDERS) -> PartitionManifest:
    found = NumberedDocuments(store, str(partition)).newest()
    assert found is not None
    return PartitionManifest.decoded(found.content, store.url)


def states(store: ObjectStore) -> list[int]:
    return NumberedDocuments(store, "orders-0").numbers()


def later(store: ObjectStore, directory: LogDirectory, run: ArchiveRun) -> Expired:
    """Expire for a directory as in twenty days."""
    now_ms = max(each.modified_ms or 0 for each in store.objects("")) + 20 * DAY_MS
    ids = frozenset(log_directory_ids(directory.path))
    return expire(store, keep_states_ms=7 * DAY_MS, now_ms=now_ms, starts=run.starts, directories=ids)


def findings(store: ObjectStore) -> list[str]:
    return [str(each) for each in verify_archive(store, done=VerifiedArchive())]


def test_an_expiry_leaves_the_partitions_of_another_directory(opened: Opened, store: ObjectStore) -> None:
    one, two = opened("one"), opened("two")
    create(one, ORDERS, 40)
    create(two, USERS, 40)
    first, second = archive(one, store), archive(two, store)
    assert (first.failed, second.failed, findings(store)) == ({}, {}, [])
    before = newest(store)
    assert len(before.segments) > 2
    done = later(store, two, second)
    assert (done.failed, newest(store)) == ({}, before)
    one.delete_partition(ORDERS)
    assert len(newest(store).segments) == len(before.segments)
    done = later(store, one, archive(one, store))
    assert (done.failed, len(newest(store).segments)) == ({}, 1)  # it is its own, although the source has deleted it
    assert findings(store) == []


def test_a_replica_in_another_directory_is_left_out(
    opened: Opened, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    replicate(leader, follower)
    assert archive(leader, store).failed == {}
    before, objects = newest(store), store.objects("orders-0")
    archiver = Archiver(follower, store)
    for _ in range(3):
        append(leader, ORDERS, 1)
        replicate(leader, follower)
        run = archiver.run()
        assert (run.failed, run.others, run.starts) == ({}, {ORDERS: "leader"}, {})
    assert (newest(store), store.objects("orders-0")) == (before, objects)
    assert later(store, follower, run).segments == 0
    # It is not asked for again with each run.
    read: list[str] = []
    monkeypatch.setattr(ObjectStore, "read", lambda self, key, *_: read.append(key))
    assert (archiver.run().others, read) == ({ORDERS: "leader"}, [])
    archiver.close()
    monkeypatch.undo()
    assert archive(leader, store).published == 1


def test_a_replica_is_an_error_when_its_archiver_has_been_silent(
    opened: Opened, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 5)
    archive(leader, store)
    replicate(leader, follower)
    monkeypatch.setattr(ownership, "SILENT_MS", -1)
    assert archive(follower, store).failed == {}
    append(leader, ORDERS, 3)
    replicate(leader, follower)
    (error,) = archive(follower, store).failed.values()
    assert "offsets 5 to 7 are not in the archive" in str(error)
    assert "--take-over" in str(error)


def test_another_topic_of_the_name_is_refused_and_changes_nothing(opened: Opened, store: ObjectStore) -> None:
    one, two = opened("one"), opened("two")
    create(one, ORDERS, 10)
    create(two, ORDERS, 30, topic_id=bytes(range(2, 18)))
    create(two, USERS, 3)
    archive(one, store)
    before, topics = store.objects("orders-0"), NumberedDocuments(store, "").newest()
    run = archive(two, store)
    assert list(run.failed) == [ORDERS]
    assert "another topic of this name" in str(run.failed[ORDERS])
    assert run.published == 1
    assert (store.objects("orders-0"), states(store)) == (before, [1])
    after = NumberedDocuments(store, "").newest()
    assert topics is not None and after is not None
    assert after.content["topics"]["orders"] == topics.content["topics"]["orders"]
    assert "users" in after.content["topics"]
    assert archive(one, store).failed == {}


def test_of_two_directories_that_begin_at_once_one_archives_a_partition(
    opened: Opened, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 10)
    replicate(leader, follower)
    publish = NumberedDocuments.publish

    def late(self: NumberedDocuments, number: int, content: dict[str, object]) -> bool:
        if self.prefix == "orders-0":
            monkeypatch.setattr(NumberedDocuments, "publish", publish)
            assert archive(leader, store).failed == {}
        return publish(self, number, content)

    monkeypatch.setattr(NumberedDocuments, "publish", late)
    assert archive(follower, store).others == {ORDERS: "leader"}
    assert (states(store), newest(store).directory) == ([1], "leader")


def test_a_topic_that_was_created_again_in_its_directory_begins_a_new_state(opened: Opened, store: ObjectStore) -> None:
    one = opened("one")
    create(one, ORDERS, 10)
    archive(one, store)
    one.delete_partition(ORDERS)
    create(one, ORDERS, 3, topic_id=bytes(range(2, 18)))
    assert archive(one, store).failed == {}
    assert newest(store).end == 3
    topics = NumberedDocuments(store, "").newest()
    assert topics is not None
    assert topics.content["topics"]["orders"]["topic_id"] == newest(store).topic_id


# --- take-over --------------------------------------------------------------------------------------------------------


def test_a_replica_takes_a_partition_over(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    archive(leader, store)
    replicate(leader, follower)
    assert archive(follower, store, takes_over=True).failed == {}
    assert (newest(store).directory, newest(store).end, newest(store).log_start) == ("follower", 40, 0)
    append(leader, ORDERS, 3)
    replicate(leader, follower)
    assert archive(leader, store).others == {ORDERS: "follower"}
    assert archive(follower, store).failed == {}
    assert (newest(store).end, findings(store)) == (43, [])


def test_a_replica_that_is_behind_does_not_take_over(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 20)
    replicate(leader, follower)
    append(leader, ORDERS, 1)
    archive(leader, store)
    (error,) = archive(follower, store, takes_over=True).failed.values()
    assert "ends at offset 20, the archive at 21" in str(error)
    assert (newest(store).directory, states(store)) == ("leader", [1])


def test_a_log_with_other_records_does_not_take_over(opened: Opened, store: ObjectStore) -> None:
    """The same topic id and the same leader epochs, as of a cluster that was restored and went on."""
    one, two = opened("one"), opened("two")
    create(one, ORDERS, 20)
    create(two, ORDERS, 19)
    two.log(ORDERS).append(sealed(b"other"))
    append(two, ORDERS, 5)
    archive(one, store)
    (error,) = archive(two, store, takes_over=True).failed.values()
    assert "other records" in str(error)
    assert (newest(store).directory, states(store)) == ("one", [1])


def batches(log: Log) -> list[bytes]:
    return [bytes(each.data) for segment in log.snapshot() for each in segment.batches()]


def check_cut(leader: LogDirectory, store: ObjectStore, target: Path) -> None:
    """The archive has all batches of the leader, for readers and in a restored directory, whose files are sound."""
    wanted, state = batches(leader.log(ORDERS)), newest(store)
    ends = [each.end for each in state.segments]
    assert [each.base_offset for each in state.segments] == [0, *ends[:-1]]  # neither gap nor overlap
    assert findings(store) == []
    ArchiveRestore(store, str(target), RestoreSelection()).run()
    verify = [sys.executable, "-m", "offsetfs", "verify", str(target)]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    reading.attach(store.url, ReadSettings(cache_size=0))
    try:
        for path in (str(target), store.url):
            with contextlib.closing(LogDirectory.open(path, read_only=True)) as directory:
                log = directory.log(ORDERS)
                assert batches(log) == wanted
                for offset in range(log.next_offset):
                    found, own = log.batch_at(offset), leader.log(ORDERS).batch_at(offset)
                    assert found is not None
                    assert own is not None
                    assert bytes(found.data) == bytes(own.data)
    finally:
        reading.detach(store.url)


def check_with_kafkas_tool(partition: Path) -> None:
    """Kafka's own tool finds valid batches in the log files, and indexes that fit them."""
    logs = sorted(partition.glob("*.log"))
    found = re.findall(r"isvalid: (\w+)", dump_log_segments(logs, "--deep-iteration").stdout)
    assert len(found) >= len(logs)
    assert set(found) == {"true"}
    indexes = [each for each in sorted(partition.glob("*index")) if each.stat().st_size]
    done = dump_log_segments(indexes, "--verify-index-only")
    assert not re.search("ismatch|not found|out of order", done.stdout + done.stderr)


def test_an_archived_segment_is_cut_where_the_log_of_a_replica_begins(
    opened: Opened, store: ObjectStore, tmp_path: Path
) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    archive(leader, store)
    before, objects = newest(store), set(store.objects("orders-0/segments"))
    inside = before.segments[1].base_offset + 2
    replicate(leader, follower, first=inside)
    assert archive(follower, store, takes_over=True).failed == {}
    after = newest(store)
    assert (after.directory, after.log_start, after.end) == ("follower", 0, 40)
    assert after.segments[0] == before.segments[0]
    assert (after.segments[1].base_offset, after.segments[1].end) == (before.segments[1].base_offset, inside)
    assert after.segments[1].is_sealed
    assert objects <= set(store.objects("orders-0/segments"))  # none was replaced or deleted
    check_cut(leader, store, tmp_path / "target")
    check_with_kafkas_tool(tmp_path / "target" / "orders-0")
    # It goes on, and the earlier state is as it was.
    append(leader, ORDERS, 3)
    replicate(leader, follower)
    assert archive(follower, store).failed == {}
    assert newest(store).segments[1] == after.segments[1]
    check_cut(leader, store, tmp_path / "later")
    done = ArchiveRestore(store, str(tmp_path / "first"), RestoreSelection(as_of_ms=before.time_ms)).run()
    assert done.partitions == {ORDERS: (0, 40)}
    assert archive(leader, store, takes_over=True).failed == {}
    check_cut(leader, store, tmp_path / "back")


@pytest.mark.parametrize("part_bytes", [700, 5000, 64 << 20])
def test_a_cut_segment_has_compressed_batches_of_any_parts_and_blocks(
    opened: Opened, store: ObjectStore, tmp_path: Path, part_bytes: int
) -> None:
    """Parts begin inside of batches, or at them; the cut is in the first block, a later one, or at the last batch."""
    leader = opened("leader")
    settings = {"segment.bytes": "400000"}
    leader.create_partitions([ORDERS], settings, topic_id=TOPIC_ID)
    log, noise = leader.log(ORDERS), random.Random(1)
    for number, codec in enumerate(["gzip", "lz4", "snappy", "zstd", "none"] * 2):
        size = 60_000 if part_bytes > 5000 else 1500
        records = [(None, noise.randbytes(size // 3), (), 1000 + (number * 7 + each) % 13) for each in range(3)]
        log.append(sealed_records(records, codec=codec))
    sizes = ObjectSizes(part_bytes, 64 << 10)
    assert archive(leader, store, sizes=sizes).failed == {}
    assert len(newest(store).segments) <= 2
    for first in (27, 15, 12, 3):
        follower = opened(f"from-{first}")
        replicate(leader, follower, first=first)
        assert archive(follower, store, takes_over=True, sizes=sizes).failed == {}
        assert first in [each.end for each in newest(store).segments]
        check_cut(leader, store, tmp_path / f"target-{first}")
    check_with_kafkas_tool(tmp_path / "target-12" / "orders-0")


def test_a_cut_segment_keeps_the_aborted_transactions_before_the_cut(
    opened: Opened, store: ObjectStore, tmp_path: Path
) -> None:
    leader, follower = opened("leader"), opened("follower")
    leader.create_partitions([ORDERS], {}, topic_id=TOPIC_ID)
    log = leader.log(ORDERS)
    for producer in (1, 2):
        log.append(data(producer, 0, 2))
        log.append(marker(producer, ABORT))
        log.append(sealed(b"kept"))
    replicate(leader, follower, first=4)
    for directory in (leader, follower):
        directory.close()  # it writes the transaction index of the segment that grows
    with contextlib.closing(LogDirectory.open(leader.path)) as leader:
        archive(leader, store)
        before = newest(store).segments
        with contextlib.closing(LogDirectory.open(follower.path)) as follower:
            assert archive(follower, store, takes_over=True).failed == {}
        check_aborted(leader, store, before, tmp_path)


def check_aborted(
    leader: LogDirectory, store: ObjectStore, before: tuple[ArchivedSegment, ...], tmp_path: Path
) -> None:
    entry = 34  # bytes in a transaction index
    assert [each.side.transaction_index for each in before] == [2 * entry]
    assert [each.side.transaction_index for each in newest(store).segments] == [entry, entry]
    check_cut(leader, store, tmp_path / "target")
    with contextlib.closing(LogDirectory.open(str(tmp_path / "target"), read_only=True)) as directory:
        records = LogReader(directory.log(ORDERS), isolation=READ_COMMITTED).records()
        assert [each.offset for each in records] == [3, 7]


def test_a_killed_take_over_changes_nothing_and_is_run_again(
    opened: Opened, store: ObjectStore, tmp_path: Path
) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    archive(leader, store)
    before, objects = newest(store), len(store.objects("orders-0/segments"))
    inside = before.segments[1].base_offset + 2
    replicate(leader, follower, first=inside)
    follower.log(ORDERS).flush()
    program = (
        "import os, signal, sys\n"
        "from offsetfs.archive.numbered_documents import NumberedDocuments\n"
        "from offsetfs.cli import main\n"
        "publish = NumberedDocuments.publish\n"
        "def killed(self, number, content):\n"
        "    if self.prefix: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return publish(self, number, content)\n"
        "NumberedDocuments.publish = killed\n"
        "main()\n"
    )
    words = [sys.executable, "-c", program, "archive", follower.path, store.url, "--take-over"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (newest(store), states(store), findings(store)) == (before, [1], [])
    left = len(store.objects("orders-0/segments"))
    assert left > objects
    run = archive(follower, store, takes_over=True)
    assert (run.failed, run.objects, newest(store).directory) == ({}, 0, "follower")
    assert len(store.objects("orders-0/segments")) == left
    check_cut(leader, store, tmp_path / "target")


def test_a_take_over_without_a_part_of_the_cut_segment_changes_nothing(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    archive(leader, store)
    cut = newest(store).segments[1]
    replicate(leader, follower, first=cut.base_offset + 2)
    data, key = store.read(cut.parts[0].key), cut.parts[0].key
    store.delete([key])
    (error,) = archive(follower, store, takes_over=True).failed.values()
    assert key in str(error)
    assert (newest(store).directory, states(store)) == ("leader", [1])
    store.put(key, data)
    assert archive(follower, store, takes_over=True).failed == {}
    assert findings(store) == []


def test_a_reader_of_an_archive_sees_all_records_while_a_segment_is_cut(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    archive(leader, store)
    wanted = batches(leader.log(ORDERS))
    replicate(leader, follower, first=newest(store).segments[1].base_offset + 2)
    reading.attach(store.url, ReadSettings(cache_size=0, refresh_s=0))
    try:
        with contextlib.closing(LogDirectory.open(store.url, read_only=True)) as directory:
            log = directory.log(ORDERS)
            assert batches(log) == wanted
            assert archive(follower, store, takes_over=True).failed == {}
            for _ in range(3):  # the state is read again beside the reader
                log.refresh(is_forced=True)
                assert [bytes(each.data) for each in LogReader(log).batches()] == wanted
    finally:
        reading.detach(store.url)


def test_a_replica_that_begins_in_a_gap_of_compaction_takes_over(
    opened: Opened, store: ObjectStore, tmp_path: Path
) -> None:
    """Before the first batch of an archived segment, and between two: the batches there are all in one place."""
    for first, ends in ((3, [9]), (7, [7, 9])):
        leader, follower = opened(f"leader-{first}"), opened(f"follower-{first}")
        place = ObjectStore(f"{store.url}-{first}", StoreSettings(timeout_s=10))
        leader.create_partitions([ORDERS], {}, topic_id=TOPIC_ID)
        for offset in (5, 8):
            leader.log(ORDERS).append_replicated(batch(offset, b"%d" % offset))
        assert archive(leader, place).failed == {}
        replicate(leader, follower, first=first)
        assert archive(follower, place, takes_over=True).failed == {}
        assert ([each.end for each in newest(place).segments], findings(place)) == (ends, [])
        ArchiveRestore(place, str(tmp_path / f"target-{first}"), RestoreSelection()).run()
        with contextlib.closing(LogDirectory.open(str(tmp_path / f"target-{first}"), read_only=True)) as directory:
            assert batches(directory.log(ORDERS)) == batches(leader.log(ORDERS))


def test_a_replica_that_begins_inside_of_an_archived_batch_does_not_take_over(
    opened: Opened, store: ObjectStore
) -> None:
    leader, follower = opened("leader"), opened("follower")
    leader.create_partitions([ORDERS], {}, topic_id=TOPIC_ID)
    for _ in range(4):
        leader.log(ORDERS).append(data(-1, 0, 3))
    archive(leader, store)
    follower.create_partitions([ORDERS], {}, topic_id=TOPIC_ID)
    follower.log(ORDERS).truncate_fully(4)
    follower.log(ORDERS).append(data(-1, 0, 2))
    replicate(leader, follower)
    (error,) = archive(follower, store, takes_over=True).failed.values()
    assert "offsets 3 to 5, on both sides of 4" in str(error)
    assert "archive into another URL" in str(error)
    assert states(store) == [1]


def test_older_segments_stay_when_a_replica_takes_over_at_a_segment(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    archive(leader, store)
    replicate(leader, follower, first=newest(store).segments[2].base_offset)
    assert archive(follower, store, takes_over=True).failed == {}
    assert (newest(store).log_start, newest(store).end, findings(store)) == (0, 40, [])


def test_a_new_topic_of_the_name_takes_over_when_asked_for(opened: Opened, store: ObjectStore) -> None:
    one, two = opened("one"), opened("two")
    create(one, ORDERS, 10)
    create(two, ORDERS, 3, topic_id=bytes(range(2, 18)))
    archive(one, store)
    assert archive(two, store, takes_over=True).failed == {}
    assert (newest(store).directory, newest(store).end, states(store)) == ("two", 3, [1, 2])


# --- states without a directory, and directories without an id --------------------------------------------------------


def test_a_state_that_names_no_directory_is_continued(
    opened: Opened, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = opened("one"), opened("two")
    create(one, ORDERS, 10)
    encoded = PartitionManifest.encoded
    with monkeypatch.context() as patch:
        patch.setattr(
            PartitionManifest,
            "encoded",
            lambda self: {name: each for name, each in encoded(self).items() if name != "directory"},
        )
        archive(one, store)
    assert newest(store).directory == ""
    assert archive(one, store).published == 0
    create(two, ORDERS, 3, topic_id=bytes(range(2, 18)))
    assert list(archive(two, store).failed) == [ORDERS]
    append(one, ORDERS, 1)
    assert archive(one, store).published == 1
    assert newest(store).directory == "one"


def test_a_broker_that_is_upgraded_to_kafka_3_7_goes_on(opened: Opened, store: ObjectStore) -> None:
    """Kafka adds `directory.id` then."""
    one = opened("one")
    properties = Path(one.path) / "meta.properties"
    properties.write_text("version=0\ncluster.id=c\nbroker.id=1\n")
    create(one, ORDERS, 10)
    archive(one, store)
    assert newest(store).directory == "c/1"
    properties.write_text("version=0\ncluster.id=c\nbroker.id=1\ndirectory.id=one\n")
    run = archive(one, store)
    assert (run.failed, run.others, run.objects) == ({}, {}, 0)
    assert newest(store).directory == "one"


def test_an_expiry_leaves_a_partition_that_another_directory_has_taken_over(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 40)
    run = archive(leader, store)
    replicate(leader, follower)
    assert archive(follower, store, takes_over=True).failed == {}
    assert (run.starts, later(store, leader, run).segments) == ({ORDERS: 0}, 0)


def test_the_id_of_a_log_directory(tmp_path: Path) -> None:
    properties = tmp_path / "meta.properties"
    assert log_directory_ids(str(tmp_path)) == (f"inode {tmp_path.stat().st_ino}",)
    properties.write_text("version=0\ncluster.id=abc\nbroker.id=3\n")
    assert log_directory_ids(str(tmp_path)) == ("abc/3",)
    properties.write_text("version=1\ncluster.id=abc\nnode.id=3\ndirectory.id=xyz\n")
    assert log_directory_ids(str(tmp_path)) == ("xyz", "abc/3")


def test_the_command_names_what_it_leaves_out(opened: Opened, store: ObjectStore) -> None:
    leader, follower = opened("leader"), opened("follower")
    create(leader, ORDERS, 4)
    replicate(leader, follower)
    archive(leader, store)
    path = follower.path
    follower.close()

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        words = (sys.executable, "-m", "offsetfs", "archive", path, store.url, *words)
        return subprocess.run(words, capture_output=True, text=True, timeout=120)

    done = run("--expire")
    assert (done.returncode, done.stdout) == (0, "")
    assert "left out 1 partition that another log directory archives: orders-0 (leader)" in done.stderr
    assert run("--take-over", "--follow").returncode == 1
    done = run("--take-over")
    assert (done.returncode, done.stderr) == (0, "")
    assert newest(store).directory == "follower"
