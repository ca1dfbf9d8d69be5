"""What the topics of a directory inherit: settings of their broker, those given here, and the cluster's own of them.

    lowest    Kafka's defaults
              the broker's settings: given as in `server.properties`, under those that the metadata log has of it
              topic settings given for the whole directory (`-o retention.ms=…`)
              the topic's settings in the metadata log
    highest   the topic's settings in `.offsetfs-topics.json` (`topic_settings`)

A setting of the metadata log that is unknown or illegal here is left out and reported; the old records of its topic are
then nobody's to remove. Follows DynamicBrokerConfig and KafkaConfig for the order (KIP-226).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from offsetfs.storage.cluster.cluster_image import ClusterImage
from offsetfs.storage.cluster.metadata_log import MetadataLog
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import broker_settings, config, directory_config
from offsetfs.storage.settings.config import DEFAULTS, LogConfig
from offsetfs.storage.settings.topic_settings import InheritedConfig

_RETENTION, _POLICY = "retention.ms", "cleanup.policy"


@dataclass(frozen=True, slots=True)
class SettingLayers:
    """The layers of settings below those of `.offsetfs-topics.json`, as of one state of the metadata log."""

    broker: Mapping[str, str] = field(default_factory=dict)
    """Topic settings that the broker's stand for."""
    directory: Mapping[str, str] = field(default_factory=dict)
    """The broker's settings of the directory that the metadata log has."""
    given: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By topic: what the metadata log has of it. Every topic of the cluster is in it."""
    doubtful: frozenset[str] = frozenset()
    """Topics with a setting that is unknown or illegal here."""
    problems: tuple[str, ...] = ()

    def inherited(self) -> InheritedConfig:
        """Return what the settings of topics stand on."""
        defaults = LogConfig.from_properties({**self.broker, **self.given}, DEFAULTS)
        return InheritedConfig(defaults, {topic: settings for topic, settings in self.cluster.items() if settings})


class InheritedSettings:
    """The layers of one directory, which change as the metadata log grows."""

    def __init__(
        self,
        metadata: MetadataLog | None,
        node_id: str | None,
        *,
        broker: Mapping[str, str],
        is_broker_known: bool,
        given: Mapping[str, str],
    ) -> None:
        """`broker`: settings by the broker's names; `is_broker_known`: they are all that the broker has.
        `InvalidConfig` if one is illegal."""
        broker_settings.resolve(broker)
        self._metadata = metadata
        self._node_id = node_id
        self._broker = dict(broker)
        self._is_broker_known = is_broker_known
        self._given = dict(given)
        self._seen: tuple[int, int] | None = None
        self.layers = self._read(ClusterImage())
        self.refresh()

    def refresh(self) -> bool:
        """Take in what the metadata log says now; return whether that changed the layers."""
        if self._metadata is None:
            return False
        image = self._metadata.refresh()
        seen = id(image), image.settings_version
        if seen == self._seen:
            return False
        self._seen, before = seen, self.layers
        self.layers = self._read(image)
        return self.layers != before

    def knows_policy(self, topic: str) -> bool:
        """Whether these layers tell what is to become of a topic's old records.

        A broker's settings in `server.properties` are not in the metadata log. Where they are not given, its defaults
        of age and of cleaning are unknown: what a topic does not set itself is not guessed.
        """
        layers = self.layers
        if topic in layers.doubtful:
            return False
        if _RETENTION in layers.given or _POLICY in layers.given:
            return True
        if self._metadata is None or self._metadata.problem is not None or topic not in layers.cluster:
            return False
        own = {**layers.broker, **layers.cluster[topic]}
        return self._is_broker_known or _RETENTION in own or own.get(_POLICY) == "compact"

    def told(self, topic: str) -> Collection[str]:
        """Return the names of the topic settings that some layer sets."""
        layers = self.layers
        return layers.given.keys() | layers.broker.keys() | layers.cluster.get(topic, {}).keys()

    def _read(self, image: ClusterImage) -> SettingLayers:
        problems: list[str] = []
        dynamic = _legal_of_broker(image.broker_settings(self._node_id), problems)
        resolved = broker_settings.resolve(self._broker | dynamic)
        given = {name: value for name, value in dynamic.items() if name in directory_config.NAMES}
        cluster, doubtful = dict[str, Mapping[str, str]](), set[str]()
        for topic in image.topics():
            cluster[topic], is_whole = _legal_of_topic(topic, image.topic_settings(topic), problems)
            if not is_whole:
                doubtful.add(topic)
        return SettingLayers(resolved.topic_defaults, given, self._given, cluster, frozenset(doubtful), tuple(problems))


def _legal_of_broker(settings: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """Return the settings that have an effect here and are legal."""
    legal = {}
    for name, value in settings.items():
        if broker_settings.has_effect(name):
            try:
                broker_settings.resolve({name: value})
                legal[name] = value
            except InvalidConfig as error:
                problems.append(f"the broker's settings in the metadata log: {error.reason}")
    return legal


def _legal_of_topic(topic: str, settings: Mapping[str, str], problems: list[str]) -> tuple[dict[str, str], bool]:
    """Return the settings that are legal here, and whether those are all that matter to what is kept."""
    legal, is_whole = {}, True
    for name, value in settings.items():
        if name not in config.NAMES:
            continue  # of replication, of quotas, or of a newer Kafka
        try:
            config.parse_property(name, value)
            legal[name] = value
        except InvalidConfig as error:
            problems.append(f"topic {topic} in the metadata log: {error.reason}")
            is_whole = False
    try:
        LogConfig.from_properties(legal)
    except InvalidConfig as error:
        problems.append(f"topic {topic} in the metadata log: {error.reason}")
        return {}, False
    return legal, is_whole
