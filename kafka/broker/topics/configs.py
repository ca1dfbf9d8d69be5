"""Settings: DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, of topics; those of the broker can be read.

ListConfigResources names the topics and the broker. DescribeClientQuotas finds no quotas; kafka-configs.sh
sends it for the users that it shows.

Follows Kafka's ConfigHelper, ConfigAdminManager and ConfigurationControlManager. The settings of topics are stored
where the engine stores them, in `.offsetfs-topics.json`.

The source of a value, and its synonyms, which have the lower sources as well:

    1   the topic's own setting
    4   the broker's setting, as given to `offsetfs serve`
    5   Kafka's default
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from offsetfs.kafka.broker.settings import ServerSettings, values_of
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import UNKNOWN_TOPIC, Rejected, answer, completed, repeated
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import I32_MAX, I32_MIN, LogConfig, check_topic
from offsetfs.storage.settings import (
    DEFAULTS,
    TOPIC_SETTING_NAMES,
    broker_settings_for,
    effective_broker_settings,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
"""Types of resources. Kafka: `ConfigResource.Type`."""

SOURCE_TOPIC, SOURCE_BROKER, SOURCE_DEFAULT = 1, 4, 5
"""Kafka: `DescribeConfigsResponse.ConfigSource`."""

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)

_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST, _PASSWORD = 1, 2, 3, 5, 6, 7, 9
"""Types of values. Kafka: `DescribeConfigsResponse.ConfigType`."""

_TYPES: Mapping[type, int] = {bool: _BOOLEAN, str: _STRING, int: _LONG, float: _DOUBLE, tuple: _LIST}
_INT_NAMES = frozenset(
    {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "index.interval.bytes",
        "max.decompressed.message.bytes",
        "max.message.bytes",
        "min.insync.replicas",
        "segment.bytes",
        "segment.index.bytes",
    }
)

_WITHOUT_DEFAULT = frozenset({"flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms"})
"""Kafka's defaults of these are those of the broker's settings in minutes and hours, which are no synonyms."""

_REMOVED = frozenset({"message.format.version", "message.timestamp.difference.max.ms"})
"""Settings that Kafka 4 does not have any more. They are shown where they are set."""


SETTINGS_MAX = 100_000
"""Settings of a response, at most: 2,500 topics with all of theirs, in 20 MB. Kafka has no limit."""

SETTINGS_OF_A_CHANGE_MAX = 1000
"""Settings of one resource that a request changes, at most: a topic has 40. Each is checked with all others."""

_SETTINGS_OF_A_TOPIC, _SETTINGS_OF_THE_BROKER = 40, 200
"""Settings that a resource without keys counts for: about as many as it has."""

_TOO_MANY = f"more than {SETTINGS_MAX} settings in one response; ask for fewer resources at a time, or for some keys"

_Known = dict[tuple[frozenset[str] | None, LogConfig | None, frozenset[tuple[str, str]]], list[Any]]
"""Settings that were described for the same request: most topics have the same ones."""


class Configs:
    """Answers the requests for settings."""

    def __init__(self, topics: Topics, settings: ServerSettings) -> None:
        self._topics = topics
        self._settings = settings

    # --- reading -----------------------------------------------------------------------------------------------------

    async def describe_configs(self, request: m.DescribeConfigsRequest, version: int) -> m.DescribeConfigsResponse:
        """Return the settings of topics and of the broker."""
        response = m.DescribeConfigsResponse()
        slices, known = Slices(), _Known()
        is_too_large = sum(map(_setting_count, request.resources)) > SETTINGS_MAX
        for resource in request.resources:
            await slices.step()
            result = m.DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
            response.results.append(result)
            if is_too_large:
                result.error_code, result.error_message = ErrorCode.INVALID_REQUEST, _TOO_MANY
                continue
            work = partial(self._describe, resource, result, known, has_synonyms=request.include_synonyms)
            await answer(result, work)
        return response

    async def _describe(
        self,
        resource: m.DescribeConfigsResource,
        result: m.DescribeConfigsResult,
        known: _Known,
        *,
        has_synonyms: bool,
    ) -> None:
        wanted = frozenset(resource.configuration_keys or ()) or None  # Kafka: no keys are all keys
        name, own, config = resource.resource_name, dict[str, str](), None
        if resource.resource_type == BROKER:
            self._check_broker(name)
        else:
            self._check_topic(resource.resource_type, name)
            own, config = self._own(name), self._topics.directory.config_of(name)
        key = wanted, config, frozenset(own.items())
        settings = known.get(key)
        if settings is None:
            settings = self._of_broker(wanted) if config is None else self.of_topic(config, own, wanted)
            for setting in () if has_synonyms else settings:
                setting.synonyms = []
            known[key] = settings
        result.configs = settings

    def of_topic(
        self, config: LogConfig, own: Mapping[str, str], wanted: Collection[str] | None = None
    ) -> list[m.DescribeConfigsResourceResult]:
        """Return the settings of a topic, which has set `own`, with their sources and synonyms, sorted by name."""
        layers, values, defaults = self._layers(), config.properties(), DEFAULTS.properties()
        inherited = self.defaults().properties()
        entries = []
        for name, value in sorted(values.items()):
            if (wanted is not None and name not in wanted) or (name in _REMOVED and value == defaults[name]):
                continue
            names = broker_settings_for(name)
            synonyms = [m.DescribeConfigsSynonym(name, own[name], SOURCE_TOPIC)] if name in own else []
            if name in layers:
                given = next((synonym for synonym in names if synonym in self._settings.given), name)
                synonyms.append(m.DescribeConfigsSynonym(given, inherited[name], SOURCE_BROKER))
            if names and name not in _WITHOUT_DEFAULT:
                synonyms.append(m.DescribeConfigsSynonym(names[0], defaults[name], SOURCE_DEFAULT))
            source = synonyms[0].source if synonyms else SOURCE_DEFAULT
            entries.append(_entry(name, value, source, _type_of_topic_setting(name), synonyms))
        return entries

    def _layers(self) -> Collection[str]:
        """Return the names of the topic settings that all topics inherit from settings of the broker."""
        layers = self._topics.directory.inherited.layers
        return {*layers.broker, *layers.given}

    def _own(self, topic: str) -> dict[str, str]:
        """Return the settings of the topic itself: those of a former broker, and over them those set here."""
        return dict(self._topics.directory.explicit_settings_of(topic))

    def _check_broker(self, name: str) -> None:
        if name not in ("", str(self._settings.node_id)):
            reason = f"broker {name} is not here: the only broker is {self._settings.node_id}"
            raise Rejected(ErrorCode.INVALID_REQUEST, reason)

    def _of_broker(self, wanted: Collection[str] | None) -> list[m.DescribeConfigsResourceResult]:
        """Return the effective settings of the broker. They change with a restart only, so that all are read-only."""
        directory = self._topics.directory
        values = {
            **effective_broker_settings(self.defaults()),
            **directory.config.properties(),
            **values_of(self._settings),
            "log.dirs": directory.path,
        }
        entries = []
        for key, value in sorted(values.items()):
            if wanted is None or key in wanted:
                source = SOURCE_BROKER if key in self._settings.given else SOURCE_DEFAULT
                kind = _PASSWORD if value is None else _type_of_value(value)
                synonyms = [m.DescribeConfigsSynonym(key, value, source)]
                entries.append(_entry(key, value, source, kind, synonyms, is_read_only=True))
        return entries

    def defaults(self) -> LogConfig:
        """Return the settings of a topic that sets none."""
        return self._topics.directory.inherited.layers.inherited().defaults

    def _check_topic(self, kind: int, name: str) -> None:
        _check_name(kind, name)
        self._check_exists(name)

    def _check_exists(self, topic: str) -> None:
        if topic not in self._topics.all():
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC)

    async def list_resources(
        self, request: m.ListConfigResourcesRequest, version: int
    ) -> m.ListConfigResourcesResponse:
        """Return the resources of some types, all without a type, that may have settings."""
        known = [TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP] if version >= 1 else [CLIENT_METRICS]
        wanted = set(request.resource_types or known)
        if not wanted.issubset(known):
            return m.ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        broker = str(self._settings.node_id)
        resources = [m.ConfigResource(broker, kind) for kind in (BROKER_LOGGER, BROKER) if kind in wanted]
        if TOPIC in wanted:
            resources += [m.ConfigResource(topic, TOPIC) for topic in self._topics.all()]
        return m.ListConfigResourcesResponse(config_resources=resources)

    # --- changing ----------------------------------------------------------------------------------------------------

    async def alter_configs(self, request: m.AlterConfigsRequest, version: int) -> m.AlterConfigsResponse:
        """Replace all settings of topics."""
        response = m.AlterConfigsResponse()
        twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
        slices = Slices()
        for resource in request.resources:
            await slices.step()
            result = m.AlterConfigsResponseAlterConfigsResourceResponse(
                0, None, resource.resource_type, resource.resource_name
            )
            response.responses.append(result)
            await answer(result, partial(self._replace, resource, twice, only_checks=request.validate_only))
        return response

    async def _replace(
        self, resource: m.AlterConfigsRequestAlterConfigsResource, twice: set[tuple[int, str]], *, only_checks: bool
    ) -> None:
        _check_change(resource.resource_type, resource.resource_name, twice, [c.name for c in resource.configs])
        own = self._topics.directory.settings_of(resource.resource_name)
        changes: dict[str, str | None] = dict.fromkeys(own)
        changes.update({config.name: _value(config.name, config.value) for config in resource.configs})
        await self._configure(resource.resource_name, changes, only_checks=only_checks)

    async def incremental_alter_configs(
        self, request: m.IncrementalAlterConfigsRequest, version: int
    ) -> m.IncrementalAlterConfigsResponse:
        """Change single settings of topics."""
        response = m.IncrementalAlterConfigsResponse()
        twice = repeated((resource.resource_type, resource.resource_name) for resource in request.resources)
        slices = Slices()
        for resource in request.resources:
            await slices.step()
            result = m.IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                0, None, resource.resource_type, resource.resource_name
            )
            response.responses.append(result)
            await answer(result, partial(self._change, resource, twice, only_checks=request.validate_only))
        return response

    async def _change(
        self,
        resource: m.IncrementalAlterConfigsRequestAlterConfigsResource,
        twice: set[tuple[int, str]],
        *,
        only_checks: bool,
    ) -> None:
        topic = resource.resource_name
        _check_change(resource.resource_type, topic, twice, [config.name for config in resource.configs])
        changes = {config.name: self._changed(topic, config) for config in resource.configs}
        # A setting that does not exist is at its default.
        known = {name: value for name, value in changes.items() if value is not None or name in TOPIC_SETTING_NAMES}
        await self._configure(topic, known, only_checks=only_checks)

    def _changed(self, topic: str, change: m.IncrementalAlterConfigsRequestAlterableConfig) -> str | None:
        """Return the value of a setting after a change; None for the default."""
        if change.config_operation == _DELETE:
            return None
        value = _value(change.name, change.value)
        if change.config_operation == _SET:
            return value
        if change.config_operation not in (_APPEND, _SUBTRACT):
            raise Rejected(ErrorCode.INVALID_REQUEST, f"{change.config_operation} is not an operation")
        if change.name not in TOPIC_SETTING_NAMES or _type_of_topic_setting(change.name) != _LIST:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"{change.name} is not a list: it can only be set or deleted")
        now = [item for item in self._topics.directory.config_of(topic).properties()[change.name].split(",") if item]
        given = [item.strip() for item in value.split(",") if item.strip()]
        if change.config_operation == _APPEND:
            return ",".join([*now, *(item for item in given if item not in now)])
        return ",".join(item for item in now if item not in given)

    async def _configure(self, topic: str, changes: Mapping[str, str | None], *, only_checks: bool) -> None:
        after = {**self._topics.directory.settings_of(topic), **changes}
        if given := {name: value for name, value in after.items() if value is not None}:
            LogConfig.from_properties(given)
        self._check_exists(topic)  # last, as ConfigurationControlManager
        if not only_checks:
            await completed(self._topics.directory.configure, topic, changes)


def _setting_count(resource: m.DescribeConfigsResource) -> int:
    all_settings = _SETTINGS_OF_THE_BROKER if resource.resource_type == BROKER else _SETTINGS_OF_A_TOPIC
    return len(resource.configuration_keys or ()) or all_settings


def _check_change(kind: int, name: str, twice: set[tuple[int, str]], settings: Sequence[str]) -> None:
    """Check a change of the settings of a resource; Rejected."""
    if (kind, name) in twice:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    check_count(len(settings))
    if kind == TOPIC and not name:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    _check_name(kind, name)
    if repeated(settings):
        raise Rejected(ErrorCode.INVALID_REQUEST, "a setting occurs more than once")


def check_count(settings: int) -> None:
    """Refuse a change of too many settings; Rejected."""
    if settings > SETTINGS_OF_A_CHANGE_MAX:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"more than {SETTINGS_OF_A_CHANGE_MAX} settings of one resource")


def _check_name(kind: int, name: str) -> None:
    if kind == BROKER:  # only changes come here
        reason = "settings of a broker can be read, not changed; change its file and start it again"
        raise Rejected(ErrorCode.INVALID_REQUEST, reason)
    if kind != TOPIC:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"settings of resource type {kind} cannot be read or changed")
    check_topic(name)


def _value(name: str, value: str | None) -> str:
    if value is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"{name} has no value")
    return value


def _entry(
    name: str,
    value: str | None,
    source: int,
    kind: int,
    synonyms: list[m.DescribeConfigsSynonym],
    *,
    is_read_only: bool = False,
) -> m.DescribeConfigsResourceResult:
    return m.DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=is_read_only,
        is_sensitive=kind == _PASSWORD,
        config_source=source,
        synonyms=synonyms,
        config_type=kind,
        documentation=None,
    )


def _type_of_topic_setting(name: str) -> int:
    default: Any = getattr(DEFAULTS, name.replace(".", "_"))
    return _INT if name in _INT_NAMES else _TYPES[type(default)]


def _type_of_value(value: str) -> int:
    """Return the type of a setting of the broker, from its value."""
    if value in ("true", "false"):
        return _BOOLEAN
    if not value.removeprefix("-").isdecimal():
        return _STRING
    return _INT if I32_MIN <= int(value) <= I32_MAX else _LONG


_USER, _CLIENT, _IP = "user", "client-id", "ip"
_COMPONENTS_MAX = 4
_EXACT, _DEFAULT, _ANY = range(3)
"""Kinds of matches of a component of a filter. Kafka: `DescribeClientQuotasRequest`."""


async def describe_client_quotas(
    request: m.DescribeClientQuotasRequest, version: int
) -> m.DescribeClientQuotasResponse:
    """Return no quotas, or what is wrong with the filter, with the codes of Kafka's ClientQuotasImage."""
    try:
        _check_filter(request.components)
    except Rejected as error:
        return m.DescribeClientQuotasResponse(error_code=error.code, error_message=str(error), entries=None)
    return m.DescribeClientQuotasResponse(error_message=None)


def _check_filter(components: list[m.ComponentData]) -> None:
    """Check the filter of a request; Rejected."""
    first = components[:_COMPONENTS_MAX]  # of more than there are types, one occurs twice or is not known
    types = [component.entity_type for component in first]
    twice = repeated(types)
    for component in first:
        if not component.entity_type:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if component.entity_type in twice:
            reason = f"Entity type {component.entity_type} cannot appear more than once in the filter."
            raise Rejected(ErrorCode.INVALID_REQUEST, reason)
        if component.entity_type not in (_USER, _CLIENT, _IP):
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}.")
        if component.match_type not in (_EXACT, _DEFAULT, _ANY) or (component.match is None) == (
            component.match_type == _EXACT
        ):
            raise Rejected(
                ErrorCode.INVALID_REQUEST, f"match type {component.match_type} with the match {component.match!r}"
            )
    if _IP in types and len(types) > 1:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Invalid entity filter component combination")
