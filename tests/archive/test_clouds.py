"""Archives in Google Cloud Storage, Azure and HDFS: written, raced for, read, restored, expired; refusals, faults."""

from __future__ import annotations

import contextlib
import datetime
import errno
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fixtures.logs import archived_logs
from fixtures.logs.planted_logs import sealed
from fixtures.stores import s3_faults
from fixtures.stores.cloud_servers import ACCOUNT, ACCOUNT_KEY, BUCKET, CloudServer
from fixtures.stores.s3_faults import Rule, S3Faults
from fixtures.stores.s3_server import S3Server

import offsetfs
from offsetfs import cli
from offsetfs.archive.archiver import Archiver
from offsetfs.archive.expiry import expire
from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.restore_to_directory import ArchiveRestore, RestoreSelection
from offsetfs.archive.verifying import VerifiedArchive, verify_archive
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
ORDERS = TopicPartition("orders", 0)
DAY_MS = 86_400_000
RACES = 3

CLOUDS = pytest.mark.parametrize("cloud", ["gs", "abfs", "webhdfs"], indirect=True)
OBJECT_STORES = pytest.mark.parametrize("cloud", ["gs", "abfs"], indirect=True)


def newest(store: ObjectStore, partition: str = "orders-0") -> PartitionManifest:
    found = NumberedDocuments(store, partition).newest()
    assert found is not None
    return PartitionManifest.decoded(found.content, store.url)


@CLOUDS
def test_a_log_of_kafka_is_archived_and_restored_byte_for_byte(
    cloud: CloudServer, cloud_store: ObjectStore, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = archived_logs.archive(cloud_store, GOLDEN)
    again = archived_logs.archive(cloud_store, GOLDEN)
    assert (first.published > 10, again.published, again.objects) == (True, 0, 0)
    assert list(verify_archive(cloud_store, done=VerifiedArchive())) == []
    assert cli.run(["cat", cloud_store.url, "codec-zstd-0/3"]) == 0
    with offsetfs.open(GOLDEN) as local:
        value = next(local.partition("codec-zstd-0").read(3, 4)).value
    assert value is not None and capfdbinary.readouterr().out.removesuffix(b"\n") == value
    ArchiveRestore(cloud_store, str(tmp_path / "target"), RestoreSelection()).run()
    logs = sorted(each.relative_to(GOLDEN) for each in GOLDEN.glob("*-[0-9]/*.log"))
    restored = sorted(each.relative_to(tmp_path / "target") for each in tmp_path.glob("target/*-[0-9]/*.log"))
    assert len(restored) > 10 and restored == logs
    for each in logs:
        assert (tmp_path / "target" / each).read_bytes() == (GOLDEN / each).read_bytes(), each


@CLOUDS
def test_racing_archivers_lose_nothing_and_the_store_dates_expiry(
    cloud: CloudServer, cloud_store: ObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    source = LogDirectory.open(str(tmp_path / "source"))
    source.create_partition(ORDERS, {"segment.bytes": "1024", "retention.ms": "1000"})
    log = source.log(ORDERS)
    for turn in range(RACES):
        for _ in range(10):
            log.append(sealed(b"x" * 300))
        start = threading.Barrier(3)
        failed: list[BaseException] = []

        def race(start: threading.Barrier = start, failed: list[BaseException] = failed) -> None:
            directory = LogDirectory.open(source.path, read_only=True)
            archiver = Archiver(directory, ObjectStore(cloud_store.url, StoreSettings(timeout_s=10)))
            start.wait()
            try:
                assert archiver.run().failed == {}
            except BaseException as error:
                failed.append(error)
            finally:
                archiver.close()
                directory.close()

        threads = [threading.Thread(target=race) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert failed == []
        assert newest(cloud_store).end == (turn + 1) * 10
    source.close()
    assert list(verify_archive(cloud_store, done=VerifiedArchive())) == []
    now_ms = newest(cloud_store).time_ms
    named = len(cloud_store.objects("orders-0/segments"))
    done = expire(cloud_store, keep_states_ms=DAY_MS, now_ms=now_ms + DAY_MS // 2)
    assert (done.segments > 0, done.objects) == (True, 0)  # all states and objects are young
    done = expire(cloud_store, keep_states_ms=DAY_MS, now_ms=now_ms + 3 * DAY_MS)
    left = cloud_store.objects("orders-0/segments")
    assert done.objects > named - len(left) > 0
    assert {each.key for each in left} == newest(cloud_store).objects().keys()
    assert list(verify_archive(cloud_store, done=VerifiedArchive())) == []


# --- refusals --------------------------------------------------------------------------------------------------------


def refused(store: ObjectStore, call: Callable[[ObjectStore], object], words: str) -> None:
    with pytest.raises(OSError, match=words) as found:
        call(store)
    assert (found.value.errno, "\n" in str(found.value.strerror)) == (errno.EACCES, False)
    assert str(found.value.filename).startswith(store.url)


def test_credentials_that_azure_refuses(servers: Callable[[str], CloudServer], monkeypatch: pytest.MonkeyPatch) -> None:
    azure = servers("abfs")
    url, settings = azure.url("refusals"), StoreSettings(timeout_s=10, endpoint=azure.endpoint)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    ObjectStore(url, settings).put("a", b"there")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    refused(ObjectStore(url, settings), lambda store: store.read("a"), "the credentials are not accepted")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    for hours, call, words in (
        (1, lambda store: store.put("b", b"x"), "access denied; .* permission for writing objects"),
        (1, lambda store: store.create("b", b"x"), "access denied; .* permission for writing objects"),
        (1, lambda store: store.delete(["a"]), "access denied; .* permission for deleting objects"),
        (-1, lambda store: store.read("a"), "the credentials are not accepted .* correct or renew them"),
    ):
        reader = generate_container_sas(
            ACCOUNT,
            BUCKET,
            account_key=ACCOUNT_KEY,
            permission=ContainerSasPermissions(read=True, list=True),
            expiry=datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=hours),
        )
        monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", reader)
        refused(ObjectStore(url, settings), call, words)


def test_an_azure_account_that_is_not_named_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="set AZURE_STORAGE_CONNECTION_STRING or AZURE_STORAGE_ACCOUNT_NAME"):
        ObjectStore("abfs://kafka/x")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "wrong")
    with pytest.raises(OSError, match="the settings of the storage account are wrong: Connection string"):
        ObjectStore("az://kafka/x")


def test_an_azure_url_names_container_and_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    store = ObjectStore("abfss://kafka@account.dfs.core.windows.net/a/b")
    assert store._root == "kafka/a/b"
    assert store._file_system._client.url == "https://account.blob.core.windows.net/"


def test_an_azure_account_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")  # no other one is looked for
    store = ObjectStore("abfs://kafka/x", StoreSettings(timeout_s=10, endpoint="https://127.0.0.1:9"))
    refused(store, lambda store: store.read("a"), "no credentials were found")


_NEEDS = "does not have storage.objects.create access to the Google Cloud Storage object."
ANSWERS = {
    "denied": (403, f'{{"error":{{"code":403,"message":"me@x.org {_NEEDS}"}}}}'),
    "anonymous": (401, f'{{"error":{{"code":401,"message":"Anonymous caller {_NEEDS}"}}}}'),
    "revoked": (401, '{"error":{"code":401,"message":"Invalid Credentials"}}'),
}
"""What Google Cloud Storage answers, by its documentation; the server of the tests knows no credentials."""


class Answering:
    """A server that gives the same answer to all requests but those for a token, in the place of a provider."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.text, self.token_status = status, text, 200
        self.authorizations: list[str | None] = []
        answering = self

        class _Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answering.authorizations.append(self.headers["Authorization"])
                self._answer(answering.status, answering.text)

            def do_PUT(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/token":
                    error = '{"error":"invalid_grant","error_description":"Invalid JWT"}'
                    token = '{"access_token":"of-the-account","expires_in":3600,"token_type":"Bearer"}'
                    self._answer(answering.token_status, token if answering.token_status == 200 else error)
                else:
                    self._answer(answering.status, answering.text)

            def _answer(self, status: int, text: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *words: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[Answering]:
        with self._server as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()


def test_the_credentials_of_google_are_those_of_its_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with Answering(200, "the bytes").running() as google:
        account = {"type": "service_account", "client_email": "me@x.org", "private_key": pem, "project_id": "p"}
        (tmp_path / "key.json").write_text(json.dumps({**account, "token_uri": f"{google.endpoint}/token"}))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
        settings = StoreSettings(timeout_s=60, endpoint=google.endpoint)
        assert ObjectStore("gs://kafka/x", settings).read("a") == b"the bytes"
        assert google.authorizations == ["Bearer of-the-account"]
        google.token_status = 400
        started = time.monotonic()
        refused(ObjectStore("gs://kafka/x", settings), lambda store: store.read("a"), "credentials are not accepted")
        assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("denied", "access denied; the credentials need the permission for storage.objects.create"),
        ("anonymous", "no credentials were found; configure"),
        ("revoked", "the credentials are not accepted"),
    ],
)
def test_credentials_that_google_refuses(answer: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Answering(*ANSWERS[answer]).running() as google:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", google.endpoint)
        started = time.monotonic()
        refused(ObjectStore("gs://kafka/x", StoreSettings(timeout_s=60)), lambda store: store.put("a", b""), words)
        assert time.monotonic() - started < 30  # it is not tried again


@pytest.mark.parametrize(("code", "exists"), [("BlobAlreadyExists", True), ("BlobImmutableDueToPolicy", False)])
def test_only_the_answers_for_an_existing_object_mean_that_it_exists(
    code: str, exists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", ACCOUNT_KEY)
    text = f'{{"error":{{"code":"{code}","message":"a message"}}}}'
    with Answering(409, text, {"x-ms-error-code": code}).running() as azure:
        store = ObjectStore("abfs://kafka/x", StoreSettings(timeout_s=5, endpoint=azure.endpoint))
        if exists:
            assert not store.create("a", b"x")
            return
        with pytest.raises(OSError) as found:
            store.create("a", b"x")
        assert found.value.errno == errno.EIO


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def through(cloud: CloudServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[S3Faults, ObjectStore]]:
    """The proxy before the server, and a store that uses it, with the object `a`."""
    port = int(cloud.endpoint.split(":")[2].split("/")[0])
    with s3_faults.running(S3Server(port)) as proxy:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value.replace(f"127.0.0.1:{port}", proxy.endpoint.removeprefix("http://")))
        store = ObjectStore(cloud.url("faults"), StoreSettings(timeout_s=6))
        store.put("a", b"0123456789")
        proxy.forget()
        yield proxy, store


@OBJECT_STORES  # HDFS: test_hdfs
def test_faults_of_a_moment_are_retried_and_lasting_ones_end_in_time(
    cloud: CloudServer, through: tuple[S3Faults, ObjectStore]
) -> None:
    proxy, store = through
    for fault in (s3_faults.UNAVAILABLE, s3_faults.REFUSED, s3_faults.LOST_ANSWER):
        proxy.forget()
        proxy.inject(Rule(fault, ("GET",), count=1))
        assert store.read("a") == b"0123456789"
        assert [each.fault for each in proxy.requests()] == [fault, ""]
    proxy.inject(Rule(s3_faults.LOST_ANSWER, ("PUT", "POST"), count=1))
    # The repeated request finds the object that the first one has created; the caller takes it for another writer's.
    assert not store.create("b", b"mine")
    assert store.read("b") == b"mine"
    for fault in (s3_faults.UNAVAILABLE, s3_faults.SILENT):
        proxy.inject(Rule(fault))
        started = time.monotonic()
        with pytest.raises(OSError) as found:
            store.read("a")
        assert (found.value.errno, found.value.filename) == (errno.EIO, f"{store.url}/a")
        assert time.monotonic() - started < 30
    proxy.inject()
    assert store.read("a") == b"0123456789"
