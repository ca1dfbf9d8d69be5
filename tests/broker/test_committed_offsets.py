"""Committed offsets: in transactions of a Kafka broker, beside another writer, in damaged partitions; their expiry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import Groups, join_request
from fixtures.logs.group_records import key, number, value
from fixtures.logs.planted_logs import marker, sealed_records
from fixtures.simulation.fake_clock import FakeClock

from offsetfs.kafka.broker.groups import group_table
from offsetfs.kafka.broker.groups.group import GroupState
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Log, LogDirectory, TopicPartition
from offsetfs.storage.coordinators import CommittedOffset, commit_key, commit_value, partition_of
from offsetfs.storage.partition.producers import ABORT, COMMIT

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
UNSTABLE = -ErrorCode.UNSTABLE_OFFSET_COMMIT
MINUTE_MS = 60_000


# --- transactions of a Kafka broker, which this one does not write


def home_of(directory: LogDirectory) -> Log:
    return directory.log(TopicPartition("__consumer_offsets", partition_of("g", 2)))


def in_transaction(offset: int) -> Sequence[tuple[bytes | None, bytes, tuple[()], int]]:
    return [(commit_key("g", T), commit_value(CommittedOffset(offset, -1, "", 1000)), (), 1000)]


@pytest.mark.parametrize(("kind", "after"), [(COMMIT, 20), (ABORT, 10)])
async def test_an_offset_of_a_transaction_is_committed_with_it(
    groups: Groups, directory: LogDirectory, kind: int, after: int
) -> None:
    """Once those of aborted and open transactions counted, so that a consumer would have skipped records."""
    assert await groups.commit(10) == ErrorCode.NONE
    log = home_of(directory)
    log.append(sealed_records(in_transaction(20), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    assert await groups.committed() == 10
    assert await groups.committed(is_stable_only=True) == UNSTABLE
    log.append(marker(7, kind))
    assert (await groups.committed(), await groups.committed(is_stable_only=True)) == (after, after)
    assert await Groups(directory).committed() == after  # of a coordinator that starts now


async def test_a_commit_after_that_of_a_transaction_is_not_replaced_when_it_ends(
    groups: Groups, directory: LogDirectory
) -> None:
    assert await groups.commit(10) == ErrorCode.NONE
    log = home_of(directory)
    log.append(sealed_records(in_transaction(20), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    assert await groups.commit(30) == ErrorCode.NONE
    log.append(marker(7, COMMIT))
    assert await groups.committed() == 30
    assert await Groups(directory).committed() == 30


# --- members that commit


async def test_a_commit_that_had_to_wait_is_checked_when_it_is_stored(groups: Groups) -> None:
    """Meanwhile a rebalance may have given its partitions to another member."""
    first = await groups.stable()
    (shard,) = groups.table.log._shards_of("g")
    codes: list[int] = []

    async def commit() -> None:
        codes.append(await groups.commit(7, first.generation_id, first.member_id))

    async with trio.open_nursery() as nursery, shard.lock:
        nursery.start_soon(commit)
        await trio.testing.wait_all_tasks_blocked()
        await groups.join(first.member_id)  # the next generation
    assert codes == [ErrorCode.ILLEGAL_GENERATION]
    assert await groups.committed() == -1


async def test_commits_that_are_accepted_and_refused(groups: Groups) -> None:
    assert await groups.commit(1, 3, "member") == ErrorCode.ILLEGAL_GENERATION  # of a group that is not there
    assert await groups.commit(1) == ErrorCode.NONE  # of a consumer that assigns partitions to itself
    assert await groups.commit(2, 3, "member") == ErrorCode.UNKNOWN_MEMBER_ID
    joined = await groups.join()
    member, generation = joined.member_id, joined.generation_id
    assert await groups.commit(3, generation, member) == ErrorCode.REBALANCE_IN_PROGRESS
    await groups.sync(member, generation, member)
    assert await groups.commit(4) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.commit(5, generation, "another") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await groups.commit(6, generation + 1, member) == ErrorCode.ILLEGAL_GENERATION
    assert await groups.committed() == 1
    assert await groups.commit(7, generation, member) == ErrorCode.NONE
    assert await groups.committed() == 7


# --- expiry


@pytest.fixture
async def aging(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Groups]:
    """A coordinator whose offsets expire after ten minutes."""
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    directory = LogDirectory.open(str(tmp_path), clock=clock)
    directory.create_partitions([T])
    yield Groups(directory, ServerSettings(offsets_retention_minutes=10, offsets_topic_num_partitions=2))
    directory.close()


async def test_an_offset_without_members_expires_after_its_commit(aging: Groups, clock: FakeClock) -> None:
    assert await aging.commit(3) == ErrorCode.NONE
    clock.advance(10 * MINUTE_MS - 1)
    await aging.coordinator.offsets.expire("g")
    assert await aging.committed() == 3
    clock.advance(1)
    await aging.coordinator.offsets.expire("g")
    assert await aging.committed() == -1
    assert aging.table.names() == []
    assert await Groups(aging.table.directory).committed() == -1  # its deletion is stored


async def test_offsets_of_a_group_expire_after_it_became_empty(aging: Groups, clock: FakeClock) -> None:
    joined = await aging.stable()
    assert await aging.commit(3, joined.generation_id, joined.member_id) == ErrorCode.NONE
    clock.advance(20 * MINUTE_MS)
    await aging.coordinator.offsets.expire("g")
    assert await aging.committed() == 3  # its members may use it
    await aging.leave(joined.member_id)
    clock.advance(10 * MINUTE_MS - 1)
    await aging.coordinator.offsets.expire("g")
    assert (await aging.committed(), aging.group.state) == (3, GroupState.EMPTY)
    clock.advance(1)
    await aging.coordinator.offsets.expire("g")
    assert (await aging.committed(), aging.table.names()) == (-1, [])


async def test_an_offset_that_no_member_reads_expires_while_the_group_is_stable(
    aging: Groups, clock: FakeClock
) -> None:
    """Also of members whose subscription says version 1 and has only the fields of version 0."""
    subscription = b"\0\1" + b"\0\0\0\1\0\5other" + b"\xff\xff\xff\xff"
    request = join_request()
    request.protocols = [m.JoinGroupRequestProtocol("range", subscription)]
    joined = await aging.membership.join(request, 3, "client", "/host")
    await aging.sync(joined.member_id, joined.generation_id, joined.member_id)
    assert await aging.commit(3, joined.generation_id, joined.member_id) == ErrorCode.NONE
    clock.advance(10 * MINUTE_MS)
    await aging.coordinator.offsets.expire("g")
    assert (await aging.committed(), aging.group.state) == (-1, GroupState.STABLE)


async def test_an_offset_of_an_open_transaction_keeps_its_group(aging: Groups, clock: FakeClock) -> None:
    assert await aging.commit(3) == ErrorCode.NONE
    home_of(aging.table.directory).append(
        sealed_records(in_transaction(20), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    )
    clock.advance(20 * MINUTE_MS)
    await aging.coordinator.offsets.expire("g")
    assert await aging.committed() == 3


async def test_a_clock_that_jumps_ahead_does_not_expire_offsets(aging: Groups, clock: FakeClock) -> None:
    """As retention: a wrong clock makes everything old. Kafka has nothing comparable."""
    assert await aging.commit(3) == ErrorCode.NONE
    clock.jump_to(clock.ms + 365 * 24 * 60 * MINUTE_MS)
    await aging.coordinator.offsets.expire("g")
    assert await aging.committed() == 3


@pytest.mark.expect_log("could not be stored")
async def test_a_group_whose_deletion_could_not_be_stored_keeps_its_generation(aging: Groups, clock: FakeClock) -> None:
    """A group that begins again at generation 1 would accept commits of members that are gone."""
    joined = await aging.stable()
    await aging.leave(joined.member_id)
    clock.advance(20 * MINUTE_MS)
    aging.error = OSError(28, "No space left on device")
    deleted = await aging.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    assert deleted.results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert aging.group.generation == joined.generation_id + 1


# --- beside a broker that writes


@pytest.fixture
async def reading(directory: LogDirectory) -> AsyncIterator[Groups]:
    """A coordinator of the same directory that does not write."""
    opened = LogDirectory.open(directory.path, read_only=True)
    yield Groups(opened)
    opened.close()


async def test_a_read_only_coordinator_follows_the_one_that_writes(groups: Groups, reading: Groups) -> None:
    """Once it answered with the groups and offsets of its start."""
    await reading.coordinator.run()
    assert (await reading.committed(), reading.table.names()) == (-1, [])
    joined = await groups.stable()
    assert await groups.commit(3, joined.generation_id, joined.member_id) == ErrorCode.NONE
    assert await reading.committed() == 3
    assert await described(reading) == (GroupState.STABLE, [joined.member_id])
    await groups.leave(joined.member_id)
    with trio.fail_after(30):
        while await described(reading) != (GroupState.EMPTY, []):  # a log is looked at every few milliseconds
            await trio.sleep(0.01)
    await groups.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    with trio.fail_after(30):
        while (await reading.coordinator.admin.list(m.ListGroupsRequest(), 4)).groups:
            await trio.sleep(0.01)


async def described(groups: Groups) -> tuple[str, list[str]]:
    (found,) = (await groups.coordinator.admin.describe(m.DescribeGroupsRequest(["g"]), 5)).groups
    return found.group_state, [each.member_id for each in found.members]


# --- damage


@pytest.mark.damages
@pytest.mark.expect_log("not available until it can be read again")
async def test_groups_of_a_damaged_partition_get_an_error_and_the_others_are_served(
    groups: Groups, directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    """With what is left of the records a consumer would begin at an older commit, or at none."""
    assert await groups.commit(3) == ErrorCode.NONE
    other = next(name for name in "abcdefg" if partition_of(name, 2) != partition_of("g", 2))
    path = Path(directory.path, f"__consumer_offsets-{partition_of('g', 2)}", "00000000000000000000.log")
    directory.close()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    opened = LogDirectory.open(directory.path)
    try:
        damaged = Groups(opened)
        await damaged.table.log.load()
        assert str(path) in caplog.text and "__consumer_offsets" in caplog.text
        assert await damaged.committed() == -ErrorCode.NOT_COORDINATOR
        assert await damaged.commit(4) == ErrorCode.NOT_COORDINATOR
        assert (await damaged.join()).error_code == ErrorCode.NOT_COORDINATOR
        joined = await damaged.membership.join(join_request(group=other), 3, "client", "/host")
        assert joined.error_code == ErrorCode.NONE
    finally:
        opened.close()


UNREADABLE = {
    "commit": (commit_key("g", T), b"\0\5" + bytes(40)),
    "commit that ends too early": (commit_key("g", T), b"\0\3" + bytes(4)),
    "classic group": (key(2, "g"), b"\0\5" + bytes(40)),
    "consumer group": (key(3, "g"), b"\0\1" + bytes(40)),
    "consumer group that ends too early": (key(3, "g"), b"\0\0"),
    "share group": (key(11, "g"), b"\0\1" + bytes(40)),
    "streams group": (key(17, "g"), b"\0\1" + bytes(40)),
    "key": (b"\0\1\0", b"\0\3" + bytes(40)),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.expect_log("not available until it can be read again")
async def test_a_group_record_of_an_unknown_version_makes_its_partition_unavailable(
    groups: Groups, directory: LogDirectory, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """As in Kafka, whose coordinator does not load it. Once the older commit was served."""
    assert await groups.commit(3) == ErrorCode.NONE
    home_of(directory).append(sealed_records([(*UNREADABLE[name], (), 1000)]))
    for each in (groups, Groups(directory)):
        assert await each.committed() == -ErrorCode.NOT_COORDINATOR
        assert await each.commit(4) == ErrorCode.NOT_COORDINATOR
    assert "a record" in caplog.text


async def test_a_group_record_of_an_unknown_type_is_left_out(
    groups: Groups, directory: LogDirectory, expect_log: Callable[[str], None]
) -> None:
    """As in Kafka: it may be left over from an upgrade that was taken back."""
    expect_log("a record of the unknown type 99")
    assert await groups.commit(3) == ErrorCode.NONE
    home_of(directory).append(sealed_records([(key(99, "g"), b"\0\0" + bytes(40), (), 1000)]))
    assert await groups.committed() == await Groups(directory).committed() == 3


# --- groups of the newer protocols, which a Kafka broker has left


@pytest.mark.parametrize(
    ("written", "deleted"),
    [
        ((10, 11, 9, 13, 12, 14, 15), [15, 14, 13, 12, 10, 9, 11]),
        ((17, 19, 18, 23, 21, 20, 22), [23, 22, 21, 20, 19, 18, 17]),
    ],
    ids=["share", "streams"],
)
async def test_groups_of_newer_protocols_are_deleted_in_the_order_that_kafka_loads(
    groups: Groups, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch,
    written: tuple[int, ...], deleted: list[int],
) -> None:  # fmt: skip
    """Once in the order in which they were written: Kafka does not load a partition in which a member is deleted before
    its assignment, and all groups in it are unavailable.
    """
    assert await groups.commit(1) == ErrorCode.NONE
    log = home_of(directory)
    log.append(sealed_records([(key(kind, "g", "member"), value(number(1)), (), 1000) for kind in written]))
    first = log.next_offset
    refused = await groups.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    assert refused.results[0].error_code == ErrorCode.NON_EMPTY_GROUP  # its members may come back for a while
    monkeypatch.setattr(group_table, "NEWER_SESSION_S", -1)
    answer = await groups.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    assert answer.results[0].error_code == ErrorCode.NONE
    records = [each for batch in log.snapshot().active.batches() for each in batch.records() if each.offset >= first]
    assert [int.from_bytes((each.key or b"")[:2], "big") for each in records] == [1, *deleted]
    assert [each.value for each in records] == [None] * len(records)


# --- the number of partitions


async def test_the_setting_of_partitions_counts_for_a_new_topic_only(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    try:
        directory.create_partitions([T])
        assert await Groups(directory, ServerSettings(offsets_topic_num_partitions=3)).commit(5) == ErrorCode.NONE
        others = Groups(directory, ServerSettings(offsets_topic_num_partitions=7))
        assert await others.committed() == 5
        assert await others.commit(6) == ErrorCode.NONE
        made = [each for each in directory.partitions() if each.topic == "__consumer_offsets"]
        assert [each.partition for each in made] == [0, 1, 2]
        written = [each.partition for each in made if directory.log(each).next_offset]
        assert written == [partition_of("g", 3)]
    finally:
        directory.close()


async def test_a_request_that_stores_nothing_creates_no_topic(directory: LogDirectory, groups: Groups) -> None:
    assert (await groups.join(version=5)).error_code == ErrorCode.MEMBER_ID_REQUIRED
    deleted = await groups.coordinator.admin.delete(m.DeleteGroupsRequest(["g"]), 2)
    assert deleted.results[0].error_code == ErrorCode.NONE
    assert groups.table.names() == []
    assert directory.partitions() == [T]
