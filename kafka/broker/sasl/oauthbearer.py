"""OAUTHBEARER (RFC 7628): a client sends a token that an OAuth server has issued.

    message    n,[a=authorization id], %x01 auth=Bearer TOKEN %x01 [key=value %x01 …] %x01
    answer     nothing, or {"status":"invalid_token"}, after which the client sends %x01 and the login fails

A `Validate` checks the token: `TokenKeys` verifies signatures with the public keys of a JWKS, `unsecured_token`
reads tokens without signature, for tests. Follows OAuthBearerSaslServer, BrokerJwtValidator and
OAuthBearerUnsecuredJws.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from offsetfs.kafka.broker.sasl.exchange import LoginFailed

TOKEN_BYTES_MAX = 64 << 10
_INVALID = '{"status":"invalid_token"}'
_CONTROL_A = b"\x01"
_MESSAGE = re.compile(
    r"n,(?:a=(?P<authorization>(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,"
    r"\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms that sign with a private key: with others, each holder of the public key could issue tokens."""


@dataclass(frozen=True, slots=True)
class Token:
    """The user of a valid token, and the time until which the token is valid."""

    user: str
    expires_at_ms: int


Validate = Callable[[str], Token]
"""Returns what a token says; LoginFailed if it is not valid."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The conditions of a valid token, by Kafka's settings `sasl.oauthbearer.*`."""

    audiences: tuple[str, ...] = ()
    """`expected.audience`: one of them; () for any."""
    issuer: str | None = None
    user_claim: str = "sub"
    scope_claim: str = "scope"
    clock_skew_s: int = 30


class OAuthBearerExchange:
    """One login by OAUTHBEARER."""

    def __init__(self, validate: Validate) -> None:
        self.user = ""
        self.is_complete = False
        self.expires_at_ms: int | None = None
        self._validate = validate
        self._failure: str | None = None

    def respond(self, message: bytes) -> bytes:
        """Check the token; LoginFailed, at the message after that of an invalid token. For a thread."""
        if self._failure is not None:
            raise LoginFailed(self._failure, _INVALID if message == _CONTROL_A else None)
        if self.is_complete or len(message) > TOKEN_BYTES_MAX:
            raise LoginFailed("the message is too large" if message else "a message after the login")
        match = _MESSAGE.fullmatch(message.decode("latin-1"))
        pairs = {} if match is None else dict(pair.split("=", 1) for pair in match["pairs"].split("\x01")[:-1])
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if match is None or bearer is None:
            raise LoginFailed("the message does not follow RFC 7628")
        try:
            token = self._validate(bearer["token"])
        except LoginFailed as error:
            self._failure = str(error)
            return _INVALID.encode()
        self.user = token.user
        asked = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
        if asked and asked != token.user:
            text = f"Client requested an authorization id ({asked}) that is different from the token's principal name"
            raise LoginFailed("the authorization id is not the user", f"Authentication failed: {text} ({token.user})")
        self.is_complete, self.expires_at_ms = True, token.expires_at_ms
        return b""


class TokenKeys:
    """Public keys (a JWKS) that verify signed tokens, read again whenever `read` returns other bytes."""

    def __init__(self, read: Callable[[], bytes], rules: TokenRules) -> None:
        """`read` returns the JWKS as JSON; OSError."""
        self._read = read
        self._rules = rules
        self._content: bytes | None = None
        self._keys: list[dict[str, Any]] = []

    def load(self) -> None:
        """Read the keys; ValueError if they are not a JWKS with a key, OSError, ModuleNotFoundError without PyJWT."""
        import jwt  # an optional dependency (offsetfs[oauth]), and a tenth of a second

        content = self._read()
        if content == self._content:
            return
        keys = [key for key in json.loads(content)["keys"] if key.get("use", "sig") == "sig"]
        if not jwt.PyJWKSet(keys).keys:
            raise ValueError("no key for signatures")
        self._content, self._keys = content, keys

    def validate(self, token: str) -> Token:
        """Return what a signed token says; LoginFailed."""
        import jwt

        try:
            self.load()
        except (OSError, ValueError, LookupError, TypeError, AttributeError, jwt.PyJWTError) as error:
            if not self._keys:
                raise LoginFailed(f"the keys of tokens cannot be read: {error}") from None
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            claims = jwt.decode(
                token,
                self._key(header),
                algorithms=_ALGORITHMS,
                audience=rules.audiences or None,
                issuer=rules.issuer,
                leeway=rules.clock_skew_s,
                options={"require": ["exp", "iat"], "verify_aud": bool(rules.audiences)},
            )
        except (jwt.PyJWTError, ValueError, TypeError, LookupError, OverflowError) as error:
            raise LoginFailed(f"the token is not valid: {error}") from None
        return _token(claims, rules)

    def _key(self, header: Mapping[str, Any]) -> Any:
        import jwt

        if header.get("alg") not in _ALGORITHMS:
            raise LoginFailed("the token is not signed by a private key")
        named = [key for key in self._keys if "kid" in header and key.get("kid") == header["kid"]]
        possible = named or (self._keys if "kid" not in header and len(self._keys) == 1 else [])
        if not possible:
            raise LoginFailed("the token is signed by a key that is not known (kid)")
        return jwt.PyJWK(possible[0], algorithm=possible[0].get("alg") or header["alg"])


def unsecured_token(token: str, rules: TokenRules, now_s: float) -> Token:
    """Return what a token without signature says; LoginFailed. Any program can make one: for tests."""
    parts = token.split(".")
    if len(parts) != 3 or parts[2]:
        raise LoginFailed("the token is not one without signature")
    try:
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2])
        algorithm, expires_s, issued_s = header["alg"], float(claims["exp"]), float(claims.get("iat", 0))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise LoginFailed("the token is not a JWS with an expiry") from None
    if algorithm != "none":
        raise LoginFailed("the token has an algorithm, and no signature")
    if now_s >= expires_s + rules.clock_skew_s or issued_s > now_s + rules.clock_skew_s or issued_s >= expires_s:
        raise LoginFailed("the token has expired, or is not valid yet")
    return _token(claims, rules)


def _token(claims: Mapping[str, Any], rules: TokenRules) -> Token:
    user, scope, expires_s = claims.get(rules.user_claim), claims.get(rules.scope_claim, ""), claims["exp"]
    if not isinstance(user, str) or not user.strip():
        raise LoginFailed(f"the token has no user (claim {rules.user_claim})")
    if not isinstance(scope, str) and not (isinstance(scope, list) and all(isinstance(name, str) for name in scope)):
        raise LoginFailed(f"the scope of the token is not text (claim {rules.scope_claim})")
    if not isinstance(expires_s, int | float) or not 0 <= expires_s < 2**53:
        raise LoginFailed("the expiry of the token is not a time (claim exp)")
    return Token(user, int(expires_s * 1000))
