"""Reading an archive in place: the same records as from the log directory, few requests, and errors that name a URL."""

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from fixtures.logs import archived_logs, schema_records
from fixtures.logs.remote_heads import NOTE, check_commands, make_log_with_remote_head
from fixtures.machine.waiting import soon
from fixtures.stores import s3_faults
from fixtures.stores.s3_faults import Rule, S3Faults

import offsetfs
from offsetfs import cli
from offsetfs.archive import block_fetcher, reading
from offsetfs.archive.block_cache import BlockCache
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.reading import ReadSettings
from offsetfs.storage import LogDirectory, TopicPartition, files

pytestmark = pytest.mark.interop

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.glob("kafka-*") if path.is_dir())


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The requests of this process to object storage: the operation, and the URL or path."""
    found: list[tuple[str, str]] = []
    run = ObjectStore._run

    def counted(self: ObjectStore, asynchronous: str, synchronous: str, url: str, *rest: object, **named: object):  # type: ignore[no-untyped-def]
        found.append((synchronous, url))
        return run(self, asynchronous, synchronous, url, *rest, **named)

    monkeypatch.setattr(ObjectStore, "_run", counted)
    return found


@contextlib.contextmanager
def attached(store: ObjectStore, cache: Path, **settings: object) -> Iterator[str]:
    """Attach the archive of a store for the block, with a cache of its own."""
    reading.attach(store.url, ReadSettings(cache=str(cache), timeout_s=10, **settings))  # type: ignore[arg-type]
    try:
        yield store.url
    finally:
        reading.detach(store.url)


def test_each_command_names_what_is_only_in_remote_storage(
    store: ObjectStore, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """They named it for log directories alone: a reader took the archive for complete."""
    source = make_log_with_remote_head(tmp_path / "source")
    assert cli.run(["archive", str(source), store.url]) == 0
    capfd.readouterr()
    check_commands(store.url, capfd)
    with mounted(store.url, tmp_path / "mnt", "-o", f"cache={tmp_path / 'cache'}") as tree:
        assert (tree / "orders-0/values").read_text().startswith("value 10")
        assert f"open orders-0/values: {NOTE}; a consumer" in (tree / ".offsetfs/errors").read_text()


def test_schemas_of_an_archive_are_those_of_the_directory(
    store: ObjectStore, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    schema_records.write_schemas(source, [schema_records.schema_record("orders-value", n, n, "{}") for n in (1, 2)])
    schema_records.write_log(source, "orders-0", [(None, b"\0\0\0\0%c" % (1 + n % 3), ()) for n in range(500)])
    archived_logs.archive(store, source)
    for words in ((), ("--usage", "all", "--json"), ("orders-value",)):
        assert cli.run(["schemas", str(source), *words]) == 0
        local = capfd.readouterr()
        assert cli.run(["schemas", store.url, *words]) == 0
        assert capfd.readouterr() == local and local.out


def test_what_is_found_in_an_archive_is_what_the_directory_has(
    store: ObjectStore, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source = GOLDEN / "kafka-4.1"
    archived_logs.archive(store, source)
    for words in (("--text", "7", "--paths"), ("--last", "5"), ("--where", "value_text LIKE '%7%'")):
        assert cli.run(["find", str(source), *words]) == 0
        local = capfdbinary.readouterr()
        assert cli.run(["find", store.url, *words]) == 0
        assert capfdbinary.readouterr() == local and local.out


@pytest.mark.parametrize("version", VERSIONS)
def test_an_archive_has_the_records_of_every_golden_log(store: ObjectStore, tmp_path: Path, version: str) -> None:
    source = GOLDEN / version
    archived_logs.archive(store, source)
    with attached(store, tmp_path / "cache") as url, offsetfs.open(url) as remote, offsetfs.open(source) as local:
        assert remote.groups() == local.groups()
        assert [each.name for each in remote.partitions()] == [each.name for each in local.partitions()]
        count = 0
        for mine, theirs in zip(remote.partitions(), local.partitions(), strict=True):
            assert (mine.start_offset, mine.end_offset) == (theirs.start_offset, theirs.end_offset), mine.name
            found = b"".join(mine.ndjson())
            assert found == b"".join(theirs.ndjson()), mine.name
            count += found.count(b"\n")
        assert count


# --- requests --------------------------------------------------------------------------------------------------------


def small_logs(path: Path, *, partitions: int = 1, records: int = 400, value: int = 2000) -> Path:
    """Create a log directory with several segments a partition, and more blocks than one in each."""
    path.mkdir()
    settings = {"segment.bytes": "300000"}
    with offsetfs.open(path, "a", settings=settings) as data:
        for partition in data.create("orders", partitions, settings={"retention.ms": "12345678"}):
            for first in range(0, records, 10):
                partition.extend([offsetfs.NewRecord(bytes([n % 256]) * value) for n in range(first, first + 10)])
    return path


def test_a_record_takes_three_requests_and_an_opening_three(
    store: ObjectStore, tmp_path: Path, requests: list[tuple[str, str]]
) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    requests.clear()
    with attached(store, tmp_path / "cache") as url, offsetfs.open(url) as data:
        assert len(requests) == 3, requests
        requests.clear()
        record = data.partition("orders-0").record(30)
        assert record is not None and record.value == bytes([30]) * 2000
        assert len(requests) <= 3, requests
        requests.clear()
        assert data.partition("orders-0").record(31) is not None
        assert requests == []


@pytest.mark.parametrize("batch_bytes", [100_000, 130_000, 300_000])
def test_a_record_in_a_batch_of_several_blocks_takes_three_requests(
    store: ObjectStore, tmp_path: Path, requests: list[tuple[str, str]], batch_bytes: int
) -> None:
    path, count = tmp_path / "logs", 12
    path.mkdir()
    with offsetfs.open(path, "a") as data:
        (partition,) = data.create("orders")
        for _ in range(count):
            partition.extend([offsetfs.NewRecord(os.urandom(batch_bytes // 2)) for _ in range(2)])
    archived_logs.archive(store, path, part_bytes=100 << 20)
    for offset in (0, 5, 10, 2 * count - 1):
        with attached(store, tmp_path / f"cache-{offset}") as url, offsetfs.open(url) as data:
            requests.clear()
            record = data.partition("orders-0").record(offset)
            assert record is not None and len(record.value or b"") == batch_bytes // 2
            assert len(requests) <= 3, requests


def test_a_thousand_partitions_take_few_requests(
    store: ObjectStore, tmp_path: Path, requests: list[tuple[str, str]]
) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs", records=10))
    document = store.read("orders-0/manifest.json")
    for number in range(1, 1000):
        store.put(f"many-{number}/manifest.json", document)
    requests.clear()
    with attached(store, tmp_path / "cache") as url, offsetfs.open(url) as data:
        assert len(data.partitions()) == 1000
    assert len(requests) <= 20


def test_a_sequential_reader_fetches_ahead_and_a_random_one_does_not(
    store: ObjectStore, tmp_path: Path, requests: list[tuple[str, str]]
) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs", records=1000), part_bytes=1 << 20)
    with attached(store, tmp_path / "cache") as url, offsetfs.open(url) as data:
        requests.clear()
        assert sum(1 for _ in data.partition("orders-0").read()) == 1000
        blocks = 1000 * 2000 // archived_logs.BLOCK_BYTES
        # Of each segment: the side object, and fewer requests than blocks.
        assert len([url for _, url in requests if url.endswith(".part")]) < blocks * 0.8, requests


def test_a_reader_of_a_range_fetches_no_block_behind_it(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a") as data:
        (partition,) = data.create("orders")
        for first in range(0, 4000, 4):
            partition.extend([offsetfs.NewRecord(bytes([n % 256]) * 2000) for n in range(first, first + 4)])
    archived_logs.archive(store, path, part_bytes=100 << 20)
    fetched = []
    read = ObjectStore.read

    def counted(self: ObjectStore, key: str, start: int = 0, stop: int | None = None) -> bytes:
        found = read(self, key, start, stop)
        if key.endswith(".part"):
            fetched.append((start, start + len(found)))
        return found

    monkeypatch.setattr(ObjectStore, "read", counted)
    block_bytes = archived_logs.BLOCK_BYTES
    for start, stop in ((0, 800), (800, 1600), (802, 1601), (3000, 3001), (3200, 4000), (1000, 1000)):
        fetched.clear()
        with attached(store, tmp_path / f"cache-{start}-{stop}") as url, offsetfs.open(url) as data:
            found = [record.offset for record in data.partition("orders-0").read(start, stop)]
            while any(each._in_flight for each in list(block_fetcher._fetchers)):
                time.sleep(0.01)  # requests ahead of the reader
        assert found == list(range(start, stop))
        # The range, the blocks that it shares with its neighbors, and the look-up of its first offset.
        size = (stop - start) * 2020
        assert sum(high - low for low, high in fetched) <= size + 3 * block_bytes, (start, stop, fetched)
        assert all(high <= stop * 2020 + 2 * block_bytes for _, high in fetched), (start, stop, fetched)


def test_settings_and_log_start_come_with_the_archive(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs", records=10))
    with attached(store, tmp_path / "cache") as url:
        directory = LogDirectory.open(url, read_only=True)
        assert directory.log(TopicPartition("orders", 0)).config.retention_ms == 12345678
        directory.close()


# --- damage ----------------------------------------------------------------------------------------------------------


def parts(store: ObjectStore) -> list[str]:
    return [each.key for each in store.objects("orders-0/segments") if each.key.endswith(".part")]


def readable(url: str, count: int) -> tuple[list[int], list[OSError]]:
    """Return the offsets that can be read one by one, and the errors of the others."""
    found, errors = [], []
    with offsetfs.open(url) as data:
        partition = data.partition("orders-0")
        for offset in range(count):
            try:
                record = partition.record(offset)
            except OSError as error:
                errors.append(error)
            else:
                assert record is not None and record.value == bytes([offset % 256]) * 2000
                found.append(offset)
    return found, errors


@pytest.mark.parametrize("kind", ["missing", "damaged"])
def test_a_lost_object_is_named_and_its_neighbors_stay_readable(store: ObjectStore, tmp_path: Path, kind: str) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"), part_bytes=2 * archived_logs.BLOCK_BYTES)
    key = parts(store)[1]
    if kind == "missing":
        store.delete([key])
    else:
        store.put(key, bytes(store.size(key) or 0))
    with attached(store, tmp_path / "cache") as url:
        found, errors = readable(url, 400)
    assert {(each.errno, each.filename) for each in errors} == {(errno.EIO, f"{url}/{key}")}
    assert all(f"is {kind}" in str(each) and "of orders-0 cannot be read" in str(each) for each in errors)
    assert 0 < len(errors) < 120
    assert len(found) == 400 - len(errors)
    lost = re.search(r"offsets (\d+) to (\d+) of", str(errors[0]))
    assert lost is not None and int(lost[1]) <= min(set(range(400)) - set(found)) <= int(lost[2])


def test_a_lost_side_object_names_the_segment(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    key = next(each.key for each in store.objects("orders-0/segments") if each.key.endswith(".side"))
    store.delete([key])
    with attached(store, tmp_path / "cache") as url:
        found, errors = readable(url, 400)
    assert found and {(each.errno, each.filename) for each in errors} == {(errno.EIO, f"{url}/{key}")}


def test_a_place_without_an_archive_is_refused(store: ObjectStore) -> None:
    with pytest.raises(OSError, match="is not an archive of offsetfs") as raised:
        offsetfs.open(store.url)
    assert raised.value.filename == store.url
    with pytest.raises(OSError, match="there is no such bucket"):
        offsetfs.open("s3://nosuchbucket/kafka")


def test_an_archive_is_not_written(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs", records=10))
    with attached(store, tmp_path / "cache") as url:
        for change in (
            lambda: offsetfs.open(url, "a"),
            lambda: files.open_file(f"{url}/x", create=True),
            lambda: files.replace_file(f"{url}/x", b""),
            lambda: files.make_directory(f"{url}/x-0"),
            lambda: files.remove_file(f"{url}/orders-0/{0:020d}.log"),
            lambda: files.rename(f"{url}/orders-0", f"{url}/x-0"),
        ):
            with pytest.raises(OSError) as raised:
                change()
            assert (raised.value.errno, str(raised.value.filename).startswith(url)) == (errno.EROFS, True)


# --- the cache -------------------------------------------------------------------------------------------------------

READ = """
import sys
from offsetfs.archive import block_fetcher, reading
from offsetfs.archive.object_store import ObjectStore
import offsetfs
count, run = [0], ObjectStore._run
def counted(self, *args, **named):
    count[0] += ".part" in args[2] or ".side" in args[2]
    return run(self, *args, **named)
ObjectStore._run = counted
reading.attach(sys.argv[1], reading.ReadSettings(cache=sys.argv[2]))
with offsetfs.open(sys.argv[1]) as data:
    print(sum(len(r.value) for r in data.partition("orders-0").read()), count[0])
"""


def test_processes_share_the_cache_and_a_damaged_block_is_fetched_again(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))

    def read() -> tuple[int, int]:
        command = [sys.executable, "-c", READ, store.url, str(tmp_path / "cache")]
        size, count = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        return int(size), int(count)

    size, count = read()
    assert size == 400 * 2000 and count > 5
    assert read() == (size, 0)
    blocks = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o077 == 0 for path in blocks)
    for path in blocks[:2]:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert read()[0] == size
    assert read() == (size, 0)


def test_the_cache_stays_within_its_bound(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs", records=3000), part_bytes=1 << 20)
    bound = 2_500_000
    with attached(store, tmp_path / "cache", cache_size=bound) as url, offsetfs.open(url) as data:
        assert sum(len(each.value or b"") for each in data.partition("orders-0").read()) == 3000 * 2000
        size = BlockCache(str(tmp_path / "cache"), bound).size()
    assert bound // 2 < size <= bound


def test_a_directory_with_other_files_is_refused_as_the_cache(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs", records=30))
    with pytest.raises(OSError, match="holds 'logs'") as found, attached(store, tmp_path):
        pass
    assert (found.value.errno, found.value.filename) == (errno.ENOTEMPTY, str(tmp_path))


def test_processes_that_read_at_the_same_time_share_a_cache(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    command = [sys.executable, "-c", READ, store.url, str(tmp_path / "cache")]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    found = [each.communicate(timeout=60)[0].split()[0] for each in readers]
    assert found == [str(400 * 2000)] * 4


# --- growth ----------------------------------------------------------------------------------------------------------


def test_a_reader_sees_what_is_archived_later_and_never_an_older_manifest(store: ObjectStore, tmp_path: Path) -> None:
    logs = small_logs(tmp_path / "logs", records=30)
    archived_logs.archive(store, logs, part_bytes=1 << 20)
    older = store.read("orders-0/manifest.json")
    with attached(store, tmp_path / "cache", refresh_s=0.05) as url, offsetfs.open(url) as data:
        partition = data.partition("orders-0")
        assert sum(1 for _ in partition.read()) == 30
        with offsetfs.open(logs, "a") as source:
            for n in range(30, 500):
                source.partition("orders-0").append(bytes([n % 256]) * 2000)
            source.create("users")
        archived_logs.archive(store, logs, part_bytes=1 << 20)
        assert soon(lambda: partition.end_offset == 500 and len(data.partitions()) == 2)
        assert [each.name for each in data.partitions()] == ["orders-0", "users-0"]
        assert [r.offset for r in partition.read()] == list(range(500))
        store.put("orders-0/manifest.json", older)
        time.sleep(0.3)
        assert partition.end_offset == 500


# --- commands --------------------------------------------------------------------------------------------------------


def output_of(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> bytes:
    code = cli.run(arguments)
    found = capfdbinary.readouterr()
    assert code == 0, found.err
    return found.out


def test_commands_read_an_archive_as_a_log_directory(
    store: ObjectStore, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    logs = small_logs(tmp_path / "logs")
    archived_logs.archive(store, logs)
    with attached(store, tmp_path / "cache") as url:
        for arguments in (
            ("cat", "{}", "orders-0/records.ndjson"),
            ("cat", "{}", "orders-0/42"),
            ("ls", "{}", "orders-0"),
            ("dump", "{}/orders-0", "--print-data-log", "--from", "100", "--to", "110"),
            ("dump", "{}", "orders-0"),
        ):
            remote = output_of(capfdbinary, *(each.format(url) for each in arguments))
            local = output_of(capfdbinary, *(each.format(logs) for each in arguments))
            assert remote.replace(url.encode(), b"") == local.replace(str(logs).encode(), b""), arguments
            assert remote
        status = json.loads(output_of(capfdbinary, "status", url, "--json"))
        assert status["partitions"][0]["next_offset"] == 400
        assert status["log_directory"] == url
        assert b"400" in output_of(capfdbinary, "sql", url, "SELECT count(*) FROM orders")
        database = f"sqlite:///{tmp_path / 'orders.db'}"
        assert b"400 rows added" in output_of(capfdbinary, "table", "sync", url, database, "--create")
        assert cli.run(("append", url, "orders-0/append")) == 1
        assert b"is an archive, which is read-only" in capfdbinary.readouterr().err
        assert cli.run(("serve", url)) == 1
        assert b"add --read-only" in capfdbinary.readouterr().err


@contextlib.contextmanager
def mounted(url: str, mount_point: Path, *options: str) -> Iterator[Path]:
    mount_point.mkdir()
    program = [sys.executable, "-m", "offsetfs"]
    subprocess.run([*program, "mount", url, str(mount_point), *options], check=True, capture_output=True, text=True)
    try:
        yield mount_point
    finally:
        subprocess.run([*program, "umount", str(mount_point)], check=True, capture_output=True, text=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_mount_of_every_golden_log_has_the_same_files(store: ObjectStore, tmp_path: Path, version: str) -> None:
    source = GOLDEN / version
    archived_logs.archive(store, source)
    with mounted(store.url, tmp_path / "mnt", "-o", f"cache={tmp_path / 'cache'},timeout=10") as mnt:
        with offsetfs.open(source) as local:
            for partition in local.partitions():
                expected = b"".join(partition.ndjson())
                assert (mnt / partition.name / "records.ndjson").read_bytes() == expected, partition.name
        with pytest.raises(OSError) as raised:
            (mnt / partition.name / "append").write_bytes(b"x\n")
        assert raised.value.errno == errno.EROFS
        assert os.statvfs(mnt).f_blocks == 0


def test_a_read_that_fails_is_eio_in_a_mount_and_its_errors_name_the_url(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    key = parts(store)[1]
    store.delete([key])
    with mounted(store.url, tmp_path / "mnt", "-o", f"cache={tmp_path / 'cache'},timeout=10") as mnt:
        with pytest.raises(OSError) as raised:
            (mnt / "orders-0" / "values").read_bytes()
        assert raised.value.errno == errno.EIO
        assert f"{store.url}/{key}" in (mnt / ".offsetfs" / "errors").read_text()
        assert (mnt / "orders-0" / "0").read_bytes()


def test_a_block_that_is_wrong_on_the_wire_is_fetched_once_more(
    store: ObjectStore, faults: S3Faults, tmp_path: Path
) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    with attached(store, tmp_path / "cache", endpoint=faults.endpoint) as url, offsetfs.open(url) as data:
        assert data.partition("orders-0").end_offset == 400
        faults.inject(Rule(s3_faults.FLIPPED, key=r"\.part$", count=1))
        record = data.partition("orders-0").record(3)
        assert record is not None and record.value == bytes([3]) * 2000
        faults.inject(Rule(s3_faults.FLIPPED, key=r"\.part$"))
        with pytest.raises(OSError, match="do not match their checksum; offsets") as raised:
            data.partition("orders-0").record(100)
        assert raised.value.errno == errno.EIO
        faults.inject()
        record = data.partition("orders-0").record(100)
        assert record is not None and record.value == bytes([100]) * 2000


def test_a_read_without_an_answer_fails_within_the_timeout(
    store: ObjectStore, faults: S3Faults, tmp_path: Path
) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    settings = ReadSettings(cache=str(tmp_path / "cache"), timeout_s=6, endpoint=faults.endpoint)
    url = reading.attach(store.url, settings)
    try:
        with offsetfs.open(url) as data:
            assert data.partition("orders-0").end_offset == 400
            faults.inject(Rule(s3_faults.SILENT))
            began = time.monotonic()
            with pytest.raises(OSError, match="no successful answer within 6 s") as raised:
                data.partition("orders-0").record(3)
            assert time.monotonic() - began < 30
            assert str(raised.value.filename).startswith(url)
    finally:
        faults.inject()
        reading.detach(url)


def test_clients_consume_from_an_archive(store: ObjectStore, tmp_path: Path) -> None:
    archived_logs.archive(store, small_logs(tmp_path / "logs"))
    command = [sys.executable, "-m", "offsetfs", "serve", store.url, "--read-only", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r"is served at (\S+:\d+)", line)
            assert found is not None, line
            address = found[1].removeprefix("PLAINTEXT://").rstrip(",:")
            settings = {"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False}
            consumer = confluent_kafka.Consumer(settings)
            consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
            values: list[bytes | None] = []
            deadline = time.monotonic() + 30
            while len(values) < 400 and time.monotonic() < deadline:
                values += [each.value() for each in consumer.consume(100, 1.0) if each.error() is None]
            consumer.close()
        finally:
            server.terminate()
    assert values == [bytes([n % 256]) * 2000 for n in range(400)]
