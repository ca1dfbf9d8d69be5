"""The settings of listeners: each has a name, a security protocol, and security settings of its own.

listeners=SSL://:9093,LAN://:9092               names; that of a security protocol, or one of the map
listener.security.protocol.map=LAN:PLAINTEXT    the security protocols of other names
listener.name.lan.ssl.client.auth=required      has precedence over `ssl.client.auth`, for this listener
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from offsetfs.runtime.addresses import LOOPBACK, PLAINTEXT, Address, AddressError, is_loopback

PROTOCOL_MAP = "listener.security.protocol.map"
SASL_MECHANISMS = "sasl.enabled.mechanisms"
CLIENT_AUTH = "ssl.client.auth"

JAAS_CONFIG = "sasl.jaas.config"
CALLBACK_HANDLER = "sasl.server.callback.handler.class"
REAUTHENTICATION = "connections.max.reauth.ms"
OAUTH_KEYS = "sasl.oauthbearer.jwks.endpoint.url"
OAUTH_AUDIENCE = "sasl.oauthbearer.expected.audience"
OAUTH_ISSUER = "sasl.oauthbearer.expected.issuer"
OAUTH_USER_CLAIM = "sasl.oauthbearer.sub.claim.name"
OAUTH_SCOPE_CLAIM = "sasl.oauthbearer.scope.claim.name"
OAUTH_CLOCK_SKEW = "sasl.oauthbearer.clock.skew.seconds"

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
"""The mechanisms of SASL."""

_OAUTH = (OAUTH_KEYS, OAUTH_AUDIENCE, OAUTH_ISSUER, OAUTH_USER_CLAIM, OAUTH_SCOPE_CLAIM, OAUTH_CLOCK_SKEW)
_OF_MECHANISMS = (JAAS_CONFIG, CALLBACK_HANDLER, REAUTHENTICATION)

SECURITY_NAMES = frozenset(
    (
        *(CLIENT_AUTH, SASL_MECHANISMS, CALLBACK_HANDLER, REAUTHENTICATION, *_OAUTH),
        *(f"{mechanism.lower()}.{each}" for mechanism in MECHANISMS for each in _OF_MECHANISMS),
    )
)
"""The security settings that have an effect, by Kafka's names; some are of one mechanism (`plain.sasl.jaas.config`)."""

_LISTENER_PREFIX = "listener.name."


class SecurityProtocol(enum.StrEnum):
    """How a listener encrypts, and how its clients authenticate. Kafka: `SecurityProtocol`."""

    PLAINTEXT = PLAINTEXT
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """One listener of clients."""

    address: Address
    """Port 0 is any free one."""
    name: str = PLAINTEXT
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    advertised: Address | None = None
    """The address for clients; None: that of the listener."""
    security: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """The security settings that hold for it, by Kafka's names without `listener.name.NAME.`."""

    @property
    def has_authentication(self) -> bool:
        """Whether each of its clients has to prove who it is."""
        return self.protocol.has_sasl or (
            self.protocol.has_tls and self.security.get(CLIENT_AUTH, "").strip() == "required"
        )


def is_security_setting(name: str) -> bool:
    """Return whether a setting has an effect on the security of listeners, or of one of them."""
    return name == PROTOCOL_MAP or general_name(name) in SECURITY_NAMES


def is_listener_setting(name: str) -> bool:
    """Return whether a setting is that of one listener: `listener.name.NAME.`"""
    return name.startswith(_LISTENER_PREFIX)


def general_name(name: str) -> str:
    """Return the name of a setting without `listener.name.NAME.`"""
    return name.removeprefix(_LISTENER_PREFIX).partition(".")[2] if is_listener_setting(name) else name


def is_secret(name: str) -> bool:
    """Return whether the value of a setting must not be shown: passwords are in it."""
    return name.endswith(JAAS_CONFIG)


def settings_of_listener(properties: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the settings in `properties` that hold for the listener `name`: its own have precedence."""
    prefix = f"{_LISTENER_PREFIX}{name.lower()}."
    found = {each: value for each, value in properties.items() if not is_listener_setting(each)}
    found |= {each[len(prefix) :]: value for each, value in properties.items() if each.lower().startswith(prefix)}
    return found


def check_authentication(listeners: Iterable[ListenerSettings], permission: str) -> None:
    """Raise AddressError if other machines reach a listener without authentication.

    `permission`: the option that permits it.
    """
    for each in listeners:
        if not each.has_authentication and not is_loopback(each.address[0]):
            reason = "everyone who reaches it could read and write: it has no authentication"
            remedy = f"listen on {LOOPBACK}, authenticate clients ({CLIENT_AUTH}=required), or add {permission}"
            raise AddressError(f"{each.address[0]}: {reason}; {remedy}")
