"""The settings of SASL of a listener: which mechanisms it has, and what they need.

    sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
    listener.name.sasl_ssl.plain.sasl.jaas.config=…PlainLoginModule required user_alice="secret";
    sasl.oauthbearer.jwks.endpoint.url=file:///etc/kafka/jwks.json
    connections.max.reauth.ms=3600000

Settings of a mechanism (`scram-sha-512.connections.max.reauth.ms`) have precedence. What sends a password or a token as
it is (PLAIN, OAUTHBEARER) needs TLS, or a listener that other machines do not reach. Follows BrokerSecurityConfigs and
SaslConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from offsetfs.common.addresses import is_loopback
from offsetfs.common.security.settings import JAAS_CONFIG, login_module
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.sasl.oauthbearer import TokenRules
from offsetfs.kafka.broker.security_names import (
    CALLBACK_HANDLER,
    MECHANISMS,
    OAUTH_AUDIENCE,
    OAUTH_CLOCK_SKEW,
    OAUTH_ISSUER,
    OAUTH_KEYS,
    OAUTH_SCOPE_CLAIM,
    OAUTH_USER_CLAIM,
    REAUTHENTICATION,
    SASL_MECHANISMS,
)
from offsetfs.storage import I32_MAX
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import IntegerType, parse_value, printable

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
DEFAULT_MECHANISMS = "SCRAM-SHA-256,SCRAM-SHA-512"
"""Kafka's default is GSSAPI, which is not supported."""

_UNSECURED = "OAuthBearerUnsecuredValidatorCallbackHandler"
_HANDLERS = {
    PLAIN: (".PlainServerCallbackHandler",),
    OAUTHBEARER: (".OAuthBearerValidatorCallbackHandler", f".{_UNSECURED}"),
}
"""The classes of Kafka that do what is done here."""
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The login settings of one listener."""

    mechanisms: tuple[str, ...]
    passwords: Mapping[str, str] = field(repr=False)
    """The users of PLAIN in the settings."""
    session_ms: Mapping[str, int]
    """After how long a client has to authenticate again, by mechanism; 0: never."""
    keys_path: str | None
    """The file with the public keys for tokens; None: tokens have no signature."""
    rules: TokenRules


def sasl_settings(listener: ListenerSettings) -> SaslSettings:
    """Return the settings of a listener with SASL; InvalidConfig."""
    given = listener.security
    mechanisms = _mechanisms(given.get(SASL_MECHANISMS) or DEFAULT_MECHANISMS)
    for mechanism in mechanisms:
        _check_handler(given, mechanism)
    for mechanism in (PLAIN, OAUTHBEARER):
        if mechanism in mechanisms and not listener.protocol.has_tls and not is_loopback(listener.address[0]):
            what = "passwords" if mechanism == PLAIN else "tokens"
            raise InvalidConfig(
                f"{SASL_MECHANISMS}: {mechanism} sends {what} that others could read on the way to listener "
                f"{listener.name}; give it the security protocol SASL_SSL, or the address 127.0.0.1"
            )
    return SaslSettings(
        mechanisms,
        _passwords(given) if PLAIN in mechanisms else {},
        {
            mechanism: _number(_of_mechanism(given, mechanism, REAUTHENTICATION) or "0", REAUTHENTICATION, I32_MAX)
            for mechanism in mechanisms
        },
        _keys_path(given, listener) if OAUTHBEARER in mechanisms else None,
        TokenRules(
            tuple(audience.strip() for audience in given.get(OAUTH_AUDIENCE, "").split(",") if audience.strip()),
            given.get(OAUTH_ISSUER) or None,
            given.get(OAUTH_USER_CLAIM) or "sub",
            given.get(OAUTH_SCOPE_CLAIM) or "scope",
            _number(given.get(OAUTH_CLOCK_SKEW, "30"), OAUTH_CLOCK_SKEW, _DAY_MS),
        ),
    )


def _mechanisms(value: str) -> tuple[str, ...]:
    mechanisms = tuple(dict.fromkeys(mechanism.strip() for mechanism in value.split(",") if mechanism.strip()))
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            raise InvalidConfig(f"{SASL_MECHANISMS}: {printable(mechanism)} is not one of {', '.join(MECHANISMS)}")
    return mechanisms


def _of_mechanism(given: Mapping[str, str], mechanism: str, name: str) -> str:
    return given.get(f"{mechanism.lower()}.{name}", given.get(name, ""))


def _check_handler(given: Mapping[str, str], mechanism: str) -> None:
    """InvalidConfig for a class that decides over logins: without it, others could log in than with Kafka."""
    handler = _of_mechanism(given, mechanism, CALLBACK_HANDLER)
    if handler and not handler.endswith(_HANDLERS.get(mechanism, ())):
        raise InvalidConfig(
            f"{mechanism.lower()}.{CALLBACK_HANDLER}: {printable(handler)} cannot run here; remove it, or remove "
            f"{mechanism} from {SASL_MECHANISMS}"
        )


def _number(value: str, name: str, high: int) -> int:
    parse_value({name: IntegerType(0, high)}, name, value)
    return int(value)


def _passwords(given: Mapping[str, str]) -> Mapping[str, str]:
    name = f"{PLAIN.lower()}.{JAAS_CONFIG}"
    if name not in given:
        return {}
    try:
        module = login_module(given[name])
    except InvalidConfig as error:
        raise InvalidConfig(f"{name} {error.reason}") from None
    if module.name != _PLAIN_MODULE:
        raise InvalidConfig(f"{name}: the login module is {printable(module.name)}; write {_PLAIN_MODULE}")
    return module.passwords


def _keys_path(given: Mapping[str, str], listener: ListenerSettings) -> str | None:
    url = given.get(OAUTH_KEYS, "")
    if url:
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc or not parts.path:
            raise InvalidConfig(f"{OAUTH_KEYS}: {printable(url)} is not the URL of a file; write file:///PATH")
        return unquote(parts.path)
    if not _of_mechanism(given, OAUTHBEARER, CALLBACK_HANDLER).endswith(f".{_UNSECURED}"):
        raise InvalidConfig(
            f"OAUTHBEARER needs the public keys of those who issue tokens: set {OAUTH_KEYS}=file:///PATH "
            f"(for tests, with tokens that any program can make: {CALLBACK_HANDLER}=org.apache.kafka.common.security."
            f"oauthbearer.internals.unsecured.{_UNSECURED})"
        )
    if not is_loopback(listener.address[0]):
        raise InvalidConfig(
            f"{CALLBACK_HANDLER}: any program can make tokens without a signature; listener {listener.name} has to be "
            "at 127.0.0.1"
        )
    return None
