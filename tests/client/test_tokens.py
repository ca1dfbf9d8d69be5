"""Tokens by client credentials, from an OAuth server in the process of the test."""

from __future__ import annotations

import base64
import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import trio
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running
from fixtures.security.logins import sasl_listener
from fixtures.security.oauth_tokens import jwks, signed

from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import AuthenticationFailed, ClientError, Disconnected
from offsetfs.kafka.client.oauth_tokens import RESPONSE_BYTES_MAX, TokenSource
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

SECRET = "hunter2-hunter2"


class OAuthServer:
    """Answers each request with `status` and `body`."""

    def __init__(self) -> None:
        self.status, self.body, self.location = 200, b"", ""
        self.requests: list[tuple[str, dict[str, list[str]]]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                outer.requests.append((self.headers["Authorization"], form))
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *_: object) -> None: ...

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/token"

    def answer(self, token: str, **others: object) -> None:
        self.body = json.dumps({"access_token": token, **others}).encode()


@pytest.fixture
def oauth() -> Iterator[OAuthServer]:
    found = OAuthServer()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


def source(oauth: OAuthServer) -> TokenSource:
    return TokenSource(oauth.url, "me", SECRET, "kafka")


async def test_a_token_is_asked_for_and_used_again(oauth: OAuthServer) -> None:
    oauth.answer("opaque", expires_in=60)
    tokens = source(oauth)
    assert [await tokens.token(), await tokens.token()] == ["opaque", "opaque"]
    ((authorization, form),) = oauth.requests
    assert base64.b64decode(authorization.removeprefix("Basic ")).decode() == f"me:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


async def test_an_old_token_is_replaced(oauth: OAuthServer) -> None:
    tokens = source(oauth)
    oauth.answer("first", expires_in=0)
    assert await tokens.token() == "first"
    oauth.answer("second", expires_in=0)
    assert await tokens.token() == "second"


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason"),
    [
        (401, b'{"error": "invalid_client"}', AuthenticationFailed, "HTTP 401 'invalid_client'; check clientId"),
        (400, b"<html>", AuthenticationFailed, "HTTP 400; check clientId"),
        (302, b"", AuthenticationFailed, "HTTP 302: redirects are not followed"),
        (503, b"", Disconnected, "no token: HTTP 503"),
        (200, b"{}", AuthenticationFailed, "the answer has no access_token"),
        (200, b'{"access_token": "a b"}', AuthenticationFailed, "the answer has no access_token"),
        (200, b" " * RESPONSE_BYTES_MAX + b'{"access_token": "a"}', AuthenticationFailed, "no access_token"),
        (200, b"[" * 5000, AuthenticationFailed, "no access_token"),
    ],
)
async def test_no_token(oauth: OAuthServer, status: int, body: bytes, kind: type[ClientError], reason: str) -> None:
    oauth.status, oauth.body, oauth.location = status, body, oauth.url if status == 302 else ""
    with pytest.raises(kind) as caught:
        await source(oauth).token()
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)
    assert len(oauth.requests) == 1


async def test_no_oauth_server() -> None:
    with pytest.raises(Disconnected, match=r"no token: .*Connection refused"):
        await TokenSource("http://127.0.0.1:1/token", "me", SECRET).token()


@pytest.mark.parametrize("signer", [0, pytest.param(1, marks=pytest.mark.expect_log("login"))])
async def test_a_login_by_client_credentials(
    oauth: OAuthServer, directory: LogDirectory, nursery: trio.Nursery, tmp_path: Path, signer: int
) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_bytes(jwks(0))
    settings = {"sasl.oauthbearer.jwks.endpoint.url": f"file://{os.fspath(keys)}"}
    running = Running(directory, FEW_PARTITIONS, sasl_listener("OAUTHBEARER", settings))
    nursery.start_soon(running.run)
    oauth.answer(signed(by=signer))
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    properties = ClientProperties.parse(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": oauth.url,
            "sasl.jaas.config": f'{module} required clientId="me" clientSecret="{SECRET}";',
        }
    )
    async with ClusterClient([running.address], properties) as client:
        if signer:
            with pytest.raises(AuthenticationFailed, match="invalid_token"):
                await client.metadata()
        else:
            assert (await client.metadata()).brokers
    running.broker.stop()
