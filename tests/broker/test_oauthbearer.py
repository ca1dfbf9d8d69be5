"""OAUTHBEARER (RFC 7628): which tokens are a login, and what a client learns of others."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fixtures.security.oauth_tokens import bearer, jwks, signed, unsecured

from offsetfs.kafka.broker.sasl.exchange import LoginFailed
from offsetfs.kafka.broker.sasl.oauthbearer import OAuthBearerExchange, Token, TokenKeys, TokenRules, unsecured_token

pytestmark = pytest.mark.unit

RULES = TokenRules(audiences=("kafka",), issuer="https://issuer")


def oauth(rules: TokenRules = RULES) -> OAuthBearerExchange:
    content = jwks(0, 1)
    return OAuthBearerExchange(TokenKeys(lambda: content, rules).validate)


@pytest.mark.parametrize("authorization", ["", "a=alice"])
def test_a_signed_token_is_a_login(authorization: str) -> None:
    exchange = oauth()
    assert exchange.respond(bearer(signed(), authorization)) == b""
    assert (exchange.is_complete, exchange.user) == (True, "alice")
    assert exchange.expires_at_ms is not None
    assert 50_000 < exchange.expires_at_ms - time.time() * 1000 <= 60_000


def test_the_user_may_be_in_another_claim() -> None:
    exchange = oauth(TokenRules(user_claim="client_id"))
    assert exchange.respond(bearer(signed({"client_id": "reports", "sub": None}))) == b""
    assert exchange.user == "reports"


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({}, {"expires_s": -31}),
        ({"exp": None}, {}),
        ({"iat": None}, {}),
        ({"aud": "others"}, {}),
        ({"aud": None}, {}),
        ({"iss": "https://others"}, {}),
        ({"nbf": 1 << 40}, {}),
        ({"exp": float("inf")}, {}),
        ({"exp": 10**400}, {}),
        ({"exp": "99999999999"}, {}),
        ({"iat": float("inf")}, {}),
        ({"sub": None}, {}),
        ({"sub": " "}, {}),
        ({"scope": 7}, {}),
        ({}, {"by": 1}),
        ({}, {"kid": "7"}),
        ({}, {"kid": None}),
        ({}, {"algorithm": "HS256"}),
        ({}, {"algorithm": "none"}),
    ],
)
def test_a_wrong_token_fails_as_rfc_7628_says(changes: dict[str, Any], how: dict[str, Any]) -> None:
    token, exchange = signed(changes, **how), oauth()
    assert exchange.respond(bearer(token)) == b'{"status":"invalid_token"}'
    assert not exchange.is_complete
    with pytest.raises(LoginFailed) as failure:
        exchange.respond(b"\x01")
    assert failure.value.message == '{"status":"invalid_token"}'
    assert token not in str(failure.value)


@pytest.mark.parametrize("token", ["not.a.token", "x"])
def test_what_is_no_token_fails_alike(token: str) -> None:
    assert oauth().respond(bearer(token)) == b'{"status":"invalid_token"}'


def test_an_expired_token_counts_within_the_clock_skew() -> None:
    assert oauth().respond(bearer(signed(expires_s=-20))) == b""


def test_a_token_of_another_user_than_asked_is_refused() -> None:
    with pytest.raises(LoginFailed):
        oauth().respond(bearer(signed(), "a=bob"))


def test_changed_keys_are_read_and_unreadable_ones_keep_the_former() -> None:
    contents = iter((jwks(1), jwks(0), b"{", None))

    def read() -> bytes:
        found = next(contents, None)
        if found is None:
            raise OSError("gone")
        return found

    keys = TokenKeys(read, RULES)
    with pytest.raises(LoginFailed):
        keys.validate(signed())
    assert [keys.validate(signed()).user for _ in range(4)] == ["alice"] * 4


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"\xff" * 10,
        b"x" * 70_000,
    ],
    ids=range(7),
)
def test_a_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed):
        oauth().respond(message)


def test_a_token_without_signature() -> None:
    token = unsecured({"sub": "alice", "exp": 100, "iat": 1})
    assert unsecured_token(token, TokenRules(), 50.0) == Token("alice", 100_000)


@pytest.mark.parametrize(
    "token",
    [
        unsecured({"sub": "alice", "exp": 100}, {"alg": "ES256"}),
        unsecured({"sub": "alice", "exp": 10}),
        unsecured({"sub": "alice", "exp": float("inf")}),
        unsecured({"sub": "alice", "exp": 10**400}),
        unsecured({"sub": "alice", "exp": "100"}),
        unsecured({"sub": "alice", "exp": 100, "iat": 10**400}),
        unsecured({"sub": "alice"}),
        unsecured({"exp": 100}),
        unsecured([]),
        unsecured({"sub": "alice", "exp": 100}, []),
        unsecured({"sub": "alice", "exp": 100}) + "x",
        "..",
        "!.!.",
        "[" * 100_000 + "..",
    ],
    ids=range(14),
)
def test_a_wrong_token_without_signature_is_refused(token: str) -> None:
    with pytest.raises(LoginFailed):
        unsecured_token(token, TokenRules(), 50.0)
