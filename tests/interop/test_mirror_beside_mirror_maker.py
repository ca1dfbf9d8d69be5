"""What arrives of the same topics with `offsetfs mirror` and with MirrorMaker 2: the table of docs/use/mirror.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicCollection
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource
from fixtures.kafka.apps import app, properties
from fixtures.kafka.broker import KafkaBroker
from fixtures.kafka.confluent_clients import SECONDS_MAX
from fixtures.kafka.transactional_clients import transactional
from fixtures.machine.free_ports import free_ports
from fixtures.mirrors.process import MirrorProcess, batches_of

import offsetfs
from offsetfs import cli
from offsetfs.kafka.protocol.message import id_text
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = [pytest.mark.interop, pytest.mark.long]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BEGIN_MS = 1_795_000_000_000
DELETED, COUNT = 5, 20
TOPICS = ("orders", "stamped")


@dataclass(frozen=True)
class Arrived:
    """A record, its timestamp in milliseconds."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: object
    """Names and values, as the client returns them."""
    timestamp: int


@dataclass(frozen=True)
class Clusters:
    """The source, the cluster that MirrorMaker writes, and the directory of the mirror."""

    source: KafkaBroker
    target: KafkaBroker
    mirror: Path


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Both copies of the topics, complete."""
    folder = tmp_path_factory.mktemp("copies")
    with KafkaBroker(folder / "source") as source, KafkaBroker(folder / "target") as target:
        source.create_topic("orders", configs={"retention.ms": "-1"})
        source.create_topic("stamped", configs={"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"})
        fill(source)
        mirror = MirrorProcess(source.address, folder / "mirror", "--topic", "|".join(TOPICS))
        done = mirror.once()
        assert (done.returncode, done.stderr) == (0, "")
        run_mirror_maker(source, target, folder)
        yield Clusters(source, target, mirror.path)


def fill(source: KafkaBroker) -> None:
    """Write records of all codecs, a transaction that is committed, and one that is aborted; delete the first."""
    for index, codec in enumerate(CODECS):
        producer = Producer({"bootstrap.servers": source.address, "compression.type": codec, "linger.ms": 50})
        for number in range(index * COUNT, (index + 1) * COUNT):
            key = b"key %d" % (number % 7)
            headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % number), ("n", None), ("", b"")]
            value = None if number % 10 == 3 else b"value " * number
            for topic in TOPICS:
                producer.produce(topic, value, key, 0, timestamp=BEGIN_MS + number, headers=headers)
        assert producer.flush(SECONDS_MAX) == 0
    for is_committed in (True, False):
        producer = transactional(source.address, f"transaction-{is_committed}")
        producer.begin_transaction()
        for _ in range(5):
            producer.produce("orders", b"committed" if is_committed else b"aborted", partition=0)
        assert producer.flush(SECONDS_MAX) == 0
        (producer.commit_transaction if is_committed else producer.abort_transaction)(SECONDS_MAX)
    source.produce("orders", b"last\n")
    admin, place = AdminClient({"bootstrap.servers": source.address}), Place("orders", 0, DELETED)
    admin.delete_records([place])[place].result(SECONDS_MAX)


def run_mirror_maker(source: KafkaBroker, target: KafkaBroker, folder: Path) -> None:
    """Run MirrorMaker 2 until its copies are complete, with its defaults but for the names of topics."""
    one = {f"{each}.topic.replication.factor": 1 for each in ("checkpoints", "heartbeats", "offset-syncs")}
    settings = {
        "clusters": "source, target",
        "source.bootstrap.servers": source.address,
        "target.bootstrap.servers": target.address,
        "source->target.enabled": "true",
        "source->target.topics": ",".join(TOPICS),
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": 1,
        "sync.topic.configs.interval.seconds": 1,
        "dedicated.mode.enable.internal.rest": "true",
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
        "plugin.discovery": "service_load",
        **one,
        **{f"{each}.storage.replication.factor": 1 for each in ("config", "offset", "status")},
    }
    main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
    with app(folder, main_class, properties(folder / "mm2", settings)) as wait:
        admin = AdminClient({"bootstrap.servers": target.address})
        wait(lambda: set(TOPICS) <= admin.list_topics(timeout=SECONDS_MAX).topics.keys())
        for topic in TOPICS:
            wait(partial(has_all, source, target, topic))


def has_all(source: KafkaBroker, target: KafkaBroker, topic: str) -> bool:
    return len(arrived(target.address, topic)) >= len(arrived(source.address, topic))


def arrived(address: str, topic: str, isolation: str = "read_uncommitted") -> list[Arrived]:
    """Return the records of partition 0 as a consumer gets them."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "none",
        "enable.auto.commit": False,
        "isolation.level": isolation,
        "enable.partition.eof": True,
    }
    found = list[Arrived]()
    with closing(Consumer(settings)) as consumer:
        consumer.assign([Place(topic, 0, OFFSET_BEGINNING)])
        while True:
            (message,) = consumer.consume(1, SECONDS_MAX)
            error = message.error()
            if error is not None:
                assert error.name() == "_PARTITION_EOF", error
                return found
            offset, timestamp = message.offset(), message.timestamp()[1]
            assert offset is not None
            found.append(Arrived(offset, message.key(), message.value(), message.headers(), timestamp))


def without_offsets(records: Sequence[Arrived]) -> list[Arrived]:
    return [replace(each, offset=0) for each in records]


def codecs(broker: KafkaBroker, topic: str) -> set[str]:
    """Return the codecs of the batches with records, as Kafka's DumpLogSegments prints them."""
    printed = broker.dump(sorted((broker.log_dir / f"{topic}-0").glob("*.log"))).stdout
    batches = [line for line in printed.splitlines() if "isControl: false" in line]
    return {line.partition("compresscodec: ")[2].split()[0] for line in batches}


@pytest.fixture(scope="module")
def mirrored(clusters: Clusters) -> Iterator[str]:
    """The address of the mirror, served to consumers."""
    with offsetfs.serve(clusters.mirror, read_only=True) as broker:
        yield broker.bootstrap_servers


def test_keys_values_headers_and_times_are_the_same_in_both(clusters: Clusters, mirrored: str) -> None:
    expected = arrived(clusters.source.address, "orders", "read_committed")
    assert len(expected) == len(CODECS) * COUNT - DELETED + 6
    assert arrived(mirrored, "orders", "read_committed") == expected
    copied = [each for each in arrived(clusters.target.address, "orders") if each.value != b"aborted"]
    assert without_offsets(copied) == without_offsets(expected)


@pytest.mark.promise("A mirrored partition has the batches of its source, byte for byte, at the same offsets.")
def test_the_mirror_keeps_bytes_and_codecs_and_mirror_maker_does_not(
    clusters: Clusters,
) -> None:
    for topic in TOPICS:
        assert codecs(clusters.source, topic) == set(CODECS)
        copied = batches_of(clusters.mirror / f"{topic}-0")
        assert copied and batches_of(clusters.source.log_dir / f"{topic}-0").endswith(copied)
        assert codecs(clusters.target, topic) == {"none"}


def test_the_mirror_hides_aborted_records_and_mirror_maker_copies_them(clusters: Clusters, mirrored: str) -> None:
    aborted = [b"aborted"] * 5
    for address, isolation, expected in (
        (mirrored, "read_committed", []),
        (mirrored, "read_uncommitted", aborted),
        (clusters.target.address, "read_committed", aborted),
    ):
        found = [each.value for each in arrived(address, "orders", isolation) if each.value == b"aborted"]
        assert found == expected, (address, isolation)


def test_offsets_and_gaps_are_the_same_in_the_mirror_and_new_with_mirror_maker(
    clusters: Clusters, mirrored: str
) -> None:
    offsets = [each.offset for each in arrived(clusters.source.address, "orders")]
    assert offsets[0] == DELETED and offsets[-1] - offsets[0] >= len(offsets)  # markers of transactions
    assert [each.offset for each in arrived(mirrored, "orders")] == offsets
    assert [each.offset for each in arrived(clusters.target.address, "orders")] == list(range(len(offsets)))


def test_times_of_appends_are_the_same_in_both_except_for_mirror_maker(clusters: Clusters, mirrored: str) -> None:
    expected, copied = arrived(clusters.source.address, "stamped"), arrived(clusters.target.address, "stamped")
    assert arrived(mirrored, "stamped") == expected
    assert copied == expected
    assert settings_of(clusters.source, "stamped")["message.timestamp.type"] == "LogAppendTime"
    assert settings_of(clusters.target, "stamped")["message.timestamp.type"] == "CreateTime"


def test_name_settings_and_topic_id(clusters: Clusters) -> None:
    source, target = described(clusters.source), described(clusters.target)
    with closing(LogDirectory.open(str(clusters.mirror), read_only=True)) as directory:
        for topic in TOPICS:
            assert settings_of(clusters.target, topic)["retention.ms"] == "-1"
            mine = directory.topic_id(TopicPartition(topic, 0))
            assert mine is not None and id_text(mine) == source[topic] != target[topic]
            assert directory.mirror is not None
            assert directory.mirror.topics[topic].settings["retention.ms"] == "-1"


def described(broker: KafkaBroker) -> dict[str, str]:
    """Return the ids of the topics, as Kafka prints them."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    found = admin.describe_topics(TopicCollection(list(TOPICS)))
    # librdkafka prints + and / where Kafka prints - and _, as URLs need.
    return {
        name: str(each.result(SECONDS_MAX).topic_id).translate(str.maketrans("+/", "-_"))
        for name, each in found.items()
    }


def settings_of(broker: KafkaBroker, topic: str) -> dict[str, str]:
    admin, resource = (
        AdminClient({"bootstrap.servers": broker.address}),
        ConfigResource(ConfigResource.Type.TOPIC, topic),
    )
    found = admin.describe_configs([resource])[resource].result(SECONDS_MAX)
    return {name: entry.value for name, entry in found.items()}


def test_diff_calls_copies_of_mirror_maker_equal_but_for_aborted_records(
    clusters: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    a, b = clusters.source.log_dir, f"kafka://{clusters.target.address}/"

    def compared(*words: str) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = cli.run(["diff", str(a), b, *words, "--only", "records", "--json"])
        printed = capsys.readouterr()
        assert printed.out, printed.err
        return code, json.loads(printed.out)

    for words in (("--by", "content", "--ignore-times"), ("--by", "key")):
        code, printed = compared("stamped", *words)
        assert (code, printed["findings"]) == (0, []), words
    code, printed = compared("orders", "--by", "content")
    (row,) = printed["tables"]["partitions"]
    assert (code, row["equal_records"], row["missing_a"], row["missing_b"]) == (1, 101, 5, 0)
    assert all(
        json.loads(each["record"])["value"] == "aborted"
        for each in printed["tables"]["partings"]
        if each["side"] == "B"
    )
