"""The state of a cluster that KRaft's metadata records describe: topics, their replicas, the settings of both.

Records are replayed in order. A transaction of the controller (KIP-868) counts from its end on; an aborted one does
not. Only what the engine needs is kept: the replicas of each partition, and the settings of topics and brokers. Follows
TopicsDelta, TopicDelta and ConfigurationsDelta of Kafka's metadata module.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from offsetfs.storage.cluster import cluster_metadata
from offsetfs.storage.cluster.kafka_messages import Buffer
from offsetfs.storage.names import TopicPartition

Settings = Mapping[str, str]

_NO_SETTINGS: Settings = MappingProxyType({})
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_DEFAULT_BROKER = ""
_REPLAYED = frozenset(
    (
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_CHANGE_RECORD",
        "REMOVE_TOPIC_RECORD",
        "CONFIG_RECORD",
        "BEGIN_TRANSACTION_RECORD",
        "END_TRANSACTION_RECORD",
        "ABORT_TRANSACTION_RECORD",
    )
)


class ClusterImage:
    """Topics, replicas and settings of a cluster, as of the last record that was replayed."""

    def __init__(self) -> None:
        self._topic_ids: dict[str, str] = {}
        self._topic_names: dict[str, str] = {}
        self._replicas: dict[str, dict[int, int]] = {}  # by topic id, then by partition
        self._settings: dict[tuple[int, str], dict[str, str]] = {}
        self.settings_version = 0
        """Changes whenever a topic or a setting does."""
        self._pending: list[tuple[str, dict[str, Any]]] | None = None  # records of an open transaction

    def replica_count(self, partition: TopicPartition) -> int | None:
        """Return the number of replicas of a partition; None where the records do not name it."""
        topic_id = self._topic_ids.get(partition.topic)
        return None if topic_id is None else self._replicas[topic_id].get(partition.partition)

    def topic_settings(self, topic: str) -> Settings:
        """Return what is set for the topic itself, by Kafka's names."""
        return self._settings.get((_TOPIC_RESOURCE, topic), _NO_SETTINGS)

    def topics(self) -> list[str]:
        """Return the names of the topics."""
        return list(self._topic_ids)

    def broker_settings(self, node_id: str | None) -> dict[str, str]:
        """Return the dynamic settings of a broker: its own, over those of all brokers of the cluster."""
        names = [_DEFAULT_BROKER] if node_id is None else [_DEFAULT_BROKER, node_id]
        merged: dict[str, str] = {}
        for name in names:
            merged |= self._settings.get((_BROKER_RESOURCE, name), _NO_SETTINGS)
        return merged

    def replay(self, value: Buffer) -> None:
        """Apply one record. `MalformedMessage` when it cannot be read; unknown types have no effect."""
        try:
            record = cluster_metadata.parse(value, _REPLAYED)
        except cluster_metadata.UnknownRecordType:
            return
        if record is None:
            return
        name, data = record
        if name == "BEGIN_TRANSACTION_RECORD":
            self._pending = []
        elif name == "ABORT_TRANSACTION_RECORD":
            self._pending = None
        elif name == "END_TRANSACTION_RECORD":
            pending, self._pending = self._pending or [], None
            for each in pending:
                self._apply(*each)
        elif self._pending is not None:
            self._pending.append((name, data))
        else:
            self._apply(name, data)

    def _apply(self, name: str, data: dict[str, Any]) -> None:
        # Partition changes are frequent (each ISR change) and concern no setting.
        self.settings_version += not name.startswith("PARTITION")
        match name:
            case "TOPIC_RECORD":
                self._topic_ids[data["name"]] = data["topicId"]
                self._topic_names[data["topicId"]] = data["name"]
                self._replicas[data["topicId"]] = {}
            case "PARTITION_RECORD" | "PARTITION_CHANGE_RECORD":
                replicas = data.get("replicas")  # a change leaves out what stays as it was
                if data["topicId"] in self._replicas and replicas is not None:
                    self._replicas[data["topicId"]][data["partitionId"]] = len(replicas)
            case "REMOVE_TOPIC_RECORD":
                self._remove(data["topicId"])
            case "CONFIG_RECORD":
                self._configure((data["resourceType"], data["resourceName"]), data["name"], data["value"])

    def _remove(self, topic_id: str) -> None:
        topic = self._topic_names.pop(topic_id, None)
        self._replicas.pop(topic_id, None)
        # A topic that was deleted and created again has a new id; the removal of the old one must not take the new
        # one's settings.
        if topic is not None and self._topic_ids.get(topic) == topic_id:
            del self._topic_ids[topic]
            self._settings.pop((_TOPIC_RESOURCE, topic), None)

    def _configure(self, resource: tuple[int, str], name: str, value: str | None) -> None:
        settings = self._settings.setdefault(resource, {})
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
        if not settings:
            del self._settings[resource]
