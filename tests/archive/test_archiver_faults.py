"""Archiving while the storage fails: it goes on or ends with one sentence; run again, nothing is missing or double."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults

import offsetfs
from offsetfs.archive import reading
from offsetfs.archive.manifest import PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.reading import ReadSettings

pytestmark = pytest.mark.interop

TIMEOUT_S = 6
MARGIN_S = 30.0
"""What the machine may add to a timeout: two cores are shared with the archiver, the server and the proxy."""
SECONDS_MAX = 90
PARTITIONS = ("orders-0", "orders-1")

SEEDS = range(1, 1 + int(os.environ.get("OFFSETFS_SEEDS", "1")))
"""`scripts/soak archive` has more of them."""

RECORDS = [b"%d %s" % (number, random.Random(number).randbytes(200).hex().encode()) for number in range(1000)]


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """Two partitions of several segments each."""
    path = tmp_path / "logs"
    path.mkdir()
    with offsetfs.open(path, "a", settings={"segment.bytes": "150000"}) as data:
        for partition in data.create("orders", len(PARTITIONS)):
            for first in range(0, len(RECORDS), 50):
                partition.extend(offsetfs.NewRecord(value) for value in RECORDS[first : first + 50])
    return path


@pytest.fixture
def url(faults: S3Faults, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty place."""
    place = f"s3://{s3_server.BUCKET}/archived-{abs(hash(request.node.nodeid)):x}"
    yield place
    faults.inject()
    reading.detach(place)


def archive(log_directory: Path, url: str, timeout_s: float = TIMEOUT_S) -> tuple[int, str, float]:
    """Run the command; return its exit code, its errors and its seconds."""
    words = ["archive", str(log_directory), url, "--timeout", str(timeout_s)]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "offsetfs", *words], capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stderr, time.monotonic() - begun


def check_complete(faults: S3Faults, url: str) -> None:
    """All records can be read; each object of the segments is one that a manifest names, and was stored once."""
    store = ObjectStore(url, StoreSettings(timeout_s=20, endpoint=faults.endpoint))
    for name in PARTITIONS:
        document = NumberedDocuments(store, name).copy()
        assert document is not None, name
        wanted = PartitionManifest.decoded(document.content, url).objects()
        assert {each.key: each.size for each in store.objects(f"{name}/segments")} == wanted
    reading.attach(url, ReadSettings(cache_size=0, timeout_s=20, endpoint=faults.endpoint))
    with offsetfs.open(url) as data:
        assert [each.name for each in data.partitions()] == list(PARTITIONS)
        for partition in data.partitions():
            assert [record.value for record in partition.read()] == RECORDS, partition.name
    reading.detach(url)


def stored(faults: S3Faults) -> Counter[str]:
    """Return how often the server has stored each object of a segment, as the archiver saw it."""
    kinds = re.compile(r"\.(part|side)$")
    return Counter(
        each.key for each in faults.requests() if each.method == "PUT" and each.status == 200 and kinds.search(each.key)
    )


@pytest.mark.parametrize(
    "fault",
    [
        s3_faults.INTERNAL,
        s3_faults.UNAVAILABLE,
        s3_faults.SLOW_DOWN,
        s3_faults.REFUSED,
        s3_faults.LOST_ANSWER,
        s3_faults.CUT,
        s3_faults.FLIPPED,
        s3_faults.SILENT,
        s3_faults.EXPIRED,
        s3_faults.DENIED,
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_run_again_after_any_fault_an_archive_is_complete(
    faults: S3Faults, log_directory: Path, url: str, fault: str, seed: int
) -> None:
    """A third of the requests of three runs meets the fault; the last run meets none."""
    for number in range(3):
        faults.inject(Rule(fault, share=0.3, seed=10 * seed + number))
        code, complaint, _ = archive(log_directory, url)
        assert bool(code) == bool(complaint), complaint
        assert complaint.count("\n") <= 1 + len(PARTITIONS), complaint
        if code:
            assert url in complaint
    faults.inject()
    assert archive(log_directory, url)[:2] == (0, "")
    assert set(stored(faults).values()) == {1}
    check_complete(faults, url)
    faults.forget()
    assert archive(log_directory, url)[:2] == (0, "")
    assert not stored(faults)


@pytest.mark.parametrize(
    ("fault", "timeout_s", "words"),
    [
        (s3_faults.INTERNAL, 30, "internal error"),
        (s3_faults.SLOW_DOWN, TIMEOUT_S, "no successful answer within 6 s, retries included"),
        (s3_faults.SILENT, TIMEOUT_S, "no successful answer within 6 s, retries included"),
        (s3_faults.EXPIRED, TIMEOUT_S, "the credentials have expired"),
        (s3_faults.DENIED, TIMEOUT_S, "access denied; the credentials need the permission for PutObject"),
    ],
)
def test_a_lasting_fault_of_writes_ends_the_run_with_one_sentence(
    faults: S3Faults, log_directory: Path, url: str, fault: str, timeout_s: float, words: str
) -> None:
    faults.inject(Rule(fault, ("PUT", "POST", "DELETE")))
    code, complaint, seconds = archive(log_directory, url, timeout_s)
    assert code
    assert words in complaint
    assert url in complaint
    assert seconds < timeout_s + MARGIN_S
    faults.inject()
    assert archive(log_directory, url)[:2] == (0, "")
    check_complete(faults, url)


def test_a_bucket_that_turns_read_only_keeps_what_it_has(faults: S3Faults, log_directory: Path, url: str) -> None:
    assert archive(log_directory, url)[:2] == (0, "")
    faults.become_read_only()
    with offsetfs.open(log_directory, "a") as data:
        data.partition("orders-0").append(b"later")
    code, complaint, _ = archive(log_directory, url)
    assert code
    assert "access denied" in complaint
    check_complete(faults, url)
    faults.inject()
    assert archive(log_directory, url)[:2] == (0, "")
    reading.attach(url, ReadSettings(cache_size=0, timeout_s=20, endpoint=faults.endpoint))
    with offsetfs.open(url) as data:
        assert data.partition("orders-0").end_offset == len(RECORDS) + 1
