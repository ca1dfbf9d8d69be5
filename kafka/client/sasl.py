"""Logs in to a broker by SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.

    SaslHandshake(mechanism) ──► SaslAuthenticate(message) … ──► the session's lifetime, 0 for one without end

Follows SaslClientAuthenticator (KIP-152, KIP-368). Secrets are in no error and in no repr.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from offsetfs.common.security.scram_keys import (
    BY_NAME,
    ITERATIONS_MAX,
    ScramMechanism,
    client_key,
    salted_password,
    server_key,
    stored_key,
)
from offsetfs.common.security.settings import JAAS_CONFIG, LoginModule, login_module
from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.errors import AuthenticationFailed, KafkaError
from offsetfs.kafka.client.oauth_tokens import TOKEN_ENDPOINT, TokenSource
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

MECHANISM = "sasl.mechanism"

_PACKAGE = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    **dict.fromkeys(BY_NAME, f"{_PACKAGE}.scram.ScramLoginModule"),
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
}
_TEXT_MAX = 200

Ask = Callable[[ProtocolMessage], Awaitable[Any]]
"""Sends a request on the connection that logs in; returns the response. ClientError."""


@dataclass(frozen=True, slots=True)
class SaslProperties:
    """The checked settings of a login."""

    mechanism: str
    user: str = ""
    password: str = field(default="", repr=False)
    tokens: TokenSource | None = field(default=None, repr=False)
    """The source of tokens for OAUTHBEARER."""

    @classmethod
    def parse(cls, values: Mapping[str, str]) -> SaslProperties:
        """Return the settings in `values`; InvalidConfig."""
        mechanism = values.get(MECHANISM, "GSSAPI").strip()
        if mechanism not in _MODULES:
            given = f"{MECHANISM} is {printable(mechanism)}" if MECHANISM in values else f"{MECHANISM} is not set"
            raise InvalidConfig(f"{given}; {', '.join(_MODULES)} are supported")
        if not values.get(JAAS_CONFIG):
            raise InvalidConfig(f"{JAAS_CONFIG} is not set; write {_example(mechanism)}")
        try:
            module = login_module(values[JAAS_CONFIG])
        except InvalidConfig:
            raise InvalidConfig(f"{JAAS_CONFIG} is not in the form of JAAS; write {_example(mechanism)}") from None
        if module.name != _MODULES[mechanism]:
            raise InvalidConfig(
                f"{JAAS_CONFIG}: the login module is {printable(module.name)}, and {MECHANISM} is {mechanism}; write "
                f"{_example(mechanism)}"
            )
        if mechanism == "OAUTHBEARER":
            return cls(mechanism, tokens=TokenSource.parse(values, module))
        if module.options.get("tokenauth", "").lower() == "true":
            raise InvalidConfig(f"{JAAS_CONFIG}: delegation tokens (tokenauth) are not supported; use a password")
        return cls(mechanism, _option(module, "username", mechanism), _option(module, "password", mechanism))


def _option(module: LoginModule, name: str, mechanism: str) -> str:
    if name not in module.options:
        raise InvalidConfig(f"{JAAS_CONFIG} has no {name}; write {_example(mechanism)}")
    return module.options[name]


def _example(mechanism: str) -> str:
    options = 'username="USER" password="PASSWORD"'
    if mechanism == "OAUTHBEARER":
        options = f'clientId="ID" clientSecret="SECRET" (and {TOKEN_ENDPOINT})'
    return f"{_MODULES[mechanism]} required {options};"


async def log_in(peer: str, properties: SaslProperties, ask: Ask) -> int:
    """Authenticate a connection; return the lifetime of its session in milliseconds, 0 for one without end.

    `peer`: the broker, for messages. AuthenticationFailed, ClientError.
    """
    response = await ask(m.SaslHandshakeRequest(properties.mechanism))
    if response.error_code:
        raise _no_handshake(peer, properties.mechanism, response)
    login = _Login(peer, ask, _PASSWORD_REMEDY if properties.tokens is None else "")
    if properties.mechanism == "PLAIN":
        await login.answer(f"\0{properties.user}\0{properties.password}".encode())
    elif properties.tokens is not None:
        await _show_token(login, await properties.tokens.token())
    else:
        await _scram(login, properties)
    return login.lifetime_ms


def _no_handshake(peer: str, mechanism: str, response: Any) -> Exception:
    if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        return AuthenticationFailed(
            f"{peer}: {MECHANISM} is {mechanism}, and the broker offers {offered}; set one of these"
        )
    if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        return AuthenticationFailed(
            f"{peer}: this listener has no login; set security.protocol=PLAINTEXT or SSL in the file of --config"
        )
    return KafkaError(response.error_code, f"{peer}: SaslHandshake")


_PASSWORD_REMEDY = "; check username and password in sasl.jaas.config"


class _Login:
    """The messages of one login."""

    def __init__(self, peer: str, ask: Ask, remedy: str) -> None:
        self.peer = peer
        self._remedy = remedy
        self.lifetime_ms = 0
        self._ask = ask

    async def answer(self, message: bytes) -> bytes:
        """Return the answer to a message; AuthenticationFailed."""
        response = await self._ask(m.SaslAuthenticateRequest(message))
        if response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise self.failed((response.error_message or "the broker does not accept the login") + self._remedy)
        if response.error_code:
            raise KafkaError(response.error_code, f"{self.peer}: {response.error_message or 'SaslAuthenticate'}")
        self.lifetime_ms = response.session_lifetime_ms
        return bytes(response.auth_bytes)

    def failed(self, reason: str) -> AuthenticationFailed:
        return AuthenticationFailed(f"{self.peer}: {reason[:_TEXT_MAX]}")


async def _scram(login: _Login, properties: SaslProperties) -> None:
    exchange = ScramLogin(BY_NAME[properties.mechanism], properties.user, properties.password)
    answer = await login.answer(exchange.first())
    try:
        message = await in_thread(partial(exchange.final, answer))
        exchange.check(await login.answer(message))
    except ScramRefused as error:
        raise login.failed(str(error)) from None


async def _show_token(login: _Login, token: str) -> None:
    """Log in with a token (RFC 7628). The error of a server has to be confirmed before it ends the login."""
    answer = await login.answer(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if answer:
        try:
            status = str(json.loads(answer).get("status", ""))
        except (ValueError, AttributeError, RecursionError):
            status = ""
        await login.answer(b"\x01")
        raise login.failed(f"the broker does not accept the token: {printable(status)}")


_SCRAM_HEADER = "n,,"
_NONCE_BYTES = 24
_ITERATIONS_MIN = 4096
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9/+]+=*),i=(?P<iterations>[1-9][0-9]{0,9})(?:,.*)?"
)
_SERVER_FINAL = re.compile(r"v=(?P<signature>[A-Za-z0-9/+]+=*)(?:,.*)?")


class ScramRefused(Exception):
    """The messages of the server are not those of a server that knows the password; the message says why."""


class ScramLogin:
    """One login by SCRAM (RFC 5802, RFC 7677): it shows that the client knows a password without sending it.

        client first    n,,n=alice,r=CLIENT
        server first    r=CLIENT‖SERVER,s=salt,i=4096
        client final    c=biws,r=CLIENT‖SERVER,p=proof
        server final    v=signature

    `first`, then `final` with the first answer, then `check` with the second one: the signature shows that the server
    knows the password, too. Follows Kafka's `ScramSaslClient`.
    """

    def __init__(self, mechanism: ScramMechanism, user: str, password: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = secrets.token_urlsafe(_NONCE_BYTES)
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"{_SCRAM_HEADER}{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """Return the last message, with the proof; ScramRefused. Takes some milliseconds."""
        text = answer.decode("utf-8", "replace")
        match = _SERVER_FIRST.fullmatch(text)
        if match is None:
            raise ScramRefused(f"the first message of the broker does not follow RFC 5802{_reason(text)}")
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise ScramRefused("the nonce of the broker is not an answer to that of the client")
        iterations = int(match["iterations"])
        if not _ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ScramRefused(
                f"the broker asks for {iterations} iterations; from {_ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted"
            )
        salted = salted_password(self._mechanism, self._password.encode(), _bytes_of(match["salt"]), iterations)
        unproven = f"c={base64.b64encode(_SCRAM_HEADER.encode()).decode()},r={match['nonce']}"
        signed = f"{self._bare},{text},{unproven}".encode()
        key, name = client_key(self._mechanism, salted), self._mechanism.hash_name
        signature = hmac.digest(stored_key(self._mechanism, key), signed, name)
        proof = (int.from_bytes(key) ^ int.from_bytes(signature)).to_bytes(len(key))
        self._signature = hmac.digest(server_key(self._mechanism, salted), signed, name)
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """Verify the signature of the server; ScramRefused."""
        text = answer.decode("utf-8", "replace")
        match = _SERVER_FINAL.fullmatch(text)
        if match is None:
            raise ScramRefused(f"the last message of the broker does not follow RFC 5802{_reason(text)}")
        if not hmac.compare_digest(_bytes_of(match["signature"]), self._signature):
            raise ScramRefused("the broker does not know the password: its signature is wrong")


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramRefused("a message of the broker is not in base 64") from None


def _reason(text: str) -> str:
    """Return the error that a server can give in place of an answer: `e=unknown-user`."""
    return f": {text[2:60]!r}" if text.startswith("e=") else ""
