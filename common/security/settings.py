"""The security settings that brokers and clients have in common: names, protocols and `sasl.jaas.config` (JAAS).

    sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="b" user_alice="secret";

`login_module` follows JaasConfig, and Java's StreamTokenizer as far as values need it. Its errors contain no value:
values are secrets.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.storage.errors import InvalidConfig

KEYSTORE_TYPE, KEYSTORE, KEY_FILE = "ssl.keystore.type", "ssl.keystore.location", "ssl.key.location"
CHAIN, KEY, KEY_PASSWORD = "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.key.password"
TRUSTSTORE_TYPE, TRUSTSTORE, TRUSTED = "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"
PROTOCOLS, SUITES = "ssl.enabled.protocols", "ssl.cipher.suites"
JAAS_CONFIG = "sasl.jaas.config"

TLS_SECRETS = frozenset((CHAIN, KEY, KEY_PASSWORD, TRUSTED))
"""The secret settings. As in Kafka, certificates that are given in settings are among them."""


_WORD = r'"(?:[^"\\\n]|\\.)*"|[^\s"=;]+'
_SPACE = re.compile(r"\s*")
_OPTION = re.compile(rf"(?P<name>{_WORD})\s*=\s*(?P<value>{_WORD})", re.DOTALL)
_HEAD = re.compile(r"(?P<module>[\w.$]+)\s+(?P<flag>\w+)")
_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_USER = "user_"


class SecurityProtocol(enum.StrEnum):
    """The encryption of a connection, and whether the client authenticates. Kafka: `SecurityProtocol`."""

    PLAINTEXT = "PLAINTEXT"
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
class LoginModule:
    """The class and the options of a login module."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r})"  # options are secrets

    @property
    def passwords(self) -> Mapping[str, str]:
        """The password of each user of PLAIN: `user_NAME="PASSWORD"`."""
        return {name.removeprefix(_USER): text for name, text in self.options.items() if name.startswith(_USER)}


def login_module(text: str) -> LoginModule:
    """Return the only module of a JAAS configuration; InvalidConfig."""
    head = _HEAD.match(text.strip())
    if head is None or head["flag"].lower() not in _FLAGS:
        raise InvalidConfig('is not in the form of JAAS; write MODULE required user_NAME="PASSWORD";')
    rest, options = text.strip()[head.end() :], dict[str, str]()
    position = _skip(rest, 0)
    while (option := _OPTION.match(rest, position)) is not None:
        options[_unquoted(option["name"])] = _unquoted(option["value"])
        position = _skip(rest, option.end())
    if rest[position:].strip() != ";":
        count = len(options)
        raise InvalidConfig(f'is not in the form of JAAS after {count} options; write NAME="VALUE", and ; at the end')
    return LoginModule(head["module"], options)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def _unquoted(word: str) -> str:
    if not word.startswith('"'):
        return word
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), word[1:-1])
