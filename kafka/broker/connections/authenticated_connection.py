"""A connection of a listener with SASL: the client logs in before its first request.

    ApiVersions ── SaslHandshake ── SaslAuthenticate … ── requests ── SaslHandshake (again, KIP-368) …

Anything else before the login ends the connection. A login that fails is answered, and the connection closed, after
`connection.failed.authentication.delay.ms`; it is logged and counted. A login takes `LOGIN_S` at most. After
SaslHandshake of version 0, messages of the mechanism follow without headers, as clients of Kafka 0.10 send them.
Follows SaslServerAuthenticator and, of KafkaChannel, the part that is about re-authentication.
"""

from __future__ import annotations

import logging
import math
import socket
from dataclasses import replace
from typing import Any

import trio

from offsetfs.kafka.broker.connections.api import Principal
from offsetfs.kafka.broker.connections.codecs import Codecs
from offsetfs.kafka.broker.connections.connection import Connection, ProtocolError, Received, Shared
from offsetfs.kafka.broker.connections.listeners import Listener
from offsetfs.kafka.broker.sasl.exchange import Exchange, LoginFailed
from offsetfs.kafka.broker.sasl.logins import Logins
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.messages import RequestHeader, SaslAuthenticateResponse, SaslHandshakeResponse
from offsetfs.storage.settings import printable

_log = logging.getLogger(__name__)

LOGIN_S = 10.0
"""The time that a client has to log in."""

REAUTHENTICATION_S = 1.0
"""A client may authenticate again so often at most, as in Kafka."""

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36


class AuthenticatedConnection(Connection):
    """Serves one client once it has logged in."""

    def __init__(self, peer: socket.socket, shared: Shared, listener: Listener, logins: Logins) -> None:
        super().__init__(peer, shared, listener)
        self._logins = logins
        self._delay_s = shared.settings.connection_failed_authentication_delay_ms / 1000
        self._size_limits = (
            (shared.settings.sasl_server_max_receive_size, "sasl.server.max.receive.size"),
            (self._request_bytes_max, self._request_bytes_setting),
        )
        self._is_authenticated = self._has_failed = False
        self._mechanism = ""
        self._exchange: Exchange | None = None  # between handshake and login
        self._has_headers = True
        self._session_ends_s = math.inf
        self._next_login_s = -math.inf
        self._is_logging_in = False

    async def serve(self) -> None:
        """Serve like `Connection`; the connection ends if the login takes too long."""
        self._begin_login()
        await super().serve()
        if self._is_logging_in and not self._has_failed and trio.current_time() >= self._serving.deadline:
            self._note_failure(f"not complete after {LOGIN_S:g} s")

    def _begin_login(self) -> None:
        self._is_logging_in = True
        self._serving.deadline = trio.current_time() + LOGIN_S
        self._request_bytes_max, self._request_bytes_setting = self._size_limits[0]

    def _end_login(self) -> None:
        self._is_logging_in, self._is_authenticated, self._exchange = False, True, None
        self._serving.deadline = math.inf
        self._request_bytes_max, self._request_bytes_setting = self._size_limits[1]

    async def _answer(self, received: Received, nursery: trio.Nursery) -> list[Any] | None:
        key = int.from_bytes(received.data[:2], "big", signed=True)
        now_s = trio.current_time()
        if not self._is_logging_in:
            if key == SASL_HANDSHAKE and self._session_ends_s < math.inf and now_s >= self._next_login_s:
                self._next_login_s = now_s + REAUTHENTICATION_S
                await self._responses.wait_until_empty()
                self._begin_login()
            elif now_s >= self._session_ends_s:
                self._metrics.logins[self._mechanism, "expired"] += 1
                raise ProtocolError("the session has expired, and the client has not authenticated again")
            else:
                return await super()._answer(received, nursery)
        elif key == API_VERSIONS and self._exchange is None:
            return await super()._answer(received, nursery)
        failed: list[Any] = []
        try:
            return await self._logged_in(received, key, failed)
        except LoginFailed as error:
            self._note_failure(str(error))
        except InvalidMessage as error:
            self._note_failure(f"a malformed request: {error}")
        await trio.sleep(self._delay_s)
        if failed:
            await self._send(failed)
        return None

    async def _logged_in(self, received: Received, key: int, failed: list[Any]) -> list[Any]:
        """Return the response to a request of the login; LoginFailed, with the response in `failed` if there is one."""
        if self._exchange is not None and not self._has_headers:
            token, _ = await self._token(self._exchange, bytes(received.data))
            return [len(token).to_bytes(4, "big") + token]
        expected = SASL_HANDSHAKE if self._exchange is None else SASL_AUTHENTICATE
        api, version = self._apis.get(key), int.from_bytes(received.data[2:4], "big", signed=True)
        if api is None or key != expected or not api.first <= version <= api.last:
            name = f"API {key}" if api is None else api.name
            raise LoginFailed(f"{name} in version {version} before the login")
        codecs = api.codecs(version)
        header, request = await codecs.decoded(received.data)
        if self._exchange is None:
            return self._handshake(request.mechanism, version, codecs, header, failed)
        return await self._authenticate(self._exchange, bytes(request.auth_bytes), codecs, header, failed)

    def _handshake(
        self, mechanism: str, version: int, codecs: Codecs, header: RequestHeader, failed: list[Any]
    ) -> list[Any]:
        enabled = list(self._logins.mechanisms)
        is_possible = mechanism in enabled and self._mechanism in ("", mechanism)
        code = ErrorCode.NONE if is_possible else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = codecs.framed(header, SaslHandshakeResponse(code, enabled))
        if not is_possible:
            failed += answer
            reason = f"the mechanism was {self._mechanism}" if self._mechanism else "the mechanism is not enabled"
            raise LoginFailed(f"{reason}: {printable(mechanism)}")
        self._mechanism, self._has_headers = mechanism, version > 0
        self._exchange = self._logins.begin(mechanism)
        return answer

    async def _authenticate(
        self, exchange: Exchange, message: bytes, codecs: Codecs, header: RequestHeader, failed: list[Any]
    ) -> list[Any]:
        try:
            token, session_ms = await self._token(exchange, message)
        except LoginFailed as error:
            when = "re-authentication" if self._is_authenticated else "authentication"
            invalid = f"Authentication failed during {when} due to invalid credentials with SASL mechanism"
            text = error.message or f"{invalid} {self._mechanism}"  # Kafka's texts
            failure = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
            failed += codecs.framed(header, failure)
            raise
        return codecs.framed(header, SaslAuthenticateResponse(0, None, token, session_ms))

    async def _token(self, exchange: Exchange, message: bytes) -> tuple[bytes, int]:
        """Return the answer of the mechanism, and the lifetime of the session in ms; 0: unlimited, or not begun."""
        token = await self._logins.respond(exchange, self._mechanism, message, self.host)
        if not exchange.is_complete:
            return token, 0
        principal = Principal(exchange.user)
        if self._is_authenticated and principal != self._client.principal:
            was, is_now = (f"{identity.type}.{identity.name}" for identity in (self._client.principal, principal))
            text = f"Cannot change principals during re-authentication from {was}: {is_now}"  # Kafka's text
            raise LoginFailed("another user than before", text)
        self._client = replace(self._client, principal=principal)
        lifetime_ms = self._logins.session_ms(self._mechanism, exchange)
        now_s = trio.current_time()
        self._session_ends_s = math.inf if lifetime_ms is None else now_s + lifetime_ms / 1000
        self._end_login()
        self._metrics.logins[self._mechanism, "succeeded"] += 1
        _log.debug("%s: %s has logged in by %s", self.host, printable(exchange.user), self._mechanism)
        return token, lifetime_ms or 0

    def _note_failure(self, reason: str) -> None:
        """Log and count a failed login. The reason has no secret."""
        self._has_failed = True
        self._metrics.logins[self._mechanism, "failed"] += 1
        user = self._exchange.user if self._exchange is not None else ""
        named = f" of {printable(user)}" if user else ""
        mechanism = f" by {self._mechanism}" if self._mechanism else ""
        _log.warning("%s: login%s%s failed: %s", self.host, named, mechanism, reason)
