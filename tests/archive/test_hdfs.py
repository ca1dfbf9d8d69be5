"""Archives in HDFS: a real namenode and datanode, their faults, what killed writers leave, users, name services."""

from __future__ import annotations

import contextlib
import errno
import functools
import http.server
import os
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs import archived_logs
from fixtures.logs.planted_logs import sealed
from fixtures.security import certificates
from fixtures.stores import s3_faults
from fixtures.stores.hdfs_cluster import SERVICE, HdfsCluster
from fixtures.stores.s3_faults import Rule, S3Faults
from fixtures.stores.s3_server import S3Server

import offsetfs
from offsetfs.archive import reading
from offsetfs.archive.expiry import expire
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.verifying import VerifiedArchive, verify_archive
from offsetfs.archive.webhdfs_objects import UNFINISHED
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.interop

ORDERS = TopicPartition("orders", 0)
DAY_MS = 86_400_000
TIMEOUT_S = 6.0
MARGIN_S = 30.0
"""What a busy machine may add to a time limit."""
KILLS = 6
OFFSETFS = [sys.executable, "-m", "offsetfs"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OFFSETFS, *words], capture_output=True, text=True, timeout=120)


@pytest.fixture
def place(hdfs: HdfsCluster, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of an empty directory, of this test alone; requests are those of a user who may do everything."""
    monkeypatch.setenv("HADOOP_USER_NAME", hdfs.user)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    return f"/tests/{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def store(hdfs: HdfsCluster, place: str) -> ObjectStore:
    return ObjectStore(f"webhdfs://{hdfs.addresses[0]}{place}", StoreSettings(timeout_s=TIMEOUT_S))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log directory with 50 records in several segments."""
    path = tmp_path / "source"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    directory.create_partition(ORDERS, {"segment.bytes": "2000", "retention.ms": "-1"})
    directory.close()
    append(path, 50)
    return path


def append(source: Path, count: int) -> None:
    directory = LogDirectory.open(str(source))
    for number in range(count):
        directory.log(ORDERS).append(sealed(b"%06d" % number * 20))
    directory.close()


def failed(call: Callable[[], object], number: int, words: str) -> OSError:
    with pytest.raises(OSError, match=words) as found:
        call()
    assert (found.value.errno, "\n" in str(found.value.strerror)) == (number, False)
    return found.value


# --- whole files -----------------------------------------------------------------------------------------------------


def test_each_block_is_synced_to_the_disk_before_an_object_gets_its_name(hdfs: HdfsCluster, store: ObjectStore) -> None:
    before = hdfs.synced_blocks()
    store.put("a", b"x")
    assert hdfs.synced_blocks() > before


def test_a_reader_of_an_object_that_is_replaced_sees_one_of_both_whole(store: ObjectStore) -> None:
    texts = [bytes([letter]) * 300_000 for letter in b"ab"]
    store.put("copy", texts[0])
    is_over, seen = threading.Event(), set[bytes]()

    def read() -> None:
        while not is_over.is_set():
            seen.add(store.read("copy"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for turn in range(40):
            store.put("copy", texts[turn % 2])
    finally:
        is_over.set()
        reader.join()
    assert seen <= set(texts)


def test_what_a_killed_writer_leaves_is_not_seen_and_expires_after_a_day(
    hdfs: HdfsCluster, place: str, store: ObjectStore, source: Path
) -> None:
    archived_logs.archive(store, source)
    objects, names = store.objects(""), list(store.children())
    # The state that a writer leaves that is killed before the rename.
    unfinished = ObjectStore(f"webhdfs://{hdfs.addresses[0]}{place}/{UNFINISHED}")
    unfinished.put("0123456789abcdef", b"half of an obj")
    assert (store.objects(""), list(store.children())) == (objects, names)
    assert list(verify_archive(store, done=VerifiedArchive())) == []
    now_ms = time.time_ns() // 1_000_000
    done = expire(store, keep_states_ms=7 * DAY_MS, now_ms=now_ms + DAY_MS // 2)
    assert [each.key for each in store.objects(UNFINISHED)] == [f"{UNFINISHED}/0123456789abcdef"]
    assert done.objects == 0
    done = expire(store, keep_states_ms=7 * DAY_MS, now_ms=now_ms + 2 * DAY_MS)
    assert (done.objects, done.bytes) == (1, 14)
    assert store.objects(UNFINISHED) == []
    assert store.objects("") == objects


def test_an_archiver_of_hdfs_that_is_killed_anywhere_damages_nothing(
    store: ObjectStore, source: Path, tmp_path: Path
) -> None:
    killed = 0
    for number in range(KILLS):
        append(source, 30)
        archiver = subprocess.Popen([*OFFSETFS, "archive", str(source), store.url], stdout=subprocess.DEVNULL)
        before = len(store.objects(""))
        until = time.monotonic() + 20
        while archiver.poll() is None and time.monotonic() < until:
            if len(store.objects("")) >= before + 1 + number % 3:  # it has begun to write
                archiver.send_signal(signal.SIGKILL)
                break
        killed += archiver.wait(60) != 0
        assert list(verify_archive(store, done=VerifiedArchive())) == []
    assert killed >= KILLS // 2
    done = run("archive", str(source), store.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("verify", store.url).returncode == 0
    assert run("restore", store.url, str(tmp_path / "target")).returncode == 0
    logs = sorted(each.name for each in (source / "orders-0").glob("*.log"))
    assert len(logs) > 10
    for name in logs:
        assert (tmp_path / "target" / "orders-0" / name).read_bytes() == (source / "orders-0" / name).read_bytes()


def test_an_archive_in_hdfs_is_mounted_opened_and_queried(store: ObjectStore, source: Path, tmp_path: Path) -> None:
    assert run("archive", str(source), store.url).returncode == 0
    with offsetfs.open(source) as local, offsetfs.open(store.url) as remote:
        found = [each.value for each in remote.partition("orders-0").read(0, 50)]
        assert found == [each.value for each in local.partition("orders-0").read(0, 50)]
        assert len(found) == 50
    counted = run("sql", store.url, "SELECT count(*) AS records FROM orders")
    assert (counted.returncode, "50" in counted.stdout) == (0, True)
    point = tmp_path / "mnt"
    point.mkdir()
    mounted = run("mount", store.url, str(point))
    assert mounted.returncode == 0, mounted.stderr
    try:
        assert (point / "orders-0" / "42").read_bytes() == found[42]
        assert (point / "orders-0" / "last" / "50").read_bytes().count(b"\n") == 50
    finally:
        assert run("umount", str(point)).returncode == 0


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def through(hdfs: HdfsCluster, place: str) -> Iterator[tuple[S3Faults, ObjectStore]]:
    """The proxy before the namenode, and a store that uses it, with the object `a`."""
    with s3_faults.running(S3Server(int(hdfs.addresses[0].split(":")[1]))) as proxy:
        address = proxy.endpoint.removeprefix("http://")
        store = ObjectStore(f"webhdfs://{address}{place}", StoreSettings(timeout_s=TIMEOUT_S))
        store.put("a", b"0123456789")
        proxy.forget()
        yield proxy, store


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_creation_whose_answer_is_lost_is_known_to_have_happened(
    number: int, through: tuple[S3Faults, ObjectStore]
) -> None:
    """The requests are CREATE, RENAME, and once more for a new directory; each may be executed without an answer."""
    proxy, store = through
    passes = [Rule(s3_faults.SLOW_START, ("PUT",), count=number)] if number else []
    proxy.inject(*passes, Rule(s3_faults.LOST_ANSWER, ("PUT",), count=1))
    assert store.create("new/b", b"mine")
    assert [each.fault for each in proxy.requests()].count(s3_faults.LOST_ANSWER) == 1
    proxy.inject()
    assert not store.create("new/b", b"of another writer")
    assert store.read("new/b") == b"mine"
    assert [each.key for each in store.objects("new")] == ["new/b"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_replacement_whose_answer_is_lost_has_happened(number: int, through: tuple[S3Faults, ObjectStore]) -> None:
    proxy, store = through
    passes = [Rule(s3_faults.SLOW_START, ("PUT",), count=number)] if number else []
    proxy.inject(*passes, Rule(s3_faults.LOST_ANSWER, ("PUT",), count=1))
    store.put("a", b"newer")
    assert store.read("a") == b"newer"


def test_faults_of_the_namenode_are_retried_and_lasting_ones_end_in_time(
    through: tuple[S3Faults, ObjectStore],
) -> None:
    proxy, store = through
    for fault in (s3_faults.UNAVAILABLE, s3_faults.REFUSED, s3_faults.LOST_ANSWER, s3_faults.SILENT):
        proxy.inject(Rule(fault, ("GET",), count=1))
        assert store.read("a") == b"0123456789"
    for fault in (s3_faults.UNAVAILABLE, s3_faults.SILENT, s3_faults.REFUSED):
        proxy.inject(Rule(fault))
        started = time.monotonic()
        error = failed(lambda: store.read("a"), errno.EIO, "127.0.0.1|no successful answer")
        assert error.filename == f"{store.url}/a"
        assert time.monotonic() - started < TIMEOUT_S + MARGIN_S
    proxy.inject()
    assert store.read("a") == b"0123456789"


def test_another_datanode_is_asked_in_the_place_of_one_that_is_gone(hdfs: HdfsCluster, store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    with hdfs.without_datanodes(1):
        for number in range(30):  # the namenode chooses one of them for each request, whether it answers or not
            assert store.read("a", 2, 4) == b"23"
            assert store.create(f"b{number}", b"x")
    assert store.read("b7") == b"x"


def test_datanodes_that_are_all_gone_end_reads_and_writes_in_time(hdfs: HdfsCluster, store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    with hdfs.without_datanodes(2):
        for call in (lambda: store.read("a"), lambda: store.create("b", b"x")):
            started = time.monotonic()
            failed(call, errno.EIO, r"no connection to http://|HDFS (has no datanode|refuses it)|no successful answer")
            assert time.monotonic() - started < TIMEOUT_S + MARGIN_S
    assert store.read("a") == b"0123456789"
    assert store.create("b", b"x")


def test_a_namenode_that_ends_amid_a_read_is_an_error_in_time(
    source: Path, through: tuple[S3Faults, ObjectStore]
) -> None:
    proxy, store = through
    store.delete(["a"])
    archived_logs.archive(store, source)
    reading.attach(store.url, reading.ReadSettings(cache_size=0, timeout_s=TIMEOUT_S))
    try:
        with offsetfs.open(store.url) as remote:
            records = remote.partition("orders-0").read(0, 50)
            next(records)
            proxy.inject(Rule(s3_faults.SILENT))
            started = time.monotonic()
            failed(lambda: list(records), errno.EIO, "no answer from http://127.0.0.1|no successful answer")
            assert time.monotonic() - started < TIMEOUT_S + MARGIN_S
            proxy.inject()
            assert len(list(remote.partition("orders-0").read(0, 50))) == 50
    finally:
        reading.detach(store.url)


def test_safe_mode_refuses_writes_with_the_remedy_and_reads_go_on(hdfs: HdfsCluster, store: ObjectStore) -> None:
    store.put("a", b"there")
    hdfs.set_safe_mode(True)
    try:
        for call in (lambda: store.create("b", b"x"), lambda: store.delete(["a"])):
            failed(call, errno.EIO, "the namenode is in safe mode.*`hdfs dfsadmin -safemode get`")
        assert store.read("a") == b"there"
    finally:
        hdfs.set_safe_mode(False)
    assert store.create("b", b"x")


# --- users and addresses ---------------------------------------------------------------------------------------------


def test_a_user_without_permission_is_named_with_the_remedy(
    hdfs: HdfsCluster, place: str, store: ObjectStore, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived_logs.archive(store, source)
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    with offsetfs.open(store.url) as remote:
        assert len(list(remote.partition("orders-0").read(0, 50))) == 50  # all may read it
    append(source, 10)
    done = run("archive", str(source), store.url)
    assert done.returncode == 1  # before any partition: the archive is tried for conditional writes
    assert "access denied: Permission denied: user=alice, access=WRITE" in done.stderr
    assert "HADOOP_USER_NAME names another user than alice" in done.stderr
    hdfs.make_directory(f"{place}/hidden", 0o700)
    hidden = ObjectStore(f"{store.url}/hidden", StoreSettings(timeout_s=TIMEOUT_S))
    for call in (lambda: hidden.read("a"), lambda: hidden.objects(""), lambda: hidden.create("a", b"")):
        failed(call, errno.EACCES, "user=alice")


def test_a_name_service_is_used_through_whichever_namenode_is_active(
    hdfs: HdfsCluster, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.configuration(tmp_path)))
    stores = [
        ObjectStore(f"{authority}{place}", StoreSettings(timeout_s=20))
        for authority in (f"webhdfs://{SERVICE}", f"hdfs://{SERVICE}", f"hdfs://{hdfs.rpc_address}")
    ]
    assert stores[0].create("a", b"first")
    assert [each.read("a") for each in stores] == [b"first"] * 3
    with hdfs.second_namenode_active():
        assert not stores[0].create("a", b"other")
        assert stores[0].create("b", b"second")
        assert stores[1].read("b") == b"second"
        # An address names one namenode; it is a standby now.
        alone = ObjectStore(f"hdfs://{hdfs.rpc_address}{place}", StoreSettings(timeout_s=2))
        failed(lambda: alone.create("c", b""), errno.EIO, "StandbyException|no successful answer")
    assert stores[0].create("c", b"third")
    assert [each.key for each in stores[1].objects("")] == ["a", "b", "c"]


class _Answers(http.server.BaseHTTPRequestHandler):
    """The answers of a cluster with Kerberos, of a server that is no namenode, and of a namenode without files."""

    def do_GET(self) -> None:
        is_kerberos = self.path.startswith("/webhdfs/v1/kerberos")
        is_empty = self.path.startswith("/webhdfs/v1/empty")
        error = b'{"RemoteException":{"exception":"FileNotFoundException","message":"File does not exist"}}'
        text = error if is_empty else b"<html>"
        self.send_response(401 if is_kerberos else 404)
        if is_kerberos:
            self.send_header("WWW-Authenticate", "Negotiate")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: object) -> None:
        pass


def test_kerberos_and_servers_of_something_else_are_refused_in_one_sentence(place: str) -> None:
    with answering() as port:
        for path, number, words in (
            ("kerberos", errno.EACCES, "asks for Kerberos, which offsetfs does not have"),
            ("other", errno.EIO, r"is not a WebHDFS service \(status 404\); give the port of dfs.namenode.http"),
        ):
            store = ObjectStore(f"webhdfs://127.0.0.1:{port}/{path}", StoreSettings(timeout_s=TIMEOUT_S))
            failed(functools.partial(store.read_if_present, "a", 10), number, words)
            failed(functools.partial(store.objects, ""), number, words)


def test_swebhdfs_trusts_the_certificates_of_the_system_and_no_others() -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.server().chain, certificates.server().key)
    with answering(tls) as port:
        program = f"""
from offsetfs.archive.object_store import ObjectStore
print(ObjectStore("swebhdfs://127.0.0.1:{port}/empty").exists("a"))
"""
        for trusted, words in (
            ({"SSL_CERT_FILE": str(certificates.authority().chain)}, "False"),
            ({}, f"no TLS connection to https://127.0.0.1:{port}: .*; SSL_CERT_FILE names the certificates that are"),
        ):
            done = subprocess.run(
                [sys.executable, "-c", program], env=os.environ | trusted, capture_output=True, text=True, timeout=60
            )
            assert re.search(words, done.stdout + done.stderr), done


@contextlib.contextmanager
def answering(tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Yield the port of a server with the answers of `_Answers`."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
