"""`offsetfs archive`, `restore` and `verify` of a URL, as a user types them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from fixtures.logs.planted_logs import sealed
from fixtures.logs.remote_heads import NOTE, make_log_with_remote_head
from fixtures.machine.waiting import soon
from fixtures.stores import s3_faults
from fixtures.stores.s3_faults import Rule, S3Faults

from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.verifying import VerifiedArchive, verify_archive
from offsetfs.storage import LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.interop

ORDERS = TopicPartition("orders", 0)
KILLS = int(os.environ.get("OFFSETFS_KILLS", "8"))
"""`scripts/soak archive` has 50."""
CHECKPOINTS = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")
OFFSETFS = [sys.executable, "-m", "offsetfs"]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OFFSETFS, *words], capture_output=True, text=True, timeout=120)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.mkdir()
    directory = LogDirectory.open(str(path))
    log = directory.create_partition(ORDERS, {"segment.bytes": "2000"})
    for number in range(50):
        log.append(sealed(b"%06d" % number * 20))
    directory.close()
    return path


def values(path: Path) -> list[bytes | None]:
    directory = LogDirectory.open(str(path), read_only=True)
    try:
        return [each.value for each in LogReader(directory.log(ORDERS)).records()]
    finally:
        directory.close()


def test_a_directory_is_archived_verified_and_restored(source: Path, store: ObjectStore, tmp_path: Path) -> None:
    first = run("archive", str(source), store.url)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("1 partition of 1 changed, ")
    again = run("archive", str(source), store.url)
    idle = "nothing to upload: the archive has all of 1 partition\n"
    assert (again.returncode, again.stdout, again.stderr) == (0, idle, "")
    verified = run("verify", store.url)
    assert (verified.returncode, verified.stdout.endswith(" s: nothing found\n")) == (0, True)
    restored = run("restore", store.url, str(tmp_path / "target"), "--topic", "orders")
    assert (restored.returncode, restored.stdout) == (0, "orders-0: offsets 0 to 49\n")
    assert values(tmp_path / "target") == values(source)
    refused = run("restore", store.url, str(tmp_path / "target"))
    assert refused.returncode == 32
    assert "is there already; restore into an empty directory" in refused.stderr


def test_archive_and_restore_name_what_is_only_in_remote_storage(store: ObjectStore, tmp_path: Path) -> None:
    source, target = make_log_with_remote_head(tmp_path / "source"), tmp_path / "target"
    for _ in range(2):
        archived = run("archive", str(source), store.url)
        said = f"offsetfs archive: orders-0: {NOTE}; the archive begins at offset 10\n"
        assert (archived.returncode, archived.stderr) == (0, said)
    restored = run("restore", store.url, str(target))
    assert (restored.returncode, restored.stdout) == (0, "orders-0: offsets 10 to 11\n")
    assert restored.stderr == f"offsetfs restore: orders-0: {NOTE}; the restored log begins at offset 10\n"
    assert values(target) == values(source)


def test_what_was_archived_before_its_broker_moved_it_is_not_missing(store: ObjectStore, tmp_path: Path) -> None:
    source = make_log_with_remote_head(tmp_path / "source")
    (source / "log-start-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    assert run("archive", str(source), store.url).stderr == ""
    for path in (source / "orders-0").glob(f"{10:020d}.*"):
        path.unlink()
    assert run("archive", str(source), store.url).stderr == ""
    assert run("restore", store.url, str(tmp_path / "target")).stderr == ""


def append(source: Path, count: int, *, first: int = 0) -> None:
    directory = LogDirectory.open(str(source))
    for number in range(first, first + count):
        directory.log(ORDERS).append(sealed(b"%06d" % number * 20))
    directory.close()


def objects(store: ObjectStore) -> set[str]:
    return {each.key for each in store.objects("orders-0/segments")}


@pytest.mark.promise(
    "A run of `offsetfs archive` that is killed or fails damages nothing in the archive; the next run goes on "
    "and uploads no object again."
)
def test_an_archiver_that_is_killed_goes_on_and_uploads_nothing_again(
    source: Path, store: ObjectStore, faults: S3Faults, tmp_path: Path
) -> None:
    faults.slow_down(0.02, None)  # so that a kill meets requests
    ended = Counter[str]()
    for number in range(KILLS):
        append(source, 30, first=number * 100)
        before = objects(store)
        faults.forget()
        archiver = subprocess.Popen([*OFFSETFS, "archive", str(source), store.url], stdout=subprocess.DEVNULL)
        time.sleep(0.4 + random.Random(number).random() * 1.6)  # from the imports to the end of a run
        archiver.kill()
        ended["complete" if archiver.wait() == 0 else "killed"] += 1
        sent = [each.key for each in faults.requests() if each.method == "PUT" and each.status == 200]
        assert not [key for key in sent if any(key.endswith(each) for each in before)]
        assert not list(verify_archive(store, done=VerifiedArchive()))
    assert ended["killed"] >= KILLS // 2, ended
    faults.slow_down(0, None)
    done = run("archive", str(source), store.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("verify", store.url).returncode == 0
    assert run("restore", store.url, str(tmp_path / "target")).returncode == 0
    assert values(tmp_path / "target") == values(source)


@pytest.mark.promise(
    "A restored log has the log files of the archived one, byte for byte; a partition gets its name when all "
    "of it is on disk."
)
def test_a_restore_that_is_killed_goes_on(source: Path, store: ObjectStore, faults: S3Faults, tmp_path: Path) -> None:
    append(source, 600, first=100)
    assert run("archive", str(source), store.url).returncode == 0
    faults.slow_down(0.02, None)
    target = tmp_path / "target"
    killed = 0
    for number in range(KILLS):
        restore = subprocess.Popen([*OFFSETFS, "restore", store.url, str(target)], stderr=subprocess.PIPE)
        time.sleep(0.5 + random.Random(number).random() * 1.5)
        restore.kill()
        assert restore.stderr is not None
        complaint = restore.stderr.read().decode()
        restore.stderr.close()
        if restore.wait() == -signal.SIGKILL:
            killed += 1
            continue
        assert restore.returncode == 0 or "is there already" in complaint, complaint
        assert values(target) == values(source)
        shutil.rmtree(target)
    assert killed >= KILLS // 3
    faults.slow_down(0, None)
    assert run("restore", store.url, str(target)).returncode == 0
    assert values(target) == values(source)
    assert sorted(os.listdir(target)) == sorted(
        {".kafka_cleanshutdown", ".lock", ".offsetfs-topics.json", "orders-0", *CHECKPOINTS}
    )


def test_follow_goes_on_after_an_outage(source: Path, store: ObjectStore, faults: S3Faults) -> None:
    words = ["archive", str(source), store.url, "--follow", "--interval", "0.2", "--timeout", "5"]
    archiver = subprocess.Popen([*OFFSETFS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert archiver.stdout is not None and archiver.stderr is not None
    try:
        assert archiver.stdout.readline().startswith("1 partition of 1 changed")
        faults.inject(Rule(s3_faults.REFUSED))
        append(source, 1)
        complaint = archiver.stderr.readline()
        assert "orders-0" in complaint and "no successful answer within 5 s" in complaint
        faults.inject()
        assert archiver.stdout.readline().startswith("1 partition of 1 changed")
    finally:
        archiver.send_signal(signal.SIGTERM)
        assert archiver.wait(30) == 0
        assert archiver.stderr.read() == ""
        archiver.stdout.close()
        archiver.stderr.close()


def test_retention_of_the_archive_at_the_prompt(source: Path, store: ObjectStore) -> None:
    """The source has lost its old segments; the archive has them until --expire."""
    assert run("archive", str(source), store.url).returncode == 0
    assert run("config", str(source), "orders", "retention.ms=1").returncode == 0
    assert run("clean", str(source), "--now").returncode == 0
    kept = run("archive", str(source), store.url)
    assert kept.returncode == 0
    done = run("archive", str(source), store.url, "--expire", "--keep-states", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^[0-9]+ segments left the newest states, [0-9]+ objects? deleted, ", done.stdout, re.MULTILINE)
    assert run("verify", store.url).returncode == 0


def test_an_expiry_with_topics_leaves_those_of_other_names(source: Path, store: ObjectStore) -> None:
    users = TopicPartition("users", 0)
    directory = LogDirectory.open(str(source))
    directory.create_partition(users)
    directory.close()
    assert run("config", str(source), "orders", "retention.ms=1").returncode == 0
    assert run("archive", str(source), store.url).returncode == 0
    before = NumberedDocuments(store, "orders-0").numbers()
    done = run("archive", str(source), store.url, "--topic", "users", "--expire")
    idle = "nothing to upload: the archive has all of 1 partition\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, idle, "")
    assert NumberedDocuments(store, "orders-0").numbers() == before


def test_uploads_go_on_while_an_expiry_lists_a_large_bucket(source: Path, store: ObjectStore, faults: S3Faults) -> None:
    assert run("archive", str(source), store.url).returncode == 0
    faults.inject(Rule(s3_faults.SILENT, ("LIST",), key="orders-0/manifests"))
    words = [*OFFSETFS, "archive", str(source), store.url, "--follow", "--interval", "0.2", "--expire"]
    archiver = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert archiver.stdout is not None and archiver.stderr is not None
    try:
        assert soon(lambda: any(each.fault for each in faults.requests()))
        append(source, 1)
        assert archiver.stdout.readline().startswith("1 partition of 1 changed")
        faults.inject()
    finally:
        faults.inject()
        archiver.send_signal(signal.SIGTERM)
        assert archiver.wait(60) == 0
        archiver.stdout.close()
        archiver.stderr.close()


def test_an_expiry_that_failed_is_reported_and_tried_again_by_the_next_run(
    source: Path, store: ObjectStore, faults: S3Faults
) -> None:
    assert run("archive", str(source), store.url).returncode == 0
    faults.inject(Rule(s3_faults.DENIED, ("LIST",), key="orders-0/manifests"))
    words = [*OFFSETFS, "archive", str(source), store.url, "--follow", "--interval", "0.2", "--expire"]
    archiver = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert archiver.stdout is not None and archiver.stderr is not None
    try:
        complaint = archiver.stderr.readline()
        assert "orders-0 expiry: " in complaint and "the permission for ListObjectsV2" in complaint
        faults.inject()
        faults.forget()
        assert soon(lambda: any(each.is_list and each.key.endswith("orders-0/segments/") for each in faults.requests()))
    finally:
        faults.inject()
        archiver.send_signal(signal.SIGTERM)
        assert archiver.wait(60) == 0
        assert archiver.stderr.read() == ""
        archiver.stdout.close()
        archiver.stderr.close()


def test_follow_archives_what_arrives_until_it_is_ended(source: Path, store: ObjectStore, tmp_path: Path) -> None:
    words = [*OFFSETFS, "archive", str(source), store.url, "--follow", "--interval", "0.2"]
    archiver = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert archiver.stdout is not None
    try:
        assert archiver.stdout.readline().startswith("1 partition of 1 changed")
        directory = LogDirectory.open(str(source))
        directory.log(ORDERS).append(sealed(b"later"))
        directory.close()
        assert archiver.stdout.readline().startswith("1 partition of 1 changed")
    finally:
        archiver.send_signal(signal.SIGTERM)
        assert archiver.wait(30) == 0
        archiver.stdout.close()
    assert run("restore", store.url, str(tmp_path / "target")).returncode == 0
    assert values(tmp_path / "target")[-1] == b"later"


def test_wrong_input_is_one_sentence(source: Path, store: ObjectStore, tmp_path: Path) -> None:
    for words, code, text in (
        (["archive", str(source), "/tmp/x"], 1, "is not a URL of object storage; write s3://"),
        (["archive", str(source), "s3://no-such-bucket/x"], 1, "there is no such bucket; create it"),
        (["archive", str(tmp_path / "none"), store.url], 1, "there is no such directory"),
        (
            ["restore", store.url, str(tmp_path / "no" / "t")],
            1,
            "/no: there is no such directory; create it with mkdir",
        ),
        (
            ["restore", store.url, str(tmp_path / "t")],
            1,
            "is not an archive of offsetfs: it has no object offsetfs-archive.json",
        ),
        (
            ["restore", store.url, str(tmp_path / "t"), "--groups", "x"],
            1,
            "only --topic, --from, --to and --as-of apply",
        ),
        (["restore", str(source), "localhost:1", "--as-of", "-1h"], 1, "is not an archive; write its URL"),
        (
            ["verify", f"{store.url}/orders-0"],
            2,
            "is there; give the URL of an archive, and after it the names of topics",
        ),
        (
            ["archive", str(source), store.url, "--topic", "order"],
            1,
            "has no topic of these names; did you mean orders?",
        ),
        (["archive", str(source), store.url, "--expire", "--keep-states", "0.5"], 1, "--keep-states 0.5: write 1 to"),
        (["archive", str(source), store.url, "--expire", "--keep-states", "nan"], 1, "'nan' is not a duration"),
        (["archive", str(source), store.url, "--kms-key", "x"], 1, "goes with --encryption aws:kms"),
        (
            ["archive", str(source), "s3://kafka/x", "--endpoint", "http://127.0.0.1:9", "--timeout", "2"],
            2,
            "s3://kafka/x",
        ),
    ):
        done = run(*words)
        assert (done.returncode, text in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr


def test_a_time_before_the_archive_is_a_wrong_call(source: Path, store: ObjectStore, tmp_path: Path) -> None:
    assert run("archive", str(source), store.url).returncode == 0
    done = run("restore", store.url, str(tmp_path / "target"), "--as-of", "2001-01-01")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    listed = run("archive", "--list", store.url).stdout.splitlines()
    (time,) = listed[1:]
    assert listed[0] == "orders-0: 1 state"
    assert f"has no partition of these topics at that time; the first state is of {time.strip()}\n" in done.stderr
    assert not (tmp_path / "target").exists()
    assert run("restore", store.url, str(tmp_path / "target"), "--as-of", time.strip()).returncode == 0


def test_the_states_of_an_archive_are_listed(source: Path, store: ObjectStore) -> None:
    for _ in range(3):
        with contextlib.closing(LogDirectory.open(str(source))) as directory:
            directory.log(ORDERS).append(sealed(b"more"))
        assert run("archive", str(source), store.url).returncode == 0
    done = run("archive", "--list", store.url, "--topic", "orders")
    name, *times = done.stdout.splitlines()
    assert (done.returncode, name, len(times)) == (0, "orders-0: 3 states", 3) and times == sorted(times)


def test_a_topic_that_an_archive_lacks_is_a_wrong_call_with_the_nearest_name(
    source: Path, store: ObjectStore, tmp_path: Path
) -> None:
    assert run("archive", str(source), store.url).returncode == 0
    for words, reason in (
        (["archive", "--list", store.url, "--topic", "order"], "has no topic of these names; did you mean orders?"),
        (["archive", "--list", store.url, "--topic", "x"], f"; offsetfs archive --list {store.url} lists its topics"),
        (["restore", store.url, str(tmp_path / "target"), "--topic", "order"], "; did you mean orders?"),
        (["restore", str(source), "127.0.0.1:1", "--topic", "order"], "; did you mean orders?"),
        (["verify", store.url, "order-0"], "order-0: " + store.url + " has no such topic or partition; did you mean "),
        (["verify", store.url, "orders", "orders-7"], "; orders has only orders-0"),
    ):
        done = run(*words)
        assert (done.returncode, reason in done.stderr, done.stderr.count("\n")) == (1, True, 1), done.stderr
    assert not (tmp_path / "target").exists()


def test_missing_credentials_are_a_wrong_call_for_each_command(
    source: Path, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for words in (
        ["archive", str(source), store.url],
        ["restore", store.url, str(tmp_path / "target")],
        ["ls", store.url],
        ["sql", store.url, "SELECT 1"],
    ):
        done = run(*words)
        assert (done.returncode, "no credentials were found" in done.stderr) == (1, True), done.stderr


def test_the_url_of_a_partition_and_the_address_of_a_broker_are_explained(
    source: Path, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("archive", str(source), store.url).returncode == 0
    inside = f"is inside of the archive {store.url}; give that URL, and the topics or partitions by name"
    for words, text in (
        (["restore", f"{store.url}/orders-0", "target"], inside),
        (["verify", f"{store.url}/orders-0"], inside),
        (["restore", store.url, "localhost:9092"], "is restored into a log directory, not into a cluster"),
        (["restore", store.url, "a:1,b:2"], "is restored into a log directory, not into a cluster"),
    ):
        done = run(*words)
        assert (done.returncode, text in done.stderr, done.stderr.count("\n")) == (1, True, 1), done.stderr
    assert sorted(os.listdir()) == ["source"]


def test_local_commands_import_nothing_of_object_storage(source: Path) -> None:
    program = (
        "import sys; from offsetfs.cli import run; run(['status', sys.argv[1]])\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('fsspec', 's3fs', 'botocore', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(source)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
