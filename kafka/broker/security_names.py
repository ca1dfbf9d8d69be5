"""The names of the security settings of listeners, and which of them are secrets."""

from __future__ import annotations

from offsetfs.common.security.settings import (
    JAAS_CONFIG,
    KEY_FILE,
    KEYSTORE,
    KEYSTORE_TYPE,
    PROTOCOLS,
    SUITES,
    TLS_SECRETS,
    TRUSTSTORE,
    TRUSTSTORE_TYPE,
)

PROTOCOL_MAP = "listener.security.protocol.map"
SASL_MECHANISMS = "sasl.enabled.mechanisms"

CLIENT_AUTH = "ssl.client.auth"
PRINCIPAL_RULES = "ssl.principal.mapping.rules"

TLS_DEFAULTS = {
    KEYSTORE_TYPE: "PEM",
    TRUSTSTORE_TYPE: "PEM",
    CLIENT_AUTH: "none",
    PROTOCOLS: "TLSv1.2,TLSv1.3",
    PRINCIPAL_RULES: "DEFAULT",
}

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
        *(*TLS_DEFAULTS, *TLS_SECRETS, KEYSTORE, KEY_FILE, TRUSTSTORE, SUITES),
        *(SASL_MECHANISMS, CALLBACK_HANDLER, REAUTHENTICATION, *_OAUTH),
        *(f"{mechanism.lower()}.{setting}" for mechanism in MECHANISMS for setting in _OF_MECHANISMS),
    )
)
"""The security settings that have an effect, by Kafka's names; some are of one mechanism (`plain.sasl.jaas.config`)."""

LISTENER_PREFIX = "listener.name."


def is_security_setting(name: str) -> bool:
    """Return whether a setting has an effect on the security of listeners, or of one of them."""
    return name == PROTOCOL_MAP or general_name(name) in SECURITY_NAMES


def is_secret(name: str) -> bool:
    """Return whether the value of a setting must not be shown."""
    return general_name(name) in TLS_SECRETS or name.endswith(JAAS_CONFIG)


def is_listener_setting(name: str) -> bool:
    """Return whether a setting is that of one listener: `listener.name.NAME.`"""
    return name.startswith(LISTENER_PREFIX)


def general_name(name: str) -> str:
    """Return the name of a setting without `listener.name.NAME.`"""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] if is_listener_setting(name) else name
