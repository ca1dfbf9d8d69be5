"""Begins the logins of one listener, and bounds what those of one address cost the others."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from offsetfs.common.extras import install_command
from offsetfs.common.security.scram_keys import BY_NAME
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.sasl.exchange import Exchange
from offsetfs.kafka.broker.sasl.oauthbearer import OAuthBearerExchange, Token, TokenKeys, unsecured_token
from offsetfs.kafka.broker.sasl.passwords import FindCredential, PlainExchange, ScramExchange
from offsetfs.kafka.broker.sasl.sasl_settings import OAUTHBEARER, PLAIN, SaslSettings
from offsetfs.kafka.broker.sasl.scram_credentials import UnknownUsers
from offsetfs.storage.errors import InvalidConfig

KEYS_BYTES_MAX = 1 << 20
THREADS_MAX = 2
"""Passwords of PLAIN, and tokens, that are checked at the same time."""


class Logins:
    """The mechanisms of one listener."""

    def __init__(self, settings: SaslSettings, find: FindCredential, unknown_users: UnknownUsers) -> None:
        """InvalidConfig if the keys for tokens cannot be read."""
        self.mechanisms = settings.mechanisms
        self._settings = settings
        self._find = find
        self._unknown_users = unknown_users
        self._keys = None
        if settings.keys_path is not None:
            self._keys = TokenKeys(partial(_read_keys, settings.keys_path), settings.rules)
            _load(self._keys, settings.keys_path)
        self._limiter = trio.CapacityLimiter(THREADS_MAX)
        self._turns: dict[str, tuple[trio.Lock, int]] = {}

    def begin(self, mechanism: str) -> Exchange:
        """Return the server's side of a login by one of `mechanisms`."""
        if mechanism == PLAIN:
            return PlainExchange(self._settings.passwords, self._find, self._unknown_users)
        if mechanism == OAUTHBEARER:
            return OAuthBearerExchange(self._validate)
        return ScramExchange(BY_NAME[mechanism], self._find, self._unknown_users)

    async def respond(self, exchange: Exchange, mechanism: str, message: bytes, host: str) -> bytes:
        """Return the answer of `exchange` to a message of a client at `host`; LoginFailed.

        What takes milliseconds is done in threads, one for each address: others do not wait for all of its logins.
        """
        if mechanism in BY_NAME:
            return exchange.respond(message)
        async with self._turn(host):
            return await in_thread(partial(exchange.respond, message), limiter=self._limiter)

    def session_ms(self, mechanism: str, exchange: Exchange) -> int | None:
        """Return after how long a client has to authenticate again; None: never."""
        limits = [self._settings.session_ms[mechanism]] if self._settings.session_ms[mechanism] else []
        if exchange.expires_at_ms is not None:
            limits.append(max(0, exchange.expires_at_ms - int(time.time() * 1000)))
        return min(limits, default=None)

    @asynccontextmanager
    async def _turn(self, host: str) -> AsyncIterator[None]:
        lock, count = self._turns.get(host) or (trio.Lock(), 0)
        self._turns[host] = lock, count + 1
        try:
            async with lock:
                yield
        finally:
            lock, count = self._turns[host]
            self._turns[host] = lock, count - 1
            if count == 1:
                del self._turns[host]

    def _validate(self, token: str) -> Token:
        if self._keys is not None:
            return self._keys.validate(token)
        return unsecured_token(token, self._settings.rules, time.time())


def _read_keys(path: str) -> bytes:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > KEYS_BYTES_MAX:
            raise ValueError(f"larger than {KEYS_BYTES_MAX} bytes")
        return file.read(KEYS_BYTES_MAX)


def _load(keys: TokenKeys, path: str) -> None:
    """Read the keys for the first time; InvalidConfig."""
    try:
        keys.load()
    except ModuleNotFoundError:
        raise InvalidConfig(f"OAUTHBEARER needs PyJWT: {install_command('oauth')}") from None
    except OSError as error:
        raise InvalidConfig(f"sasl.oauthbearer.jwks.endpoint.url: {path}: {error.strerror}") from None
    except Exception as error:  # of PyJWT, which is imported by `load` alone
        raise InvalidConfig(f"sasl.oauthbearer.jwks.endpoint.url: {path} is not a JWKS: {error}") from None
