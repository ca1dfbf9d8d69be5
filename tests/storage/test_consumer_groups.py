"""What consumer groups have committed: the latest record of a key, tombstones, transactions, and what is not known."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fixtures.logs.cleaner import compacted

from offsetfs.storage.coordinators import consumer_groups
from offsetfs.storage.coordinators.consumer_groups import ConsumerGroups, Lag
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.producers import ABORT, COMMIT
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("eager")]

OFFSETS = TopicPartition("__consumer_offsets", 7)
ORDERS = TopicPartition("orders", 0)
Pair = tuple[bytes, bytes | None]


def text(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def key(group: bytes, topic: bytes = b"orders", partition: int = 0, kind: int = 1) -> bytes:
    return kind.to_bytes(2, "big") + text(group) + text(topic) + partition.to_bytes(4, "big")


def value(offset: int, version: int = 3) -> bytes:
    fields = {
        0: text(b"") + bytes(8),
        1: text(b"") + bytes(8) + b"\xff" * 8,
        2: text(b"") + bytes(8),
        3: b"\xff" * 4 + text(b"metadata") + bytes(8),
        4: b"\xff" * 4 + b"\1" + bytes(8) + b"\0",
    }
    return version.to_bytes(2, "big") + offset.to_bytes(8, "big") + fields.get(version, bytes(20))


def group_key(group: bytes) -> bytes:
    return b"\0\2" + text(group)


def batch(*pairs: Pair, producer_id: int = -1) -> SealedBatch:
    data = build(
        [(key, value, (), 1000) for key, value in pairs],
        transactional=producer_id >= 0,
        producer_id=producer_id,
        producer_epoch=min(producer_id, 0),
        base_sequence=min(producer_id, 0),
    )
    return SealedBatch(memoryview(data), len(pairs), 0, Timestamp(1000), len(data))


def marker(producer_id: int, kind: int) -> SealedBatch:
    record = (b"\0\0" + kind.to_bytes(2, "big"), b"\0\0\0\0\0\7", (), 1000)
    data = build([record], transactional=True, control=True, producer_id=producer_id, producer_epoch=0)
    return SealedBatch(memoryview(data), 1, 0, Timestamp(1000), len(data))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(str(tmp_path), defaults={"segment.bytes": "2000"})
    yield directory
    directory.close()


@pytest.fixture
def log(writer: LogDirectory) -> Log:
    return writer.create_partition(OFFSETS)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def groups(log: Log, tmp_path: Path, said: list[str]) -> ConsumerGroups:
    return ConsumerGroups(LogDirectory.open(str(tmp_path), read_only=True), said.append)


def offsets(groups: ConsumerGroups, group: bytes = b"g") -> dict[str, int] | None:
    assert groups.refresh()
    commits = groups.commits(group)
    return None if commits is None else {str(each.partition): each.offset for each in commits}


def test_a_brokers_commits_are_read(golden: Path, said: list[str]) -> None:
    groups = ConsumerGroups(LogDirectory.open(str(golden), read_only=True), said.append)
    assert groups.refresh() and groups.names() == [b"billing", b"h-billing"]
    assert offsets(groups, b"billing") == {
        "codec-lz4-0": 123,
        **{f"keyed-{number}": 10 + number for number in range(4)},
    }
    ends = {"codec-lz4-0": 400, "keyed-0": 93, "keyed-1": 135, "keyed-2": 75, "keyed-3": 97}
    assert {str(lag.partition): lag.end for lag in groups.lag(b"billing")} == ends
    assert {lag.end for lag in groups.lag(b"h-billing")} == {None} and said == []


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("kind", [0, 1])
def test_every_version_of_a_commit_is_read(log: Log, groups: ConsumerGroups, version: int, kind: int) -> None:
    log.append(batch((key(b"g", kind=kind), value(42, version))))
    assert offsets(groups) == {"orders-0": 42}


def test_the_latest_commit_counts_and_a_tombstone_takes_it_away(log: Log, groups: ConsumerGroups) -> None:
    log.append(batch((key(b"g"), value(1)), (key(b"g", kind=0), value(2)), (key(b"g", partition=1), value(9))))
    assert offsets(groups) == {"orders-0": 2, "orders-1": 9}
    log.append(batch((key(b"g"), None), (key(b"g", partition=7), None)))
    assert offsets(groups) == {"orders-1": 9}
    log.append(batch((key(b"g", partition=1), None)))
    assert offsets(groups) is None and groups.names() == []


def test_a_group_that_has_only_members_is_there_until_it_is_deleted(log: Log, groups: ConsumerGroups) -> None:
    log.append(batch((group_key(b"g"), b"\0\3...")))
    assert offsets(groups) == {} and groups.names() == [b"g"]
    log.append(batch((group_key(b"g"), None), (group_key(b"other"), None)))
    assert offsets(groups) is None


def test_what_a_transaction_commits_counts_when_it_ends(log: Log, groups: ConsumerGroups) -> None:
    log.append(batch((key(b"g"), value(1))))
    log.append(batch((key(b"g"), value(2)), producer_id=1))
    log.append(batch((key(b"g", partition=1), value(3)), producer_id=2))
    assert offsets(groups) == {"orders-0": 1}
    log.append(batch((key(b"g", partition=2), value(4))))  # not held back by open transactions
    assert offsets(groups) == {"orders-0": 1, "orders-2": 4}
    log.append(marker(2, ABORT))
    log.append(marker(1, COMMIT))
    assert offsets(groups) == {"orders-0": 2, "orders-2": 4}
    log.append(batch((key(b"g"), value(5)), producer_id=1))
    log.append(batch((key(b"g"), value(6))))
    log.append(marker(1, COMMIT))
    assert offsets(groups) == {"orders-0": 6} | {"orders-2": 4}


# --- tombstones and open transactions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("staged", "removed"), [(0, 1), (1, 0), (1, 1)])
def test_a_tombstone_takes_away_what_open_transactions_have_staged(
    log: Log, groups: ConsumerGroups, staged: int, removed: int
) -> None:
    log.append(batch((key(b"g", kind=staged), value(1)), (key(b"g", partition=1), value(1)), producer_id=1))
    log.append(batch((key(b"g"), value(2)), producer_id=2))
    log.append(batch((key(b"g", kind=removed), None)))
    assert groups.refresh() and groups.committed_to(ORDERS) == []
    log.append(batch((key(b"g"), value(3)), producer_id=3))
    assert groups.refresh() and groups.committed_to(ORDERS) == ["g"]  # staged later: it counts when it is committed
    for producer_id in (1, 2):
        log.append(marker(producer_id, COMMIT))
    assert offsets(groups) == {"orders-1": 1}
    log.append(marker(3, COMMIT))
    assert offsets(groups) == {"orders-0": 3, "orders-1": 1}


def test_a_tombstone_in_a_transaction_counts_at_once(log: Log, groups: ConsumerGroups) -> None:
    """As in OffsetMetadataManager.replay, which does not ask for the producer of a tombstone."""
    log.append(batch((key(b"g"), value(1))))
    log.append(batch((key(b"g"), value(2)), (key(b"g"), None), producer_id=1))
    assert offsets(groups) is None
    log.append(marker(1, ABORT))
    assert offsets(groups) is None


def test_staged_commits_that_are_gone_use_no_memory(
    log: Log, groups: ConsumerGroups, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_groups, "COMMITS_MAX", 2)
    for _ in range(3):
        log.append(batch((key(b"g"), value(1)), (key(b"g"), value(2)), producer_id=1))  # the second one replaces
        log.append(batch((key(b"g"), value(3)), producer_id=2))
        log.append(batch((key(b"g"), None)))
        log.append(batch((key(b"g"), value(4)), (key(b"g", partition=1), value(5)), producer_id=1))
        log.append(marker(1, ABORT))
    assert offsets(groups) is None and said == []


CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_log_of_a_broker_with_a_tombstone_in_a_transaction(tmp_path: Path, is_cleaned: bool) -> None:
    path = tmp_path / "__consumer_offsets-0"
    path.mkdir()
    shutil.copy(CASES / "consumer-offsets-staged-tombstone-commit.log", path / f"{0:020d}.log")
    if is_cleaned:
        compacted(tmp_path, TopicPartition("__consumer_offsets", 0))
    groups = ConsumerGroups(LogDirectory.open(str(tmp_path), read_only=True), print)
    assert offsets(groups, b"c") is None and offsets(groups, b"a") == {"t-0": 15}


def test_a_commit_of_an_unknown_version_replaces_the_one_before_and_is_named(
    log: Log, groups: ConsumerGroups, said: list[str]
) -> None:
    """Once the older commit was shown. The latest one counts, and no broker of a known version can read it."""
    log.append(batch((key(b"g"), value(1)), (key(b"g", partition=1), value(2))))
    log.append(batch((key(b"g"), value(3)), producer_id=1))
    log.append(batch((key(b"g"), value(4, 5))))
    log.append(marker(1, COMMIT))  # of an older commit
    assert offsets(groups) == {"orders-1": 2} and "version 5" in said[0]
    assert groups.state(b"g") == {
        "type": None,
        "state": None,
        "unreadable": ["the commit at offset 3 of __consumer_offsets"],
    }
    log.append(batch((key(b"g", partition=1), None)))
    assert offsets(groups) == {} and groups.names() == [b"g"]
    log.append(batch((key(b"g"), value(6))))
    assert offsets(groups) == {"orders-0": 6} and groups.state(b"g") is None


UNKNOWN: dict[str, tuple[bytes | None, bytes | None, str]] = {
    "type": (key(b"g", kind=77), value(1), "type 77"),
    "version": (key(b"g"), value(1, 5), "version 5"),
    "negative version": (key(b"g"), b"\xff\xff" + bytes(30), "version -1"),
    "no key": (None, value(1), "without a whole key"),
    "short key": (b"\0\1\0", value(1), "without a whole key"),
    "short group": (b"\0\1\0\7abc", value(1), "inside the group's name"),
    "negative group": (b"\0\1\xff\xff", value(1), "inside the group's name"),
    "short value": (key(b"g"), value(1)[:12], "ends too early"),
}


@pytest.mark.parametrize(("a_key", "a_value", "sentence"), UNKNOWN.values(), ids=list(UNKNOWN))
def test_what_is_not_known_is_passed_over_and_reported_once(
    log: Log, groups: ConsumerGroups, said: list[str], a_key: bytes, a_value: bytes, sentence: str
) -> None:
    log.append(batch((a_key, a_value), (a_key, a_value), (key(b"g"), value(8))))
    assert offsets(groups) == {"orders-0": 8}
    assert len(said) == 1 and sentence in said[0]


@pytest.mark.parametrize("topic", [b"../x", b"", b"a" * 300, b"\xff"])
def test_a_commit_of_no_legal_topic_is_passed_over(
    log: Log, groups: ConsumerGroups, said: list[str], topic: bytes
) -> None:
    log.append(batch((key(b"g", topic), value(1)), (b"\0\1" + text(b"g") + b"\0\7x", value(1)), (key(b"g"), value(2))))
    assert offsets(groups) == {"orders-0": 2}
    assert said == ["__consumer_offsets: a commit names no partition; it is passed over"]


def test_records_of_the_newer_protocols_are_no_fault(log: Log, groups: ConsumerGroups, said: list[str]) -> None:
    log.append(batch((b"\0\3" + text(b"g"), b"\0\0\0\0\0\1\0")))
    assert offsets(groups) == {} and groups.names() == [b"g"] and said == []
    assert groups.state(b"g") == {
        "type": "consumer",
        "state": "Empty",
        "epoch": 1,
        "assignment_epoch": None,
        "members": [],
    }


@pytest.mark.damages
def test_a_damaged_batch_costs_its_own_commits(log: Log, groups: ConsumerGroups, said: list[str]) -> None:
    for number in range(40):
        log.append(batch((key(b"g", partition=number), value(number))))
    assert len(log.snapshot()) > 1
    path = Path(log.snapshot().first.log_path)
    content = bytearray(path.read_bytes())
    content[[place for place, _ in log.snapshot().first.headers()][3] + 70] ^= 1
    path.write_bytes(content)
    assert offsets(groups) == {f"orders-{number}": number for number in range(40) if number != 3}
    assert len(said) == 1 and "checksum" in said[0]


@pytest.mark.promise("Memory, open files and the time per request are bounded, whatever the files contain.")
def test_memory_is_bounded(log: Log, groups: ConsumerGroups, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_groups, "COMMITS_MAX", 10)
    for number in range(30):
        log.append(batch((key(b"g", partition=number), value(number)), producer_id=number % 2 - 1))
        log.append(batch((group_key(b"%d" % number), b"\0\3")))
    assert groups.refresh() and groups.refresh()
    kept = groups.commits(b"g")
    assert kept is not None and len(kept) + len(groups.names()) <= 11 and "more than 10" in said[0]
    log.append(batch((key(b"g", partition=0), None), (key(b"g", partition=0), value(77))))
    assert (offsets(groups) or {})["orders-0"] == 77  # there is space again


def test_building_takes_steps_and_goes_on_where_it_stopped(log: Log, groups: ConsumerGroups) -> None:
    for number in range(100):
        log.append(batch((key(b"g", partition=number), value(number))))
    assert len(log.snapshot()) > 3
    steps = 1
    while not groups.refresh(bytes_max=1000):
        steps += 1
    assert steps > 5 and offsets(groups) == {f"orders-{number}": number for number in range(100)}


def test_nothing_waits_where_nothing_may_wait(log: Log, groups: ConsumerGroups) -> None:
    with pytest.raises(WouldBlock):
        groups.refresh(nowait=True)
    assert groups.refresh() and groups.refresh(nowait=True)
    log.append(batch((key(b"g"), value(1))))
    with pytest.raises(WouldBlock):
        groups.refresh(nowait=True)
    assert groups.refresh() and groups.commits(b"g", nowait=True)
    with groups._replay._lock:
        for ask in (groups.names, lambda *, nowait: groups.commits(b"g", nowait=nowait)):
            with pytest.raises(WouldBlock):
                ask(nowait=True)


def test_the_lag_follows_the_ends_of_the_logs(writer: LogDirectory, log: Log, groups: ConsumerGroups) -> None:
    orders = writer.create_partition(ORDERS)
    log.append(batch((key(b"g"), value(1)), (key(b"g", b"gone"), value(2))))
    assert groups.refresh() and groups.lag(b"g") == [Lag(TopicPartition("gone", 0), 2, None), Lag(ORDERS, 1, 0)]
    orders.append(batch((b"k", b"v"), (b"k", b"w")))
    assert groups.lag(b"g")[1] == Lag(ORDERS, 1, 2)


def _make_anew(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.0123456789abcdef0123456789abcdef-delete"))
    path.mkdir()
    (path / f"{0:020d}.log").touch()


def _delete(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.0123456789abcdef0123456789abcdef-delete"))


def _cut(path: Path) -> None:
    os.truncate(max(path.glob("*.log")), 0)


@pytest.mark.damages
@pytest.mark.parametrize("change", [_make_anew, _delete, _cut])
def test_a_partition_that_is_another_one_begins_again(
    writer: LogDirectory, log: Log, groups: ConsumerGroups, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    log.append(batch((key(b"g"), value(1))))
    assert offsets(groups) == {"orders-0": 1}
    writer.close()
    change(tmp_path / str(OFFSETS))
    for _ in range(2):
        assert groups.refresh()
    assert groups.names() == []
