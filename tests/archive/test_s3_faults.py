"""The faults that the proxy before the S3 server injects, as an S3 client sees them."""

from __future__ import annotations

import errno
import time

import pytest
from fixtures.stores import s3_faults, s3_server
from fixtures.stores.s3_faults import Rule, S3Faults

from offsetfs.archive.object_store import ObjectStore, StoreSettings

pytestmark = pytest.mark.interop

DATA = bytes(range(256)) * 400


@pytest.fixture
def through(faults: S3Faults, request: pytest.FixtureRequest) -> ObjectStore:
    """A store that uses the proxy, with one object `a`."""
    place = f"s3://{s3_server.BUCKET}/faults-{abs(hash(request.node.nodeid)):x}"
    store = ObjectStore(place, StoreSettings(timeout_s=6, endpoint=faults.endpoint))
    store.put("a", DATA)
    faults.forget()
    return store


def test_requests_pass_and_are_counted(faults: S3Faults, through: ObjectStore) -> None:
    assert through.read("a") == DATA
    assert through.read("a", 10, 20) == DATA[10:20]
    assert through.create("b", b"new")
    assert not through.create("b", b"other")
    assert [each.key for each in through.objects("")] == ["a", "b"]
    assert faults.counts() == {"GET": 2, "PUT": 2, "LIST": 1}
    whole, part, created, refused, listed = faults.requests()
    assert whole.key.endswith("/a") and whole.received == len(DATA)
    assert (part.range, part.received) == ("bytes=10-19", 10)
    assert (created.status, created.sent, refused.status) == (200, 3, 412)
    assert listed.is_list


@pytest.mark.parametrize("fault", [s3_faults.INTERNAL, s3_faults.UNAVAILABLE, s3_faults.SLOW_DOWN, s3_faults.REFUSED])
def test_a_fault_of_a_moment_is_retried(fault: str, faults: S3Faults, through: ObjectStore) -> None:
    faults.inject(Rule(fault, ("GET",), count=1))
    assert through.read("a") == DATA
    assert [each.fault for each in faults.requests()] == [fault, ""]


@pytest.mark.parametrize(
    ("fault", "number", "words"),
    [
        (s3_faults.EXPIRED, errno.EACCES, "credentials have expired"),
        (s3_faults.DENIED, errno.EACCES, "GetObject"),
        (s3_faults.SILENT, errno.EIO, "no successful answer within 6 s"),
    ],
)
def test_a_lasting_fault_is_an_error(
    fault: str, number: int, words: str, faults: S3Faults, through: ObjectStore
) -> None:
    faults.inject(Rule(fault, ("GET",)))
    started = time.monotonic()
    with pytest.raises(OSError, match=words) as found:
        through.read("a")
    assert found.value.errno == number
    assert time.monotonic() - started < 30
    faults.inject()
    assert through.read("a") == DATA


def test_a_body_is_cut(faults: S3Faults, through: ObjectStore) -> None:
    faults.inject(Rule(s3_faults.CUT, ("GET",), count=1))
    try:
        assert through.read("a") == DATA
    except OSError as error:
        assert error.errno == errno.EIO
    assert faults.requests()[0].received == len(DATA) // 2


def test_a_bit_is_flipped(faults: S3Faults, through: ObjectStore) -> None:
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), count=1))
    wrong = through.read("a", 0, len(DATA))
    assert sum(one != other for one, other in zip(wrong, DATA, strict=True)) == 1
    assert through.read("a") == DATA


def test_an_answer_is_lost_after_the_request_was_executed(faults: S3Faults, through: ObjectStore) -> None:
    faults.inject(Rule(s3_faults.LOST_ANSWER, ("PUT",), count=1))
    through.put("b", b"there")
    assert [each.fault for each in faults.requests()] == [s3_faults.LOST_ANSWER, ""]
    assert through.read("b") == b"there"


def test_a_bucket_turns_read_only(faults: S3Faults, through: ObjectStore) -> None:
    faults.become_read_only()
    with pytest.raises(OSError, match="PutObject") as found:
        through.put("b", b"new")
    assert found.value.errno == errno.EACCES
    assert through.read("a") == DATA


def test_a_flipped_bit_of_a_whole_object_is_noticed_and_the_object_read_again(
    faults: S3Faults, through: ObjectStore
) -> None:
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), count=1))
    assert through.read("a") == DATA
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",)))
    with pytest.raises(OSError, match="the object is damaged: its bytes do not match their checksum"):
        through.read("a")


def test_a_rule_hits_keys_and_a_share_of_requests(faults: S3Faults, through: ObjectStore) -> None:
    through.put("b", b"other")
    faults.inject(Rule(s3_faults.DENIED, key="/b$"))
    with pytest.raises(PermissionError):
        through.read("b")
    assert through.read("a") == DATA
    faults.forget()
    faults.inject(Rule(s3_faults.FLIPPED, ("GET",), share=0.5))
    wrong = sum(through.read("a", 0, len(DATA)) != DATA for _ in range(40))
    assert 8 <= wrong <= 32


def test_latency_and_bandwidth_are_limited(faults: S3Faults, through: ObjectStore) -> None:
    faults.slow_down(0.050, None)
    started = time.monotonic()
    through.read("a", 0, 10)
    assert time.monotonic() - started >= 0.050
    faults.slow_down(0, 1e6)
    started = time.monotonic()
    assert through.read("a") == DATA
    assert time.monotonic() - started >= 0.8 * len(DATA) / 1e6


def test_an_answer_starts_late(faults: S3Faults, through: ObjectStore) -> None:
    faults.inject(Rule(s3_faults.SLOW_START, ("GET",), seconds=0.2))
    started = time.monotonic()
    assert through.read("a") == DATA
    assert time.monotonic() - started >= 0.2
