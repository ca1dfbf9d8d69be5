"""Reading an archive while the storage fails: the right records, or an error with the URL, within the timeout."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixtures.logs import archived_logs
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults

import offsetfs
from offsetfs.archive import reading
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.archive.reading import ReadSettings

pytestmark = pytest.mark.interop

TIMEOUT_S = 6.0
MARGIN_S = 30.0
"""What the machine may add to a timeout: two cores are shared with the server and the proxy."""

RECORDS = [b"%d %s" % (number, random.Random(number).randbytes(300).hex().encode()) for number in range(2000)]

OF_A_MOMENT = [
    s3_faults.INTERNAL,
    s3_faults.UNAVAILABLE,
    s3_faults.SLOW_DOWN,
    s3_faults.REFUSED,
    s3_faults.LOST_ANSWER,
    s3_faults.CUT,
    s3_faults.FLIPPED,
    s3_faults.SLOW_START,
]
LASTING = {
    s3_faults.INTERNAL: errno.EIO,
    s3_faults.UNAVAILABLE: errno.EIO,
    s3_faults.SLOW_DOWN: errno.EIO,
    s3_faults.REFUSED: errno.EIO,
    s3_faults.LOST_ANSWER: errno.EIO,
    s3_faults.CUT: errno.EIO,
    s3_faults.FLIPPED: errno.EIO,
    s3_faults.SILENT: errno.EIO,
    s3_faults.EXPIRED: errno.EACCES,
    s3_faults.DENIED: errno.EACCES,
}


@pytest.fixture(scope="module")
def archived(server: s3_server.S3Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of an archive of a partition with three segments."""
    path = tmp_path_factory.mktemp("logs")
    with offsetfs.open(path, "a", settings={"segment.bytes": "500000"}) as data:
        (orders,) = data.create("orders")
        for first in range(0, len(RECORDS), 50):
            orders.extend(offsetfs.NewRecord(value) for value in RECORDS[first : first + 50])
    url = f"s3://{s3_server.BUCKET}/read-through-faults"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        archived_logs.archive(ObjectStore(url, StoreSettings(endpoint=server.endpoint)), path)
    return url


@pytest.fixture
def url(archived: str, faults: S3Faults) -> Iterator[str]:
    """The archive, attached through the proxy without a cache on disk."""
    reading.attach(archived, ReadSettings(cache_size=0, timeout_s=TIMEOUT_S, endpoint=faults.endpoint))
    faults.forget()
    yield archived
    reading.detach(archived)


def values(url: str) -> list[bytes | None]:
    with offsetfs.open(url) as data:
        return [record.value for record in data.partition("orders-0").read()]


@pytest.mark.parametrize("key", [r"\.part$", r"\.side$", r"orders-0/manifest\.json$"])
@pytest.mark.parametrize("fault", OF_A_MOMENT)
def test_a_fault_of_a_moment_is_not_seen(url: str, faults: S3Faults, fault: str, key: str) -> None:
    faults.inject(Rule(fault, key=key, count=1, seconds=0.3))
    assert values(url) == RECORDS
    assert [each.fault for each in faults.requests() if each.fault] == [fault]


@pytest.mark.promise(
    "A reader of an archive gets the bytes that were archived or an error with the URL, within the timeout."
)
@pytest.mark.parametrize("key", [r"\.part$", r"\.side$", r"orders-0/manifest\.json$"])
@pytest.mark.parametrize("fault", LASTING)
def test_a_lasting_fault_is_an_error_with_the_url_until_it_ends(
    url: str, faults: S3Faults, fault: str, key: str
) -> None:
    faults.inject(Rule(fault, key=key))
    begun = time.monotonic()
    with pytest.raises(OSError, match=r"\S") as found:
        values(url)
    assert time.monotonic() - begun < TIMEOUT_S + MARGIN_S
    assert found.value.errno == LASTING[fault], found.value
    assert str(found.value.filename).startswith(url), found.value
    assert "orders-0" in str(found.value.filename), found.value
    faults.inject()
    assert values(url) == RECORDS


@pytest.mark.promise(
    "A reader of an archive gets the bytes that were archived or an error with the URL, within the timeout."
)
def test_wrong_bytes_never_reach_a_reader(url: str, faults: S3Faults) -> None:
    """A third of all answers has a wrong bit: each read returns the records, or fails."""
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), share=0.33))
    ends = set()
    for _ in range(12):
        reading.detach(url)
        try:
            reading.attach(url, ReadSettings(cache_size=0, timeout_s=TIMEOUT_S, endpoint=faults.endpoint))
            with offsetfs.open(url) as data:
                for record in data.partition("orders-0").read():
                    assert record.value == RECORDS[record.offset]
                ends.add("read")
        except OSError as error:
            assert str(error.filename).startswith(url), error
            ends.add("failed")
    assert "failed" in ends
    faults.inject()
    reading.attach(url, ReadSettings(cache_size=0, timeout_s=TIMEOUT_S, endpoint=faults.endpoint))
    assert values(url) == RECORDS


def test_wrong_bytes_are_not_kept_in_the_cache(url: str, faults: S3Faults, tmp_path: Path) -> None:
    reading.detach(url)
    settings = ReadSettings(cache=str(tmp_path), timeout_s=TIMEOUT_S, endpoint=faults.endpoint)
    reading.attach(url, settings)
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), key=r"\.(part|side)$"))
    with pytest.raises(OSError, match=r"checksum|SHA-256"):
        values(url)
    faults.inject()
    reading.detach(url)
    reading.attach(url, settings)
    assert values(url) == RECORDS
    faults.inject(Rule(s3_faults.DENIED, key=r"\.part$"))
    reading.detach(url)
    reading.attach(url, settings)
    assert values(url) == RECORDS  # from the cache


def test_throttling_of_a_third_of_all_requests_costs_time_only(url: str, faults: S3Faults) -> None:
    faults.inject(Rule(s3_faults.SLOW_DOWN, share=0.3))
    reading.detach(url)
    reading.attach(url, ReadSettings(cache_size=0, timeout_s=20, endpoint=faults.endpoint))
    assert values(url) == RECORDS
    assert any(each.fault for each in faults.requests())
