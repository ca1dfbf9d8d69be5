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

from offsetfs.common.addresses import Address, AddressError, parse_address
from offsetfs.common.security import settings as names
from offsetfs.common.security.settings import SecurityProtocol
from offsetfs.kafka.client.oauth_tokens import TOKEN_ENDPOINT
from offsetfs.kafka.client.sasl import MECHANISM, SaslProperties
from offsetfs.kafka.client.tls import CHECKED_NAME, TlsProperties
from offsetfs.storage import I32_MAX
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import ChoiceType, IntegerType, SettingType, parse_value, read_properties_file

_MS = IntegerType(0, I32_MAX)

_KINDS: Mapping[str, SettingType] = {
    "security.protocol": ChoiceType(tuple(SecurityProtocol)),
    "request.timeout.ms": IntegerType(1, I32_MAX),
    "default.api.timeout.ms": IntegerType(1, I32_MAX),
    "socket.connection.setup.timeout.ms": IntegerType(1, I32_MAX),
    "reconnect.backoff.ms": _MS,
    "reconnect.backoff.max.ms": _MS,
    "retry.backoff.ms": _MS,
    "metadata.max.age.ms": _MS,
}
_TEXTS = ("client.id", "client.rack")
_SECURITY = frozenset(
    (
        names.KEYSTORE_TYPE, names.KEYSTORE, names.CHAIN, names.KEY, names.KEY_PASSWORD, names.KEY_FILE,
        names.TRUSTSTORE_TYPE, names.TRUSTSTORE, names.TRUSTED, names.PROTOCOLS, names.SUITES, CHECKED_NAME,
        MECHANISM, names.JAAS_CONFIG, TOKEN_ENDPOINT,
    )
)  # fmt: skip
_BOOTSTRAP = "bootstrap.servers"
_STORE_PASSWORDS = ("ssl.truststore.password", "ssl.keystore.password")
_LOGIN_HANDLER = "sasl.login.callback.handler.class"
_OWN_HANDLER = ".OAuthBearerLoginCallbackHandler"
"""The class of Kafka that does what this client does for OAUTHBEARER: Kafka before 4.0 needs its name."""
_NOT_SUPPORTED = (
    "ssl.engine.factory.class",
    "sasl.client.callback.handler.class",
    _LOGIN_HANDLER,
    "sasl.login.class",
    "socks.proxy",
)


@dataclass(frozen=True, slots=True)
class ClientProperties:
    """The checked settings of a client, by Kafka's names and with Kafka's defaults."""

    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsProperties | None = None
    """The settings of SSL and SASL_SSL."""
    sasl: SaslProperties | None = None
    """The settings of SASL_PLAINTEXT and SASL_SSL."""
    bootstrap: tuple[Address, ...] = ()
    """`bootstrap.servers`; commands have an argument for them as well."""
    client_id: str = "offsetfs"
    client_rack: str = ""
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    """The time for which a request is repeated after errors that may pass."""
    socket_connection_setup_timeout_ms: int = 10_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    metadata_max_age_ms: int = 300_000
    warnings: tuple[str, ...] = ()
    """A sentence for each setting that has no effect here."""

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
        warnings = []
        for name, value in properties.items():
            if name in _KINDS:
                values[name.replace(".", "_")] = parse_value(_KINDS, name, value.strip())
            elif name in _TEXTS:
                values[name.replace(".", "_")] = value.strip()
            elif name == _BOOTSTRAP:
                values["bootstrap"] = _addresses(value)
            elif name == "config.providers" and value:
                raise InvalidConfig(f"{name} is not supported; write the values themselves, and chmod 600 the file")
            elif name == _LOGIN_HANDLER and value.strip().endswith(_OWN_HANDLER):
                continue
            elif name in _NOT_SUPPORTED and value:
                raise InvalidConfig(f"{name} names a class of Java, which cannot run here; remove it")
            elif name in _STORE_PASSWORDS:
                warnings.append(f"{name} has no effect: the password of a key in PEM is {names.KEY_PASSWORD}")
            elif name not in _SECURITY:
                warnings.append(f"{name} has no effect")
        protocol = SecurityProtocol(values.get("security_protocol", SecurityProtocol.PLAINTEXT))
        values["security_protocol"] = protocol
        values["tls"] = TlsProperties.parse(properties) if protocol.has_tls else None
        values["sasl"] = SaslProperties.parse(properties) if protocol.has_sasl else None
        unused = sorted(name for name in _SECURITY & properties.keys() if not _is_used(name, protocol))
        warnings += [f"{name} has no effect with security.protocol={protocol}" for name in unused]
        return cls(**values, warnings=tuple(warnings))


def _is_used(name: str, protocol: SecurityProtocol) -> bool:
    return protocol.has_tls if name.startswith("ssl.") else protocol.has_sasl


def _addresses(text: str) -> tuple[Address, ...]:
    try:
        return tuple(parse_address(address.strip()) for address in text.split(",") if address.strip())
    except AddressError as error:
        raise InvalidConfig(f"{_BOOTSTRAP}: {error}") from None
