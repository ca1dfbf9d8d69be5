"""`offsetfs archive`, `restore` and `verify` of a URL, as a user types them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planted_logs import sealed

from offsetfs.archive.object_store import ObjectStore
from offsetfs.storage import LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.interop

ORDERS = TopicPartition("orders", 0)
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
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    verified = run("verify", store.url)
    assert (verified.returncode, verified.stdout.endswith(": 0 findings\n")) == (0, True)
    restored = run("restore", store.url, str(tmp_path / "target"), "--topic", "orders")
    assert (restored.returncode, restored.stdout) == (0, "orders-0: offsets 0 to 50\n")
    assert values(tmp_path / "target") == values(source)
    refused = run("restore", store.url, str(tmp_path / "target"))
    assert refused.returncode == 32
    assert "is there already; restore into an empty directory" in refused.stderr


def test_an_archiver_that_is_killed_goes_on(source: Path, store: ObjectStore, tmp_path: Path) -> None:
    kills = int(os.environ.get("OFFSETFS_KILLS", "8"))
    for number in range(kills):
        directory = LogDirectory.open(str(source))
        for count in range(30):
            directory.log(ORDERS).append(sealed(b"%06d" % (number * 100 + count) * 20))
        directory.close()
        archiver = subprocess.Popen([*OFFSETFS, "archive", str(source), store.url], stdout=subprocess.DEVNULL)
        # From the imports to the end: a run takes about a second.
        time.sleep(0.3 + (number * 0.37) % 1.0)
        archiver.send_signal(signal.SIGKILL)
        archiver.wait()
        assert run("verify", store.url).returncode in (0, 2)  # 2: it was killed before its first state
    done = run("archive", str(source), store.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert run("verify", store.url).returncode == 0
    assert run("restore", store.url, str(tmp_path / "target")).returncode == 0
    assert values(tmp_path / "target") == values(source)


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
        (["archive", str(source), "/tmp/x"], 1, "is no URL of object storage; write s3://"),
        (["archive", str(source), "s3://no-such-bucket/x"], 2, "there is no such bucket; create it"),
        (["archive", str(tmp_path / "none"), store.url], 1, "there is no such directory"),
        (
            ["restore", store.url, str(tmp_path / "t")],
            2,
            "is no archive of offsetfs: it has no object offsetfs-archive.json",
        ),
        (
            ["restore", store.url, str(tmp_path / "t"), "--groups", "x"],
            1,
            "only --topic, --from, --to and --as-of apply",
        ),
        (["restore", str(source), "localhost:1", "--as-of", "-1h"], 1, "is no archive; write its URL"),
        (["verify", store.url], 2, "no partition of an archive is there"),
        (["archive", str(source), store.url, "--kms-key", "x"], 1, "goes with --encryption aws:kms"),
        (
            ["archive", str(source), "s3://kafka/x", "--endpoint", "http://127.0.0.1:9", "--timeout", "2"],
            2,
            "s3://kafka/x",
        ),
    ):
        done = run(*words)
        assert (done.returncode, text in done.stderr, done.stderr.count("\n")) == (code, True, 1), done.stderr


def test_local_commands_import_nothing_of_object_storage(source: Path) -> None:
    program = (
        "import sys; from offsetfs.cli import main\n"
        "try:\n    main(['status', sys.argv[1]])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('fsspec', 's3fs', 'botocore', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", program, str(source)], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
