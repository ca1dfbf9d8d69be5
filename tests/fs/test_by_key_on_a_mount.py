"""`by-key/<key>` on a mount: the latest value of a key, with the tools that people have."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.keyed_logs import Keyed, end_of_transaction, keyed
from fixtures.logs.small_logs import record

from offsetfs.fs.naming.grammar import encoded
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.producers import ABORT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.partitioner import partition_of
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.mount

USERS = TopicPartition("users", 0)
LONGEST = b"k" * 255


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def made(path: Path, *records: tuple[bytes | None, bytes | None]) -> Path:
    """Return a log directory with these records, a batch each, at times that rise by a second."""
    path.mkdir(exist_ok=True)
    directory = LogDirectory.open(str(path))
    log = directory.log(USERS) if directory.has(USERS) else directory.create_partition(USERS)
    for key, value in records:
        log.append(record((log.next_offset + 1) * 1000, value, key))
    directory.close()
    return path


def sh(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True, check=False)


def offsetfs(*words: str | Path) -> str:
    """Run a command; return what it says."""
    done = subprocess.run([sys.executable, "-m", "offsetfs", *words], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


NAMES = {
    b"anna": "anna",
    b"a/b": "a%2Fb",
    b"100%": "100%25",
    b".": "%2E",
    b"..": "%2E%2E",
    b"": "%",
    b"\x00\x01": "%00%01",
    "Zürich".encode(): "Zürich",
    b"with a blank": "with a blank",
    LONGEST: LONGEST.decode(),
}


def test_every_key_has_one_name_and_its_file_is_the_latest_value(mount: Any, tmp_path: Path) -> None:
    old, new = ([(key, generation + key) for key in NAMES] for generation in (b"old ", b"new "))
    keys = mount(made(tmp_path / "log", *old, *new)).path / "users-0" / "by-key"
    for key, name in NAMES.items():
        assert (keys / name).read_bytes() == b"new " + key, name
    for name in ("missing", "a%2fb", "%61nna", "100%", "%2", "...", "ann", "anna "):
        with pytest.raises(FileNotFoundError):
            os.stat(os.path.join(keys, name))
    with pytest.raises(OSError) as raised:
        os.stat(keys / ("k" * 256))
    assert raised.value.errno == errno.ENAMETOOLONG


def digest_name(key: bytes) -> str:
    return f"%sha256-{hashlib.sha256(key).hexdigest()}"


def test_a_key_that_is_too_long_for_a_name_has_its_digest_as_name(mount: Any, tmp_path: Path) -> None:
    long, other, escaped = b"k" * 3000, b"o" * 256, b"/" * 86
    records = [(long, b"old"), (other, b"other"), (long, b"new"), (escaped, b"slashes"), (b"short", b"s")]
    keys = mount(made(tmp_path / "log", *records)).path / "users-0" / "by-key"
    assert [(keys / digest_name(key)).read_bytes() for key in (long, other, escaped)] == [b"new", b"other", b"slashes"]
    line = json.loads((keys / f"{digest_name(long)}.json").read_text())
    assert line["key"].encode() == long and line["value"] == "new"
    for name in (digest_name(b"short"), digest_name(b"none" * 100), digest_name(long).upper(), digest_name(long)[:-1]):
        assert not (keys / name).exists(), name
    (keys.parent / "append.ndjson").write_text(json.dumps({"key": long.decode(), "value": None}) + "\n")
    assert not (keys / digest_name(long)).exists(), "a tombstone"


def test_a_key_that_has_both_names_is_one_file(mount: Any, tmp_path: Path) -> None:
    keys = mount(made(tmp_path / "log", (LONGEST, b"1"))).path / "users-0" / "by-key"
    by_name, by_digest = keys / LONGEST.decode(), keys / digest_name(LONGEST)
    assert by_name.stat().st_ino == by_digest.stat().st_ino and by_digest.read_bytes() == b"1"
    assert json.loads((keys / f"{digest_name(LONGEST)}.json").read_text())["offset"] == 0


def test_it_is_there_by_name_only(mount: Any, tmp_path: Path) -> None:
    partition = mount(made(tmp_path / "log", (b"a", b"1"))).path / "users-0"
    assert "by-key" not in os.listdir(partition) and os.listdir(partition / "by-key") == []
    assert (partition / "by-key").is_dir() and (partition / "by-key" / "a").is_file()


def test_a_file_is_the_record_with_its_time_size_and_attributes(mount: Any, tmp_path: Path) -> None:
    partition = (
        mount(made(tmp_path / "log", (b"a", b"first"), (b"b", b"other"), (b"a", b"the latest"))).path / "users-0"
    )
    by_key, by_offset = partition / "by-key" / "a", partition / "2"
    for path in (by_key, by_offset):
        status = path.stat()
        assert (status.st_size, status.st_mtime_ns, status.st_mode & 0o777) == (10, 3_000_000_000, 0o440)
    assert by_key.stat().st_ino != by_offset.stat().st_ino
    assert {n: os.getxattr(by_key, n) for n in os.listxattr(by_key)} == {
        n: os.getxattr(by_offset, n) for n in os.listxattr(by_offset)
    }
    assert os.getxattr(by_key, "user.kafka.offset") == b"2" and os.getxattr(by_key, "user.kafka.key") == b"a"
    with pytest.raises(OSError) as raised:
        os.getxattr(by_key, "user.other")
    assert raised.value.errno == errno.ENODATA


def test_a_new_value_is_seen_at_once_and_open_readers_of_the_old_one_read_on(mount: Any, tmp_path: Path) -> None:
    partition = mount(made(tmp_path / "log", (b"a", b"0"))).path / "users-0"
    path = partition / "by-key" / "a"
    with open(path, "rb", buffering=0) as opened:
        inode = path.stat().st_ino
        for number in range(1, 20):
            line = json.dumps({"key": "a", "value": f"value {number}"})
            (partition / "append.ndjson").write_text(line + "\n")
            assert path.read_text() == f"value {number}"
        assert path.stat().st_ino != inode and os.fstat(opened.fileno()).st_ino == inode
        assert opened.read() == b"0"


def test_what_was_deleted_is_not_there_until_it_is_written_again(mount: Any, tmp_path: Path) -> None:
    partition = mount(made(tmp_path / "log", (b"a", b"1"), (b"b", b"2"))).path / "users-0"
    append = partition / "append.ndjson"
    assert sh("cat by-key/a by-key/b", partition).stdout == "12"
    append.write_text('{"key": "a", "value": null}\n')
    found = sh("cat by-key/a; cat by-key/b", partition)
    assert found.stdout == "2" and "No such file or directory" in found.stderr
    append.write_text('{"key": "a", "value": "3"}\n')
    assert sh("cat by-key/a by-key/b", partition).stdout == "32"


def test_the_usual_tools_work_on_it(mount: Any, tmp_path: Path) -> None:
    root = mount(made(tmp_path / "log", (b"a", b'{"n": 1}'), (b"b", b'{"n": 2}'), (b"a", b'{"n": 3}'))).path
    for command, said in {
        "jq -c .n users-0/by-key/a users-0/by-key/b": "3\n2\n",
        "test -e users-0/by-key/a && ! test -e users-0/by-key/c && echo yes": "yes\n",
        "cp users-0/by-key/b /dev/stdout": '{"n": 2}',
        "head -c 4 users-0/by-key/a": '{"n"',
        "wc -c < users-0/by-key/a": "8\n",
        "stat -c '%s %b' users-0/by-key/a": "8 0\n",
        "tail -c 3 users-0/by-key/a": " 3}",
        "dd if=users-0/by-key/a bs=1 skip=6 status=none": "3}",
        "for key in a b c; do cat users-0/by-key/$key 2>/dev/null || echo none; done": '{"n": 3}{"n": 2}none\n',
    }.items():
        assert sh(command, root).stdout == said, command


def test_nothing_of_it_can_be_written(mount: Any, tmp_path: Path) -> None:
    keys = mount(made(tmp_path / "log", (b"a", b"1"))).path / "users-0" / "by-key"
    for act in (
        lambda: (keys / "a").write_text("2"),
        lambda: (keys / "new").write_text("2"),
        lambda: (keys / "a").unlink(),
        lambda: (keys / "new").mkdir(),
        lambda: (keys / "a").rename(keys / "b"),
        lambda: os.truncate(keys / "a", 0),
    ):
        with pytest.raises(OSError) as raised:
            act()
        assert raised.value.errno == errno.EPERM


def test_what_retention_and_delete_records_took_is_not_there(mount: Any, tmp_path: Path) -> None:
    partition = mount(made(tmp_path / "log", (b"a", b"1"), (b"b", b"2")), "delete-records").path / "users-0"
    assert sh("cat by-key/a by-key/b", partition).stdout == "12"
    (partition / "start").write_text("1\n")
    assert not (partition / "by-key" / "a").exists() and (partition / "by-key" / "b").read_text() == "2"


def test_the_index_is_kept_and_taken_up_by_the_next_mount(mount: Any, tmp_path: Path) -> None:
    log = made(tmp_path / "log", *((b"%d" % number, b"v%d" % number) for number in range(100)))
    kept = []
    for _ in range(2):
        mounted = mount(log)
        assert (mounted.path / "users-0" / "by-key" / "42").read_text() == "v42"
        assert mounted.unmount() == 0
        kept += [[(log / "users-0" / name).stat() for name in ("by-key.sqlite", "by-key.seal")]]
    first, second = ([(status.st_ino, status.st_mtime_ns) for status in files] for files in kept)
    assert first == second, "what did not change is not written again"
    assert "by-key" not in offsetfs("verify", log)


def test_a_read_only_mount_keeps_its_index_in_the_cache_of_the_user(mount: Any, tmp_path: Path, _cache: Path) -> None:
    log = made(tmp_path / "log", (b"a", b"1"), (b"b", b"2"))
    before = sorted(os.listdir(log / "users-0"))
    for _ in range(2):
        mounted = mount(log, "ro")
        assert (mounted.path / "users-0" / "by-key" / "b").read_text() == "2"
        assert mounted.unmount() == 0
    assert sorted(os.listdir(log / "users-0")) == before
    kept = list((_cache / "offsetfs" / "by-key").iterdir())
    assert sorted(path.suffix for path in kept) == [".seal", ".sqlite"]
    assert {path.stat().st_mode & 0o077 for path in kept} == {0}


def test_two_mounts_of_one_broker_do_not_share_what_they_write(mount: Any, tmp_path: Path) -> None:
    log = made(tmp_path / "log", (b"a", b"1"))
    first, second = mount(log, "ro").path, mount(log, "ro").path
    for path in (first, second, first):
        assert (path / "users-0" / "by-key" / "a").read_text() == "1"


def test_a_record_of_an_aborted_transaction_counts_only_where_it_is_shown(golden_copy: Path, mount: Any) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        partition = mount(golden_copy, f"ro,isolation={isolation}").path / "transactions-0"
        latest: dict[bytes, bytes] = {}
        for line in (partition / "records.ndjson").read_text().splitlines():
            each = json.loads(line)
            if each.get("key") is not None:
                latest[each["key"].encode()] = b"%d" % each["offset"]
        keys = os.fsencode(partition / "by-key")
        found = {key: os.getxattr(os.path.join(keys, encoded(key) or b""), "user.kafka.offset") for key in latest}
        assert latest and found == latest


@pytest.mark.damages
def test_damage_is_reported_and_the_records_around_it_are_found(mount: Any, tmp_path: Path) -> None:
    log = made(tmp_path / "log", (b"a", b"first"), (b"b", b"second"), (b"c", b"third"))
    path = log / "users-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)
    mounted = mount(log, faulty=True)
    keys = mounted.path / "users-0" / "by-key"
    assert (keys / "a").read_text() == "first" and (keys / "c").read_text() == "third"
    assert not (keys / "b").exists() and "EBADMSG" in mounted.errors()


def test_compaction_changes_no_answer(mount: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    directory = LogDirectory.open(str(log))
    partition = directory.create_partition(USERS, {"cleanup.policy": "compact", "segment.bytes": "1000000"})
    for generation in range(3):
        data = build([(b"%d" % key, b"%d of %d" % (generation, key), (), 1000) for key in range(50)])
        partition.append(SealedBatch(memoryview(data), 50, 1000, Timestamp(1000), len(data)))
        partition.roll()
    directory.close()
    for _ in range(2):
        mounted = mount(log)
        keys = mounted.path / "users-0" / "by-key"
        assert [(keys / str(key)).read_text() for key in range(50)] == [f"2 of {key}" for key in range(50)]
        mounted.unmount()
        offsetfs("clean", log)


def test_where_compaction_took_an_aborted_record_the_one_before_counts_again(mount: Any, tmp_path: Path) -> None:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    log = tmp_path / "log"
    log.mkdir()
    directory = LogDirectory.open(str(log))
    path = Path(directory.create_partition(USERS, settings).path) / "00000000000000000000.log"
    directory.close()
    batches = [
        keyed(0, Keyed(0, b"a", b"before")),
        keyed(1, Keyed(0, b"a", b"aborted"), producer=(7, 0, 0), transactional=True),
        end_of_transaction(2, 7, ABORT),
    ]
    path.write_bytes(b"".join(batches))
    (log / ".kafka_cleanshutdown").unlink()
    directory = LogDirectory.open(str(log))
    directory.log(USERS).roll()
    directory.log(USERS).append(record(1000, b"later", b"b"))
    directory.close()
    for expected in ("aborted", "before"):
        mounted = mount(log)
        assert (mounted.path / "users-0" / "by-key" / "a").read_text() == expected
        mounted.unmount()
        offsetfs("clean", log)


def test_it_goes_with_its_partition_and_another_one_of_that_name_has_its_own(mount: Any, tmp_path: Path) -> None:
    mounted = mount(made(tmp_path / "log", (b"a", b"1")), "create,delete")
    partition = mounted.path / "users-0"
    for value in ("1", "another"):
        assert (partition / "by-key" / "a").read_text() == value
        partition.rmdir()
        end = time.monotonic() + 10
        while open_indexes(mounted.process.pid):  # close(2) does not wait for RELEASE, which closes the daemon's file
            assert time.monotonic() < end, open_indexes(mounted.process.pid)
            time.sleep(0.01)
        partition.mkdir()
        assert not (partition / "by-key" / "a").exists()
        (partition / "append.ndjson").write_text('{"key": "a", "value": "another"}\n')


def open_indexes(pid: int) -> list[str]:
    paths = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(descriptor))
    return [path for path in paths if "by-key" in path]


# --- as JSON, and by topic -------------------------------------------------------------------------------------------


def test_a_key_with_json_behind_it_is_the_record_as_a_line_of_json(mount: Any, tmp_path: Path) -> None:
    records = [(b"a", b"old"), (b"a", b"new"), (b"x/y", b"slash"), (b"gone", b"1"), (b"gone", None)]
    users = mount(made(tmp_path / "log", *records)).path / "users-0"
    line = (users / "by-key" / "a.json").read_text()
    assert line == (users / "1.json").read_text() and json.loads(line)["value"] == "new"
    assert json.loads((users / "by-key" / "x%2Fy.json").read_text())["key"] == "x/y"
    for name in ("gone.json", "missing.json", ".json"):
        assert not (users / "by-key" / name).exists(), name
    (users / "append.ndjson").write_text('{"key":"a","value":"newer"}\n')
    assert json.loads((users / "by-key" / "a.json").read_text())["value"] == "newer"


def test_a_key_that_ends_in_json_comes_before_the_line_of_another(mount: Any, tmp_path: Path) -> None:
    keys = mount(made(tmp_path / "log", (b"a", b"1"), (b"a.json", b"2"))).path / "users-0" / "by-key"
    assert (keys / "a.json").read_bytes() == b"2"
    assert json.loads((keys / "a.json.json").read_text())["key"] == "a.json"


def in_partitions(path: Path, *records: tuple[int, bytes, bytes | None, int]) -> Path:
    """Return a log directory where `users` has three partitions with these records: partition, key, value, time."""
    path.mkdir()
    directory = LogDirectory.open(str(path))
    partitions = [TopicPartition("users", number) for number in range(3)]
    directory.create_partitions(partitions)
    for partition, key, value, timestamp in records:
        directory.log(partitions[partition]).append(record(timestamp, value, key))
    directory.close()
    return path


def elsewhere(key: bytes) -> tuple[int, int, int]:
    """Return the partition of a key by Kafka's partitioner, of three, and the two others."""
    own = partition_of(key, 3)
    first, second = (number for number in range(3) if number != own)
    return own, first, second


def test_a_topic_finds_a_long_key_by_its_digest_where_it_finds_the_key(mount: Any, tmp_path: Path) -> None:
    key = b"k" * 300
    own, first, second = elsewhere(key)
    records = [(own, key, b"here", 1000), (first, key, b"stray", 9000), (second, b"l" * 300, b"alone", 1)]
    keys = mount(in_partitions(tmp_path / "log", *records)).path / "topics/users/by-key"
    assert (keys / digest_name(key)).read_bytes() == b"here"
    assert json.loads((keys / f"{digest_name(key)}.json").read_text())["value"] == "here"
    assert (keys / digest_name(b"l" * 300)).read_bytes() == b"alone"
    assert not (keys / digest_name(b"m" * 300)).exists()


def test_a_topic_finds_a_key_in_the_partition_that_kafkas_partitioner_names(mount: Any, tmp_path: Path) -> None:
    own, other, _ = elsewhere(b"anna")
    log = in_partitions(tmp_path / "log", (own, b"anna", b"here", 1000), (other, b"anna", b"stray", 9000))
    root = mount(log).path
    keys = root / "topics" / "users" / "by-key"
    assert (keys / "anna").read_bytes() == b"here"
    assert os.stat(keys / "anna").st_ino == os.stat(root / f"users-{own}" / "by-key" / "anna").st_ino
    assert json.loads((keys / "anna.json").read_text())["partition"] == own
    assert not (keys / "missing").exists() and os.listdir(keys) == []
    assert "by-key" not in os.listdir(keys.parent)
    (root / "topics" / "users" / "append.ndjson").write_text('{"key":"anna","value":"newer"}\n')
    assert (keys / "anna").read_bytes() == b"newer"


def test_a_tombstone_in_the_partition_of_a_key_counts(mount: Any, tmp_path: Path) -> None:
    own, other, _ = elsewhere(b"anna")
    records = (own, b"anna", b"1", 1000), (own, b"anna", None, 2000), (other, b"anna", b"stray", 9000)
    assert not (mount(in_partitions(tmp_path / "log", *records)).path / "topics/users/by-key/anna").exists()


def test_a_key_that_another_partitioner_placed_is_found_by_its_latest_time(mount: Any, tmp_path: Path) -> None:
    _, first, second = elsewhere(b"anna")
    records = (first, b"anna", b"late", 9000), (second, b"anna", b"early", 1000)
    root = mount(in_partitions(tmp_path / "log", *records)).path
    assert (root / "topics/users/by-key/anna").read_bytes() == b"late"


def test_a_topic_with_missing_partitions_is_searched_in_all_that_there_are(mount: Any, tmp_path: Path) -> None:
    records = [(1, b"anna", b"one", 1000), (2, b"anna", b"two", 2000)]
    log = in_partitions(tmp_path / "log", *records)
    shutil.rmtree(log / "users-0")
    assert (mount(log).path / "topics/users/by-key/anna").read_bytes() == b"two"
