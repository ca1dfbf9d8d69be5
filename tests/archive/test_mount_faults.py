"""A mounted archive while the storage fails: errors within the timeout, listed in `.offsetfs/errors`, and recovery."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs import archived_logs
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults

import offsetfs
from offsetfs.archive.object_store import ObjectStore, StoreSettings

pytestmark = pytest.mark.interop

TIMEOUT_S = 6
MARGIN_S = 30.0
"""What the machine may add to a timeout: two cores are shared with the daemon, the server and the proxy."""
SECONDS_MAX = 60

LINES = [b"%d %s" % (number, random.Random(number).randbytes(300).hex().encode()) for number in range(2000)]


@pytest.fixture(scope="module")
def archived(server: s3_server.S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of an archive of two partitions with several segments each."""
    path = tmp_path_factory.mktemp("logs")
    with offsetfs.open(path, "a", settings={"segment.bytes": "500000"}) as data:
        for partition in data.create("orders", 2):
            for first in range(0, len(LINES), 50):
                partition.extend(offsetfs.NewRecord(value) for value in LINES[first : first + 50])
    url = f"s3://{s3_server.BUCKET}/mounted-through-faults"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        archived_logs.archive(ObjectStore(url, StoreSettings(endpoint=server.endpoint)), path)
    return url


@contextlib.contextmanager
def mounted(url: str, mount_point: Path, *options: str) -> Iterator[Path]:
    mount_point.mkdir(exist_ok=True)
    words = [word for option in (f"timeout={TIMEOUT_S}", *options) for word in ("-o", option)]
    offsetfs_("mount", url, str(mount_point), *words)
    try:
        yield mount_point
    finally:
        offsetfs_("umount", str(mount_point))


def offsetfs_(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "offsetfs", *words], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr


def cat(path: Path) -> tuple[bytes, str]:
    """Return what `cat` prints, and what it complains of; a request that hangs fails the test."""
    done = subprocess.run(["cat", path], capture_output=True, timeout=SECONDS_MAX)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stdout, done.stderr.decode()


ALL = b"".join(line + b"\n" for line in LINES)


EIO, EACCES = "Input/output error", "Permission denied"


def test_config_of_a_mounted_archive_has_its_options(archived: str, faults: S3Faults, tmp_path: Path) -> None:
    with mounted(archived, tmp_path / "mnt", "cache-size=1m", f"cache={tmp_path}/cache") as mount:
        config = (mount / ".offsetfs" / "config").read_text().split("[")[1]
        words = [sys.executable, "-m", "offsetfs", "status", str(mount)]
        status = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX).stdout
        for option in f"cache={tmp_path}/cache", "cache-size=1048576", f"timeout={TIMEOUT_S}":
            assert f"\n{option}\n" in config
            assert option in status
    with mounted(archived, tmp_path / "mnt") as mount:
        assert "\ncache-size=10737418240\n" in (mount / ".offsetfs" / "config").read_text()
        status = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX).stdout
        assert f"timeout={TIMEOUT_S}" in status and "cache-size" not in status


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (s3_faults.INTERNAL, EIO),
        (s3_faults.SLOW_DOWN, EIO),
        (s3_faults.REFUSED, EIO),
        (s3_faults.CUT, EIO),
        (s3_faults.FLIPPED, EIO),
        (s3_faults.SILENT, EIO),
        (s3_faults.EXPIRED, EACCES),
        (s3_faults.DENIED, EACCES),
    ],
)
def test_a_lasting_fault_is_a_listed_error_until_it_ends(
    archived: str, faults: S3Faults, tmp_path: Path, fault: str, reason: str
) -> None:
    with mounted(archived, tmp_path / "mnt", "cache-size=0") as mount:
        faults.inject(Rule(fault, key=r"orders-0/.*\.part$"))
        begun = time.monotonic()
        shown, complaint = cat(mount / "orders-0" / "values")
        assert time.monotonic() - begun < TIMEOUT_S + MARGIN_S
        assert reason in complaint
        assert ALL.startswith(shown)
        assert cat(mount / "orders-1" / "values") == (ALL, "")  # another partition is not affected
        listed, _ = cat(mount / ".offsetfs" / "errors")
        assert archived in listed.decode(), listed.decode()
        faults.inject()
        assert cat(mount / "orders-0" / "values") == (ALL, "")
        assert cat(mount / "orders-0" / "1234") == (LINES[1234], "")


@pytest.mark.parametrize(
    "fault", [s3_faults.INTERNAL, s3_faults.SLOW_DOWN, s3_faults.REFUSED, s3_faults.CUT, s3_faults.FLIPPED]
)
def test_a_fault_of_a_moment_is_not_seen(archived: str, faults: S3Faults, tmp_path: Path, fault: str) -> None:
    with mounted(archived, tmp_path / "mnt", "cache-size=0") as mount:
        faults.inject(Rule(fault, ("GET",), key=r"\.part$", count=1))
        assert cat(mount / "orders-0" / "values") == (ALL, "")
        assert [each.fault for each in faults.requests() if each.fault] == [fault]


def test_what_is_in_the_cache_is_read_without_the_storage(archived: str, faults: S3Faults, tmp_path: Path) -> None:
    with mounted(archived, tmp_path / "mnt", f"cache={tmp_path / 'cache'}") as mount:
        assert cat(mount / "orders-0" / "values") == (ALL, "")
    with mounted(archived, tmp_path / "mnt", f"cache={tmp_path / 'cache'}") as mount:
        faults.inject(Rule(s3_faults.REFUSED, key=r"\.(part|side)$"))
        assert cat(mount / "orders-0" / "values") == (ALL, "")


def test_a_mount_while_nothing_answers_ends_with_one_sentence(archived: str, faults: S3Faults, tmp_path: Path) -> None:
    faults.inject(Rule(s3_faults.SILENT))
    (tmp_path / "mnt").mkdir()
    words = ["mount", archived, str(tmp_path / "mnt"), "-o", f"timeout={TIMEOUT_S}"]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "offsetfs", *words], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert time.monotonic() - begun < TIMEOUT_S + MARGIN_S
    assert done.returncode != 0
    assert f"no successful answer within {TIMEOUT_S} s" in done.stderr
    assert archived in done.stderr
    assert "Traceback" not in done.stderr
