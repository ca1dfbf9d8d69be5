"""A log directory is restored into our own broker in the process of the test."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.broker.changed_responses import change_responses
from fixtures.broker.running import Running
from fixtures.logs import metadata_records
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.metadata_records import MetadataDirectory
from fixtures.logs.remote_heads import NOTE, make_log_with_remote_head
from fixtures.logs.replicated_logs import TIME, add, add_transaction

from offsetfs.common.name_patterns import NamePattern
from offsetfs.kafka.client import metadata
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import KafkaError
from offsetfs.kafka.client.metadata import TOPIC_RESOURCE
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.restore.group_plan import GroupNotFound
from offsetfs.kafka.restore.partition_target import PartitionTarget
from offsetfs.kafka.restore.producing import PartitionProducing
from offsetfs.kafka.restore.restore_to_cluster import RestoreOptions, RestoreResult, restore
from offsetfs.kafka.restore.topic_plan import RestoreRefused
from offsetfs.storage import RAW, READ_COMMITTED, Log, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.coordinators import (
    NO_EXPIRY,
    OFFSETS_TOPIC,
    CommittedOffset,
    commit_key,
    commit_value,
)
from offsetfs.storage.directory import MirroredTopic, MirrorFile
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format.batch import Batch, build
from offsetfs.storage.records.format.batch_header import seal_checksum

pytestmark = pytest.mark.unit

QUICK = ClientProperties(reconnect_backoff_ms=1, reconnect_backoff_max_ms=2, retry_backoff_ms=5)
ORDERS = TopicPartition("orders", 0)
ALL = NamePattern(".*")


@pytest.fixture
def orders(source: LogDirectory) -> Log:
    """Values `a` to `g`: an lz4 batch, an aborted and a committed transaction, a gap, LogAppendTime."""
    log = source.create_partition(ORDERS, {"retention.ms": "-1", "max.message.bytes": "500000"})
    add(log, 0, b"a", b"b", codec="lz4")
    add_transaction(log, 2, b"x", b"y", sequence=0, is_commit=False)
    add_transaction(log, 5, b"c", b"d", sequence=2, is_commit=True)
    add(log, 20, b"e", b"f", codec="zstd")
    add(log, 22, b"g", timestamp_type="LogAppendTime")
    return log


async def restored(
    running: Running,
    source: LogDirectory,
    said: list[str] | None = None,
    properties: ClientProperties = QUICK,
    **options: Any,
) -> RestoreResult:
    progress: list[int] = []
    async with ClusterClient([running.address], properties) as client:
        with trio.fail_after(20):
            return await restore(
                client,
                source,
                RestoreOptions(**options),
                on_progress=lambda done, _: progress.append(done),
                on_omission=pytest.fail if said is None else said.append,
            )


def shown(log: Log) -> list[tuple[int, bytes | None, bytes | None, Any, int]]:
    return [(each.offset, each.key, each.value, each.headers, each.timestamp) for each in LogReader(log).records()]


def commit(source: LogDirectory, group: str, **offsets: int) -> None:
    partition = TopicPartition(OFFSETS_TOPIC, 0)
    log = source.log(partition) if partition in source.partitions() else source.create_partition(partition)
    for topic, offset in offsets.items():
        committed = CommittedOffset(offset, -1, "", TIME, NO_EXPIRY)
        record = commit_key(group, TopicPartition(topic, 0)), commit_value(committed), (), TIME
        log.append_replicated(bytes(build([record], base_offset=log.next_offset)))


@pytest.mark.parametrize("is_dry", [True, False])
async def test_records_that_are_only_in_remote_storage_are_named(
    running: Running, cluster: LogDirectory, tmp_path: Path, is_dry: bool
) -> None:
    said: list[str] = []
    with closing(LogDirectory.open(str(make_log_with_remote_head(tmp_path / "tiered")), read_only=True)) as source:
        await restored(running, source, said, dry_run=is_dry)
        assert said == [f"orders-0: {NOTE}; restored from offset 10 on"]
        if not is_dry:
            assert [each.value for each in LogReader(cluster.log(ORDERS)).records()] == [
                each.value for each in LogReader(source.log(ORDERS)).records()
            ]


async def test_records_in_remote_storage_before_the_asked_time_are_not_named(running: Running, tmp_path: Path) -> None:
    with closing(LogDirectory.open(str(make_log_with_remote_head(tmp_path / "tiered")), read_only=True)) as source:
        last = [each.timestamp for each in LogReader(source.log(ORDERS)).records()][-1]
        await restored(running, source, from_timestamp=last + 1)


async def test_committed_records_arrive_in_order_with_keys_headers_and_times(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    result = await restored(running, source)
    times = [TIME, TIME + 1, TIME + 5, TIME + 6, TIME + 20, TIME + 21, TIME + 22]
    expected = [
        (at, b"k-" + value, value, (("h", b"1"),), time)
        for at, (value, time) in enumerate(zip([b"a", b"b", b"c", b"d", b"e", b"f", b"g"], times, strict=True))
    ]
    assert shown(cluster.log(ORDERS)) == expected
    assert [(each.records, each.last_offset, each.end_offset, each.error) for each in result.partitions] == [
        (7, 22, 7, None)
    ]


async def test_whole_batches_stay_as_they_are_but_for_the_producer(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    await restored(running, source)

    def described(batches: list[Batch]) -> list[tuple[str, int, bytes]]:
        return [(each.header.codec_name, each.header.count, bytes(each.data[61:])) for each in batches]

    there = list(LogReader(cluster.log(ORDERS), isolation=RAW).batches())
    here = list(LogReader(orders, isolation=READ_COMMITTED).batches())
    assert described(there) == described(here)
    assert not any(each.header.is_transactional or each.header.is_control for each in there)
    assert [each.header.base_sequence for each in there] == [0, 2, 4, 6]


async def test_topics_have_their_partitions_and_settings(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    source.create_partitions([TopicPartition("users", 0), TopicPartition("users", 1)])
    commit(source, "g", orders=3)
    await restored(running, source, settings={"retention.ms": "5000", "max.message.bytes": ""})
    assert [str(each) for each in cluster.partitions() if each.topic != OFFSETS_TOPIC] == [
        "orders-0",
        "users-0",
        "users-1",
    ]
    assert cluster.settings_of("orders") == {"retention.ms": "5000"}


async def test_log_append_time_is_set_when_the_records_are_there(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    source.configure("orders", {"message.timestamp.type": "LogAppendTime"})
    await restored(running, source)
    assert [time for *_, time in shown(cluster.log(ORDERS))][-1] == TIME + 22
    assert cluster.settings_of("orders")["message.timestamp.type"] == "LogAppendTime"


async def test_a_topic_of_a_broker_has_the_settings_of_its_metadata_log(
    running: Running, cluster: LogDirectory, source: LogDirectory
) -> None:
    for name in ("orders", "users"):
        log = source.create_partition(TopicPartition(name, 0))
        add(log, 0, b"a", timestamp_type="LogAppendTime")
    source.close()
    metadata = MetadataDirectory(Path(source.path))
    metadata.append(metadata_records.topics(orders=[1], users=[1]))
    kept = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
    metadata.append([metadata_records.setting(metadata_records.TOPIC, "orders", *each) for each in kept.items()])
    with closing(LogDirectory.open(source.path, read_only=True)) as opened:
        await restored(running, opened)
    assert cluster.settings_of("orders") == kept and cluster.settings_of("users") == {}
    assert [time for *_, time in shown(cluster.log(ORDERS))] == [TIME]


async def test_a_topic_that_would_replace_the_times_is_refused(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    add(source.create_partition(TopicPartition("users", 0)), 0, b"u")
    cluster.create_partition(ORDERS, {"message.timestamp.type": "LogAppendTime"})
    with pytest.raises(RestoreRefused, match="orders has LogAppendTime in the cluster; set "):
        await restored(running, source, into_existing=True)
    assert cluster.partitions() == [ORDERS]
    cluster.configure("orders", {"message.timestamp.type": "CreateTime"})
    await restored(running, source, into_existing=True)
    assert [time for *_, time in shown(cluster.log(ORDERS))][-1] == TIME + 22


async def test_settings_of_many_topics_are_asked_for_in_several_requests(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may bound a response: `serve` does at 100,000 settings."""
    asked = list[list[str]]()

    def note(request: Any, _response: Any) -> None:
        if isinstance(request, m.DescribeConfigsRequest) and request.resources[0].resource_type == TOPIC_RESOURCE:
            asked.append([each.resource_name for each in request.resources])

    monkeypatch.setattr(metadata, "DESCRIBED_MAX", 1)
    change_responses(monkeypatch, note)
    add(source.create_partition(TopicPartition("users", 0)), 0, b"u")
    for name in ("orders", "users"):
        cluster.create_partition(TopicPartition(name, 0), {"max.message.bytes": "100"})
    said = list[str]()
    result = await restored(running, source, said, dry_run=True, into_existing=True)
    assert asked == 2 * [["orders"], ["users"]]  # for the times, and for the limits
    assert [name for name in ("orders", "users") if any(name in each for each in result.problems)] == ["orders"]


@pytest.mark.promise("Consumers of a restored group continue with the first record that they had not committed.")
async def test_groups_go_on_exactly_where_they_were(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    """Source offset and the one in the cluster: of a record, in an aborted transaction, in a gap, at the end."""
    expected = {
        "of-b": (1, 1),
        "of-x": (2, 2),
        "of-marker": (4, 2),
        "of-d": (6, 3),
        "in-gap": (11, 4),
        "at-end": (23, 7),
    }
    for group, (offset, _) in expected.items():
        commit(source, group, orders=offset)
    commit(source, "other", orders=1)
    result = await restored(running, source, groups=[NamePattern("of-.*|in-.*|at-.*")])
    assert {each.name: (each.offsets, each.error) for each in result.groups} == dict.fromkeys(expected, (1, None))
    async with ClusterClient([running.address], QUICK) as client:
        for group, (_, offset) in expected.items():
            assert await committed(client, group) == offset
        assert await committed(client, "other") == -1


async def test_a_pattern_that_matches_no_group_is_refused_and_nothing_is_changed(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    commit(source, "billing", orders=1)
    before = cluster.partitions()
    for names, reason in (
        (["billing", "biling"], r"has no consumer group that matches 'biling'; did you mean billing\?"),
        (["x"], "'x'; offsetfs ls shows them below groups/"),
    ):
        with pytest.raises(GroupNotFound, match=reason):
            await restored(running, source, groups=[*map(NamePattern, names)])
    assert cluster.partitions() == before
    result = await restored(running, source, groups=[NamePattern(".*")])
    assert [group.name for group in result.groups] == ["billing"]


async def committed(client: ClusterClient, group: str) -> int:
    request = m.OffsetFetchRequest(group, [m.OffsetFetchRequestTopic("orders", [0])])
    response = await client.request(request, node=await client.coordinator(group), max_version=7)
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.promise("A restore into a cluster changes nothing there before all its checks have passed.")
async def test_a_topic_with_records_is_refused_and_nothing_is_changed(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    await restored(running, source)
    add(source.create_partition(TopicPartition("users", 0)), 0, b"u")
    with pytest.raises(RestoreRefused, match=r"the cluster has records in orders; delete them there, or append"):
        await restored(running, source)
    assert TopicPartition("users", 0) not in cluster.partitions()
    await restored(running, source, into_existing=True)
    assert [value for _, _, value, *_ in shown(cluster.log(ORDERS))] == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"] * 2


@pytest.mark.promise("A restore into a cluster changes nothing there before all its checks have passed.")
async def test_no_topic_is_created_if_the_cluster_refuses_one(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    add(source.create_partition(TopicPartition("a.b", 0)), 0, b"u")
    cluster.create_partition(TopicPartition("a_b", 0))
    with pytest.raises(KafkaError, match=r"INVALID_TOPIC_EXCEPTION: a\.b: "):
        await restored(running, source)
    assert cluster.partitions() == [TopicPartition("a_b", 0)]


REFUSED = {"no.such.setting": "1", "retention.ms": "soon", "other.unknown": "2", "segment.bytes": "1048576"}


async def test_settings_that_the_cluster_refuses_are_left_out_with_a_line_each(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    add(source.create_partition(TopicPartition("users", 0)), 0, b"u")
    source.set_mirror(MirrorFile("c", "b:9092", {"users": MirroredTopic("", REFUSED)}))
    said = list[str]()
    result = await restored(running, source, said)
    assert result.problems == [] and cluster.log(TopicPartition("users", 0)).next_offset == 1
    assert cluster.settings_of("users") == {"segment.bytes": "1048576"}
    assert sorted(each.partition(" is left out: ")[0] for each in said) == [
        "users: no.such.setting=1",
        "users: other.unknown=2",
        "users: retention.ms=soon",
    ]


@pytest.mark.promise("A restore into a cluster changes nothing there before all its checks have passed.")
async def test_with_strict_settings_all_refused_ones_are_named_and_nothing_is_created(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    add(source.create_partition(TopicPartition("users", 0)), 0, b"u")
    source.set_mirror(MirrorFile("c", "b:9092", {"users": MirroredTopic("", REFUSED)}))
    with pytest.raises(RestoreRefused) as caught:
        await restored(running, source, strict_settings=True)
    assert all(each in str(caught.value) for each in ("no.such.setting=1", "other.unknown=2", "retention.ms=soon"))
    assert cluster.partitions() == []


async def test_a_refused_setting_that_the_cluster_does_not_name_is_found(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.CreateTopicsRequest):
            for each in response.topics:
                each.error_message = None

    change_responses(monkeypatch, change)
    said = list[str]()
    await restored(running, source, said, settings={"no.such.setting": "1"})
    assert said == ["orders: no.such.setting=1 is left out: INVALID_CONFIG"]
    assert cluster.settings_of("orders") == {"retention.ms": "-1", "max.message.bytes": "500000"}


async def test_a_new_topic_of_which_nothing_could_be_restored_is_deleted_again(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    add(source.create_partition(TopicPartition("large", 0), {"max.message.bytes": "1000"}), 0, b"l" * 5000)
    source.create_partition(TopicPartition("void", 0))
    result = await restored(running, source)
    assert result.problems == ["large: the topic is deleted again, because nothing could be restored"]
    assert {each.topic for each in cluster.partitions()} == {"orders", "void"}


async def test_a_dry_run_names_what_the_cluster_would_refuse_of_the_records(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    for name, settings in (("large", {"max.message.bytes": "1000"}), ("late", {"message.timestamp.after.max.ms": "5"})):
        source.create_partition(TopicPartition(name, 0), settings)
    add(source.log(TopicPartition("large", 0)), 0, b"small")
    add(source.log(TopicPartition("large", 0)), 1, b"l" * 5000)
    later = int(time.time() * 1000) + 86_400_000
    for offset, stamp in enumerate((TIME, later, later + 5)):
        batch = build([(None, b"t", (), stamp)], base_offset=offset)
        source.log(TopicPartition("late", 0)).append_replicated(bytes(batch))
    cluster.create_partition(TopicPartition("old", 0), {"message.timestamp.before.max.ms": "5"})
    add(source.create_partition(TopicPartition("old", 0)), 0, b"o", b"p")
    result = await restored(running, source, dry_run=True)
    large, late, old = result.problems
    assert large.startswith(
        "large-0: 1 batches larger than max.message.bytes=1000, the first at offset 1; give -o max."
    )
    after = (
        "late-0: 2 records with times beyond message.timestamp.after.max.ms=5, the first at offset 1; give -o message."
    )
    assert late.startswith(after)
    before = "old-0: 2 records with times beyond message.timestamp.before.max.ms=5, the first at offset 0; set message."
    assert old.startswith(before)
    assert cluster.partitions() == [TopicPartition("old", 0)]


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
async def test_a_coordinator_that_loads_or_moves_is_waited_for(
    code: ErrorCode,
    running: Running,
    cluster: LogDirectory,
    source: LogDirectory,
    orders: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit(source, "g", orders=1)
    failing = {m.DescribeGroupsRequest: 2, m.OffsetFetchRequest: 2, m.OffsetCommitRequest: 2, m.CreateTopicsRequest: 2}

    def change(request: Any, response: Any) -> None:
        if not failing.get(type(request)):
            return
        failing[type(request)] -= 1
        if isinstance(request, m.DescribeGroupsRequest):
            response.groups[0].error_code = code
        elif isinstance(request, m.OffsetFetchRequest):
            response.error_code = code
        elif isinstance(request, m.OffsetCommitRequest):
            response.topics[0].partitions[0].error_code = code
        elif isinstance(request, m.CreateTopicsRequest):
            response.topics[0].error_code = ErrorCode.NOT_CONTROLLER

    change_responses(monkeypatch, change)
    result = await restored(running, source, groups=[ALL])
    assert [(each.offsets, each.error) for each in result.groups] == [(1, None)]
    assert set(failing.values()) == {0}


async def test_a_coordinator_that_never_loads_ends_the_restore_within_one_time_limit(
    running: Running, source: LogDirectory, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(source, "g", orders=1)

    def change(request: Any, response: Any) -> None:
        if isinstance(request, m.DescribeGroupsRequest):
            response.groups[0].error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    change_responses(monkeypatch, change)
    properties = replace(QUICK, default_api_timeout_ms=200)
    with pytest.raises(KafkaError, match="COORDINATOR_LOAD_IN_PROGRESS: group g"):
        await restored(running, source, properties=properties, groups=[ALL])


@pytest.mark.parametrize("offset", [-1, -2])
async def test_a_commit_below_0_is_none(
    offset: int, running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    commit(source, "g", orders=offset)
    commit(source, "h", orders=1)
    result = await restored(running, source, groups=[ALL])
    assert [(each.name, each.offsets) for each in result.groups] == [("h", 1)]


async def test_a_group_that_has_offsets_there_is_refused(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    commit(source, "g", orders=1)
    await restored(running, source, groups=[ALL])
    with pytest.raises(RestoreRefused, match="group g has offsets for orders-0 in the cluster"):
        await restored(running, source, groups=[ALL], into_existing=True)


async def test_a_topic_with_fewer_partitions_there_is_refused(
    running: Running, cluster: LogDirectory, source: LogDirectory
) -> None:
    source.create_partitions([TopicPartition("users", 0), TopicPartition("users", 1)])
    cluster.create_partition(TopicPartition("users", 0))
    with pytest.raises(RestoreRefused, match="users has 1 partitions in the cluster and 2 here"):
        await restored(running, source)


async def test_a_part_by_time_begins_and_ends_within_batches(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    await restored(running, source, from_timestamp=TIME + 1, to_timestamp=TIME + 21)
    assert [value for _, _, value, *_ in shown(cluster.log(ORDERS))] == [b"b", b"c", b"d", b"e"]


async def test_a_dry_run_changes_nothing(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    result = await restored(running, source, dry_run=True)
    assert [(each.name, each.exists) for each in result.topics] == [("orders", False)]
    assert result.bytes_total > 0 and cluster.partitions() == []


async def test_a_partition_that_fails_does_not_stop_the_others(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    large = source.create_partition(TopicPartition("large", 0))
    add(large, 0, b"small")
    add(large, 1, b"l" * 5000)
    cluster.create_partition(TopicPartition("large", 0), {"max.message.bytes": "1000"})
    result = await restored(running, source)
    failed, whole = result.partitions
    assert isinstance(failed.error, KafkaError) and failed.error.code == ErrorCode.MESSAGE_TOO_LARGE
    assert (failed.records, failed.last_offset, failed.end_offset) == (1, 0, 1)
    assert (whole.records, whole.error) == (7, None)


async def test_a_time_that_no_new_batch_can_have_ends_its_partition_with_the_offset(
    running: Running, source: LogDirectory, orders: Log
) -> None:
    early = source.create_partition(TopicPartition("early", 0))
    batch = bytearray(keyed(0, Keyed(0, b"k", b"v", -1), last_delta=3))
    batch[27:35] = (-5).to_bytes(8, "big", signed=True)  # the base time
    batch[35:43] = (-1).to_bytes(8, "big", signed=True)  # the largest one, as brokers write it
    seal_checksum(batch)
    early.append_replicated(batch)
    failed, whole = (await restored(running, source)).partitions
    assert isinstance(failed.error, MalformedBatch) and failed.error.offset == 0
    assert (whole.records, whole.error) == (7, None)


async def test_many_small_batches_keep_their_order(
    running: Running, cluster: LogDirectory, source: LogDirectory
) -> None:
    log = source.create_partition(ORDERS)
    for number in range(300):
        add(log, number, b"%d" % number)
    await restored(running, source)
    assert [value for _, _, value, *_ in shown(cluster.log(ORDERS))] == [b"%d" % number for number in range(300)]


async def test_a_topic_of_a_mirror_has_the_settings_of_its_cluster(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log
) -> None:
    """Before, it had the retention of the mirror, which keeps everything."""
    source.set_mirror(MirrorFile("c", "b:9092", {"orders": MirroredTopic("", {"retention.ms": "70000"})}))
    await restored(running, source)
    assert cluster.settings_of("orders") == {"retention.ms": "70000"}


async def test_a_pause_that_ends_while_partitions_are_looked_at_is_over(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restore once waited for ever: nothing was sent because of the pause, and then there was none to wait for."""
    take, next_sent = PartitionProducing._take, PartitionTarget.next_sent
    refusals = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)]

    def refusing(producing: PartitionProducing, response: m.ProduceResponse, sent: Any) -> None:
        if refusals:
            producing._refuse(sent, refusals.pop())
        else:
            take(producing, response, sent)

    def slow(target: PartitionTarget, now_s: float) -> Any:
        found = next_sent(target, now_s)
        if found is None and target._paused_until_s > now_s:
            time.sleep(target._paused_until_s - now_s)
        return found

    monkeypatch.setattr(PartitionProducing, "_take", refusing)
    monkeypatch.setattr(PartitionTarget, "next_sent", slow)
    result = await restored(running, source)
    assert [each.records for each in result.partitions] == [7] and not refusals


async def test_leaders_of_a_new_topic_are_waited_for(
    running: Running, cluster: LogDirectory, source: LogDirectory, orders: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka names the leader of a new topic before that leader answers; the restore once ended there."""
    asked = ClusterClient.request
    refusals = [KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 2

    async def request(client: ClusterClient, message: ProtocolMessage, **how: Any) -> Any:
        if isinstance(message, m.ListOffsetsRequest) and refusals:
            raise refusals.pop()
        return await asked(client, message, **how)

    monkeypatch.setattr(ClusterClient, "request", request)
    result = await restored(running, source)
    assert [each.records for each in result.partitions] == [7] and not refusals
