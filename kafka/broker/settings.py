"""The settings of a broker, by Kafka's names (`num.partitions` is `num_partitions`) and with Kafka's defaults.

The names that `offsetfs serve` accepts derive from the fields of `ServerSettings`; a new setting is a new field. The
defaults of topics (`log.retention.ms`) and the settings of background tasks (`log.cleaner.threads`) are those of the
engine (offsetfs.storage.settings).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from offsetfs.common.addresses import Address, Endpoint, listeners_text
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.security_names import TLS_DEFAULTS, is_secret
from offsetfs.storage import I32_MAX, I64_MAX
from offsetfs.storage.errors import InvalidConfig, counted
from offsetfs.storage.settings import BooleanType, ChoiceType, IntegerType, SettingType, printable


def _whole(default: int, low: int, high: int = I32_MAX) -> Any:
    return field(default=default, metadata={"kind": IntegerType(low, high)})


_ASSIGNORS = ("uniform", "range", "uniform,range", "range,uniform")
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class _PrincipalsType:
    """Principals such as `User:alice`, separated by semicolons: names may have commas."""

    def parse(self, name: str, text: str) -> tuple[str, ...]:
        return tuple(filter(None, (part.strip() for part in text.split(";"))))

    def check(self, name: str, value: object) -> None:
        for item in value if isinstance(value, tuple) else ():
            if not re.match(r"[^:]+:.", item):
                raise InvalidConfig(f"{name}={printable(item)}: must be principals as User:alice;User:bob")

    def format(self, value: object) -> str:
        return ";".join(value) if isinstance(value, tuple) else ""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of one broker. Times are in the unit that ends the name. A plain number is 0 or greater."""

    listeners: tuple[ListenerSettings, ...] = (ListenerSettings(("127.0.0.1", 9092)),)
    security: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The security settings that were given, also those of single listeners, by Kafka's names."""
    metrics_listener: Address | None = None
    """Address and port of the metrics, over HTTP; None for no server."""
    given: frozenset[str] = frozenset()
    """Kafka's names of the settings that were given, those of the engine included."""
    node_id: int = 1
    authorizer_class_name: str = field(default="", metadata={"kind": ChoiceType(("", STANDARD_AUTHORIZER))})
    """Kafka's authorizer, which checks ACLs; "": every client may do everything."""
    super_users: tuple[str, ...] = field(default=(), metadata={"kind": _PrincipalsType()})
    """Principals that may do everything."""
    allow_everyone_if_no_acl_found: bool = False
    num_partitions: int = _whole(1, 1, 10_000)
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    socket_request_max_bytes: int = _whole(100 << 20, 1)
    max_connections: int = 10_000
    """Kafka has no limit by default."""
    max_connections_per_ip: int = I32_MAX
    connections_max_idle_ms: int = _whole(600_000, -1)
    """-1: a connection may be idle forever."""
    connection_failed_authentication_delay_ms: int = 100
    sasl_server_max_receive_size: int = _whole(512 << 10, 1)
    """The largest request before a client is authenticated."""
    queued_max_requests: int = _whole(500, 1)
    queued_max_request_bytes: int = _whole(512 << 20, -1, I64_MAX)
    """Kafka has no limit by default; -1: no limit."""
    group_min_session_timeout_ms: int = 6000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    """Kafka's default is 3,000; its own test configurations set 0 as well."""
    group_max_size: int = _whole(I32_MAX, 1)
    group_consumer_session_timeout_ms: int = _whole(45_000, 1)
    group_consumer_min_session_timeout_ms: int = _whole(45_000, 1)
    group_consumer_max_session_timeout_ms: int = _whole(60_000, 1)
    group_consumer_heartbeat_interval_ms: int = _whole(5000, 1)
    group_consumer_min_heartbeat_interval_ms: int = _whole(5000, 1)
    group_consumer_max_heartbeat_interval_ms: int = _whole(15_000, 1)
    group_consumer_max_size: int = _whole(I32_MAX, 1)
    group_consumer_assignors: str = field(default="uniform,range", metadata={"kind": ChoiceType(_ASSIGNORS)})
    """The first assignor is that of groups whose members have no preference."""
    group_consumer_migration_policy: str = field(
        default="bidirectional", metadata={"kind": ChoiceType(("disabled", "downgrade", "upgrade", "bidirectional"))}
    )
    """Whether groups with members become consumer groups, and classic ones again."""
    offset_metadata_max_bytes: int = 4096
    acks_all: str = field(default="disk", metadata={"kind": ChoiceType(("disk", "page-cache"))})
    """The time of the answer to acks=all: once a batch is on disk, or once it is in the segment file, as by Kafka.

    Kafka does not have this setting.
    """
    fetch_max_bytes: int = _whole(55 << 20, 1024)
    max_incremental_fetch_session_cache_slots: int = 1000
    offsets_retention_minutes: int = _whole(7 * 24 * 60, 1)
    offsets_retention_check_interval_ms: int = _whole(600_000, 1)
    offsets_topic_num_partitions: int = _whole(50, 1, 10_000)
    """The partitions of a new `__consumer_offsets`; an existing topic keeps its number."""
    transaction_max_timeout_ms: int = _whole(900_000, 1)
    transactional_id_expiration_ms: int = _whole(7 * 24 * 3_600_000, 1)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _whole(10_000, 1)
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _whole(3_600_000, 1)
    transaction_state_log_num_partitions: int = _whole(50, 1, 10_000)
    """The partitions of a new `__transaction_state`; an existing topic keeps its number."""

    @property
    def consumer_assignors(self) -> Sequence[str]:
        """The assignors of consumer groups."""
        return self.group_consumer_assignors.split(",")


def setting_name(field_name: str) -> str:
    """Return Kafka's name of a field: `num.partitions` for `num_partitions`."""
    return field_name.replace("_", ".")


def field_of(name: str) -> str:
    """Return the field of a setting: `num_partitions` for `num.partitions`."""
    return name.replace(".", "_")


def _kinds() -> dict[str, SettingType]:
    types: dict[str, SettingType] = {}
    for setting in fields(ServerSettings):
        if "kind" in setting.metadata:
            types[setting_name(setting.name)] = setting.metadata["kind"]
        elif setting.type in _PLAIN:
            types[setting_name(setting.name)] = _PLAIN[setting.type]
    return types


_PLAIN: Mapping[Any, SettingType] = {"int": IntegerType(0, I32_MAX), "bool": BooleanType()}

SETTING_KINDS: Mapping[str, SettingType] = _kinds()
"""The legal values of each setting that is a number, a flag or a choice, by Kafka's name."""


def values_of(settings: ServerSettings) -> dict[str, str | None]:
    """Return the settings by Kafka's names and as Kafka writes them; None instead of a secret."""
    values: dict[str, str | None] = {
        name: kind.format(getattr(settings, field_of(name))) for name, kind in SETTING_KINDS.items()
    }
    values["broker.id"] = values["node.id"]
    listeners = settings.listeners
    values["listeners"] = listeners_text([Endpoint(listener.name, listener.address) for listener in listeners])
    values["advertised.listeners"] = listeners_text(
        [Endpoint(listener.name, listener.advertised or listener.address) for listener in listeners]
    )
    protocols = {listener.name: listener.protocol for listener in listeners}
    values["listener.security.protocol.map"] = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    shown = {name: None if is_secret(name) else value for name, value in settings.security.items()}
    return {**values, **TLS_DEFAULTS, **shown}


def advertised_at(settings: ServerSettings, addresses: Sequence[Address], option: str) -> ServerSettings:
    """Return `settings` with an advertised address for each listener, in their order, or one for all; InvalidConfig."""
    if not addresses:
        return settings
    given = for_each_listener(len(settings.listeners), addresses, option)
    pairs = zip(settings.listeners, given, strict=True)
    return replace(settings, listeners=tuple(replace(listener, advertised=address) for listener, address in pairs))


def for_each_listener(count: int, addresses: Sequence[Address], name: str) -> tuple[Address, ...]:
    """Return the advertised addresses of `count` listeners; InvalidConfig. One address holds for all of them."""
    if len(addresses) == 1:
        return (addresses[0],) * count
    if len(addresses) not in (0, count):
        raise InvalidConfig(
            f"{name}: {counted(len(addresses), 'address', 'addresses')} for {counted(count, 'listener')}; "
            "give one for each of them, or one for all"
        )
    return tuple(addresses)
