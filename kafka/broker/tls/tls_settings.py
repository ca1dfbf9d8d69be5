"""The TLS settings of a listener, by Kafka's names. Keys and certificates are PEM, in files or in the settings.

ssl.keystore.location=/etc/kafka/server.pem         key and certificates in one file,
ssl.key.location=/etc/kafka/server.key              or the key in a second file (Kafka has no such setting)
ssl.truststore.location=/etc/kafka/clients.pem      the authorities of clients
ssl.client.auth=required
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetfs.common.security.setting_names import KEY_PASSWORD, KEYSTORE, TRUSTSTORE
from offsetfs.common.security.tls_stores import (
    PemSource,
    check_store_types,
    keystore,
    tls_suites,
    tls_versions,
    truststore,
)
from offsetfs.kafka.broker.principal_rules import PrincipalRules
from offsetfs.kafka.broker.security_names import CLIENT_AUTH, PRINCIPAL_RULES, TLS_DEFAULTS
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

_CLIENT_AUTH = ("none", "requested", "required")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The checked settings of one listener; what is in the files is not read yet."""

    chain: PemSource
    key: PemSource
    password: str | None = field(repr=False)
    trusted: PemSource | None
    client_auth: str
    versions: tuple[str, ...]
    suites: tuple[str, ...]
    """Empty: those that OpenSSL has chosen."""
    rules: PrincipalRules

    @property
    def sources(self) -> tuple[PemSource, ...]:
        return (self.chain, self.key, *([self.trusted] if self.trusted is not None else []))


def tls_settings(properties: Mapping[str, str]) -> TlsSettings:
    """Return the settings in `properties`; InvalidConfig."""
    values = {**TLS_DEFAULTS, **{name: value.strip() for name, value in properties.items() if value.strip()}}
    check_store_types(values)
    keys = keystore(values)
    if keys is None:
        raise InvalidConfig(f"there is no certificate: set {KEYSTORE}, a PEM file with key and certificates")
    trusted = truststore(values)
    client_auth = values[CLIENT_AUTH].lower()
    if client_auth not in _CLIENT_AUTH:
        raise InvalidConfig(f"{CLIENT_AUTH} is {printable(client_auth)}, but must be one of {', '.join(_CLIENT_AUTH)}")
    if client_auth != "none" and trusted is None:
        raise InvalidConfig(f"{CLIENT_AUTH} is {client_auth}: add {TRUSTSTORE}, a PEM file with the CA of the clients")
    versions, suites = tls_versions(values), tls_suites(values)
    try:
        rules = PrincipalRules.parse(values[PRINCIPAL_RULES])
    except ValueError as error:
        raise InvalidConfig(f"{PRINCIPAL_RULES}: {error}") from error
    chain, key = keys
    return TlsSettings(chain, key, values.get(KEY_PASSWORD), trusted, client_auth, versions, suites, rules)
