"""Tokens for OAUTHBEARER: from a token endpoint, for the id and the secret of a client (RFC 6749, section 4.4).

    sasl.oauthbearer.token.endpoint.url=https://login.example.com/oauth2/token
    sasl.jaas.config=….OAuthBearerLoginModule required clientId="mirror" clientSecret="…" scope="kafka";

A token is used until shortly before its end. Follows HttpJwtRetriever and ClientCredentialsRequestFormatter.
"""

from __future__ import annotations

import base64
import http
import http.client
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from offsetfs.client.errors import AuthenticationFailed, Disconnected
from offsetfs.runtime.security.jaas import LoginModule
from offsetfs.runtime.security.setting_names import JAAS_CONFIG
from offsetfs.runtime.threads import in_thread
from offsetfs.storage.errors import InvalidConfig

TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"

_TIMEOUT_S = 10.0
_BYTES_MAX = 1 << 20
_SPARE_S = 30.0
"""A token that ends so soon is not used any more."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The secret goes to the endpoint of the settings only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


@dataclass(slots=True, eq=False)
class TokenSource:
    """Gets tokens, and keeps the last one."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    _token: str = field(default="", repr=False)
    _ends_s: float = 0.0
    _asking: trio.Lock = field(default_factory=trio.Lock, repr=False)

    @classmethod
    def parse(cls, values: Mapping[str, str], module: LoginModule) -> TokenSource:
        """Return the source of the settings; InvalidConfig."""
        url = values.get(TOKEN_ENDPOINT, "").strip()
        if not url:
            raise InvalidConfig(f"{TOKEN_ENDPOINT} is not set; give the URL of the token endpoint")
        parts = urllib.parse.urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(parts.hostname or "")):
            raise InvalidConfig(f"{TOKEN_ENDPOINT} must begin with https://: the secret is sent to it")
        for name in ("clientId", "clientSecret"):
            if name not in module.options:
                raise InvalidConfig(f"{JAAS_CONFIG} has no {name}; add it")
        options = module.options
        return cls(url, options["clientId"], options["clientSecret"], options.get("scope", ""))

    async def token(self) -> str:
        """Return a token that is valid for some time; AuthenticationFailed, Disconnected."""
        async with self._asking:
            if time.monotonic() >= self._ends_s:
                with trio.move_on_after(2 * _TIMEOUT_S) as scope:
                    self._token, lifetime_s = await in_thread(partial(_fetched, self), abandon_on_cancel=True)
                    self._ends_s = time.monotonic() + max(lifetime_s - _SPARE_S, 0)
                if scope.cancelled_caught:
                    raise Disconnected(f"{self.url}: no answer within {2 * _TIMEOUT_S:.0f} s")
            return self._token


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _fetched(source: TokenSource) -> tuple[str, float]:
    """Return a new token, and how many seconds it is valid; AuthenticationFailed, Disconnected."""
    fields = {"grant_type": "client_credentials"} | ({"scope": source.scope} if source.scope else {})
    quoted = [urllib.parse.quote(each, safe="") for each in (source.client_id, source.client_secret)]
    credentials = base64.b64encode(":".join(quoted).encode()).decode()
    request = urllib.request.Request(
        source.url,
        urllib.parse.urlencode(fields).encode(),
        {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S) as response:
            answer = response.read(_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        error.close()
        reason = f"{source.url}: status {error.code} ({error.reason})"
        if error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Disconnected(reason) from None
        raise AuthenticationFailed(f"{reason}; check clientId and clientSecret") from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Disconnected(f"{source.url}: no token: {cause}") from error
    return _token_of(source.url, answer)


def _token_of(url: str, answer: bytes) -> tuple[str, float]:
    try:
        found: Any = json.loads(answer[:_BYTES_MAX])
        token, lifetime = found["access_token"], float(found.get("expires_in", 0))
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise AuthenticationFailed(f"{url}: the answer has no access_token; is this a token endpoint?") from None
    return token, lifetime
