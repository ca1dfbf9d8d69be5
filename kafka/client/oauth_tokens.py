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

from offsetfs.common.security.settings import JAAS_CONFIG, LoginModule
from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.errors import AuthenticationFailed, ClientError, Disconnected
from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.settings import printable

TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"

_TIMEOUT_S = 10.0
RESPONSE_BYTES_MAX = 1 << 20
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
    # As in Kafka, not encoded for URLs (sasl.oauthbearer.header.urlencode=false).
    credentials = base64.b64encode(f"{source.client_id}:{source.client_secret}".encode()).decode()
    request = urllib.request.Request(
        source.url,
        urllib.parse.urlencode(fields).encode(),
        {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )
    # A proxy of the environment gets the secret in an encrypted tunnel only.
    proxies = [urllib.request.ProxyHandler({})] if source.url.startswith("http:") else []
    try:
        with urllib.request.build_opener(_NoRedirects, *proxies).open(request, timeout=_TIMEOUT_S) as response:
            answer = response.read(RESPONSE_BYTES_MAX + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(source, error.code, error.read(RESPONSE_BYTES_MAX)) from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        raise Disconnected(f"{source.url}: no token: {cause}") from error
    return _token_of(source.url, answer)


def _refusal(source: TokenSource, status: int, answer: bytes) -> ClientError:
    """Return the error for an HTTP status, with the reason of RFC 6749 in the body, such as `invalid_client`."""
    if status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
        return Disconnected(f"{source.url}: no token: HTTP {status}")
    if 300 <= status < 400:
        return AuthenticationFailed(f"{source.url}: HTTP {status}: redirects are not followed; give the final URL")
    reason = _object(answer).get("error")
    named = f" {printable(reason)}" if isinstance(reason, str) else ""
    return AuthenticationFailed(f"{source.url}: HTTP {status}{named}; check clientId, clientSecret and scope")


def _token_of(url: str, answer: bytes) -> tuple[str, float]:
    content = _object(answer) if len(answer) <= RESPONSE_BYTES_MAX else {}
    token = content.get("access_token")
    if not isinstance(token, str) or not token or not all("\x21" <= character <= "\x7e" for character in token):
        raise AuthenticationFailed(f"{url}: the answer has no access_token; is this a token endpoint?")
    return token, _lifetime_s(token, content)


def _lifetime_s(token: str, answer: Mapping[str, Any]) -> float:
    """Return the lifetime of a token, from its claims as in Kafka, or else from the answer; 0 if neither has it."""
    ends_s = _claims(token).get("exp")
    if isinstance(ends_s, int | float):
        return ends_s - time.time()
    lifetime_s = answer.get("expires_in")
    return lifetime_s if isinstance(lifetime_s, int | float) else 0


def _claims(token: str) -> Mapping[str, Any]:
    """Return the claims of a JWT; empty for other tokens. The broker checks the signature."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _object(text: bytes) -> Mapping[str, Any]:
    """Return a JSON object; empty for any other bytes."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
