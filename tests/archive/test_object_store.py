"""Objects of real servers of S3, Google Cloud Storage, Azure Blob Storage and HDFS, and their errors."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fixtures.stores import s3_server
from fixtures.stores.cloud_servers import CloudServer
from fixtures.stores.s3_faults import NOT_IMPLEMENTED, Rule, S3Faults
from fixtures.stores.s3_server import S3Server

from offsetfs.archive import marker
from offsetfs.archive.numbered_documents import NumberedDocuments, decoded, encoded
from offsetfs.archive.object_store import ObjectInfo, ObjectStore, StoreSettings

pytestmark = pytest.mark.interop


def test_an_object_is_read_whole_and_in_part(cloud_store: ObjectStore) -> None:
    cloud_store.put("a/b", b"0123456789")
    assert cloud_store.read("a/b") == b"0123456789"
    assert cloud_store.read("a/b", 2, 5) == b"234"
    assert cloud_store.size("a/b") == 10
    assert cloud_store.size("a/c") is None


def test_a_range_beyond_the_end_is_an_error(cloud_store: ObjectStore) -> None:
    cloud_store.put("a/b", b"0123456789")
    with pytest.raises(OSError, match="instead of 12") as found:
        cloud_store.read("a/b", 0, 12)
    assert found.value.errno == errno.EIO


def test_an_object_is_read_up_to_a_size(cloud_store: ObjectStore) -> None:
    cloud_store.put("a/b", b"0123456789")
    cloud_store.put("empty", b"")
    assert cloud_store.read_if_present("a/b", 10) == b"0123456789"
    assert cloud_store.read_if_present("a/b", 1 << 28) == b"0123456789"
    assert cloud_store.read_if_present("empty", 10) == b""
    assert cloud_store.read_if_present("none", 10) is None
    with pytest.raises(OSError, match="more than 9 bytes") as found:
        cloud_store.read_if_present("a/b", 9)
    assert (found.value.errno, found.value.filename) == (errno.EFBIG, f"{cloud_store.url}/a/b")


def test_objects_and_names_are_listed(cloud_store: ObjectStore) -> None:
    for key in ("orders-0/manifest.json", "orders-0/segments/0.log", "orders-1/manifest.json", "top.json"):
        cloud_store.put(key, b"x")
    assert list(cloud_store.children()) == ["orders-0", "orders-1", "top.json"]
    assert cloud_store.objects("orders-0") == [
        ObjectInfo("orders-0/manifest.json", 1),
        ObjectInfo("orders-0/segments/0.log", 1),
    ]
    assert cloud_store.objects("none") == [] == list(cloud_store.children("none"))
    cloud_store.delete(["top.json", "never-there"])
    assert not cloud_store.exists("top.json")


def test_listings_go_on_after_a_thousand_names_and_have_sizes_and_times(
    cloud: CloudServer, cloud_store: ObjectStore
) -> None:
    count = 1010 if cloud.scheme == "gs" else 30  # the clients of the others ask for the next page themselves
    before_ms = time.time() * 1000
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: cloud_store.put(f"a/{number:04}", b"x" * (number % 3)), range(count)))
        cloud_store.put("a/b/c", b"")
        cloud_store.put("ab/c", b"of a neighbor with the same beginning")
    found = cloud_store.objects("a")
    assert [(each.key, each.size) for each in found[:-1]] == [(f"a/{number:04}", number % 3) for number in range(count)]
    assert found[-1] == ObjectInfo("a/b/c", 0)
    assert list(cloud_store.children("a")) == [*(f"{number:04}" for number in range(count)), "b"]
    for each in found:  # Azure has whole seconds
        assert each.modified_ms is not None and before_ms - 1000 <= each.modified_ms <= time.time() * 1000, each
    cloud_store.delete([*(each.key for each in found), "never-there"])
    assert [each.key for each in cloud_store.objects("")] == ["ab/c"]


@pytest.mark.parametrize("cloud", ["s3", "gs", "abfs"], indirect=True)  # directories of HDFS are made when needed
def test_a_missing_bucket_is_an_error_of_every_call(cloud: CloudServer) -> None:
    place = f"{cloud.scheme}://no-such-bucket/x"
    calls: list[Callable[[ObjectStore], object]] = [
        lambda store: store.read("a"),
        lambda store: store.read_if_present("a", 10),
        lambda store: store.put("a", b"x"),
        lambda store: store.create("a", b"x"),
        lambda store: list(store.children()),
        lambda store: store.objects(""),
    ]
    for call in calls:
        with pytest.raises(FileNotFoundError, match=r"there is no such (bucket|container); create it") as found:
            call(ObjectStore(place, StoreSettings(timeout_s=10)))
        assert str(found.value.filename).startswith(place)


@pytest.mark.filterwarnings("ignore:Sending a large body directly")
def test_a_large_object_goes_up_whole_whatever_it_holds(cloud_store: ObjectStore) -> None:
    """gcsfs separates the parts of an upload with `==0==`, which a record may hold as well."""
    data = b"before\r\n--==0==--\r\nafter" + bytes(range(256)) * 4 * 4096
    cloud_store.put("large", data)
    assert cloud_store.size("large") == len(data)
    assert cloud_store.read("large") == data
    assert cloud_store.read("large", len(data) - 3) == data[-3:]
    assert cloud_store.create("created", data)
    assert not cloud_store.create("created", b"other")
    assert cloud_store.read("created") == data


def test_a_forked_child_opens_a_store_of_its_own_and_ends(cloud_store: ObjectStore) -> None:
    cloud_store.put("a", b"before")
    program = f"""
import os, sys
from offsetfs.archive.object_store import ObjectStore
store = ObjectStore({cloud_store.url!r})
assert store.read("a") == b"before"
child = os.fork()
if child == 0:
    assert not store.is_of_this_process
    assert ObjectStore({cloud_store.url!r}).read("a") == b"before"
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert store.read("a") == b"before"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_one_of_many_creations_wins(cloud_store: ObjectStore) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if cloud_store.create("only-one", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert cloud_store.read("only-one") == b"%d" % won[0]


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


@pytest.mark.parametrize("name", ["*", "a?b", "[a]", "a#1", "..", "a//b", "."])
def test_names_that_a_library_takes_for_something_else_are_refused(name: str) -> None:
    with pytest.raises(OSError, match=r"must not be empty, \. or \.\., or have one of") as found:
        ObjectStore(f"s3://kafka/{name}/x")
    assert found.value.errno == errno.EINVAL


def test_settings_of_s3_are_refused_for_others() -> None:
    with pytest.raises(OSError, match="those of the bucket for gs://; leave them out"):
        ObjectStore("gs://kafka/x", StoreSettings(storage_class="STANDARD_IA"))


def test_a_url_without_a_bucket_is_refused() -> None:
    for url in ("s3://", "/tmp/x", "kafka://broker"):
        with pytest.raises(OSError, match="s3://BUCKET/PREFIX"):
            ObjectStore(url)


def test_a_document_is_replaced_by_the_next_number(cloud_store: ObjectStore) -> None:
    documents = NumberedDocuments(cloud_store, "orders-0")
    assert documents.newest() is None
    assert documents.publish(1, {"a": 1})
    assert not documents.publish(1, {"a": 2})
    assert documents.publish(2, {"a": 3})
    for found in (documents.newest(), documents.copy()):
        assert found is not None
        assert (found.number, found.content["a"]) == (2, 3)
    assert documents.numbers() == [1, 2]


def test_a_writer_finds_the_newest_number_where_the_copy_is_old_or_damaged(cloud_store: ObjectStore) -> None:
    documents = NumberedDocuments(cloud_store, "orders-0")
    documents.publish(1, {"a": 1})
    old = cloud_store.read("orders-0/manifest.json")
    documents.publish(2, {"a": 2})
    cloud_store.put("orders-0/manifest.json", old)
    newest = documents.newest()
    assert newest is not None and newest.number == 2
    cloud_store.put("orders-0/manifest.json", old[:-5] + b"xxxx\n")
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


@pytest.mark.parametrize("cloud", ["s3", "gs", "abfs"], indirect=True)  # no name in HDFS ends with a slash
def test_folder_markers_of_consoles_are_left_out_of_listings(cloud_store: ObjectStore) -> None:
    """A console creates an empty object whose key ends with a slash for each folder that is made or looked at."""
    cloud_store.put("orders-0/segments/0.part", b"x")
    for key in ("", "orders-0", "orders-0/segments", "empty"):
        store = cloud_store._file_system
        path = f"{cloud_store._path(key)}/"
        cloud_store._call_with(store._pipe_file, "pipe_file", cloud_store.url, path, b"")
    assert [each.key for each in cloud_store.objects("")] == ["orders-0/segments/0.part"]
    assert [each.key for each in cloud_store.objects("orders-0/segments")] == ["orders-0/segments/0.part"]
    assert list(cloud_store.children("orders-0/segments")) == ["0.part"]
    assert list(cloud_store.children("orders-0")) == ["segments"]
    assert "" not in cloud_store.children()
    assert not any("/" in name for name in cloud_store.children())


# --- stores without conditional writes -------------------------------------------------------------------------------


class _IgnoringStore(ObjectStore):
    """A store that takes If-None-Match and replaces the object all the same, as older services do."""

    def create(self, key: str, data: bytes) -> bool:
        self.put(key, data)
        return True


def test_a_store_that_ignores_conditions_is_refused_also_where_an_archive_is(store: ObjectStore) -> None:
    ignoring = _IgnoringStore(store.url, store.settings)
    for _ in range(2):  # a new archive, and one that is there
        with pytest.raises(OSError, match="ignores conditional writes") as refused:
            marker.put(ignoring)
        assert (refused.value.errno, refused.value.filename) == (errno.ENOTSUP, store.url)
    marker.put(store)
    marker.check(store)


def test_a_mark_is_made_once_in_each_kind_of_store(cloud_store: ObjectStore) -> None:
    marker.put(cloud_store)
    content = cloud_store.read(marker.NAME)
    marker.put(cloud_store)
    assert cloud_store.read(marker.NAME) == content


def test_a_store_that_does_not_know_a_header_is_named_with_a_remedy(store: ObjectStore, faults: S3Faults) -> None:
    faults.inject(Rule(NOT_IMPLEMENTED, ("PUT",)))
    strict = ObjectStore(store.url, StoreSettings(timeout_s=10, endpoint=faults.endpoint))
    with pytest.raises(OSError, match=r"refuses a header.*AWS_REQUEST_CHECKSUM_CALCULATION") as refused:
        strict.create("state", b"{}")
    assert refused.value.errno == errno.ENOTSUP
