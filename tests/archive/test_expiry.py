"""Expiries of archives: what a state names stays, whatever the store refuses and which other process writes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import sealed
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults

from offsetfs.archive import archived_objects, expiry
from offsetfs.archive import archiver as archiver_module
from offsetfs.archive.archiver import Archiver
from offsetfs.archive.expiry import Expired, expire
from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.restore_to_directory import ArchiveRestore, RestoreSelection
from offsetfs.archive.segment_upload import SegmentUpload
from offsetfs.archive.verifying import VerifiedArchive, verify_archive
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.interop

ORDERS, USERS = TopicPartition("orders", 0), TopicPartition("users", 0)
DAY_MS = 86_400_000


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LogDirectory]:
    """Two partitions of small segments, open for writing."""
    (tmp_path / "source").mkdir()
    directory = LogDirectory.open(str(tmp_path / "source"))
    for each in (ORDERS, USERS):
        directory.create_partition(each, {"segment.bytes": "4096", "retention.ms": "-1"})
    yield directory
    directory.close()


@pytest.fixture
def through(faults: S3Faults, request: pytest.FixtureRequest) -> ObjectStore:
    """An empty place behind the proxy."""
    place = f"s3://{s3_server.BUCKET}/expiry-{abs(hash(request.node.nodeid)):x}"
    return ObjectStore(place, StoreSettings(timeout_s=10, endpoint=faults.endpoint))


def append(source: LogDirectory, partition: TopicPartition, count: int) -> None:
    for number in range(count):
        source.log(partition).append(sealed(b"%06d" % number * 40))


def archive(source: LogDirectory, store: ObjectStore) -> None:
    archiver = Archiver(source, store)
    try:
        assert archiver.run().failed == {}
    finally:
        archiver.close()


def archived_twice(source: LogDirectory, store: ObjectStore) -> set[str]:
    """Archive two states with no common object; return the keys of the first one."""
    append(source, ORDERS, 20)
    archive(source, store)
    first = keys_of(store, 1)
    source.log(ORDERS).truncate_to(0)
    append(source, ORDERS, 3)
    archive(source, store)
    return first


def keys_of(store: ObjectStore, number: int, partition: TopicPartition = ORDERS) -> set[str]:
    found = NumberedDocuments(store, str(partition)).at(number)
    assert found is not None
    return set(PartitionManifest.decoded(found.content, store.url).objects())


def listed(store: ObjectStore, partition: TopicPartition = ORDERS) -> set[str]:
    return {each.key for each in store.objects(f"{partition}/segments")}


def later(store: ObjectStore, **options: object) -> Expired:
    """Expire as in twenty days."""
    now_ms = max(each.modified_ms or 0 for each in store.objects("")) + 20 * DAY_MS
    return expire(store, keep_states_ms=7 * DAY_MS, now_ms=now_ms, **options)  # type: ignore[arg-type]


def findings(store: ObjectStore) -> list[str]:
    return [str(each) for each in verify_archive(store, done=VerifiedArchive())]


def test_a_key_that_s3_refuses_to_delete_is_an_error(faults: S3Faults, through: ObjectStore) -> None:
    through.put("a", b"x")
    faults.inject(Rule(s3_faults.REFUSED_KEYS))
    with pytest.raises(OSError, match="the permission for DeleteObject") as found:
        through.delete(["a"])
    assert (found.value.errno, found.value.filename) == (errno.EACCES, f"{through.url}/a")
    faults.inject()
    through.delete(["a", "never-there"])
    assert not through.exists("a")


def test_a_state_whose_deletion_is_refused_keeps_its_objects(
    source: LogDirectory, faults: S3Faults, through: ObjectStore, tmp_path: Path
) -> None:
    first = archived_twice(source, through)
    assert first - keys_of(through, 2)
    faults.inject(Rule(s3_faults.REFUSED_KEYS, ("POST",), key=r"orders-0/manifests/"))
    done = later(through)
    assert list(done.failed) == [ORDERS]
    assert "DeleteObject" in str(done.failed[ORDERS])
    assert first <= listed(through)
    faults.inject()
    assert later(through).failed == {}
    assert listed(through) == keys_of(through, 2)
    assert findings(through) == []


def test_objects_of_a_state_stay_that_is_listed_after_its_deletion(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a store that answers success and does nothing."""
    first = archived_twice(source, store)
    deleted = ObjectStore.delete

    def delete(self: ObjectStore, keys: list[str]) -> None:
        if not any("/manifests/" in key for key in keys):
            deleted(self, keys)

    monkeypatch.setattr(ObjectStore, "delete", delete)
    later(store)
    assert first <= listed(store)


def test_an_expiry_of_some_topics_leaves_the_others(source: LogDirectory, store: ObjectStore) -> None:
    first = archived_twice(source, store)
    later(store, takes=lambda topic: topic == "users")
    assert first <= listed(store)
    later(store, takes=lambda topic: topic == "orders")
    assert listed(store) == keys_of(store, 2)


def test_states_are_kept_for_a_day_at_least(store: ObjectStore) -> None:
    with pytest.raises(OSError, match="kept for a day at least") as found:
        expire(store, keep_states_ms=DAY_MS - 1)
    assert found.value.errno == errno.EINVAL


def test_the_age_of_objects_is_by_the_clock_of_the_store(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the machine is decades ahead."""
    first = archived_twice(source, store)
    monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000 * 10**9)
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
    store.put("orders-0/segments/unnamed.part", b"of an archiver that runs")
    done = expire(store, keep_states_ms=DAY_MS)
    assert (done.objects, done.segments, done.failed) == (0, 0, {})
    assert first <= listed(store)
    assert store.exists("orders-0/segments/unnamed.part")


def test_a_manifest_that_was_copied_from_another_partition_is_refused(
    source: LogDirectory, store: ObjectStore, tmp_path: Path
) -> None:
    append(source, ORDERS, 5)
    append(source, USERS, 5)
    archive(source, store)
    for name in ("manifest.json", "manifests/00000000000000000001.json"):
        store.put(f"users-0/{name}", store.read(f"orders-0/{name}"))
    assert ["copy of that of orders-0" in each for each in findings(store)] == [True]
    assert list(later(store).failed) == [USERS]
    with pytest.raises(OSError, match="copy of that of orders-0") as found:
        ArchiveRestore(store, str(tmp_path / "target"), RestoreSelection()).run()
    assert found.value.errno == errno.EINVAL
    assert not (tmp_path / "target").exists()


def test_an_expiry_repairs_the_copy_for_readers_before_it_deletes(source: LogDirectory, store: ObjectStore) -> None:
    """An archiver was killed between a state and its copy; the topic is archived by no one else."""
    append(source, ORDERS, 20)
    archive(source, store)
    old = store.read("orders-0/manifest.json")
    source.log(ORDERS).truncate_to(0)
    append(source, ORDERS, 3)
    archive(source, store)
    store.put("orders-0/manifest.json", old)
    later(store)
    copy = NumberedDocuments(store, "orders-0").copy()
    assert copy is not None and copy.number == 2
    assert set(PartitionManifest.decoded(copy.content, store.url).objects()) <= listed(store)


# --- uploads that an expiry could meet --------------------------------------------------------------------------------


def later_clock(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """The clock of the store is later from now on, for archivers and expiries; objects are as old as that."""
    store_time_ms = archived_objects.store_time_ms
    for module in (archived_objects, expiry):
        monkeypatch.setattr(module, "store_time_ms", lambda store: store_time_ms(store) + int(days * DAY_MS))


def killed_before_publishing(source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Upload, and end before the state; return the keys."""
    with monkeypatch.context() as patch:
        patch.setattr(NumberedDocuments, "publish", lambda *words: (_ for _ in ()).throw(OSError(errno.EIO, "killed")))
        patch.setattr(Archiver, "_publish_topics", lambda *words, **named: None)
        archiver = Archiver(source, store)
        assert set(archiver.run().failed) == {ORDERS, USERS}
        archiver.close()
    return listed(store)


def test_an_old_object_that_no_state_names_is_not_written_again_under_its_key(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expiry has listed it, and deletes it at any moment: also after the archiver has published."""
    append(source, ORDERS, 20)
    left = killed_before_publishing(source, store, monkeypatch)
    assert left
    later_clock(monkeypatch, 1.5)
    archive(source, store)
    named = keys_of(store, 1)
    assert not named & left
    store.delete(sorted(left))
    assert findings(store) == []


def test_a_young_object_that_no_state_names_is_taken_over(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source, ORDERS, 20)
    left = killed_before_publishing(source, store, monkeypatch)
    monkeypatch.setattr("time.time_ns", lambda: 1)  # the clock of the machine does not matter
    archive(source, store)
    assert keys_of(store, 1) == left == listed(store)


def test_a_lost_object_goes_up_again_under_the_key_that_all_states_name(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(source, ORDERS, 20)
    left = killed_before_publishing(source, store, monkeypatch)
    later_clock(monkeypatch, 1.5)
    archive(source, store)
    store.delete(sorted(left))
    (lost, *_) = sorted(each for each in keys_of(store, 1) if each.endswith(".part"))
    store.delete([lost])
    archiver = Archiver(source, store, checks_all=True)
    assert archiver.run().objects == 1
    archiver.close()
    assert store.exists(lost)
    assert findings(store) == []


def test_an_upload_of_many_hours_is_published_in_several_states(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No object is without a state for so long that an expiry deletes it."""

    append(source, ORDERS, 60)
    segments = len(list(source.log(ORDERS).snapshot()))
    assert segments >= 3
    seconds, run = [0.0], SegmentUpload.run

    def slow(self: SegmentUpload, known: object, **options: bool) -> object:
        done = run(self, known, **options)  # type: ignore[arg-type]
        seconds[0] += 7 * 3600 if done != known else 0
        return done

    monkeypatch.setattr(SegmentUpload, "run", slow)
    monkeypatch.setattr(archiver_module, "running_s", lambda: seconds[0])
    monkeypatch.setattr(archiver_module, "PARTITIONS_AT_ONCE", 1)
    archive(source, store)
    numbers = NumberedDocuments(store, "orders-0").numbers()
    assert len(numbers) == segments
    newest = NumberedDocuments(store, "orders-0").at(numbers[-1])
    assert newest is not None and newest.content["end"] == 60
    assert findings(store) == []


def test_a_state_whose_uploads_took_too_long_is_not_published(
    source: LogDirectory, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:

    append(source, ORDERS, 1)
    seconds = iter(range(0, 10**9, 13 * 3600))
    monkeypatch.setattr(archiver_module, "running_s", lambda: float(next(seconds)))
    archiver = Archiver(source, store, takes=lambda topic: topic == "orders")
    failed = archiver.run().failed
    archiver.close()
    assert "took more than 11 hours" in str(failed[ORDERS])
    assert NumberedDocuments(store, "orders-0").newest() is None
