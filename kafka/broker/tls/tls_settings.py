"""The TLS settings of a listener, by Kafka's names. Keys and certificates are PEM, in files or in the settings.

ssl.keystore.location=/etc/kafka/server.pem         key and certificates in one file,
ssl.key.location=/etc/kafka/server.key              or the key in a second file (Kafka does not have this setting)
ssl.truststore.location=/etc/kafka/clients.pem      the authorities of clients
ssl.client.auth=required
ssl.principal.mapping.rules=RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=([^,]*).*$/$1/L,DEFAULT
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from offsetfs.common.name_patterns import PatternError, compiled
from offsetfs.common.security.settings import KEY_PASSWORD, KEYSTORE, TRUSTSTORE
from offsetfs.common.security.tls_stores import (
    PemSource,
    check_store_types,
    keystore,
    tls_suites,
    tls_versions,
    truststore,
)
from offsetfs.kafka.broker.security_names import CLIENT_AUTH, PRINCIPAL_RULES, TLS_DEFAULTS
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

_CLIENT_AUTH = ("none", "requested", "required")


_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,\s*|\Z)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: Any
    """A compiled pattern of RE2."""
    replacement: str
    """The name, with `$1` for the first group."""
    case: str


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules that make the name of a principal from the subject of a client's certificate.

    The first rule whose pattern matches the whole subject applies; L and U change the case of its result. DEFAULT is
    the subject itself. Follows Kafka's SslPrincipalMapper; a pattern is one of RE2, which most of Java's are as well.
    """

    rules: tuple[_Rule | None, ...] = (None,)
    """In their order; None stands for DEFAULT."""

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Read the value of `ssl.principal.mapping.rules`; ValueError with the invalid rule."""
        rules: list[_Rule | None] = []
        position = 0
        text = text.strip()
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise ValueError(
                    f"{printable(text[position:])} is not a rule; write RULE:PATTERN/REPLACEMENT/, or DEFAULT"
                )
            rules.append(None if match[1] else _rule(match[2], match[3], match[4]))
            position = match.end()
        return cls(tuple(rules) or (None,))

    def name(self, subject: str) -> str | None:
        """Return the name of the client with this subject; None if no rule applies."""
        for rule in self.rules:
            if rule is None:
                return subject
            if rule.pattern.fullmatch(subject):
                name: str = rule.pattern.sub(functools.partial(_expanded, rule=rule), subject)
                return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        return None


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        return _Rule(compiled(pattern), replacement, case)
    except PatternError as error:
        raise ValueError(f"the pattern of RULE:{pattern}/{replacement}/ cannot be used: {error}") from error


def _expanded(match: Any, rule: _Rule) -> str:
    """Return the replacement of `rule` with the groups that it refers to; a number that is no group stays as it is."""

    def value(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        number = int(reference[2])
        return match[number] or "" if number <= rule.pattern.groups else reference[0]

    return _REFERENCE.sub(value, rule.replacement)


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
