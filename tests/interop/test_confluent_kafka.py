"""confluent-kafka (librdkafka 2) against Kafka 4.4 and against `offsetfs serve`: the same results from both."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from fixtures.broker.served import Cluster
from fixtures.kafka.confluent_clients import (
    SECONDS_MAX,
    answer,
    answers,
    create,
    describe,
    described_topics,
    messages,
    messages_of,
    poll_until,
    reader,
    settled,
)

pytestmark = pytest.mark.interop


@pytest.fixture
def client(cluster: Cluster) -> AdminClient:
    """An administrator; its requests are canceled when it is not referenced anymore."""
    return AdminClient({"bootstrap.servers": cluster.address})


# --- producers


@pytest.mark.parametrize(
    "settings",
    [
        {"enable.idempotence": True},
        {"acks": "all", "compression.type": "zstd"},
        {"acks": "1", "compression.type": "lz4"},
        {"acks": "0"},
    ],
    ids=["idempotent", "acks=all", "acks=1", "acks=0"],
)
def test_a_producer_gets_offsets(cluster: Cluster, client: AdminClient, settings: Mapping[str, Any]) -> None:
    topic = "confluent-" + "-".join(str(each) for each in settings.values()).lower()
    if settings.get("acks") == "0":
        create(client, topic, 1)  # what a new topic refuses at first is sent again only where there are answers
    reports: list[tuple[str | None, int, int]] = []
    producer = Producer({"bootstrap.servers": cluster.address, **settings})

    def report(error: KafkaError | None, message: Message) -> None:
        reports.append((error.name() if error else None, message.partition() or 0, message.offset() or 0))

    for number in range(500):
        producer.produce(topic, value=f"value {number}", headers=[("n", b"%d" % number)], on_delivery=report)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    is_answered = settings.get("acks") != "0"
    assert sorted({error for error, _, _ in reports}, key=str) == [None]
    if is_answered:
        assert [offset for _, _, offset in reports] == list(range(500))
    with closing(reader(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        seen = messages(consumer, 500)
    assert [(each.value(), each.headers()) for each in seen] == [
        (b"value %d" % number, [("n", b"%d" % number)]) for number in range(500)
    ]


def test_errors_of_a_producer(cluster: Cluster, client: AdminClient) -> None:
    create(client, "confluent-small", 2, {"max.message.bytes": "1000"})
    reports: list[str | None] = []
    producer = Producer({"bootstrap.servers": cluster.address, "linger.ms": 0, "message.timeout.ms": 10_000})

    def produce(topic: str, size: int) -> None:
        producer.produce(
            topic, value=b"x" * size, on_delivery=lambda error, _: reports.append(error.name() if error else None)
        )
        assert producer.flush(SECONDS_MAX) == 0

    produce("confluent-small", 900)
    produce("confluent-small", 2000)
    try:
        produce("not:legal", 1)
    except KafkaException as error:  # the answer about the topic was there before the message
        assert error.args[0].name() == "_UNKNOWN_TOPIC"
        refusal = client.list_topics("not:legal", timeout=SECONDS_MAX).topics["not:legal"].error
        reports.append(refusal.name() if refusal else None)
    with pytest.raises(KafkaException, match="_UNKNOWN_PARTITION"):
        producer.produce("confluent-small", partition=2, value=b"x")
    assert reports == [None, "MSG_SIZE_TOO_LARGE", "TOPIC_EXCEPTION"]


# --- consumers without a group


def test_a_consumer_seeks_and_asks_for_offsets(cluster: Cluster, client: AdminClient) -> None:
    topic = "confluent-seek"
    create(client, topic, 2)
    producer = Producer({"bootstrap.servers": cluster.address})
    for number in range(100):
        producer.produce(topic, value=f"{number}", partition=number % 2, timestamp=1_700_000_000_000 + number * 1000)
    assert producer.flush(SECONDS_MAX) == 0
    with closing(reader(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 10), TopicPartition(topic, 1, OFFSET_END)])
        first = messages(consumer, 1)[0]
        consumer.seek(TopicPartition(topic, 0, 48))
        after_seek = [each.offset() for each in messages(consumer, 2)]
        consumer.pause([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 1, 49))
        while_paused = [(each.partition(), each.offset()) for each in messages(consumer, 1)]
        times = [0, 1_700_000_050_000, 1_700_000_050_001, 1_700_000_099_000, 1_700_000_099_001]
        found = [
            consumer.offsets_for_times([TopicPartition(topic, 0, each)], timeout=SECONDS_MAX)[0].offset
            for each in times
        ]
        assert {
            "first": (first.partition(), first.offset(), first.value(), first.timestamp(), first.leader_epoch()),
            "after seek": after_seek,
            "while paused": while_paused,
            "positions": [each.offset for each in consumer.position([TopicPartition(topic, each) for each in (0, 1)])],
            "watermarks": consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=SECONDS_MAX),
            "of times": found,
            "committed": [each.offset for each in consumer.committed([TopicPartition(topic, 0)], timeout=SECONDS_MAX)],
        } == {
            "first": (0, 10, b"20", (1, 1_700_000_020_000), 0),
            "after seek": [48, 49],
            "while paused": [(1, 49)],
            "positions": [50, 50],
            "watermarks": (0, 50),
            "of times": [0, 25, 26, -1, -1],
            "committed": [-1001],
        }


@pytest.mark.parametrize(("reset", "seen"), [("earliest", 0), ("latest", None), ("error", "_AUTO_OFFSET_RESET")])
def test_an_offset_out_of_range_is_reset(cluster: Cluster, reset: str, seen: object) -> None:
    topic = f"confluent-range-{reset}"
    producer = Producer({"bootstrap.servers": cluster.address})
    producer.produce(topic, value=b"one")
    assert producer.flush(SECONDS_MAX) == 0
    with closing(reader(cluster, **{"auto.offset.reset": reset, "enable.partition.eof": True})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 1000)])
        found = consumer.poll(SECONDS_MAX)
        assert found is not None
        error = found.error()
        is_end = error is not None and error.name() == "_PARTITION_EOF"
        assert (None if is_end else error.name() if error else found.offset()) == seen


# --- groups


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range", "roundrobin"])
def test_members_of_a_group_share_partitions(cluster: Cluster, client: AdminClient, strategy: str) -> None:
    topic, group = f"confluent-{strategy}", f"confluent-{strategy}"
    create(client, topic, 6)
    producer = Producer({"bootstrap.servers": cluster.address})
    for number in range(600):
        producer.produce(topic, value=f"{number}", partition=number % 6)
    assert producer.flush(SECONDS_MAX) == 0
    events: dict[str, list[tuple[str, int]]] = {"first": [], "second": []}

    def member(name: str) -> Consumer:
        made = reader(cluster, **{"group.id": group, "partition.assignment.strategy": strategy, "client.id": name})
        made.subscribe(
            [topic],
            on_assign=lambda _, given: events[name].append(("assigned", len(given))),
            on_revoke=lambda _, taken: events[name].append(("revoked", len(taken))),
        )
        return made

    first = member("first")
    alone = messages(first, 600)
    first.commit(asynchronous=False)
    second = member("second")
    poll_until(lambda: (len(first.assignment()), len(second.assignment())) == (3, 3), first, second)
    shared = describe(client, group)
    for number in range(600, 660):
        producer.produce(topic, value=f"{number}", partition=number % 6)
    assert producer.flush(SECONDS_MAX) == 0
    more = [each.value() for each in messages_of(60, first, second)]
    first.commit(asynchronous=False)
    second.commit(asynchronous=False)
    second.close()
    poll_until(lambda: len(first.assignment()) == 6, first)
    committed = first.committed([TopicPartition(topic, each) for each in range(6)], timeout=SECONDS_MAX)
    first.close()
    is_cooperative = strategy == "cooperative-sticky"
    assert {
        "read alone": sorted(int(each.value() or b"") for each in alone) == list(range(600)),
        "shared": shared,
        "read by both": sorted(int(each or b"") for each in more) == list(range(600, 660)),
        "events of the first": [each for each in events["first"] if each[1]],
        "events of the second": [each for each in events["second"] if each[1]],
        "committed": [each.offset for each in committed],
        "at the end": settled(lambda: describe(client, group), lambda found: found["state"] == "EMPTY"),
    } == {
        "read alone": True,
        "shared": {
            "state": "STABLE",
            "protocol": strategy,
            "members": [("first", None, 3), ("second", None, 3)],
        },
        "read by both": True,
        "events of the first": (
            [("assigned", 6), ("revoked", 3), ("assigned", 3), ("revoked", 6)]
            if is_cooperative
            else [("assigned", 6), ("revoked", 6), ("assigned", 3), ("revoked", 3), ("assigned", 6), ("revoked", 6)]
        ),
        "events of the second": [("assigned", 3), ("revoked", 3)],
        "committed": [110] * 6,
        "at the end": {"state": "EMPTY", "protocol": "", "members": []},
    }


# --- AdminClient


def test_topics_are_administered(cluster: Cluster, client: AdminClient) -> None:
    names = ["confluent-made", "confluent-other"]
    assert {
        "create": answers(client.create_topics([NewTopic(each, 3) for each in names])),
        "create again": answers(client.create_topics([NewTopic(names[0], 3)])),
        "replicated": answers(client.create_topics([NewTopic("confluent-x", 1, 2)])),
        "without partitions": answers(client.create_topics([NewTopic("confluent-x", 0)])),
        "illegal name": answers(client.create_topics([NewTopic("a/b", 1)])),
        "illegal setting": answers(client.create_topics([NewTopic("confluent-x", 1, config={"no.such": "1"})])),
        "illegal value": answers(client.create_topics([NewTopic("confluent-x", 1, config={"retention.ms": "soon"})])),
        "assigned": answers(client.create_topics([NewTopic("confluent-x", 2, replica_assignment=[[1], [1]])])),
        "assigned to an unknown broker": answers(
            client.create_topics([NewTopic("confluent-y", 1, replica_assignment=[[7]])])
        ),
        "only checked": answers(client.create_topics([NewTopic("confluent-y", 1)], validate_only=True)),
        "extend": answers(client.create_partitions([NewPartitions(names[0], 5)])),
        "shrink": answers(client.create_partitions([NewPartitions(names[1], 2)])),
        "same": answers(client.create_partitions([NewPartitions(names[1], 3)])),
        "extend unknown": answers(client.create_partitions([NewPartitions("confluent-none", 2)])),
        "described": settled(
            lambda: described_topics(client, [*names, "confluent-x", "confluent-none"]),
            lambda found: [len(found[each]) for each in (*names, "confluent-x")] == [5, 3, 2],
        ),
        "delete": answers(client.delete_topics([names[1], "confluent-x"])),
        "delete unknown": answers(client.delete_topics(["confluent-none"])),
        "listed": settled(
            lambda: [each for each in client.list_topics(timeout=SECONDS_MAX).topics if each in names],
            lambda found: len(found) == 1,
        ),
    } == {
        "create": {"confluent-made": None, "confluent-other": None},
        "create again": {"confluent-made": "TOPIC_ALREADY_EXISTS"},
        "replicated": {"confluent-x": "INVALID_REPLICATION_FACTOR"},
        "without partitions": {"confluent-x": "INVALID_PARTITIONS"},
        "illegal name": {"a/b": "TOPIC_EXCEPTION"},
        "illegal setting": {"confluent-x": "INVALID_CONFIG"},
        "illegal value": {"confluent-x": "INVALID_CONFIG"},
        "assigned": {"confluent-x": None},
        "assigned to an unknown broker": {"confluent-y": "INVALID_REPLICA_ASSIGNMENT"},
        "only checked": {"confluent-y": None},
        "extend": {"confluent-made": None},
        "shrink": {"confluent-other": "INVALID_PARTITIONS"},
        "same": {"confluent-other": "INVALID_PARTITIONS"},
        "extend unknown": {"confluent-none": "UNKNOWN_TOPIC_OR_PART"},
        "described": {
            "confluent-made": [(each, 1, [1], [1]) for each in range(5)],
            "confluent-other": [(each, 1, [1], [1]) for each in range(3)],
            "confluent-x": [(each, 1, [1], [1]) for each in range(2)],
            "confluent-none": "UNKNOWN_TOPIC_OR_PART",
        },
        "delete": {"confluent-other": None, "confluent-x": None},
        "delete unknown": {"confluent-none": "UNKNOWN_TOPIC_OR_PART"},
        "listed": ["confluent-made"],
    }


def test_configs_of_a_topic_are_changed(cluster: Cluster, client: AdminClient) -> None:
    topic = "confluent-configs"
    create(client, topic, 1, {"retention.ms": "100000"})
    shown = ["retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "compression.type"]

    def values() -> dict[str, tuple[str | None, str, bool, bool]]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = client.describe_configs([resource])[resource].result(SECONDS_MAX)
        return {
            name: (found[name].value, ConfigSource(found[name].source).name, found[name].is_default,
                   found[name].is_read_only)
            for name in shown
        }  # fmt: skip

    def change(*changes: tuple[str, AlterConfigOpType, str | None], name: str = topic) -> list[str | None]:
        entries = [ConfigEntry(key, value, incremental_operation=operation) for key, operation, value in changes]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        return list(answers(client.incremental_alter_configs([resource])).values())

    at_first = values()
    changed = change(
        ("retention.ms", AlterConfigOpType.DELETE, None),
        ("cleanup.policy", AlterConfigOpType.APPEND, "compact"),
        ("segment.bytes", AlterConfigOpType.SET, "2097152"),
    )
    after_change = settled(values, lambda found: found["segment.bytes"][0] == "2097152")
    removed = change(("cleanup.policy", AlterConfigOpType.SUBTRACT, "delete"))
    after_removal = settled(lambda: values()["cleanup.policy"], lambda found: found[0] == "compact")
    refused = {
        "unknown setting": change(("no.such", AlterConfigOpType.SET, "1")),
        "value": change(("retention.ms", AlterConfigOpType.SET, "soon")),
        "append to a number": change(("retention.ms", AlterConfigOpType.APPEND, "1")),
        "unknown topic": change(("retention.ms", AlterConfigOpType.SET, "1"), name="confluent-none"),
    }
    assert {
        "at first": at_first,
        "changed": changed,
        "after the change": after_change,
        "removed": removed,
        "after the removal": after_removal,
        "refused": refused,
    } == {
        "at first": {
            "retention.ms": ("100000", "DYNAMIC_TOPIC_CONFIG", False, False),
            "cleanup.policy": ("delete", "DEFAULT_CONFIG", True, False),
            "segment.bytes": ("1073741824", "DEFAULT_CONFIG", True, False),
            "max.message.bytes": ("1048588", "DEFAULT_CONFIG", True, False),
            "compression.type": ("producer", "DEFAULT_CONFIG", True, False),
        },
        "changed": [None],
        "after the change": {
            "retention.ms": ("604800000", "DEFAULT_CONFIG", True, False),
            "cleanup.policy": ("delete,compact", "DYNAMIC_TOPIC_CONFIG", False, False),
            "segment.bytes": ("2097152", "DYNAMIC_TOPIC_CONFIG", False, False),
            "max.message.bytes": ("1048588", "DEFAULT_CONFIG", True, False),
            "compression.type": ("producer", "DEFAULT_CONFIG", True, False),
        },
        "removed": [None],
        "after the removal": ("compact", "DYNAMIC_TOPIC_CONFIG", False, False),
        "refused": {
            "unknown setting": ["INVALID_CONFIG"],
            "value": ["INVALID_CONFIG"],
            "append to a number": ["INVALID_CONFIG"],
            "unknown topic": ["UNKNOWN_TOPIC_OR_PART"],
        },
    }


def test_offsets_are_listed_and_records_deleted(cluster: Cluster, client: AdminClient) -> None:
    topic = "confluent-delete"
    create(client, topic, 2)
    producer = Producer({"bootstrap.servers": cluster.address})
    for number in range(100):
        producer.produce(topic, value=f"{number}", partition=0, timestamp=1_700_000_000_000 + number)
    assert producer.flush(SECONDS_MAX) == 0

    def offset(spec: OffsetSpec, partition: int = 0) -> object:
        (future,) = client.list_offsets({TopicPartition(topic, partition): spec}).values()
        return answer(future, lambda found: (found.offset, found.timestamp))

    def delete(*wanted: tuple[str, int, int]) -> list[object]:
        futures = client.delete_records([TopicPartition(*each) for each in wanted])
        return [answer(each, lambda found: found.low_watermark) for each in futures.values()]

    assert {
        "earliest": offset(OffsetSpec.earliest()),
        "latest": offset(OffsetSpec.latest()),
        "largest timestamp": offset(OffsetSpec.max_timestamp()),
        "of a time": offset(OffsetSpec.for_timestamp(1_700_000_000_050)),
        "of the empty partition": offset(OffsetSpec.max_timestamp(), 1),
        "of an unknown partition": offset(OffsetSpec.latest(), 9),
        "delete": delete((topic, 0, 40)),
        "earliest after that": offset(OffsetSpec.earliest()),
        "delete less": delete((topic, 0, 10)),
        "delete all": delete((topic, 0, -1)),
        "delete more than there is": delete((topic, 0, 101)),
        "delete in an unknown partition": delete((topic, 9, 1)),
        "earliest at the end": offset(OffsetSpec.earliest()),
    } == {
        "earliest": (0, -1),
        "latest": (100, -1),
        "largest timestamp": (99, 1_700_000_000_099),
        "of a time": (50, 1_700_000_000_050),
        "of the empty partition": (-1, -1),
        "of an unknown partition": "_NOENT",
        "delete": [40],
        "earliest after that": (40, -1),
        "delete less": [40],
        "delete all": [100],
        "delete more than there is": ["OFFSET_OUT_OF_RANGE"],
        "delete in an unknown partition": ["_NOENT"],
        "earliest at the end": (100, -1),
    }


def test_groups_are_administered(cluster: Cluster, client: AdminClient) -> None:
    topic, group = "confluent-groups", "confluent-groups"
    create(client, topic, 2)

    def set_offsets(name: str, *offsets: int) -> list[object]:
        wanted = [TopicPartition(topic, number, offset) for number, offset in enumerate(offsets)]
        futures = client.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, wanted)])
        return [
            answer(each, lambda found: [part.error and part.error.name() for part in found.topic_partitions])
            for each in futures.values()
        ]

    def offsets(name: str) -> list[object]:
        futures = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
        return [
            answer(each, lambda found: [(part.partition, part.offset) for part in found.topic_partitions])
            for each in futures.values()
        ]

    def states() -> list[tuple[str, str, str, bool]]:
        listed = client.list_consumer_groups().result(SECONDS_MAX).valid
        return [
            (each.group_id, each.state.name, each.type.name, each.is_simple_consumer_group)
            for each in listed
            if each.group_id.startswith(group)
        ]

    member = reader(cluster, **{"group.id": group, "client.id": "member"})
    member.subscribe([topic])
    poll_until(lambda: len(member.assignment()) == 2, member)
    while_used = {
        "states": states(),
        "described": describe(client, group),
        "set offsets": set_offsets(group, 7),
        "delete": answers(client.delete_consumer_groups([group])),
    }
    member.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    member.close()
    assert {
        "while used": while_used,
        "offsets after that": offsets(group),
        "set offsets": set_offsets(group, 11, 12),
        "set offsets of a new group": set_offsets(f"{group}-new", 5),
        "offsets": offsets(group),
        "offsets of the new group": offsets(f"{group}-new"),
        "offsets of no group": offsets(f"{group}-none"),
        "states": sorted(states()),
        "described": describe(client, f"{group}-none"),
        "delete": answers(client.delete_consumer_groups([group, f"{group}-new", f"{group}-none"])),
        "states at the end": states(),
    } == {
        "while used": {
            "states": [(group, "STABLE", "CLASSIC", False)],
            "described": {"state": "STABLE", "protocol": "range", "members": [("member", None, 2)]},
            "set offsets": [["UNKNOWN_MEMBER_ID"]],
            "delete": {group: "NON_EMPTY_GROUP"},
        },
        "offsets after that": [[(0, 3)]],
        "set offsets": [[None, None]],
        "set offsets of a new group": [[None]],
        "offsets": [[(0, 11), (1, 12)]],
        "offsets of the new group": [[(0, 5)]],
        "offsets of no group": [[]],
        "states": [(group, "EMPTY", "CLASSIC", False), (f"{group}-new", "EMPTY", "CLASSIC", True)],
        "described": {"state": "DEAD", "protocol": "", "members": []},
        "delete": {group: None, f"{group}-new": None, f"{group}-none": "GROUP_ID_NOT_FOUND"},
        "states at the end": [],
    }


def test_the_cluster_is_described(cluster: Cluster, client: AdminClient) -> None:
    found = client.describe_cluster().result(SECONDS_MAX)
    assert found.cluster_id
    assert [f"{each.host}:{each.port}" for each in found.nodes] == [cluster.address]
    assert (found.controller.id, [each.id for each in found.nodes], found.authorized_operations) == (1, [1], None)
