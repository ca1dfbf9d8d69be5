"""Reads the settings of a broker: a `server.properties`, and single settings that have precedence over it.

    listeners=PLAINTEXT://127.0.0.1:9092,PLAINTEXT://[::1]:9092     ServerSettings
    log.retention.hours=24                                          a default of topics (storage.settings)
    log.cleaner.threads=2                                           the directory's (storage.settings)
    num.network.threads=8                                           known, without effect on a single node

Each value is checked; an error names the file, the line and the setting. A name that Kafka does not have is an error.
Listeners of controllers are left out, because there is no controller. `advertised.listeners` has an address for each
listener of its name, in their order, or one for all of them. Follows SocketServerConfigs and KafkaConfig.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from offsetfs.common.addresses import PLAINTEXT, PORT, Address, loopback_addresses
from offsetfs.common.quantities import plain_number
from offsetfs.common.security.settings import SecurityProtocol
from offsetfs.kafka.broker.listener_settings import ListenerSettings, settings_of_listener
from offsetfs.kafka.broker.sasl.sasl_settings import sasl_settings
from offsetfs.kafka.broker.security_names import PROTOCOL_MAP, is_security_setting
from offsetfs.kafka.broker.settings import SETTING_KINDS, ServerSettings, field_of, for_each_listener
from offsetfs.kafka.broker.tls.tls_context import load_context
from offsetfs.kafka.broker.tls.tls_settings import TlsSettings, tls_settings
from offsetfs.storage.directory import BrokerContext
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import (
    BROKER_SETTING_NAMES,
    METADATA_LOG_DIR,
    DirectoryConfig,
    has_effect,
    log_directories_of,
    parse_value,
    printable,
    read_property_lines,
    resolve_broker_settings,
    topic_setting_of,
)

LISTENERS, ADVERTISED, NODE_ID, BROKER_ID = "listeners", "advertised.listeners", "node.id", "broker.id"
LOG_DIRS, LOG_DIR = "log.dirs", "log.dir"
CONTROLLER_NAMES = "controller.listener.names"

_LISTENER_NAMES = (LISTENERS, ADVERTISED, PROTOCOL_MAP, CONTROLLER_NAMES)
_WITH_EFFECT = frozenset((*SETTING_KINDS, *_LISTENER_NAMES, BROKER_ID, LOG_DIRS, LOG_DIR))
_ENDPOINT = re.compile(
    r"(?P<name>\w[\w.-]*)://(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>[0-9]{1,5})\Z"
)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """All settings of a broker."""

    server: ServerSettings
    directory: DirectoryConfig
    broker: BrokerContext
    """The settings that the engine reads: defaults of topics, and the directory's."""
    without_effect: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Endpoint:
    name: str
    host: str
    port: int


def load_settings(
    path: str | None, options: Iterable[str], log_directory: str, *, origin: str = "-o"
) -> LoadedSettings:
    """Read the file at `path` and `options`, each `name=value`, which have precedence; InvalidConfig, OSError.

    `origin` is what errors call the options, whose durations and sizes may have units.
    """
    from_file: dict[str, str] = {}
    places: dict[str, str] = {}
    for name, (value, line) in (read_property_lines(path) if path is not None else {}).items():
        from_file[name], places[name] = value, f"{path}:{line}"
    given: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise InvalidConfig(f"{origin} {printable(option)} has no value; write {origin} name=value")
        given[name], places[name] = plain_number(name, value), origin
    replaced = {_meaning(name, value) for name, value in given.items()}
    kept = {name: value for name, value in from_file.items() if _meaning(name, value) not in replaced}
    properties = {**kept, **given}
    for name, value in properties.items():
        try:
            _check(name, value, log_directory)
        except InvalidConfig as error:
            raise InvalidConfig(f"{places[name]}: {error}") from None
    return _loaded(properties, places, is_complete=path is not None)


def _meaning(name: str, value: str) -> str:
    """Return the setting that a name sets: several names may be synonyms of one."""
    if name == BROKER_ID:
        return NODE_ID
    if name == LOG_DIR:
        return LOG_DIRS
    try:
        setting = topic_setting_of(name, value)
    except InvalidConfig:  # reported by the check of the name
        return name
    return name if setting is None else setting[0]


def _check(name: str, value: str, log_directory: str) -> None:
    """Raise InvalidConfig unless the setting exists and its value is legal."""
    if name in SETTING_KINDS:
        parse_value(SETTING_KINDS, name, value)
    elif name == BROKER_ID:
        _node_id(name, value)
    elif name == LISTENERS or (name == ADVERTISED and value):
        _endpoints(name, value)
    elif name in (LOG_DIRS, LOG_DIR):
        _check_log_directory(name, value, log_directory)
    else:
        resolve_broker_settings({name: value})


def _node_id(name: str, value: str) -> Any:
    return parse_value({name: SETTING_KINDS[NODE_ID]}, name, value)


def _check_log_directory(name: str, value: str, log_directory: str) -> None:
    directories = [directory.strip() for directory in log_directories_of({name: value}).split(",")]
    if [os.path.realpath(directory) for directory in directories] != [os.path.realpath(log_directory)]:
        raise InvalidConfig(
            f"{name} is {printable(value)}, but {log_directory} is served; give that path, or remove the setting"
        )


def _loaded(properties: Mapping[str, str], places: Mapping[str, str], *, is_complete: bool) -> LoadedSettings:
    values: dict[str, Any] = {
        field_of(name): parse_value(SETTING_KINDS, name, value)
        for name, value in properties.items()
        if name in SETTING_KINDS
    }
    if BROKER_ID in properties:
        values["node_id"] = _node_id(BROKER_ID, properties[BROKER_ID])
        if NODE_ID in properties and properties[NODE_ID].strip() != properties[BROKER_ID].strip():
            raise InvalidConfig(f"{places[BROKER_ID]}: {BROKER_ID} and {NODE_ID} differ; remove one of them")
    security = {name: value for name, value in properties.items() if is_security_setting(name) and name != PROTOCOL_MAP}
    listeners = _listeners(properties, places, security)
    server = replace(ServerSettings(), **values, listeners=listeners, security=security, given=frozenset(properties))
    _check_limits(server)
    of_engine = {name: value for name, value in properties.items() if name in BROKER_SETTING_NAMES}
    resolved = resolve_broker_settings(of_engine)
    of_engine.pop(METADATA_LOG_DIR, None)
    return LoadedSettings(
        server,
        DirectoryConfig.from_properties(resolved.directory),
        BrokerContext(of_engine, is_complete, metadata_directory=properties.get(METADATA_LOG_DIR)),
        tuple(filter(_is_without_effect, properties)),
    )


def _is_without_effect(name: str) -> bool:
    return not (name in _WITH_EFFECT or is_security_setting(name) or has_effect(name))


def _check_limits(server: ServerSettings) -> None:
    lowest, highest = server.group_min_session_timeout_ms, server.group_max_session_timeout_ms
    if lowest > highest:
        reason = f"group.min.session.timeout.ms {lowest} is above group.max.session.timeout.ms {highest}"
        raise InvalidConfig(f"{reason}; change one of them")
    for what, values in (
        ("session.timeout", (
            server.group_consumer_min_session_timeout_ms, server.group_consumer_session_timeout_ms,
            server.group_consumer_max_session_timeout_ms,
        )),
        ("heartbeat.interval", (
            server.group_consumer_min_heartbeat_interval_ms, server.group_consumer_heartbeat_interval_ms,
            server.group_consumer_max_heartbeat_interval_ms,
        )),
    ):  # fmt: skip
        names = [f"group.consumer.{kind}{what}.ms" for kind in ("min.", "", "max.")]
        for (lower, low), (higher, high) in pairwise(zip(names, values, strict=True)):
            if low > high:
                raise InvalidConfig(f"{lower} {low} is above {higher} {high}; change one of them")


# --- listeners -------------------------------------------------------------------------------------------------------


def _endpoints(name: str, value: str) -> list[_Endpoint]:
    """Parse `NAME://host:port`, separated by commas; InvalidConfig."""
    endpoints = []
    for text in (part.strip() for part in value.split(",")):
        match = _ENDPOINT.match(text)
        if match is None or int(match["port"]) > 65535:
            raise InvalidConfig(f"{name}: {printable(text)} is not a listener; write PLAINTEXT://HOST:PORT")
        endpoints.append(_Endpoint(match["name"].upper(), match["six"] or match["host"] or "", int(match["port"])))
    return endpoints


def _listeners(
    properties: Mapping[str, str], places: Mapping[str, str], security: Mapping[str, str]
) -> tuple[ListenerSettings, ...]:
    """Return the listeners of clients; InvalidConfig."""
    protocols = _protocols(properties, places)
    if LISTENERS in properties:
        endpoints = _of_clients(LISTENERS, properties, protocols, places)
    else:
        endpoints = [_Endpoint(PLAINTEXT, address, PORT) for address in loopback_addresses()]
    place = places.get(LISTENERS, LISTENERS)
    advertised: tuple[Address | None, ...] = (None,) * len(endpoints)
    if properties.get(ADVERTISED):
        try:
            advertised = _advertised(endpoints, _of_clients(ADVERTISED, properties, protocols, places))
        except InvalidConfig as error:
            raise InvalidConfig(f"{places[ADVERTISED]}: {error}") from None
    return tuple(
        _listener(endpoint, protocol, address, settings_of_listener(security, endpoint.name, protocol), place)
        for endpoint, address in zip(endpoints, advertised, strict=True)
        for protocol in (protocols[endpoint.name],)
    )


def _listener(
    endpoint: _Endpoint, protocol: SecurityProtocol, advertised: Address | None, security: dict[str, str], place: str
) -> ListenerSettings:
    name = endpoint.name
    try:
        tls = _tls(security, name) if protocol.has_tls else None
        address = (endpoint.host or "0.0.0.0", endpoint.port)
        settings = ListenerSettings(address, name, protocol, advertised, security, tls)
        if protocol.has_sasl:
            sasl_settings(settings)
    except InvalidConfig as error:
        raise InvalidConfig(f"{place}: {error}") from None
    return settings


def _tls(security: Mapping[str, str], listener: str) -> TlsSettings:
    """Return the settings of TLS, whose files can be used; InvalidConfig."""
    try:
        settings = tls_settings(security)
        load_context(settings)
    except InvalidConfig as error:
        raise InvalidConfig(f"listener {listener}: {error}") from None
    return settings


def _protocols(properties: Mapping[str, str], places: Mapping[str, str]) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each name; InvalidConfig."""
    known = {protocol.value: protocol for protocol in SecurityProtocol}
    for pair in filter(None, (pair.strip() for pair in properties.get(PROTOCOL_MAP, "").split(","))):
        name, _, protocol = (part.strip().upper() for part in pair.partition(":"))
        try:
            known[name] = SecurityProtocol(protocol)
        except ValueError:
            reason = f"{PROTOCOL_MAP}: {printable(pair)} has no security protocol; write NAME:PROTOCOL with"
            raise InvalidConfig(f"{places[PROTOCOL_MAP]}: {reason} {', '.join(SecurityProtocol)}") from None
    return known


def _of_clients(
    name: str, properties: Mapping[str, str], protocols: Mapping[str, SecurityProtocol], places: Mapping[str, str]
) -> list[_Endpoint]:
    """Return the endpoints that are not for controllers; InvalidConfig if there is none."""
    of_controllers = {controller.strip().upper() for controller in properties.get(CONTROLLER_NAMES, "").split(",")}
    endpoints = [endpoint for endpoint in _endpoints(name, properties[name]) if endpoint.name not in of_controllers]
    for endpoint in endpoints:
        if endpoint.name not in protocols:
            reason = f"{name}: {endpoint.name} has no security protocol; add it to {PROTOCOL_MAP}"
            raise InvalidConfig(f"{places[name]}: {reason}")
    if not endpoints:
        raise InvalidConfig(f"{places[name]}: {name} has no listener for clients; add PLAINTEXT://127.0.0.1:9092")
    return endpoints


def _advertised(listeners: Sequence[_Endpoint], advertised: Sequence[_Endpoint]) -> tuple[Address | None, ...]:
    """Return the address that each listener advertises, by name; None: its own. InvalidConfig."""
    addresses: dict[str, list[Address]] = {listener.name: [] for listener in listeners}
    for endpoint in advertised:
        if endpoint.host in ("", "0.0.0.0", "::"):
            raise InvalidConfig(f"{ADVERTISED} needs an address that clients can connect to")
        if endpoint.name not in addresses:
            raise InvalidConfig(f"{ADVERTISED}: {endpoint.name} is not the name of a listener in {LISTENERS}")
        addresses[endpoint.name].append((endpoint.host, endpoint.port))
    counts = Counter(listener.name for listener in listeners)
    of_name = {
        name: iter(for_each_listener(counts[name], of_listener, f"{ADVERTISED}: {name}"))
        for name, of_listener in addresses.items()
    }
    return tuple(next(of_name[listener.name], None) for listener in listeners)
