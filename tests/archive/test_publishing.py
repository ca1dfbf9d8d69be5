"""Publishing of states: lost answers, writers that were killed or stopped between two requests, failed copies."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import sealed
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults

from offsetfs.archive import marker, numbered_documents
from offsetfs.archive.archiver import Archiver
from offsetfs.archive.numbered_documents import NumberedDocuments, decoded, encoded
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.interop

ORDERS = TopicPartition("orders", 0)
STATE = r"orders-0/manifests/"


@pytest.fixture
def through(faults: S3Faults, request: pytest.FixtureRequest) -> ObjectStore:
    """An empty place behind the proxy."""
    place = f"s3://{s3_server.BUCKET}/publishing-{abs(hash(request.node.nodeid)):x}"
    return ObjectStore(place, StoreSettings(timeout_s=6, endpoint=faults.endpoint))


@pytest.fixture
def source(tmp_path: Path) -> Iterator[LogDirectory]:
    (tmp_path / "source").mkdir()
    directory = LogDirectory.open(str(tmp_path / "source"))
    directory.create_partition(ORDERS).append(sealed(b"first"))
    yield directory
    directory.close()


def copied(store: ObjectStore) -> int:
    found = NumberedDocuments(store, "orders-0").copy()
    assert found is not None
    return found.number


def test_a_copy_that_could_not_be_written_is_written_by_the_next_run(
    source: LogDirectory, faults: S3Faults, through: ObjectStore
) -> None:
    """Nothing has changed in the log since; the same archiver goes on."""
    archiver = Archiver(source, through)
    try:
        assert archiver.run().failed == {}
        source.log(ORDERS).append(sealed(b"second"))
        faults.inject(Rule(s3_faults.DENIED, ("PUT",), key=r"orders-0/manifest\.json$"))
        for _ in range(2):
            failed = archiver.run().failed
            assert list(failed) == [ORDERS]
            assert "permission for PutObject" in str(failed[ORDERS])
        assert copied(through) == 1
        faults.inject()
        assert archiver.run().failed == {}
        assert copied(through) == 2
    finally:
        archiver.close()


@pytest.mark.parametrize("fault", [s3_faults.LOST_ANSWER, s3_faults.SILENT])
def test_a_state_whose_answer_was_lost_is_not_a_conflict(
    fault: str, source: LogDirectory, faults: S3Faults, through: ObjectStore
) -> None:
    documents = NumberedDocuments(through, "orders-0")
    assert documents.publish(1, {"a": 1})
    faults.inject(Rule(fault, ("PUT",), key=STATE, count=1))
    if fault == s3_faults.SILENT:  # the request never came: the error stays
        with pytest.raises(OSError, match="no successful answer within 6 s"):
            documents.publish(2, {"a": 2})
        assert documents.at(2) is None
    assert documents.publish(2, {"a": 2})
    assert documents.numbers() == [1, 2]
    assert copied(through) == 2


def test_a_state_that_came_although_there_was_no_answer_in_time_is_published(
    through: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, create = NumberedDocuments(through, "orders-0"), ObjectStore.create

    def late(self: ObjectStore, key: str, data: bytes) -> bool:
        assert create(self, key, data)
        raise OSError(errno.EIO, "no successful answer within 6 s, retries included", key)

    monkeypatch.setattr(ObjectStore, "create", late)
    assert documents.publish(1, {"a": 1})
    assert copied(through) == 1


def test_another_state_with_the_number_is_a_conflict(through: ObjectStore) -> None:
    documents = NumberedDocuments(through, "orders-0")
    assert documents.publish(1, {"a": 1})
    assert not documents.publish(1, {"a": 2})


@pytest.mark.parametrize("known", [1, 0])
def test_a_state_among_numbers_that_were_deleted_is_taken_back(known: int, store: ObjectStore) -> None:
    """An archiver that stood still for days: an expiry has deleted what it had read, and what it would have met."""
    documents = NumberedDocuments(store, "orders-0")
    for number in range(1, 6):
        assert documents.publish(number, {"a": number})
    for number in range(1, 5):
        documents.delete(number)
    assert not documents.publish(known + 1, {"a": "old"})
    assert documents.numbers() == [5]
    assert copied(store) == 5


def test_a_writer_that_stood_still_before_its_copy_leaves_the_newest_one(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents, put, seconds = NumberedDocuments(store, "orders-0"), ObjectStore.put, [0.0]
    assert documents.publish(1, {"a": 1})
    monkeypatch.setattr(numbered_documents, "running_s", lambda: seconds[0])

    def stopped(self: ObjectStore, key: str, data: bytes) -> None:
        monkeypatch.setattr(ObjectStore, "put", put)
        other = NumberedDocuments(store, "orders-0")
        for number in range(3, 6):
            assert other.publish(number, {"a": number})
        for number in range(1, 5):
            other.delete(number)
        seconds[0] += 7200
        put(self, key, data)

    monkeypatch.setattr(ObjectStore, "put", stopped)
    assert not documents.publish(2, {"a": 2})
    assert copied(store) == 5


def test_a_document_with_the_number_of_another_one_is_refused(store: ObjectStore) -> None:
    documents = NumberedDocuments(store, "orders-0")
    documents.publish(1, {"a": 1})
    store.put(
        "orders-0/manifests/00000000000000000002.json", store.read("orders-0/manifests/00000000000000000001.json")
    )
    with pytest.raises(OSError, match="is a copy of number 1; delete it") as found:
        documents.newest()
    assert found.value.errno == errno.EINVAL


def test_a_document_that_is_too_large_is_neither_read_whole_nor_written(
    store: ObjectStore, source: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker.put(store)
    mark = store.read(marker.NAME)
    monkeypatch.setattr(numbered_documents, "BYTES_MAX", 3000)
    documents, asked, call = NumberedDocuments(store, "orders-0"), [], ObjectStore._call

    def counted(self: ObjectStore, method: str, key: str, *arguments: object, **named: object) -> object:
        found = call(self, method, key, *arguments, **named)
        asked.append(len(found) if isinstance(found, bytes) else 0)
        return found

    monkeypatch.setattr(ObjectStore, "_call", counted)
    for key in ("orders-0/manifest.json", "orders-0/manifests/00000000000000000001.json"):
        store.put(key, bytes(100_000))
        with pytest.raises(OSError, match="has more than 3000 bytes: it is not a document of an archive") as found:
            documents.newest(1 if "manifests/" in key else None)
        assert (found.value.errno, found.value.filename) == (errno.EFBIG, f"{store.url}/{key}")
        store.delete([key])
    assert max(asked) == 3001
    store.put(marker.NAME, bytes(100_000))
    with pytest.raises(OSError, match="not a document of an archive"):
        marker.check(store)
    store.put(marker.NAME, mark)
    source.configure("orders", {"segment.bytes": "1024"})
    for number in range(20):
        source.log(ORDERS).append(sealed(b"%d" % number * 400))
    archiver = Archiver(source, store)
    (error,) = archiver.run().failed.values()
    archiver.close()
    assert "too many segments; raise segment.bytes" in str(error)
    assert documents.numbers() == []


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b"[]", b"\xff"])
def test_a_document_that_is_no_json_is_one_sentence(body: bytes) -> None:
    import hashlib

    data = encoded({})
    data = data[: data.index(b"\n") + 1].replace(
        hashlib.sha256(b"{}\n").hexdigest().encode(), hashlib.sha256(body).hexdigest().encode()
    )
    with pytest.raises(OSError, match="is not a document of an archive") as found:
        decoded(data + body, "s3://b/k")
    assert found.value.errno == errno.EINVAL
