"""Which topics of the source are mirrored, and with which settings they are created here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from offsetfs.client.metadata import ClusterMetadata, TopicInfo
from offsetfs.mirror.options import MirrorOptions
from offsetfs.protocol import messages as m
from offsetfs.storage import INTERNAL_TOPICS, LogConfig
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import TOPIC_SETTING_NAMES

TOPIC_RESOURCE = 2
_DYNAMIC_TOPIC_CONFIG = 1
_NO_SOURCE = -1

_ALL = ".*"
_NEVER = {"retention.ms": "-1", "retention.bytes": "-1"}
_KEPT = _NEVER | {"cleanup.policy": "delete"}
"""With `keep` nothing is compacted either."""


def chosen_topics(metadata: ClusterMetadata, options: MirrorOptions) -> list[TopicInfo]:
    """Return the topics that are mirrored, by name; also those with an error."""
    found = (metadata.topics[name] for name in sorted(metadata.topics))
    return [each for each in found if is_chosen(each, options)]


def is_chosen(topic: TopicInfo, options: MirrorOptions) -> bool:
    """Whether a topic is mirrored. Those in which a broker keeps its own state must be named."""
    if topic.is_internal or topic.name in INTERNAL_TOPICS:
        return any(each.pattern == topic.name for each in options.topics)
    return any(each.fullmatch(topic.name) for each in options.topics)


def patterns_without_topic(names: Collection[str], options: MirrorOptions) -> list[str]:
    """Return the patterns that match none of the names, without that for all topics and names of Kafka's own topics."""
    given = [each for each in options.topics if each.pattern not in (_ALL, *INTERNAL_TOPICS)]
    return [each.pattern for each in given if not any(each.fullmatch(name) for name in names)]


def settings_request(topics: Iterable[str]) -> m.DescribeConfigsRequest:
    """Return the request for all settings of topics."""
    resources = [m.DescribeConfigsResource(TOPIC_RESOURCE, each, None) for each in topics]
    return m.DescribeConfigsRequest(resources)


def own_settings(result: Any) -> dict[str, str]:
    """Return the settings that a topic itself has, of one result of DescribeConfigs; not those that it inherits."""
    return {
        each.name: each.value
        for each in result.configs
        if each.value is not None and not each.is_sensitive and _is_own(each)
    }


def _is_own(config: Any) -> bool:
    if config.config_source == _NO_SOURCE:  # version 0 says only whether it is the default of the broker
        return not config.is_default
    return bool(config.config_source == _DYNAMIC_TOPIC_CONFIG)


def local_settings(own: Mapping[str, str], options: MirrorOptions) -> dict[str, str]:
    """Return the settings of a new local topic: those of the source that have an effect here, and those of the options.

    Records go when they go at the source, not by their age: a copy must not lose what the source has lost by accident.
    """
    found = {name: value for name, value in own.items() if name in TOPIC_SETTING_NAMES and _is_legal(name, value)}
    return found | (_KEPT if options.keep else _NEVER) | dict(options.settings)


def _is_legal(name: str, value: str) -> bool:
    try:
        LogConfig.from_properties({name: value})
    except InvalidConfig:
        return False
    return True
