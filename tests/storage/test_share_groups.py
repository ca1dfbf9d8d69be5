"""The progress of share groups, from `__share_group_state`: snapshots, updates, tombstones, and malformed records."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from fixtures.logs.group_records import share_key
from fixtures.logs.group_records import share_snapshot as snapshot
from fixtures.logs.group_records import share_update as update

from offsetfs.storage import checkpoint
from offsetfs.storage.coordinators import share_groups
from offsetfs.storage.coordinators.share_groups import ShareGroups, ShareProgress, StateBatch
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import WouldBlock
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("eager")]

STATE = TopicPartition("__share_group_state", 0)
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes.fromhex("84df7ecc3cec4bf88e7cce5fe38c5168")
TOPIC_ID_TEXT = "hN9-zDzsS_iOfM5f44xRaA"

OF_A_BROKER = (
    (0, "0000000000000000000100000000ffffffffffffffff000001a204ce8b0d000001a204ce8b0d0100"),
    (1, "00000000000000000000000000000000000002000000000000000000000000000000030200010000"),
    (1, "00000000000000000000000000000000000402000000000000000400000000000000130000000000"),
    (1, "00000000000000000000000000000000000402000000000000000400000000000000070000010000"),
    (1, "00000000000000000000000000000000000402000000000000000800000000000000130000000000"),
    (1, "00000000000000000000000000000000000402000000000000000400000000000000070400020000"),
)
"""Key types and values as a broker 4.1 wrote them for a group that acknowledged four records of twenty, released the
next four, and rejected them when they came again."""


def key(kind: int, group: bytes = b"workers", partition: int = 0, topic_id: bytes = TOPIC_ID) -> bytes:
    return share_key(group.decode(), partition, topic_id, kind=kind)


def batch(*pairs: tuple[bytes, bytes | None]) -> SealedBatch:
    data = build([(key, value, (), 1000) for key, value in pairs])
    return SealedBatch(memoryview(data), len(pairs), 0, Timestamp(1000), len(data))


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[LogDirectory]:
    directory = LogDirectory.open(str(tmp_path))
    yield directory
    directory.close()


@pytest.fixture
def log(writer: LogDirectory) -> Log:
    return writer.create_partition(STATE)


@pytest.fixture
def orders(writer: LogDirectory, tmp_path: Path) -> Log:
    """A partition with the id that the records name, and twenty records."""
    log = writer.create_partition(ORDERS)
    checkpoint.write_topic_id(str(tmp_path / str(ORDERS) / checkpoint.PARTITION_METADATA), TOPIC_ID)
    log.append(batch(*[(b"k", b"v")] * 20))
    return log


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def groups(log: Log, tmp_path: Path, said: list[str]) -> ShareGroups:
    return ShareGroups(LogDirectory.open(str(tmp_path), read_only=True), said.append)


def progress(groups: ShareGroups, group: bytes = b"workers") -> list[ShareProgress]:
    assert groups.refresh()
    return groups.progress(group, {})


def test_what_a_broker_wrote_is_read(log: Log, orders: Log, groups: ShareGroups, said: list[str]) -> None:
    for kind, value in OF_A_BROKER:
        log.append(batch((key(kind), bytes.fromhex(value))))
    (found,) = progress(groups)
    assert found == ShareProgress(
        *("orders", TOPIC_ID_TEXT, 0, 4, 20, 1, 0), [StateBatch(4, 7, 4, 2), StateBatch(8, 19, 0, 0)]
    )
    assert found.lag == 12 and said == [] and groups.names() == [b"workers"] and groups.knows(b"workers")
    assert found.described() == {
        "topic": "orders",
        "topic_id": TOPIC_ID_TEXT,
        "partition": 0,
        "start_offset": 4,
        "lag": 12,
        "state_epoch": 1,
        "leader_epoch": 0,
        "batches": [
            {"first_offset": 4, "last_offset": 7, "state": "Archived", "delivery_count": 2},
            {"first_offset": 8, "last_offset": 19, "state": "Available", "delivery_count": 0},
        ],
    }


def test_a_snapshot_replaces_everything_and_a_tombstone_ends_it(log: Log, groups: ShareGroups) -> None:
    log.append(batch((key(0), snapshot(0, (0, 9, 2, 1))), (key(1), update(5, (10, 19, 0, 1)))))
    assert progress(groups)[0].batches == [StateBatch(5, 9, 2, 1), StateBatch(10, 19, 0, 1)]
    log.append(batch((key(0), snapshot(3, (3, 4, 0, 1), state_epoch=7, leader_epoch=8))))
    (found,) = progress(groups)
    assert found[3:] == (3, None, 7, 8, [StateBatch(3, 4, 0, 1)])
    log.append(batch((key(1), None)))  # says nothing: only a snapshot's key ends a state
    assert len(progress(groups)) == 1
    log.append(batch((key(0), None)))
    assert progress(groups) == [] and groups.names() == [] and not groups.knows(b"workers")


def test_an_update_changes_only_what_it_names(log: Log, groups: ShareGroups) -> None:
    log.append(batch((key(0), snapshot(4, leader_epoch=2)), (key(1), update(-1, (4, 5, 2, 1)))))
    assert progress(groups)[0][3:] == (4, None, 1, 2, [StateBatch(4, 5, 2, 1)])
    log.append(batch((key(1), update(6, leader_epoch=3))))
    assert progress(groups)[0][3:] == (6, None, 1, 3, [])


def test_groups_and_partitions_are_distinguished(log: Log, orders: Log, groups: ShareGroups) -> None:
    for group in (b"a", b"b"):
        for partition in (1, 0):
            log.append(batch((key(0, group, partition), snapshot(partition))))
    log.append(batch((key(0, b"a", 5, bytes(range(16))), snapshot(9))))
    assert [each[:4] for each in progress(groups, b"a")] == [
        (None, "AAECAwQFBgcICQoLDA0ODw", 5, 9),
        ("orders", TOPIC_ID_TEXT, 0, 0),
        ("orders", TOPIC_ID_TEXT, 1, 1),
    ]
    assert groups.names() == [b"a", b"b"] and groups.progress(b"c", {}) == []
    named = groups.progress(b"a", {"AAECAwQFBgcICQoLDA0ODw": "bad\nname", TOPIC_ID_TEXT: "renamed"})
    assert [each.topic for each in named] == [None, "renamed", "renamed"]


def test_the_lag_is_known_where_start_and_end_are(log: Log, orders: Log, groups: ShareGroups) -> None:
    log.append(batch((key(0, b"new"), snapshot(-1)), (key(0, b"beyond"), snapshot(50))))
    log.append(
        batch((key(0, b"elsewhere", 3), snapshot(1)), (key(0, b"some"), snapshot(2, (4, 5, 4, 1), (6, 9, 0, 3))))
    )
    lags = {group: progress(groups, group)[0].lag for group in (b"new", b"beyond", b"elsewhere", b"some")}
    assert lags == {b"new": None, b"beyond": 0, b"elsewhere": None, b"some": 16}


@pytest.mark.long
@pytest.mark.parametrize(
    ("a_key", "a_value", "sentence"),
    [
        (b"", snapshot(1), "without a whole key"),
        (key(2), snapshot(1), "unknown type 2"),
        (key(0)[:-1], snapshot(1), "no group, topic id and partition"),
        (key(0) + b"x", snapshot(1), "no group, topic id and partition"),
        (pack(">hh", 0, -5) + bytes(30), snapshot(1), "no group, topic id and partition"),
        (key(0), b"", "unknown version -1"),
        (key(0), b"\0\1" + snapshot(1)[2:], "unknown version 1"),
        (key(0), snapshot(1)[:20], "ends too early"),
        (key(1), update(1, (2, 3, 0, 0))[:-9], "ends too early"),
        (key(0), snapshot(1)[:38] + b"\xff\xff\xff\xff\x0f\0", "ends too early"),
        (key(1), update(1, (5, 4, 0, 0)), "an invalid state batch"),
        (key(1), update(1, (-5, 4, 0, 0)), "an invalid state batch"),
        (key(1), update(1, (5, 6, 9, 0)), "an invalid state batch"),
        (key(1), update(1, (5, 6, -1, 0)), "an invalid state batch"),
    ],
    ids=itertools.count(),
)
def test_what_is_not_known_is_passed_over_and_reported_once(
    log: Log, groups: ShareGroups, said: list[str], a_key: bytes, a_value: bytes, sentence: str
) -> None:
    log.append(batch((key(0, b"sound"), snapshot(7))))
    for _ in range(3):
        log.append(batch((a_key, a_value)))
    assert progress(groups, b"sound")[0].start_offset == 7
    assert len(said) == 1 and sentence in said[0] and said[0].startswith("__share_group_state: ")


@pytest.mark.parametrize("seed", range(20))
def test_no_bytes_end_the_replay(log: Log, groups: ShareGroups, seed: int) -> None:
    chance = random.Random(seed)
    sound = [(key(0), snapshot(1, (1, 5, 2, 1), (8, 9, 0, 3))), (key(1), update(3, (4, 9, 4, 2)))]
    for _ in range(100):
        pair = [bytearray(each) for each in chance.choice(sound)]
        for _ in range(chance.randrange(4)):
            data = chance.choice(pair)
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
            if chance.random() < 0.2:
                del data[chance.randrange(len(data) + 1) :]
        log.append(batch((bytes(pair[0]), bytes(pair[1]))))
    assert groups.refresh()
    for name in groups.names():
        for each in groups.progress(name, {}):
            each.described()
    log.append(batch((key(0), snapshot(77))))
    assert 77 in [each.start_offset for each in progress(groups)]


@pytest.mark.promise("Memory, open files and the time per request are bounded, whatever the files contain.")
def test_memory_is_bounded(log: Log, groups: ShareGroups, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "BATCHES_MAX", 50)
    log.append(batch((key(0, b"large"), snapshot(5, *[(2 * n, 2 * n, 0, 1) for n in range(60)]))))
    log.append(batch((key(0, b"small"), snapshot(6, (7, 8, 2, 1)))))
    (large,) = progress(groups, b"large")
    assert (large.start_offset, large.batches, large.lag) == (5, None, None) and large.described()["batches"] is None
    assert progress(groups, b"small")[0].batches == [StateBatch(7, 8, 2, 1)]
    assert len(said) == 1 and "more than 50 state batches" in said[0]
    for number in range(100):
        log.append(batch((key(0, b"%d" % number), snapshot(1))))
    assert groups.refresh() and len(groups.names()) == 49
    for number in range(100):
        log.append(batch((key(0, b"%d" % number), None)))
    log.append(batch((key(0, b"large"), snapshot(9, (9, 9, 0, 1)))))
    assert progress(groups, b"large")[0].batches == [StateBatch(9, 9, 0, 1)]  # there is space again


def test_nothing_long_is_done_where_nothing_may_wait(log: Log, groups: ShareGroups) -> None:
    with pytest.raises(WouldBlock):
        groups.refresh(nowait=True)
    log.append(batch((key(0), snapshot(5, (6, 6, 0, 1)))))
    assert groups.refresh() and groups.refresh(nowait=True)
    with pytest.raises(WouldBlock):
        groups.progress(b"workers", {}, nowait=True)  # topic ids are to be read
    assert len(groups.progress(b"workers", {})) == len(groups.progress(b"workers", {}, nowait=True)) == 1
    log.append(batch((key(0), snapshot(5, *[(2 * n, 2 * n, 0, 1) for n in range(2000)]))))
    assert groups.refresh()
    with pytest.raises(WouldBlock):
        groups.progress(b"workers", {}, nowait=True)
    assert len(groups.progress(b"workers", {})[0].batches or ()) == 1997


def test_many_updates_are_combined_as_they_come(log: Log, groups: ShareGroups) -> None:
    log.append(batch((key(0), snapshot(0))))
    for number in range(60):
        log.append(batch(*[(key(1), update(-1, (n, n, 2, 1))) for n in range(number * 50, number * 50 + 50)]))
    assert groups.refresh()
    (state,) = groups._replay._replays.values()
    assert state.budget.items < 2 * share_groups._COMBINE_MIN
    assert progress(groups)[0].batches == [StateBatch(0, 2999, 2, 1)]
