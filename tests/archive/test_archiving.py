"""Archives of log directories, written to a real S3 server: increments, races, restores."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs import metadata_records
from fixtures.logs.metadata_records import MetadataDirectory
from fixtures.logs.planted_logs import sealed, sealed_records
from fixtures.simulation.fake_clock import FakeClock

from offsetfs import cli
from offsetfs.archive.archiver import Archiver, ArchiveRun
from offsetfs.archive.expiry import expire
from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments, encoded
from offsetfs.archive.object_store import ObjectInfo, ObjectStore, StoreSettings
from offsetfs.archive.restore_to_directory import ArchiveRestore, RestoreSelection
from offsetfs.archive.verifying import ArchiveFinding, VerifiedArchive, verify_archive
from offsetfs.storage import Log, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.partition import retention

pytestmark = pytest.mark.interop

ORDERS = TopicPartition("orders", 0)
DAY_MS = 86_400_000
RACES = int(os.environ.get("OFFSETFS_RACES", "5"))
"""`scripts/soak archive` has 50."""
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LogDirectory]:
    """A log directory with an empty partition `orders-0` of small segments, open for writing."""
    (tmp_path / "source").mkdir()
    directory = LogDirectory.open(str(tmp_path / "source"))
    directory.create_partition(ORDERS, {"segment.bytes": "4096"})
    yield directory
    directory.close()


def append(log: Log, count: int, *, first: int = 0, timestamp: int = 1_700_000_000_000) -> None:
    for number in range(first, first + count):
        log.append(
            sealed_records([(b"%d" % (number % 7), b"value %06d" % number + b"x" * 300, (), timestamp + number)])
        )


def archive(directory: LogDirectory, store: ObjectStore) -> ArchiveRun:
    """Archive once, as a process does that ends then; no partition fails."""
    archiver = Archiver(directory, store)
    try:
        run = archiver.run()
    finally:
        archiver.close()
    assert run.failed == {}
    return run


def archived(directory: LogDirectory, store: ObjectStore) -> tuple[int, int, int]:
    """Archive once; return (changed partitions, uploaded objects, their bytes)."""
    run = archive(directory, store)
    return run.published, run.objects, run.bytes


def newest(store: ObjectStore, partition: TopicPartition = ORDERS) -> PartitionManifest:
    found = NumberedDocuments(store, str(partition)).newest()
    assert found is not None
    return PartitionManifest.decoded(found.content, store.url)


def findings(store: ObjectStore) -> list[ArchiveFinding]:
    return list(verify_archive(store, done=VerifiedArchive()))


def restored(store: ObjectStore, path: Path, selection: RestoreSelection | None = None) -> Path:
    ArchiveRestore(store, str(path), selection or RestoreSelection()).run()
    return path


def values(path: Path, partition: TopicPartition = ORDERS) -> list[tuple[int, bytes | None]]:
    directory = LogDirectory.open(str(path), read_only=True)
    try:
        return [(each.offset, each.value) for each in LogReader(directory.log(partition)).records()]
    finally:
        directory.close()


def test_each_byte_goes_up_once(source: LogDirectory, store: ObjectStore) -> None:
    log = source.log(ORDERS)
    append(log, 40)
    published, _, total = archived(source, store)
    assert published == 1
    assert total > log.size_bytes
    assert archived(source, store) == (0, 0, 0)
    before = log.size_bytes
    append(log, 3, first=40)
    published, objects, added = archived(source, store)
    grown = log.size_bytes - before
    assert (published, objects <= 4, grown <= added < grown + 2000) == (1, True, True)
    assert newest(store).end == 43
    assert findings(store) == []


@pytest.mark.promise(
    "A restored log has the log files of the archived one, byte for byte; a partition gets its name when all "
    "of it is on disk."
)
def test_a_restored_log_has_the_same_files(source: LogDirectory, store: ObjectStore, tmp_path: Path) -> None:
    append(source.log(ORDERS), 100)
    source.log(ORDERS).roll()
    archived(source, store)
    source.close()
    target = restored(store, tmp_path / "target")
    names = {each for each in os.listdir(tmp_path / "source" / "orders-0") if each.endswith((".log", ".snapshot"))}
    assert len([each for each in names if each.endswith(".log")]) > 5
    same, different, missing = filecmp.cmpfiles(
        tmp_path / "source" / "orders-0", target / "orders-0", names, shallow=False
    )
    assert (set(same), different, missing) == (names, [], [])
    assert values(target) == values(tmp_path / "source")
    assert LogDirectory.open(str(target), read_only=True).settings_of("orders") == {"segment.bytes": "4096"}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"retention.ms": "1000", "segment.bytes": "4096"}, 1),
        ({"retention.ms": "-1"}, None),
        ({"cleanup.policy": "compact"}, None),
        ({}, None),  # of the broker, whose defaults are unknown
        ({"retention.ms": "1000", "local.retention.ms": "later"}, None),
    ],
)
def test_a_topic_of_a_broker_expires_by_its_metadata_log(
    source: LogDirectory, store: ObjectStore, tmp_path: Path, settings: dict[str, str], kept: int | None
) -> None:
    append(source.log(ORDERS), 40)
    source.configure("orders", {"segment.bytes": None})
    source.close()
    metadata = MetadataDirectory(tmp_path / "source")
    own = [metadata_records.setting(metadata_records.TOPIC, "orders", *each) for each in settings.items()]
    metadata.append([*metadata_records.topics(orders=[1]), *own])
    with contextlib.closing(LogDirectory.open(source.path, read_only=True)) as directory:
        archived(directory, store)
        legal = directory.explicit_settings_of("orders")
    before = newest(store).segments
    assert newest(store).settings == legal and settings.items() - legal.items() <= {("local.retention.ms", "later")}
    now = 1_900_000_000_000
    assert expire(store, keep_states_ms=DAY_MS, now_ms=now).failed == {}
    assert len(newest(store).segments) == (kept or len(before)) and len(before) > 1
    target = restored(store, tmp_path / "target")
    with contextlib.closing(LogDirectory.open(str(target), read_only=True)) as directory:
        assert directory.settings_of("orders") == legal


def test_settings_that_a_broker_changes_during_an_archive_are_in_the_next_state(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    append(source.log(ORDERS), 1)
    source.close()
    metadata = MetadataDirectory(tmp_path / "source")
    metadata.append(metadata_records.topics(orders=[1]))
    clock = FakeClock()
    with contextlib.closing(LogDirectory.open(source.path, read_only=True, clock=clock)) as directory:
        archiver = Archiver(directory, store)
        assert archiver.run().published == 1
        metadata.append([metadata_records.setting(metadata_records.TOPIC, "orders", "retention.ms", "77")])
        clock.advance(2000)
        assert archiver.run().published == 1
        archiver.close()
    assert newest(store).settings == {"segment.bytes": "4096", "retention.ms": "77"}


@pytest.mark.promise(
    "An archived state is restored as it was, whatever retention, compaction, truncation and deletion have "
    "done to the log since, until `--expire` deletes it."
)
def test_earlier_states_are_restored_after_truncation_and_retention(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    log = source.log(ORDERS)
    append(log, 50)
    archived(source, store)
    first = newest(store).time_ms
    before = values(tmp_path / "source")
    log.truncate_to(45)
    append(log, 20, first=1000)
    archived(source, store)
    assert values(restored(store, tmp_path / "now")) == values(tmp_path / "source")
    assert values(restored(store, tmp_path / "then", RestoreSelection(as_of_ms=first))) == before
    with pytest.raises(OSError, match="no partition of these topics at that time"):
        restored(store, tmp_path / "never", RestoreSelection(as_of_ms=first - 1))


@pytest.mark.promise("`--expire` deletes no object that a remaining state names.")
def test_segments_that_retention_removed_stay_until_they_expire(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    log = source.log(ORDERS)
    append(log, 60)
    archived(source, store)
    log.delete_records(40)
    retention.sweep(source, [ORDERS], source.clock.now_ms())
    assert log.snapshot().first.base_offset > 20
    archived(source, store)
    assert (newest(store).log_start, newest(store).end) == (0, 60)
    assert len(values(restored(store, tmp_path / "all"))) == 60
    start = log.snapshot().first.base_offset
    listed, first = len(store.objects("orders-0/segments")), newest(store).time_ms
    done = expire(store, keep_states_ms=10 * DAY_MS, starts={ORDERS: start}, now_ms=first + 8 * DAY_MS)
    assert (done.segments > 0, done.objects, newest(store).log_start) == (True, 0, start)
    assert len(values(restored(store, tmp_path / "then", RestoreSelection(as_of_ms=first)))) == 60
    assert findings(store) == []
    later = expire(store, keep_states_ms=10 * DAY_MS, starts={ORDERS: start}, now_ms=first + 20 * DAY_MS)
    assert later.objects > 0
    assert len(store.objects("orders-0/segments")) < listed
    assert findings(store) == []
    assert len(values(restored(store, tmp_path / "rest"))) == 60 - start


def test_records_of_a_time_are_restored(source: LogDirectory, store: ObjectStore, tmp_path: Path) -> None:
    append(source.log(ORDERS), 60)
    archived(source, store)
    base = 1_700_000_000_000
    target = restored(store, tmp_path / "part", RestoreSelection(from_ms=base + 10, to_ms=base + 50))
    assert [offset for offset, _ in values(target)] == list(range(10, 50))


def test_a_topic_that_was_created_again_begins_a_new_state(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    append(source.log(ORDERS), 30)
    archived(source, store)
    first = newest(store).time_ms
    source.delete_partition(ORDERS)
    source.create_partition(ORDERS)
    append(source.log(ORDERS), 3)
    archived(source, store)
    assert len(values(restored(store, tmp_path / "new"))) == 3
    assert len(values(restored(store, tmp_path / "old", RestoreSelection(as_of_ms=first)))) == 30


@pytest.mark.promise("Of several archivers at once, none replaces the state of another.")
def test_two_archivers_at_once_lose_nothing(source: LogDirectory, store: ObjectStore, tmp_path: Path) -> None:
    log = source.log(ORDERS)
    for turn in range(RACES):
        append(log, 10, first=turn * 10)
        start = threading.Barrier(2)
        failed: list[BaseException] = []

        def race(start: threading.Barrier = start, failed: list[BaseException] = failed) -> None:
            directory = LogDirectory.open(source.path, read_only=True)
            start.wait()
            try:
                archived(directory, store)
            except BaseException as error:
                failed.append(error)
            finally:
                directory.close()

        threads = [threading.Thread(target=race) for _ in range(2)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failed == []
        assert newest(store).end == (turn + 1) * 10
    assert findings(store) == []
    assert values(restored(store, tmp_path / "target")) == values(tmp_path / "source")


def test_a_restore_that_failed_goes_on(source: LogDirectory, store: ObjectStore, tmp_path: Path) -> None:
    source.create_partition(TopicPartition("a", 0))
    append(source.log(TopicPartition("a", 0)), 10)
    append(source.log(ORDERS), 30)
    archived(source, store)
    lost = newest(store).segments[-1].parts[-1].key
    data = store.read(lost)
    store.delete([lost])
    with pytest.raises(FileNotFoundError, match="no such object"):
        restored(store, tmp_path / "target")
    assert not (tmp_path / "target" / "orders-0").exists()
    with pytest.raises(FileExistsError, match="other options"):
        restored(store, tmp_path / "target", RestoreSelection(from_ms=1))
    store.put(lost, data)
    assert values(restored(store, tmp_path / "target")) == values(tmp_path / "source")
    with pytest.raises(FileExistsError, match="is there already"):
        restored(store, tmp_path / "target")


def test_damaged_and_missing_objects_are_found_with_their_offsets(source: LogDirectory, store: ObjectStore) -> None:
    append(source.log(ORDERS), 40)
    archived(source, store)
    segments = newest(store).segments
    damaged, missing = segments[0], segments[2]
    data = bytearray(store.read(damaged.parts[0].key))
    data[100] ^= 1
    store.put(damaged.parts[0].key, bytes(data))
    store.delete([missing.side.stored.key])
    found = {each.offsets: each.reason for each in findings(store)}
    assert set(found) == {(each.base_offset, each.end) for each in (damaged, missing)}
    assert "SHA-256" in found[damaged.base_offset, damaged.end]
    assert "no such object" in found[missing.base_offset, missing.end]


def test_a_place_with_something_else_is_refused(source: LogDirectory, store: ObjectStore, tmp_path: Path) -> None:
    store.put("holiday.jpg", b"x")
    with pytest.raises(OSError, match=r"holds 'holiday.jpg'") as found:
        archived(source, store)
    assert found.value.errno == errno.ENOTEMPTY
    assert [each.key for each in store.objects("")] == ["holiday.jpg"]
    with pytest.raises(FileNotFoundError, match="is not an archive"):
        restored(store, tmp_path / "target")


def test_a_manifest_of_a_newer_version_is_refused_and_the_others_go_on(
    source: LogDirectory, store: ObjectStore
) -> None:
    other = TopicPartition("other", 0)
    source.create_partition(other)
    append(source.log(ORDERS), 5)
    archived(source, store)
    newer = encoded({"number": 9}).replace(b"offsetfs-archive 1", b"offsetfs-archive 2")
    store.put("orders-0/manifest.json", newer)
    append(source.log(other), 5)
    archiver = Archiver(source, store)
    run = archiver.run()
    archiver.close()
    assert list(run.failed) == [ORDERS]
    assert "install a newer offsetfs" in str(run.failed[ORDERS])
    assert newest(store, other).end == 5
    assert ["newer" in each.reason for each in findings(store)] == [True]


@pytest.mark.parametrize("name", sorted(each.name for each in GOLDEN.glob("kafka-*") if each.is_dir()))
def test_logs_of_brokers_are_restored_as_they_were(name: str, store: ObjectStore, tmp_path: Path) -> None:
    directory = LogDirectory.open(str(GOLDEN / name), read_only=True)
    archived(directory, store)
    target = restored(store, tmp_path / "target")
    compared = LogDirectory.open(str(target), read_only=True)
    for partition in compared.partitions():
        for old, new in zip(directory.log(partition).snapshot(), compared.log(partition).snapshot(), strict=True):
            assert new.open_files().log.read(0, new.size) == old.open_files().log.read(0, old.size)
            if name in ("kafka-3.6.2", "kafka-4.1"):  # those of older brokers are built again when they are opened
                assert list(new.open_files().index.entries()) == list(old.open_files().index.entries())
    assert len(compared.partitions()) > 5
    compared.close()
    directory.close()


def test_an_append_while_it_is_archived_is_whole_or_not_there(source: LogDirectory, store: ObjectStore) -> None:
    log = source.log(ORDERS)
    stop = threading.Event()

    def write() -> None:
        for _ in range(2000):  # bounded: each segment costs an archiver two requests
            if stop.wait(0.001):
                return
            log.append(sealed(b"x" * 100))

    thread = threading.Thread(target=write)
    thread.start()
    directory = LogDirectory.open(source.path, read_only=True)
    try:
        for _ in range(5):
            archived(directory, store)
            assert findings(store) == []
    finally:
        stop.set()
        thread.join()
        directory.close()
    ends = [newest(store).segments[number].end for number in range(len(newest(store).segments))]
    assert ends == sorted(ends)


def test_a_growing_segment_has_few_parts_and_each_byte_goes_up_a_few_times(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    source.configure("orders", {"segment.bytes": "1000000"})
    log, uploaded = source.log(ORDERS), 0
    archiver = Archiver(source, store)
    try:
        for turn in range(60):
            append(log, 3, first=3 * turn)
            uploaded += sum(part.size for part in _new_parts(archiver, store))
    finally:
        archiver.close()
    last = newest(store).segments[-1]
    assert last.size == log.size_bytes
    assert 1 < len(last.parts) < 16
    assert uploaded < 5 * log.size_bytes
    assert findings(store) == []
    assert values(restored(store, tmp_path / "target")) == values(tmp_path / "source")


def _new_parts(archiver: Archiver, store: ObjectStore) -> list[ObjectInfo]:
    before = {each.key for each in store.objects("orders-0/segments")}
    assert archiver.run().failed == {}
    return [each for each in store.objects("orders-0/segments") if each.key not in before]


def test_offsets_that_no_run_has_seen_are_reported_and_the_older_ones_stay(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    log = source.log(ORDERS)
    append(log, 30)
    assert archive(source, store).lost == {}
    append(log, 60, first=30)
    log.delete_records(80)
    retention.sweep(source, [ORDERS], source.clock.now_ms())
    start = log.snapshot().first.base_offset
    assert start > 40
    run = archive(source, store)
    lost = run.lost[ORDERS]
    assert (29 < lost[0] <= 30, lost[1]) == (True, start)
    assert archive(source, store).lost == {}
    kept = [offset for offset, _ in values(restored(store, tmp_path / "target"))]
    assert kept == [*range(lost[0]), *range(start, 90)]
    assert findings(store) == []


@pytest.mark.promise(
    "An archived state is restored as it was, whatever retention, compaction, truncation and deletion have "
    "done to the log since, until `--expire` deletes it."
)
def test_compaction_in_the_source_changes_the_newest_state_only(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    source.configure("orders", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    log = source.log(ORDERS)
    append(log, 60)
    log.roll()
    archive(source, store)
    first, before = newest(store).time_ms, values(tmp_path / "source")
    source.close()
    assert cli.run(["clean", source.path, "--now"]) == 0
    assert len(values(tmp_path / "source")) < 20
    with contextlib.closing(LogDirectory.open(source.path, read_only=True)) as compacted:
        archive(compacted, store)
    assert values(restored(store, tmp_path / "now")) == values(tmp_path / "source")
    assert values(restored(store, tmp_path / "then", RestoreSelection(as_of_ms=first))) == before
    assert findings(store) == []


def test_a_topic_that_was_deleted_stays_as_it_was(source: LogDirectory, store: ObjectStore, tmp_path: Path) -> None:
    append(source.log(ORDERS), 30)
    archive(source, store)
    before = values(tmp_path / "source")
    source.create_partition(TopicPartition("other", 0))
    source.delete_partition(ORDERS)
    archive(source, store)
    assert values(restored(store, tmp_path / "target")) == before
    assert sorted(each.name for each in (tmp_path / "target").glob("*-0")) == ["orders-0", "other-0"]


def test_an_unchanged_directory_costs_no_request(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source.log(ORDERS), 30)
    archiver = Archiver(source, store)
    archiver.run()
    monkeypatch.setattr(ObjectStore, "_run", lambda self, *words, **named: pytest.fail(f"a request: {words}"))
    assert archiver.run().published == 0
    archiver.close()


def test_objects_have_the_storage_class_that_is_asked_for(source: LogDirectory, store: ObjectStore) -> None:
    append(source.log(ORDERS), 10)
    archive(source, ObjectStore(store.url, StoreSettings(storage_class="STANDARD_IA")))
    found = store._call("info", newest(store).segments[0].parts[0].key)
    assert found["StorageClass"] == "STANDARD_IA"


def test_damage_is_repaired_by_a_run_that_compares_all(source: LogDirectory, store: ObjectStore) -> None:
    append(source.log(ORDERS), 40)
    archive(source, store)
    lost = newest(store).segments[1].parts[0].key
    store.delete([lost])
    assert len(findings(store)) == 1
    archiver = Archiver(source, store, checks_all=True)
    run = archiver.run()
    archiver.close()
    assert (run.failed, run.objects) == ({}, 1)
    assert findings(store) == []


def test_a_state_behind_a_later_one_is_not_published(source: LogDirectory, store: ObjectStore) -> None:
    """As by an archiver that waits while others publish, and an expiry deletes the numbers in between."""
    append(source.log(ORDERS), 5)
    archive(source, store)
    documents = NumberedDocuments(store, "orders-0")
    content = newest(store).encoded()
    assert documents.publish(2, content) and documents.publish(3, content)
    documents.delete(2)
    assert not documents.publish(2, content)
    found = documents.copy()
    assert found is not None and found.number == 3
