"""Kafka's command line tools, and so its Java clients, against Kafka 4.4 and `offsetfs serve`: the same output."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from fixtures.broker.served import Cluster, served
from fixtures.kafka.programs import run_in_own_jvm
from fixtures.kafka.tools import JavaTools

pytestmark = pytest.mark.interop

SECONDS_MAX = 60

CONFIGS = "org.apache.kafka.tools.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"

ANY = [
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"(console-consumer|member)-[\w-]+"), r"\1-ID"),
    (re.compile(r"(Configs: )min\.insync\.replicas=1,?"), r"\1"),  # which Kafka sets for these
    (re.compile(r"\s+"), " "),
]


class Tools:
    """The tools for one cluster."""

    def __init__(self, java: JavaTools, cluster: Cluster) -> None:
        self._java = java
        self._address = cluster.address

    def run(self, main_class: str, *words: str, lines: str = "") -> list[str]:
        """Return the lines of standard output, without ids, addresses and repeated spaces."""
        return self.run_with("--bootstrap-server", self._address, main_class, *words, lines=lines)

    def run_until(self, text: str, main_class: str, *words: str) -> list[str]:
        """Run a tool until its output has a text: a broker of Kafka applies a change a moment after the response."""
        deadline = time.monotonic() + SECONDS_MAX
        while text not in " ".join(found := self.run(main_class, *words)) and time.monotonic() < deadline:
            pass
        return found

    def run_with(self, option: str, address: str, main_class: str, *words: str, lines: str = "") -> list[str]:
        """The same for a tool that has another option for the address."""
        found = self._java.run(main_class, option, address, *words, lines=lines).splitlines()
        for pattern, replacement in ANY:
            found = [pattern.sub(replacement, line) for line in found]
        return [line.strip() for line in found if line.strip()]


@pytest.fixture
def tools(java: JavaTools, cluster: Cluster) -> Tools:
    return Tools(java, cluster)


def test_kafka_topics(tools: Tools) -> None:
    topic = ["--topic", "java-topics"]
    assert {
        "create": tools.run(TOPICS, "--create", *topic, "--partitions", "2", "--config", "retention.ms=5000"),
        "again": tools.run(TOPICS, "--create", *topic)[:1],
        "if it is not there": tools.run(TOPICS, "--create", *topic, "--if-not-exists"),
        "replicated": tools.run(TOPICS, "--create", "--topic", "java-other", "--replication-factor", "2")[-1],
        "describe": tools.run_until("PartitionCount: 2", TOPICS, "--describe", *topic),
        "alter": tools.run(TOPICS, "--alter", *topic, "--partitions", "3"),
        "shrink": tools.run(TOPICS, "--alter", *topic, "--partitions", "1")[-1],
        "list": tools.run(TOPICS, "--list", *topic),
        "under-replicated": tools.run(TOPICS, "--describe", *topic, "--under-replicated-partitions"),
        "describe after that": tools.run_until("PartitionCount: 3", TOPICS, "--describe", *topic)[0],
        "delete": tools.run(TOPICS, "--delete", *topic),
        "describe at the end": tools.run_until("does not exist", TOPICS, "--describe", *topic),
        "delete again": tools.run(TOPICS, "--delete", *topic),
    } == {
        "create": ["Created topic java-topics."],
        "again": ["Error while executing topic command : Topic 'java-topics' already exists."],
        "if it is not there": [],
        "replicated": "exit status 1",
        "describe": [
            "Topic: java-topics TopicId: ID PartitionCount: 2 ReplicationFactor: 1 Configs: retention.ms=5000",
            "Topic: java-topics Partition: 0 Leader: 1 Replicas: 1 Isr: 1 Elr: LastKnownElr:",
            "Topic: java-topics Partition: 1 Leader: 1 Replicas: 1 Isr: 1 Elr: LastKnownElr:",
        ],
        "alter": [],
        "shrink": "exit status 1",
        "list": ["java-topics"],
        "under-replicated": [],
        "describe after that": (
            "Topic: java-topics TopicId: ID PartitionCount: 3 ReplicationFactor: 1 Configs: retention.ms=5000"
        ),
        "delete": [],
        "delete again": [
            "Error while executing topic command : Topic 'java-topics' does not exist as expected",
            "exit status 1",
        ],
        "describe at the end": [
            "Error while executing topic command : Topic 'java-topics' does not exist as expected",
            "exit status 1",
        ],
    }


def test_console_producer_and_consumer(tools: Tools) -> None:
    topic = ["--topic", "java-console"]
    tools.run(TOPICS, "--create", *topic)
    parsed = [
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "parse.headers=true",
        "--reader-property",
        "null.marker=NULL",
    ]
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        lines = f"h:{codec}\tkey\tvalue {codec}\nh:1\tkey\tNULL\n"
        tools.run(PRODUCER, *topic, "--compression-codec", codec, *parsed, lines=lines)
    shown = [
        word
        for each in ("key", "headers", "offset", "partition", "epoch")
        for word in ("--formatter-property", f"print.{each}=true")
    ]
    begin = [*topic, "--from-beginning"]
    assert {
        "all": tools.run(CONSUMER, *begin, *shown, "--max-messages", "10"),
        "of an offset": tools.run(CONSUMER, *topic, "--partition", "0", "--offset", "8", "--max-messages", "1"),
        "of a group": tools.run(CONSUMER, *begin, "--group", "java-console", "--max-messages", "7"),
        "the rest": tools.run(CONSUMER, *topic, "--group", "java-console", "--max-messages", "3"),
        "no more": tools.run(CONSUMER, *topic, "--group", "java-console", "--timeout-ms", "500"),
        "committed reads": tools.run(CONSUMER, *begin, "--isolation-level", "read_committed", "--max-messages", "1"),
    } == {
        "all": [
            line
            for number, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd"))
            for line in (
                f"Partition:0 Offset:{2 * number} Epoch:NOT_PRESENT h:{codec} key value {codec}",
                f"Partition:0 Offset:{2 * number + 1} Epoch:NOT_PRESENT h:1 key null",
            )
        ],
        "of an offset": ["value zstd"],
        "of a group": ["value none", "null", "value gzip", "null", "value snappy", "null", "value lz4"],
        "the rest": ["null", "value zstd", "null"],
        "no more": [],
        "committed reads": ["value none"],
    }


def test_console_consumers_of_both_protocols(tools: Tools) -> None:
    """The group is a consumer group after the first run, and a classic one after the second."""
    topic, group = ["--topic", "java-newer"], ["--group", "java-newer"]
    newer = ["--command-property", "group.protocol=consumer"]
    tools.run(TOPICS, "--create", *topic)
    tools.run(PRODUCER, *topic, lines="".join(f"{number}\n" for number in range(4)))

    def listed() -> list[str]:
        return [line for line in tools.run(GROUPS, "--list", "--type", "consumer") if line.startswith(group[1])]

    assert {
        "newer": tools.run(CONSUMER, *topic, *group, *newer, "--from-beginning", "--max-messages", "2"),
        "its type": listed(),
        "its state": tools.run(GROUPS, "--describe", *group, "--state")[-1],
        "classic": tools.run(CONSUMER, *topic, *group, "--max-messages", "2"),
        "its type after that": listed(),
    } == {
        "newer": ["0", "1"],
        "its type": ["java-newer Consumer"],
        "its state": "java-newer ADDRESS (1) uniform Empty 0",
        "classic": ["2", "3"],
        "its type after that": [],
    }


def test_kafka_configs_of_topics(tools: Tools) -> None:
    tools.run(TOPICS, "--create", "--topic", "java-configs")
    tools.run_until("java-configs", TOPICS, "--list")
    topic = ["--entity-type", "topics", "--entity-name", "java-configs"]
    values = "retention.ms=1000,cleanup.policy=[compact,delete]"
    assert {
        "describe": tools.run(CONFIGS, "--describe", *topic),
        "alter": tools.run(CONFIGS, "--alter", *topic, "--add-config", values),
        "describe after that": tools.run_until("retention.ms=1000", CONFIGS, "--describe", *topic),
        "delete": tools.run(CONFIGS, "--alter", *topic, "--delete-config", "retention.ms"),
        "unknown": tools.run(CONFIGS, "--alter", *topic, "--add-config", "no.such=1")[-1],
        "all": [
            line
            for line in tools.run_until("retention.ms=604800000", CONFIGS, "--describe", *topic, "--all")
            if line.startswith(("cleanup.policy=", "retention.ms=", "segment.bytes=", "preallocate="))
        ],
    } == {
        "describe": ["Dynamic configs for topic java-configs are:"],
        "alter": ["Completed updating config for topic java-configs."],
        "describe after that": [
            "Dynamic configs for topic java-configs are:",
            "cleanup.policy=compact,delete sensitive=false "
            "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            "retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
        ],
        "delete": ["Completed updating config for topic java-configs."],
        "unknown": "exit status 1",
        "all": [
            "cleanup.policy=compact,delete sensitive=false "
            "synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            "preallocate=false sensitive=false synonyms={DEFAULT_CONFIG:log.preallocate=false}",
            "retention.ms=604800000 sensitive=false synonyms={}",
            "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}",
        ],
    }


def test_kafka_configs_of_brokers(tools: Tools) -> None:
    broker = ["--entity-type", "brokers", "--entity-name", "1"]
    shown = (
        "auto.create.topics.enable=",
        "log.segment.bytes=",
        "message.max.bytes=",
        "num.partitions=",
        "offset.metadata.max.bytes=",
    )

    def values() -> list[str]:
        lines = tools.run(CONFIGS, "--describe", *broker, "--all")
        return [line.split()[0] for line in lines if line.startswith(shown)]

    assert {
        "describe": tools.run(CONFIGS, "--describe", *broker),
        "all": values(),
        "fixed at the start": tools.run(CONFIGS, "--alter", *broker, "--add-config", "num.partitions=9")[-1],
    } == {
        "describe": ["Dynamic configs for broker 1 are:"],
        "all": [
            "auto.create.topics.enable=true",
            "log.segment.bytes=1073741824",
            "message.max.bytes=1048588",
            "num.partitions=1",
            "offset.metadata.max.bytes=4096",
        ],
        "fixed at the start": "exit status 1",
    }


def test_kafka_consumer_groups(tools: Tools) -> None:
    topic, group = ["--topic", "java-groups"], ["--group", "java-groups"]
    tools.run(TOPICS, "--create", *topic)
    tools.run(PRODUCER, *topic, lines="".join(f"{number}\n" for number in range(10)))
    tools.run(CONSUMER, *topic, *group, "--from-beginning", "--max-messages", "4")

    def reset(*words: str) -> list[str]:
        return tools.run(GROUPS, "--reset-offsets", *group, *topic, *words, "--execute")[1:]

    assert {
        "list": [line for line in tools.run(GROUPS, "--list") if line == group[1]],
        "with state": [line for line in tools.run(GROUPS, "--list", "--state") if line.startswith(group[1])],
        "of a state": [line for line in tools.run(GROUPS, "--list", "--state", "stable") if line.startswith(group[1])],
        "offsets": tools.run(GROUPS, "--describe", *group),
        "state": tools.run(GROUPS, "--describe", *group, "--state"),
        "members": tools.run(GROUPS, "--describe", *group, "--members", "--verbose"),
        "to the earliest": reset("--to-earliest"),
        "to the latest": reset("--to-latest"),
        "shifted": reset("--shift-by", "-3"),
        "to an offset": reset("--to-offset", "5"),
        "to an offset beyond the end": reset("--to-offset", "50"),
        "to a time": reset("--to-datetime", "2000-01-01T00:00:00.000"),
        "by a duration": reset("--by-duration", "P1D"),
        "to the current": reset("--to-current"),
        "lag": tools.run(GROUPS, "--describe", *group, "--offsets")[-1],
        "delete offsets": tools.run(GROUPS, "--delete-offsets", *group, *topic),
        "delete": tools.run(GROUPS, "--delete", *group),
        "delete again": tools.run(GROUPS, "--delete", *group)[-1],
    } == {
        "list": ["java-groups"],
        "with state": ["java-groups Empty"],
        "of a state": [],
        "offsets": [
            "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID",
            "java-groups java-groups 0 4 10 6 - - -",
        ],
        "state": [
            "GROUP COORDINATOR (ID) ASSIGNMENT-STRATEGY STATE #MEMBERS",
            "java-groups ADDRESS (1) - Empty 0",
        ],
        "members": [
            "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT TARGET-EPOCH "
            "TARGET-ASSIGNMENT"
        ],
        "to the earliest": ["java-groups java-groups 0 0"],
        "to the latest": ["java-groups java-groups 0 10"],
        "shifted": ["java-groups java-groups 0 7"],
        "to an offset": ["java-groups java-groups 0 5"],
        "to an offset beyond the end": ["java-groups java-groups 0 10"],
        "to a time": ["java-groups java-groups 0 0"],
        "by a duration": ["java-groups java-groups 0 0"],
        "to the current": ["java-groups java-groups 0 0"],
        "lag": "java-groups java-groups 0 0 10 10 - - -",
        "delete offsets": [
            "Request succeeded for deleting offsets from group java-groups.",
            "TOPIC PARTITION STATUS",
            "java-groups 0 Successful",
        ],
        "delete": ["Deletion of requested consumer groups ('java-groups') was successful."],
        "delete again": (
            "* Group 'java-groups' could not be deleted due to: "
            "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
        ),
    }


def test_kafka_get_offsets(tools: Tools) -> None:
    topic = ["--topic", "java-offsets"]
    tools.run(TOPICS, "--create", *topic, "--partitions", "2")
    tools.run(PRODUCER, *topic, "--reader-property", "parse.key=true", lines="a\t1\na\t2\n")
    tools.run(PRODUCER, *topic, "--reader-property", "parse.key=true", lines="a\t3\n")
    times = ["-1", "-2", "-3", "-4", "-5", "latest", "earliest", "max-timestamp", "earliest-local", "latest-tiered"]
    found = {time: tools.run(OFFSETS, *topic, "--time", time) for time in [*times, "0", "4000000000000"]}
    ends, starts = ["java-offsets:0:3", "java-offsets:1:0"], ["java-offsets:0:0", "java-offsets:1:0"]
    last = ["java-offsets:0:2"]
    assert found == {
        "-1": ends,
        "-2": starts,
        "-3": last,
        "-4": starts,
        "-5": [],
        "latest": ends,
        "earliest": starts,
        "max-timestamp": last,
        "earliest-local": starts,
        "latest-tiered": [],
        "0": starts[:1],
        "4000000000000": [],
    }


def test_kafka_delete_records(tools: Tools, tmp_path: Path) -> None:
    topic = ["--topic", "java-delete"]
    tools.run(TOPICS, "--create", *topic)
    tools.run(PRODUCER, *topic, lines="1\n2\n3\n")

    def delete(offset: int) -> list[str]:
        wanted = {"version": 1, "partitions": [{"topic": topic[1], "partition": 0, "offset": offset}]}
        (tmp_path / "offsets.json").write_text(json.dumps(wanted))
        command = ("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(tmp_path / "offsets.json"))
        return tools.run(*command)[2:]

    assert {
        "two": delete(2),
        "beyond the end": delete(4),
        "first offset": tools.run(OFFSETS, *topic, "--time", "earliest"),
        "all": delete(-1),
        "first offset at the end": tools.run(OFFSETS, *topic, "--time", "earliest"),
    } == {
        "two": ["partition: java-delete-0 low_watermark: 2"],
        "beyond the end": [
            "partition: java-delete-0 error: org.apache.kafka.common.errors.OffsetOutOfRangeException: "
            "The requested offset is not within the range of offsets maintained by the server."
        ],
        "first offset": ["java-delete:0:2"],
        "all": ["partition: java-delete-0 low_watermark: 3"],
        "first offset at the end": ["java-delete:0:3"],
    }


def test_kafka_log_dirs(tools: Tools) -> None:
    tools.run(TOPICS, "--create", "--topic", "java-dirs", "--partitions", "2")
    tools.run(PRODUCER, "--topic", "java-dirs", lines="1\n2\n3\n")
    command = ("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", "java-dirs")
    (found,) = [json.loads(line) for line in tools.run(*command) if line.startswith("{")]
    (directory,) = found["brokers"][0]["logDirs"]
    assert Path(directory.pop("logDir")).is_absolute()
    assert sum(each.pop("size") for each in directory["partitions"]) > 70
    assert sorted(directory["partitions"], key=lambda each: str(each["partition"])) == [
        {"partition": f"java-dirs-{number}", "offsetLag": 0, "isFuture": False} for number in range(2)
    ]
    assert (found["brokers"][0]["broker"], directory["error"]) == (1, None)


def test_kafka_broker_api_versions(tools: Tools) -> None:
    """All APIs that clients use, apart from transactions and the newer groups, have the newest versions for clients."""
    lines = tools.run("org.apache.kafka.tools.BrokerApiVersionsCommand")
    found = {match[1]: int(match[2]) for line in lines if (match := re.match(r"(\w+)\(\d+\): .*usable: (\d+)", line))}
    newest = {
        "Produce": 13, "ListOffsets": 11, "Metadata": 13, "OffsetCommit": 10, "OffsetFetch": 10,
        "FindCoordinator": 6, "JoinGroup": 9, "Heartbeat": 4, "LeaveGroup": 5, "SyncGroup": 5, "DescribeGroups": 6,
        "ListGroups": 5, "ApiVersions": 5, "CreateTopics": 7, "DeleteTopics": 6, "DeleteRecords": 2,
        "InitProducerId": 5, "DescribeConfigs": 4, "AlterConfigs": 2, "CreatePartitions": 3, "DeleteGroups": 3,
        "IncrementalAlterConfigs": 1, "OffsetDelete": 0, "DescribeCluster": 2, "OffsetForLeaderEpoch": 4,
        "DescribeLogDirs": 5, "DescribeProducers": 0, "DescribeTopicPartitions": 0,
    }  # fmt: skip
    assert {name: found.get(name) for name in newest} == newest
    assert found["Fetch"] >= 17  # version 18 is for followers


def test_changes_of_quotas_and_features_are_not_supported(java: JavaTools, tmp_path: Path) -> None:
    """The clients of the tools report it: they ask for the versions of an API before they send a request."""
    user = ("--entity-type", "users", "--entity-name", "alice")
    with served(tmp_path) as broker:
        address = ("--bootstrap-server", broker.address)
        altered = java.errors(CONFIGS, *address, "--alter", *user, "--add-config", "producer_byte_rate=1024")
        described = java.run(CONFIGS, *address, "--describe", *user)
        upgraded = java.run(FEATURES, *address, "upgrade", "--feature", "transaction.version=2")
    assert "UnsupportedVersionException: The node does not support ALTER_CLIENT_QUOTAS" in altered
    assert described == ""
    refused = "Could not upgrade transaction.version to 2. The node does not support UPDATE_FEATURES"
    assert upgraded.splitlines() == [refused, "exit status 1"]


def test_performance_tools(tools: Tools, cluster: Cluster) -> None:
    load = ("--topic", "java-load", "--num-records", "2000", "--record-size", "100", "--throughput", "-1")
    tools.run(TOPICS, "--create", "--topic", "java-load")
    address = f"bootstrap.servers={cluster.address}"
    sent = tools.run_with("--command-property", address, "org.apache.kafka.tools.ProducerPerformance", *load)
    words = ("--topic", "java-load", "--messages", "2000", "--group", "java-load", "--timeout", f"{SECONDS_MAX}000")
    got = tools.run("org.apache.kafka.tools.ConsumerPerformance", *words)
    assert (sent[-1].split(",")[0], got[-1].split(", ")[4]) == ("2000 records sent", "2000")


def test_verifiable_producer_and_consumer(tools: Tools, cluster: Cluster) -> None:
    """The producer ends with its JVM, and so it has one of its own."""
    address, topic = ("--bootstrap-server", cluster.address), ("--topic", "java-verified")
    tools.run(TOPICS, "--create", *topic)
    written = run_in_own_jvm("org.apache.kafka.tools.VerifiableProducer", *address, *topic, "--max-messages", "20")
    words = (*topic, "--group-id", "java-verified", "--max-messages", "20", "--reset-policy", "earliest", "--verbose")
    read = tools.run("org.apache.kafka.tools.VerifiableConsumer", *words)
    assert {
        "written": events(written.splitlines(), "producer_send_success", "value", "offset"),
        "data": events(written.splitlines(), "tool_data", "sent", "acked"),
        "read": events(read, "record_data", "value", "offset"),
        "committed": events(read, "offsets_committed", "success", "offsets")[-1:],
    } == {
        "written": [(str(number), number) for number in range(20)],
        "data": [(20, 20)],
        "read": [(str(number), number) for number in range(20)],
        "committed": [(True, [{"topic": "java-verified", "partition": 0, "offset": 20}])],
    }


def events(lines: list[str], name: str, *fields: str) -> list[tuple[object, ...]]:
    """Return fields of the events of a name, which the tools print as JSON."""
    found = [json.loads(line) for line in lines]
    return [tuple(each.get(field) for field in fields) for each in found if each.get("name") == name]
