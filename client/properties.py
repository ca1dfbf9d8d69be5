"""The settings of a client, as the Java tools take them: `client.properties`.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";
    ssl.truststore.type=PEM
    ssl.truststore.location=/etc/kafka/ca.pem

Follows CommonClientConfigs, SslConfigs and SaslConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import INT_MAX, ChoiceType, IntegerType, SettingType, parse_value, read_properties_file

_MS = IntegerType(0, INT_MAX)

_KINDS: Mapping[str, SettingType] = {
    "security.protocol": ChoiceType(("PLAINTEXT",)),
    "request.timeout.ms": IntegerType(1, INT_MAX),
    "socket.connection.setup.timeout.ms": IntegerType(1, INT_MAX),
    "reconnect.backoff.ms": _MS,
    "reconnect.backoff.max.ms": _MS,
    "retry.backoff.ms": _MS,
    "metadata.max.age.ms": _MS,
}
_TEXTS = ("client.id", "client.rack")


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The checked settings of a client, by Kafka's names and with Kafka's defaults."""

    security_protocol: str = "PLAINTEXT"
    client_id: str = "offsetfs"
    client_rack: str = ""
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    metadata_max_age_ms: int = 300_000
    warnings: tuple[str, ...] = ()
    """What the settings have that has no effect here, a sentence each."""

    @classmethod
    def read(cls, path: str) -> ClientProperties:
        """Return the settings of a file; InvalidConfig, OSError."""
        properties = read_properties_file(path)
        try:
            return cls.parse(properties)
        except InvalidConfig as error:
            raise InvalidConfig(error.reason, path=path) from None

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> ClientProperties:
        """Return the settings in `properties`; InvalidConfig."""
        values: dict[str, Any] = {}
        unknown = []
        for name, value in properties.items():
            if name in _KINDS:
                values[name.replace(".", "_")] = parse_value(_KINDS, name, value)
            elif name in _TEXTS:
                values[name.replace(".", "_")] = value.strip()
            else:
                unknown.append(f"{name} has no effect")
        return cls(**values, warnings=tuple(unknown))
