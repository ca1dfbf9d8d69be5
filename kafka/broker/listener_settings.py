"""The settings of listeners: each has a name, a security protocol, and security settings of its own.

listeners=SSL://:9093,LAN://:9092               names; that of a security protocol, or one of the map
listener.security.protocol.map=LAN:PLAINTEXT    the security protocols of other names
listener.name.lan.ssl.client.auth=required      has precedence over `ssl.client.auth`, for this listener
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsetfs.common.addresses import LOOPBACK, PLAINTEXT, Address, AddressError, is_loopback
from offsetfs.common.security.settings import SecurityProtocol
from offsetfs.kafka.broker.security_names import CLIENT_AUTH, LISTENER_PREFIX, is_listener_setting

if TYPE_CHECKING:  # a mount reads addresses of listeners only
    from offsetfs.kafka.broker.tls.tls_settings import TlsSettings


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
    tls: TlsSettings | None = None
    """None: without TLS."""

    @property
    def has_authentication(self) -> bool:
        """Whether each of its clients has to prove who it is."""
        return self.protocol.has_sasl or (self.tls is not None and self.tls.client_auth == "required")


def settings_of_listener(properties: Mapping[str, str], name: str, protocol: SecurityProtocol) -> dict[str, str]:
    """Return the settings in `properties` that hold for the listener `name`: its own have precedence."""
    prefix = f"{LISTENER_PREFIX}{name.lower()}."
    settings = {setting: value for setting, value in properties.items() if not is_listener_setting(setting)}
    if protocol.has_sasl:  # as in Kafka: clients that log in need no certificate, unless this listener says so
        settings.pop(CLIENT_AUTH, None)
    settings |= {
        setting[len(prefix) :]: value for setting, value in properties.items() if setting.lower().startswith(prefix)
    }
    return settings


def check_authentication(listeners: Iterable[ListenerSettings], permission: str) -> None:
    """Raise AddressError if other machines reach a listener without authentication.

    `permission`: the option that permits it.
    """
    for listener in listeners:
        if not listener.has_authentication and not is_loopback(listener.address[0]):
            reason = "each client that reaches it could read and write: it has no authentication"
            remedy = f"listen on {LOOPBACK}, authenticate clients ({CLIENT_AUTH}=required), or add {permission}"
            raise AddressError(f"{listener.address[0]}: {reason}; {remedy}")
