"""Logins by SASL over connections: what a client gets before, during and after its login."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import SECONDS_MAX, Running, framed, received
from fixtures.security.logins import PASSWORD, PLAIN_MODULE, LoginClient, add_user, login_client, sasl_listener
from fixtures.security.oauth_tokens import bearer, jwks, signed
from fixtures.security.scram_client import ScramClient

from offsetfs.kafka.broker.broker import Broker
from offsetfs.kafka.broker.connections import authenticated_connection
from offsetfs.kafka.broker.connections.listeners import Listener
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory
from offsetfs.storage.errors import InvalidConfig

pytestmark = pytest.mark.unit

QUICK = replace(FEW_PARTITIONS, connection_failed_authentication_delay_ms=1)
INVALID = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
FAILED = r"127\.0\.0\.1: login"


@pytest.fixture
def start(directory: LogDirectory, nursery: trio.Nursery) -> Callable[..., Running]:
    """Starts brokers with a listener with SASL and the user alice."""

    def started(
        mechanisms: str = "SCRAM-SHA-256,PLAIN",
        settings: Mapping[str, str] | None = None,
        server: ServerSettings | None = None,
    ) -> Running:
        given = {"plain.sasl.jaas.config": f'{PLAIN_MODULE} user_carl="of the file";', **(settings or {})}
        running = Running(directory, server or QUICK, sasl_listener(mechanisms, given))
        add_user(running.broker._security, "alice")
        nursery.start_soon(running.run)
        return running

    return started


@pytest.fixture
async def client(start: Callable[..., Running]) -> AsyncIterator[LoginClient]:
    running = start()
    async with login_client(running.address) as found:
        yield found
    running.broker.stop()


@asynccontextmanager
async def clients_of(running: Running) -> AsyncIterator[Callable[[], object]]:
    yield lambda: login_client(running.address)
    running.broker.stop()


async def test_a_login_by_scram(client: LoginClient) -> None:
    answer = await client.scram("alice", PASSWORD)
    assert (answer.error_code, answer.error_message, answer.session_lifetime_ms) == (0, None, 0)
    assert bytes(answer.auth_bytes).startswith(b"v=")
    assert (await client.metadata()).brokers


@pytest.mark.parametrize(("user", "password"), [("carl", "of the file"), ("alice", PASSWORD)])
async def test_a_login_by_plain(client: LoginClient, user: str, password: str) -> None:
    answer = await client.plain(user, password)
    assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b"")
    assert (await client.metadata()).brokers


async def test_the_principal_is_the_user(client: LoginClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "offsetfs.kafka.broker")
    await client.scram("alice", PASSWORD)
    await client.metadata()
    assert "Metadata v1 of 'test', 'User:alice'" in caplog.text


async def test_the_versions_are_known_before_the_login(client: LoginClient) -> None:
    answer = await client.ask(18, "ApiVersions", 3, m.ApiVersionsRequest("test", "1"))
    assert {17, 36} <= {each.api_key for each in answer.api_keys}
    assert (await client.scram("alice", PASSWORD)).error_code == 0


@pytest.mark.security("Before the login of a client, only ApiVersions and the requests of the login are answered.")
@pytest.mark.expect_log(FAILED)
async def test_nothing_else_is_answered_before_the_login(client: LoginClient) -> None:
    assert await client.metadata() is None


@pytest.mark.expect_log(FAILED)
async def test_nothing_else_is_answered_during_the_login(client: LoginClient) -> None:
    await client.handshake("PLAIN")
    assert await client.metadata() is None


@pytest.mark.expect_log(FAILED)
async def test_a_token_before_the_handshake_is_not_answered(client: LoginClient) -> None:
    assert await client.authenticate(b"\0carl\0of the file") is None


@pytest.mark.expect_log(FAILED)
async def test_an_unknown_mechanism_is_answered_with_those_that_are_enabled(client: LoginClient) -> None:
    answer = await client.handshake("GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["SCRAM-SHA-256", "PLAIN"]
    assert await client.is_closed()


@pytest.mark.security("A wrong password and an unknown user get the same answer, at the same step.")
@pytest.mark.parametrize("user", ["alice", "bob"])
@pytest.mark.expect_log(FAILED)
async def test_a_wrong_login_by_scram(client: LoginClient, user: str) -> None:
    await client.handshake("SCRAM-SHA-256")
    scram = ScramClient(user, "wrong")
    first = await client.authenticate(scram.first())
    assert first.error_code == 0
    answer = await client.authenticate(scram.final(bytes(first.auth_bytes)))
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, INVALID)
    assert await client.is_closed()


@pytest.mark.parametrize("user", ["alice", "carl", "bob"])
@pytest.mark.expect_log(FAILED)
async def test_a_wrong_login_by_plain(client: LoginClient, user: str) -> None:
    answer = await client.plain(user, "wrong")
    text = "Authentication failed: Invalid username or password"
    assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    assert await client.is_closed()


@pytest.mark.security("A failed login is logged with address, user and mechanism, and counted; never with a secret.")
@pytest.mark.expect_log(FAILED)
async def test_a_failed_login_is_logged_without_its_secret(
    start: Callable[..., Running], caplog: pytest.LogCaptureFixture
) -> None:
    running = start()
    async with clients_of(running), login_client(running.address) as client:
        await client.plain("al\x1b[31mice\n", "my mistyped secret")
        await client.is_closed()
    assert "127.0.0.1: login of 'al\\x1b[31mice\\n' by PLAIN failed: unknown user" in caplog.text
    assert "mistyped" not in caplog.text
    assert running.broker._metrics.logins == {("PLAIN", "failed"): 1}


@pytest.mark.security("A failed login is answered after 100 ms, and its connection closed.")
@pytest.mark.expect_log(FAILED)
async def test_a_failed_login_is_delayed(start: Callable[..., Running]) -> None:
    running = start(server=FEW_PARTITIONS)
    async with clients_of(running), login_client(running.address) as client:
        await client.handshake("PLAIN")
        begun_s = trio.current_time()
        await client.authenticate(b"\0carl\0wrong")
        assert trio.current_time() - begun_s >= 0.1
        assert await client.is_closed()


@pytest.mark.security("A client that does not log in within 10 seconds is disconnected.")
@pytest.mark.expect_log(r"login failed: not complete after 0\.05 s")
async def test_a_login_takes_bounded_time(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    assert authenticated_connection.LOGIN_S == 10
    monkeypatch.setattr(authenticated_connection, "LOGIN_S", 0.05)
    running = start()
    async with clients_of(running), login_client(running.address) as client:
        assert await client.is_closed()


async def test_a_client_that_has_logged_in_stays(
    start: Callable[..., Running], mock_clock: trio.testing.MockClock
) -> None:
    running = start()
    async with clients_of(running), login_client(running.address) as client:
        await client.scram("alice", PASSWORD)
        mock_clock.jump(authenticated_connection.LOGIN_S + 1)
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.metadata()).brokers


@pytest.mark.security("A request before the login has at most 512 KiB.")
@pytest.mark.expect_log(r"524289 bytes; 8 to 524288 are possible \(sasl\.server\.max\.receive\.size\)")
async def test_a_large_request_before_the_login_ends_the_connection(client: LoginClient) -> None:
    await client.stream.send_all(((512 << 10) + 1).to_bytes(4, "big"))
    assert await client.is_closed()


@pytest.mark.long
@pytest.mark.expect_log(FAILED)
async def test_a_malformed_request_of_the_login_ends_the_connection(client: LoginClient) -> None:
    whole = framed(17, "SaslHandshake", 1, m.SaslHandshakeRequest("PLAIN"))
    await client.stream.send_all((len(whole) - 6).to_bytes(4, "big") + whole[4:-2])
    assert await client.is_closed()


async def test_the_limit_of_requests_is_larger_after_the_login(client: LoginClient) -> None:
    await client.scram("alice", PASSWORD)
    topics = [m.MetadataRequestTopic(name=letter * 30_000) for letter in "abcdefghijklmnopqrst"]
    answer = await client.ask(3, "Metadata", 1, m.MetadataRequest(topics))
    assert len(answer.topics) == 20


async def test_messages_without_headers_follow_a_handshake_of_version_0(client: LoginClient) -> None:
    await client.handshake("SCRAM-SHA-256", version=0)
    scram = ScramClient("alice", PASSWORD)

    async def exchange(message: bytes) -> bytes:
        await client.stream.send_all(len(message).to_bytes(4, "big") + message)
        return await received(client.stream)

    assert await exchange(scram.final(await exchange(scram.first()))) == scram.signature
    assert (await client.metadata()).brokers


async def test_a_login_without_sasl_is_refused(running: Running) -> None:
    async with login_client(running.address) as client:
        assert (await client.handshake("PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.authenticate(b"")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await client.metadata()).brokers


async def test_a_second_login_is_refused_where_sessions_do_not_end(client: LoginClient) -> None:
    await client.scram("alice", PASSWORD)
    assert (await client.handshake("SCRAM-SHA-256")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (await client.metadata()).brokers


# --- sessions (KIP-368) ----------------------------------------------------------------------------------------------


async def test_a_client_authenticates_again(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticated_connection, "REAUTHENTICATION_S", 3600.0)
    running = start(settings={"connections.max.reauth.ms": "3600000", "plain.connections.max.reauth.ms": "7"})
    async with clients_of(running), login_client(running.address) as client:
        assert (await client.scram("alice", PASSWORD)).session_lifetime_ms == 3_600_000
        assert (await client.scram("alice", PASSWORD)).session_lifetime_ms == 3_600_000
        assert (await client.metadata()).brokers
        # At most once in this time.
        assert (await client.handshake("SCRAM-SHA-256")).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert running.broker._metrics.logins == {("SCRAM-SHA-256", "succeeded"): 2}


@pytest.mark.security("A client whose session has ended can only log in again, as the same user by the same mechanism.")
@pytest.mark.expect_log("the session has expired")
async def test_an_expired_session_ends_the_connection(start: Callable[..., Running]) -> None:
    running = start(settings={"plain.connections.max.reauth.ms": "1"})
    async with clients_of(running), login_client(running.address) as client:
        assert (await client.plain("carl", "of the file")).session_lifetime_ms == 1
        await trio.sleep(0.002)
        assert (await client.plain("carl", "of the file")).session_lifetime_ms == 1
        await trio.sleep(0.002)
        assert await client.metadata() is None
    assert running.broker._metrics.logins == {("PLAIN", "succeeded"): 2, ("PLAIN", "expired"): 1}


@pytest.mark.expect_log(FAILED)
async def test_nobody_becomes_another_user_by_authenticating_again(start: Callable[..., Running]) -> None:
    running = start(settings={"connections.max.reauth.ms": "60000"})
    async with clients_of(running):
        async with login_client(running.address) as client:
            await client.plain("carl", "of the file")
            answer = await client.plain("alice", PASSWORD)
            text = "Cannot change principals during re-authentication from User.carl: User.alice"
            assert (answer.error_code, answer.error_message) == (ErrorCode.SASL_AUTHENTICATION_FAILED, text)
            assert await client.is_closed()
        async with login_client(running.address) as client:
            await client.plain("carl", "of the file")
            assert (await client.handshake("SCRAM-SHA-256")).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            assert await client.is_closed()


@pytest.mark.security("A token must be signed by a key of the JWKS, for this broker, and not have expired.")
@pytest.mark.expect_log("login by OAUTHBEARER failed")
async def test_a_login_by_a_token(start: Callable[..., Running], tmp_path: Path) -> None:
    keys = tmp_path / "jwks.json"
    keys.write_bytes(jwks(0))
    names = {"jwks.endpoint.url": f"file://{keys}", "expected.audience": "kafka"}
    running = start("OAUTHBEARER", {f"sasl.oauthbearer.{name}": value for name, value in names.items()})
    async with clients_of(running):
        async with login_client(running.address) as client:
            await client.handshake("OAUTHBEARER")
            answer = await client.authenticate(bearer(signed()))
            assert answer.error_code == 0
            assert 50_000 < answer.session_lifetime_ms <= 60_000
            assert (await client.metadata()).brokers
        for token in (signed({"aud": "others"}), signed(expires_s=-60), signed(by=1)):
            async with login_client(running.address) as client:
                await client.handshake("OAUTHBEARER")
                assert bytes((await client.authenticate(bearer(token))).auth_bytes) == b'{"status":"invalid_token"}'
                answer = await client.authenticate(b"\x01")
                expected = ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status":"invalid_token"}'
                assert (answer.error_code, answer.error_message) == expected


@pytest.mark.parametrize("content", [None, b"{", b"{}", b'{"keys": []}', b'{"keys": 7}'])
def test_keys_that_cannot_be_read_are_an_error_at_the_start(
    directory: LogDirectory, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "jwks.json").write_bytes(content)
    settings = {"sasl.oauthbearer.jwks.endpoint.url": f"file://{tmp_path}/jwks.json"}
    listener = Listener(sasl_listener("OAUTHBEARER", settings), "port")
    with (
        contextlib.closing(listener),
        pytest.raises(InvalidConfig, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url: /.*jwks\.json"),
    ):
        Broker(directory, FEW_PARTITIONS, [listener])


@pytest.mark.security("Passwords from one address are checked one after the other: others do not wait for all of them.")
async def test_one_address_does_not_keep_others_waiting(start: Callable[..., Running]) -> None:
    running = start()
    logins = running.broker._logins["SASL_PLAINTEXT"]
    is_checked = threading.Event()

    class Checks:
        user, is_complete = "", False
        expires_at_ms: int | None = None

        def __init__(self, host: str) -> None:
            self._is_first = host == "127.0.0.2"

        def respond(self, message: bytes) -> bytes:
            if self._is_first:
                assert is_checked.wait(SECONDS_MAX)
            else:
                is_checked.set()
            return b""

    async with clients_of(running), trio.open_nursery() as many:
        for _ in range(20):
            many.start_soon(logins.respond, Checks("127.0.0.2"), "PLAIN", b"", "127.0.0.2")
        await trio.testing.wait_all_tasks_blocked()
        many.start_soon(logins.respond, Checks("127.0.0.3"), "PLAIN", b"", "127.0.0.3")
    assert logins._turns == {}
