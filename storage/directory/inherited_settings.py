"""Settings that the topics of a directory inherit from the broker, the command line and the cluster.

    lowest    Kafka's defaults
              the broker's settings: from `server.properties`, overridden by those in the metadata log
              topic settings given for the whole directory (`-o retention.ms=…`)
              the topic's settings in the metadata log
    highest   the topic's settings in `.offsetfs-topics.json` (`topic_settings`)

A setting in the metadata log that is unknown or illegal here is ignored and reported; retention then does not apply to
its topic. Follows DynamicBrokerConfig and KafkaConfig for the order (KIP-226).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from offsetfs.storage.clock import SYSTEM
from offsetfs.storage.cluster import metadata_log
from offsetfs.storage.cluster.cluster_image import ClusterImage
from offsetfs.storage.cluster.metadata_log import MetadataLog
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import config
from offsetfs.storage.settings.broker_settings import BROKER_SETTING_NAMES, resolve_broker_settings
from offsetfs.storage.settings.config import DEFAULTS, TOPIC_SETTING_NAMES, LogConfig
from offsetfs.storage.settings.directory_config import DIRECTORY_SETTING_NAMES
from offsetfs.storage.settings.topic_settings import InheritedConfig

REMOTE_STORAGE = "remote.storage.enable"
_RETENTION, _POLICY = "retention.ms", "cleanup.policy"


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """What the caller knows of the broker of a directory."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings as in `server.properties`."""
    is_complete: bool = False
    """Whether `settings` are all that the broker has."""
    metadata_directory: str | None = None
    """The directory with the metadata log of the cluster; None if the log lies beside the data, or there is none."""


NO_BROKER = BrokerContext()


@dataclass(frozen=True, slots=True)
class SettingLayers:
    """The layers of settings below `.offsetfs-topics.json`, for one state of the metadata log."""

    broker: Mapping[str, str] = field(default_factory=dict)
    """Topic settings that follow from the broker's settings."""
    directory: Mapping[str, str] = field(default_factory=dict)
    """The broker's directory settings in the metadata log."""
    given: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The topics' settings in the metadata log. Contains every topic of the cluster."""
    doubtful: frozenset[str] = frozenset()
    """Topics with a setting that is unknown or illegal here."""
    tiered: frozenset[str] = frozenset()
    """Topics that the broker keeps in remote storage, too."""
    problems: tuple[str, ...] = ()

    def inherited(self) -> InheritedConfig:
        """Return the settings that topics inherit."""
        defaults = LogConfig.from_properties({**self.broker, **self.given}, DEFAULTS)
        return InheritedConfig(defaults, {topic: settings for topic, settings in self.cluster.items() if settings})


class InheritedSettings:
    """The setting layers of one directory. They change as the metadata log grows."""

    def __init__(
        self,
        metadata: MetadataLog | None,
        node_id: str | None,
        *,
        broker: BrokerContext,
        given: Mapping[str, str],
    ) -> None:
        """`InvalidConfig` if a setting of the broker is illegal."""
        resolve_broker_settings(broker.settings)
        self._metadata = metadata
        self._node_id = node_id
        self._broker = broker
        self._given = dict(given)
        self._seen: tuple[int, int] | None = None
        self.layers = self._read(ClusterImage())
        self.refresh()

    def refresh(self) -> bool:
        """Read the metadata log again; return whether the layers changed."""
        if self._metadata is None:
            return False
        image = self._metadata.refresh()
        # The image object is replaced when the metadata log is read again from a snapshot; then the version starts
        # again.
        seen = id(image), image.settings_version
        if seen == self._seen:
            return False
        self._seen, before = seen, self.layers
        self.layers = self._read(image)
        return self.layers != before

    def knows_policy(self, topic: str) -> bool:
        """Whether these layers determine the retention of a topic's records.

        A broker's `server.properties` is not in the metadata log. If it is not given, the broker's defaults for
        retention and cleanup are unknown, and settings that a topic does not have itself are not guessed.
        """
        layers = self.layers
        # A setting that this version cannot read may be the one that protects the records (decision 26).
        if topic in layers.doubtful:
            return False
        if _RETENTION in layers.given or _POLICY in layers.given:
            return True
        if self._metadata is None or self._metadata.problem is not None or topic not in layers.cluster:
            return False
        own = {**layers.broker, **layers.cluster[topic]}
        # Kafka's default of seven days must not delete a topic that the broker keeps forever (decision 26).
        return self._broker.is_complete or _RETENTION in own or own.get(_POLICY) == "compact"

    def is_tiered(self, topic: str) -> bool | None:
        """Return whether the broker keeps the topic in remote storage, too (KIP-405); None if that is unknown."""
        if topic in self.layers.tiered:
            return True
        is_known = self._metadata is not None and self._metadata.problem is None and topic in self.layers.cluster
        return False if is_known else None

    def names_set(self, topic: str) -> Collection[str]:
        """Return the names of the topic settings that a layer sets."""
        layers = self.layers
        return layers.given.keys() | layers.broker.keys() | layers.cluster.get(topic, {}).keys()

    def _read(self, image: ClusterImage) -> SettingLayers:
        problems: list[str] = []
        dynamic = _legal_of_broker(image.broker_settings(self._node_id), problems)
        resolved = resolve_broker_settings({**self._broker.settings, **dynamic})
        given = {name: value for name, value in dynamic.items() if name in DIRECTORY_SETTING_NAMES}
        cluster, doubtful, tiered = dict[str, Mapping[str, str]](), set[str](), set[str]()
        for topic in list(image.topic_ids):
            settings = dict(image.topic_settings(topic))
            if settings.pop(REMOTE_STORAGE, "").strip().lower() == "true":
                tiered.add(topic)
            cluster[topic], is_whole = _legal_of_topic(topic, settings, problems)
            if not is_whole:
                doubtful.add(topic)
        return SettingLayers(
            resolved.topic_defaults,
            given,
            self._given,
            cluster,
            doubtful=frozenset(doubtful),
            tiered=frozenset(tiered),
            problems=tuple(problems),
        )


def setting_layers(path: str, *, broker: BrokerContext, given: Mapping[str, str]) -> SettingLayers:
    """Return the layers of the directory at `path` as they are now, with the metadata log of its cluster.

    Arguments and errors: those of `InheritedSettings` and `metadata_log.open_beside`.
    """
    metadata = metadata_log.open_beside(path, broker.metadata_directory, SYSTEM)
    return InheritedSettings(metadata, metadata_log.node_id(path), broker=broker, given=given).layers


def _legal_of_broker(settings: Mapping[str, str], problems: list[str]) -> dict[str, str]:
    """Return the settings that have an effect here and are legal."""
    legal = {}
    for name, value in settings.items():
        if name in BROKER_SETTING_NAMES:
            try:
                resolve_broker_settings({name: value})
                legal[name] = value
            except InvalidConfig as error:
                problems.append(f"the broker's settings in the metadata log: {error.reason}")
    return legal


def _legal_of_topic(topic: str, settings: Mapping[str, str], problems: list[str]) -> tuple[dict[str, str], bool]:
    """Return the legal settings, and whether they include all settings that affect retention."""
    legal, is_whole = {}, True
    for name, value in settings.items():
        if name not in TOPIC_SETTING_NAMES:
            continue  # settings of replication, quotas, or a newer Kafka
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
