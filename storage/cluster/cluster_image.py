"""The state of a cluster that KRaft's metadata records describe: topics, replicas, settings, credentials, ACLs.

Only what the engine and its brokers need is kept. Follows
TopicsDelta, TopicDelta and ConfigurationsDelta of Kafka's metadata module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from offsetfs.storage.cluster.security_image import SecurityState
from offsetfs.storage.names import TopicPartition

if TYPE_CHECKING:
    from offsetfs.kafka.protocol.message import ProtocolMessage

Settings = Mapping[str, str]

_NO_SETTINGS: Settings = MappingProxyType({})
_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_DEFAULT_BROKER = ""


class Placement(NamedTuple):
    """Where a partition is: the ids of its brokers, and the latest leader epoch.

    `directories`: the id of the log directory on each of the brokers; empty before Kafka 3.7.
    """

    replicas: tuple[int, ...]
    leader_epoch: int
    directories: tuple[bytes, ...] = ()


class ClusterImage:
    """Topics, replicas, settings, credentials and ACLs of a cluster, as of the last record that was replayed."""

    def __init__(self) -> None:
        self.topic_ids: dict[str, bytes] = {}
        """By name of the topic."""
        self._topic_names: dict[bytes, str] = {}
        self._placements: dict[bytes, dict[int, Placement]] = {}  # by topic id, then by partition
        self._settings: dict[tuple[int, str], dict[str, str]] = {}
        self.settings_version = 0
        """Changes whenever a topic or a setting does."""
        self.security = SecurityState()
        """Credentials and ACLs."""
        self.pending: list[ProtocolMessage] | None = None
        """The records of an open transaction of the controller."""

    def replica_count(self, partition: TopicPartition) -> int | None:
        """Return the number of replicas of a partition; None where the records do not name it."""
        placement = self.placement(partition)
        return None if placement is None else len(placement.replicas)

    def placement(self, partition: TopicPartition) -> Placement | None:
        """Return where a partition is; None where the records do not name it."""
        topic_id = self.topic_ids.get(partition.topic)
        return None if topic_id is None else self._placements[topic_id].get(partition.partition)

    def partitions(self) -> Iterator[tuple[TopicPartition, Placement]]:
        """Yield every partition, with its placement."""
        for topic, topic_id in self.topic_ids.items():
            for number, placement in self._placements[topic_id].items():
                yield TopicPartition(topic, number), placement

    def topic_settings(self, topic: str) -> Settings:
        """Return what is set for the topic itself, by Kafka's names."""
        return self._settings.get((_TOPIC_RESOURCE, topic), _NO_SETTINGS)

    def broker_settings(self, node_id: str | None) -> dict[str, str]:
        """Return the dynamic settings of a broker: its own, over those of all brokers of the cluster."""
        names = [_DEFAULT_BROKER] if node_id is None else [_DEFAULT_BROKER, node_id]
        merged: dict[str, str] = {}
        for name in names:
            merged |= self._settings.get((_BROKER_RESOURCE, name), _NO_SETTINGS)
        return merged

    def add_topic(self, name: str, topic_id: bytes) -> None:
        self.topic_ids[name] = topic_id
        self._topic_names[topic_id] = name
        self._placements[topic_id] = {}
        self.settings_version += 1

    def place(self, topic_id: bytes, partition: int, placement: Placement) -> None:
        """Note where a partition is. Such changes are frequent (each ISR change), and concern no setting."""
        if topic_id in self._placements:
            self._placements[topic_id][partition] = placement

    def move(
        self, topic_id: bytes, partition: int, replicas: list[int] | None, directories: list[bytes] | None, leads: bool
    ) -> None:
        """Note a change of a partition; None is no change. `leads`: a leader was elected, in the next epoch."""
        before = self._placements.get(topic_id, {}).get(partition)
        if before is None:
            return
        self._placements[topic_id][partition] = Placement(
            before.replicas if replicas is None else tuple(replicas),
            before.leader_epoch + leads,
            before.directories if directories is None else tuple(directories),
        )

    def remove_topic(self, topic_id: bytes) -> None:
        topic = self._topic_names.pop(topic_id, None)
        self._placements.pop(topic_id, None)
        # A topic that was deleted and created again has a new id; the removal of the old one must not take the new
        # one's settings.
        if topic is not None and self.topic_ids.get(topic) == topic_id:
            del self.topic_ids[topic]
            self._settings.pop((_TOPIC_RESOURCE, topic), None)
        self.settings_version += 1

    def configure(self, resource: tuple[int, str], name: str, value: str | None) -> None:
        """Set what is configured of a resource, its type and name; None removes it."""
        settings = self._settings.setdefault(resource, {})
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
        if not settings:
            del self._settings[resource]
        self.settings_version += 1
