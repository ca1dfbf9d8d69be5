"""Objects of a real S3 server, and the errors it answers with."""

from __future__ import annotations

import errno
import threading

import pytest
import s3_server
from s3_server import S3Server

from offsetfs.archive.numbered_documents import NumberedDocuments, decoded, encoded
from offsetfs.archive.object_store import ObjectInfo, ObjectStore, StoreSettings

pytestmark = pytest.mark.interop


def test_an_object_is_read_whole_and_in_part(store: ObjectStore) -> None:
    store.put("a/b", b"0123456789")
    assert store.read("a/b") == b"0123456789"
    assert store.read("a/b", 2, 5) == b"234"
    assert store.size("a/b") == 10
    assert store.size("a/c") is None


def test_a_range_beyond_the_end_is_an_error(store: ObjectStore) -> None:
    store.put("a/b", b"0123456789")
    with pytest.raises(OSError, match="instead of 12") as found:
        store.read("a/b", 0, 12)
    assert found.value.errno == errno.EIO


def test_objects_and_names_are_listed(store: ObjectStore) -> None:
    for key in ("orders-0/manifest.json", "orders-0/segments/0.log", "orders-1/manifest.json", "top.json"):
        store.put(key, b"x")
    assert list(store.children()) == ["orders-0", "orders-1", "top.json"]
    assert store.objects("orders-0") == [
        ObjectInfo("orders-0/manifest.json", 1),
        ObjectInfo("orders-0/segments/0.log", 1),
    ]
    assert store.objects("none") == [] == list(store.children("none"))
    store.delete(["top.json", "never-there"])
    assert not store.exists("top.json")


def test_one_of_many_creations_wins(store: ObjectStore) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if store.create("only-one", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.read("only-one") == b"%d" % won[0]


def test_errors_have_a_cause_and_the_url(store: ObjectStore, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match="no such object") as missing:
        store.read("missing")
    assert missing.value.filename == f"{store.url}/missing"
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        ObjectStore("s3://no-such-bucket/x").put("a", b"")
    for name, value in s3.environment(s3_server.READER).items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    reader = ObjectStore(store.url)
    with pytest.raises(OSError, match="permission for PutObject") as denied:
        reader.put("a", b"")
    assert denied.value.errno == errno.EACCES
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(OSError, match=r"not accepted|access denied") as unknown:
        ObjectStore(store.url).put("a", b"")
    assert unknown.value.errno == errno.EACCES
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_server_that_does_not_answer_is_an_error_in_time(store: ObjectStore) -> None:
    silent = ObjectStore("s3://kafka/x", StoreSettings(timeout_s=1, endpoint="http://127.0.0.1:9"))
    with pytest.raises(OSError) as found:
        silent.read("a")
    assert found.value.errno == errno.EIO


def test_a_url_without_a_bucket_is_refused() -> None:
    for url in ("s3://", "/tmp/x", "kafka://broker"):
        with pytest.raises(OSError, match="s3://BUCKET/PREFIX"):
            ObjectStore(url)


def test_a_document_is_replaced_by_the_next_number(store: ObjectStore) -> None:
    documents = NumberedDocuments(store, "orders-0")
    assert documents.newest() is None
    assert documents.publish(1, {"a": 1})
    assert not documents.publish(1, {"a": 2})
    assert documents.publish(2, {"a": 3})
    for found in (documents.newest(), documents.copy()):
        assert found is not None
        assert (found.number, found.content["a"]) == (2, 3)
    assert documents.numbers() == [1, 2]


def test_a_writer_finds_the_newest_number_where_the_copy_is_old_or_damaged(store: ObjectStore) -> None:
    documents = NumberedDocuments(store, "orders-0")
    documents.publish(1, {"a": 1})
    old = store.read("orders-0/manifest.json")
    documents.publish(2, {"a": 2})
    store.put("orders-0/manifest.json", old)
    newest = documents.newest()
    assert newest is not None and newest.number == 2
    store.put("orders-0/manifest.json", old[:-5] + b"xxxx\n")
    newest = documents.newest()
    assert newest is not None and newest.number == 2


def test_a_document_that_is_damaged_newer_or_foreign_is_refused() -> None:
    data = encoded({"a": 1})
    assert decoded(data, "s3://b/k") == {"a": 1}
    for changed, number in (
        (data.replace(b'"a":1', b'"a":2'), errno.EIO),
        (data.replace(b"archive 1", b"archive 2"), errno.EPROTO),
        (b"{}", errno.EINVAL),
    ):
        with pytest.raises(OSError) as found:
            decoded(changed, "s3://b/k")
        assert found.value.errno == number
