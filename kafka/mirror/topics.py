"""The choice of topics of the source, and the settings with which they are created here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from offsetfs.kafka.client.metadata import ClusterMetadata, TopicInfo
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.storage import INTERNAL_TOPICS, LogConfig
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import TOPIC_SETTING_NAMES

_DYNAMIC_TOPIC_CONFIG = 1
_NO_SOURCE = -1

CLEANUP_POLICY = "cleanup.policy"

NAMES_SHOWN = 10
"""Topics or partitions that a message names, at most."""

SettingChanges = Mapping[str, str | None]
"""Settings of a topic with new values; None: it is removed, so that the default applies."""

_ALL = ".*"
_NEVER = {"retention.ms": "-1", "retention.bytes": "-1"}
_KEPT = _NEVER | {CLEANUP_POLICY: "delete"}
"""The settings with `keep`: nothing is compacted either."""


def listed(names: Iterable[object]) -> str:
    """Return the first names, sorted, for a message."""
    texts = sorted(map(str, names))
    return ", ".join(texts[:NAMES_SHOWN]) + (", …" if len(texts) > NAMES_SHOWN else "")


def chosen_topics(metadata: ClusterMetadata, options: MirrorOptions) -> list[TopicInfo]:
    """Return the topics that are mirrored, by name; also those with an error."""
    infos = (metadata.topics[name] for name in sorted(metadata.topics))
    return [topic for topic in infos if is_chosen(topic, options)]


def is_chosen(topic: TopicInfo, options: MirrorOptions) -> bool:
    """Whether a topic is mirrored. Those in which a broker keeps its own state must be named."""
    if topic.is_internal:
        return any(pattern.pattern == topic.name for pattern in options.topics)
    return is_name_chosen(topic.name, options)


def is_name_chosen(name: str, options: MirrorOptions) -> bool:
    """Whether a topic of this name is mirrored, of which nothing else is known."""
    if name in INTERNAL_TOPICS:
        return any(pattern.pattern == name for pattern in options.topics)
    return any(pattern.fullmatch(name) for pattern in options.topics)


def all_are_chosen(options: MirrorOptions) -> bool:
    """Whether all topics are to be mirrored, except internal ones."""
    return any(pattern.pattern == _ALL for pattern in options.topics)


def patterns_without_topic(names: Collection[str], options: MirrorOptions) -> list[str]:
    """Return the patterns that match none of the names, without that for all topics and names of Kafka's own topics."""
    given = [pattern for pattern in options.topics if pattern.pattern not in (_ALL, *INTERNAL_TOPICS)]
    return [pattern.pattern for pattern in given if not any(pattern.fullmatch(name) for name in names)]


def own_settings(result: Any) -> dict[str, str]:
    """Return the settings that a topic itself has, of one result of DescribeConfigs; not those that it inherits."""
    return {
        config.name: config.value
        for config in result.configs
        if config.value is not None and not config.is_sensitive and _is_own(config)
    }


def _is_own(config: Any) -> bool:
    if config.config_source == _NO_SOURCE:  # version 0 says only whether it is the default of the broker
        return not config.is_default
    return bool(config.config_source == _DYNAMIC_TOPIC_CONFIG)


def local_settings(own: Mapping[str, str], options: MirrorOptions) -> dict[str, str]:
    """Return the settings of a new local topic: those of the source that have an effect here, and those of the options.

    Records go when they go at the source, not by their age: a copy must not lose what the source has lost by accident.
    """
    return _with_effect(own, options) | (_KEPT if options.keep else _NEVER) | dict(options.settings)


def followed_settings(
    before: Mapping[str, str], now: Mapping[str, str], local: Mapping[str, str], options: MirrorOptions
) -> tuple[SettingChanges, list[str]]:
    """Return the changes to a local topic whose settings at the source were `before` and are `now`.

    `local`: the settings that the topic here has itself. Those of them that the user has set are not changed; the
    second result names those that the source has changed. But a policy that compacts never outlives that of the source.
    """
    old, new = _with_effect(before, options), _with_effect(now, options)
    changes, kept = dict[str, str | None](), list[str]()
    for name in sorted(old.keys() | new.keys()):
        if new.get(name) in (old.get(name), local.get(name)):
            continue  # also after a kill between the change here and its record
        is_own = local.get(name) == old.get(name)
        if is_own or (name == CLEANUP_POLICY and not _compacts(new) and _compacts(local)):
            changes[name] = new.get(name)
        else:
            kept.append(name)
    return changes, kept


def _with_effect(own: Mapping[str, str], options: MirrorOptions) -> dict[str, str]:
    """Return the settings of the source that apply here."""
    others = {*(_KEPT if options.keep else _NEVER), *options.settings}
    names = set(TOPIC_SETTING_NAMES) - others
    return {name: value for name, value in own.items() if name in names and _is_legal(name, value)}


def _compacts(settings: Mapping[str, str]) -> bool:
    return "compact" in settings.get(CLEANUP_POLICY, "").split(",")


def _is_legal(name: str, value: str) -> bool:
    try:
        LogConfig.from_properties({name: value})
    except InvalidConfig:
        return False
    return True
