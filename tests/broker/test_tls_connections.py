"""Connections with TLS: requests and responses of all sizes, who the client is, what a wrong peer can do."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import re
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing
from fixtures.broker.produce_requests import batch
from fixtures.broker.running import SECONDS_MAX, Running, decoded, framed, received
from fixtures.security import certificates
from fixtures.security.tls_clients import TlsRecords, client_context, tls_broker, tls_listener, tls_stream

from offsetfs.kafka.broker.tls import tls_context, tls_transport
from offsetfs.kafka.broker.tls.tls_context import TlsContext
from offsetfs.kafka.broker.tls.tls_transport import ServerTlsTransport
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit

T = TypeVar("T")

VERSIONS = framed(18, "ApiVersions", 0, m.ApiVersionsRequest())


@pytest.fixture
async def running(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    async with tls_broker(directory, nursery, tls_listener(client_auth="requested")) as found:
        yield found


@pytest.fixture
async def strict(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    rules = "RULE:^CN=([^,]*),OU=billing.*$/$1/"
    listener = tls_listener(client_auth="required", principal_mapping_rules=rules)
    async with tls_broker(directory, nursery, listener) as found:
        yield found


async def is_answered(running: Running, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a client gets a response; its handshake may seem complete before the broker has refused it."""
    try:
        async with tls_stream(running, context) as stream:
            await stream.send_all(VERSIONS)
            return bool(await received(stream))
    except trio.BrokenResourceError:
        return False


# --- requests and responses


@pytest.mark.parametrize("size", [1, 16_000, 300_000, 1_000_000])
async def test_records_of_any_size_come_back(running: Running, size: int) -> None:
    value = os.urandom(size)
    sent = batch([(None, value)])
    partition = m.PartitionProduceData(0, sent)
    produce = m.ProduceRequest(acks=1, topic_data=[m.TopicProduceData("t", partition_data=[partition])])
    wanted = m.FetchRequestFetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 23)
    topics = [m.FetchRequestFetchTopic("t", partitions=[wanted])]
    fetch = m.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 23, session_epoch=-1, topics=topics)
    async with tls_stream(running) as stream:
        await stream.send_all(framed(0, "Produce", 9, produce))
        answer = decoded(0, "Produce", 9, await received(stream))
        assert answer.responses[0].partition_responses[0].error_code == 0
        await stream.send_all(framed(1, "Fetch", 12, fetch))
        answer = decoded(1, "Fetch", 12, await received(stream))
    assert value in bytes(answer.responses[0].partitions[0].records)


async def test_many_requests_in_one_record_are_answered_in_order(running: Running) -> None:
    async with tls_stream(running) as stream:
        await stream.send_all(VERSIONS * 50)
        data = b""
        while len(data) < 50 * (4 + int.from_bytes(data[:4], "big")):
            data += await stream.receive_some()
    assert data == data[: len(data) // 50] * 50


BOTH_VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


async def tls_records(running: Running, version: ssl.TLSVersion) -> TlsRecords:
    client = TlsRecords(await trio.open_tcp_stream(*running.address), version)
    await client.handshake()
    return client


@BOTH_VERSIONS
@pytest.mark.parametrize("size", [1, 30, 3_400])
async def test_a_request_in_many_records_is_answered(running: Running, version: ssl.TLSVersion, size: int) -> None:
    """librdkafka's producer sends records of some 3.4 KiB."""
    value = os.urandom(100 * size)
    partition = m.PartitionProduceData(0, batch([(None, value)]))
    request = m.ProduceRequest(acks=1, topic_data=[m.TopicProduceData("t", partition_data=[partition])])
    whole = framed(0, "Produce", 9, request)
    client = await tls_records(running, version)
    async with client.stream:
        records = b"".join(client.record(whole[start : start + size]) for start in range(0, len(whole), size))
        for part in (records[:50], records[50:-1], records[-1:]):  # not cut at a record
            await client.stream.send_all(part)
            await trio.testing.wait_all_tasks_blocked()
        answer = decoded(0, "Produce", 9, (await client.receive_some())[4:])
    assert answer.responses[0].partition_responses[0].error_code == 0


@BOTH_VERSIONS
async def test_a_client_that_ends_behind_its_request_is_answered(running: Running, version: ssl.TLSVersion) -> None:
    """The notice of the end arrives with the request, and the client waits for that of the broker."""
    client = await tls_records(running, version)
    async with client.stream:
        await client.stream.send_all(client.record(VERSIONS) + client.notice_of_end())
        with trio.fail_after(SECONDS_MAX):
            assert decoded(18, "ApiVersions", 0, (await client.receive_some())[4:]).error_code == 0
            assert await client.receive_some() == b""
            await _until_left(running)


@BOTH_VERSIONS
async def test_a_client_that_ends_without_a_notice_is_forgotten(running: Running, version: ssl.TLSVersion) -> None:
    client = await tls_records(running, version)
    await client.stream.send_all(client.record(VERSIONS[:5]))
    await client.stream.aclose()
    await _until_left(running)


@BOTH_VERSIONS
async def test_a_record_that_was_changed_ends_the_connection(running: Running, version: ssl.TLSVersion) -> None:
    client = await tls_records(running, version)
    async with client.stream:
        changed = bytearray(client.record(VERSIONS))
        changed[-1] ^= 1
        await client.stream.send_all(changed)
        with pytest.raises(ssl.SSLError, match="BAD_RECORD_MAC"):  # the alert of the broker
            await client.receive_some()
    assert await is_answered(running)
    await _until_left(running)


async def test_a_response_waits_for_a_client_that_does_not_read(running: Running) -> None:
    """Records that the socket has not taken are sent later, once, and in their order."""
    value = os.urandom(1_000_000)
    partition = m.PartitionProduceData(0, batch([(None, value)]))
    produce = m.ProduceRequest(acks=1, topic_data=[m.TopicProduceData("t", partition_data=[partition])])
    wanted = m.FetchRequestFetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 25)
    topics = [m.FetchRequestFetchTopic("t", partitions=[wanted])]
    fetch = m.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 25, session_epoch=-1, topics=topics)
    async with tls_stream(running) as stream:
        stream.transport_stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        for _ in range(6):
            await stream.send_all(framed(0, "Produce", 9, produce))
            await received(stream)
        await stream.send_all(framed(1, "Fetch", 12, fetch))
        connection = next(iter(running.broker._connections))
        while not connection._has_waited:
            await trio.sleep(0.001)
        assert await is_answered(running), "other clients do not wait for it"
        answer = decoded(1, "Fetch", 12, await received(stream))
    assert bytes(answer.responses[0].partitions[0].records).count(value) == 6


# --- who the client is


@pytest.mark.security(
    "On a listener with `ssl.client.auth=required`, a client without a certificate of a trusted CA gets no answer."
)
@pytest.mark.expect_log("TLS handshake failed: the client has sent no certificate, and ssl.client.auth is required")
async def test_a_client_without_a_certificate_is_refused(strict: Running) -> None:
    assert not await is_answered(strict)
    assert await is_answered(strict, client_context(certificates.client()))


@pytest.mark.security(
    "On a listener with `ssl.client.auth=required`, a client without a certificate of a trusted CA gets no answer."
)
@pytest.mark.expect_log(
    "the client's certificate is not accepted: (certificate has expired|unable to get local issuer)"
)
@pytest.mark.parametrize("kind", ["expired", "of another CA"])
async def test_a_certificate_that_is_not_valid_is_refused(strict: Running, tmp_path: Path, kind: str) -> None:
    if kind == "expired":
        own = certificates.authority().issue("/OU=billing/CN=alice", end="20210101000000Z")
    else:
        own = certificates.Authority(tmp_path).issue("/OU=billing/CN=alice")
    assert not await is_answered(strict, client_context(own))


class Resuming:
    """Connections with client certificates to one context of a broker, each with the session of the one before."""

    def __init__(self, version: ssl.TLSVersion) -> None:
        listener = tls_listener(client_auth="required")
        assert listener.tls is not None
        self._server, self._client = TlsContext(listener.tls), client_context(certificates.client())
        self._client.minimum_version = self._client.maximum_version = version
        self._session: ssl.SSLSession | None = None
        self._open: list[socket.socket | ServerTlsTransport] = []

    def close(self) -> None:
        for each in self._open:
            each.close()

    async def is_resumed(self) -> bool:
        """Connect, and stay connected: OpenSSL forgets the session of a connection that ends without a notice."""
        here, there = socket.socketpair()
        for end in (here, there):
            end.setblocking(False)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self._client.wrap_bio(incoming, outgoing, server_hostname="localhost", session=self._session)
        answering = ServerTlsTransport(here, self._server)
        self._open += [there, answering]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answering.handshake, trio.CapacityLimiter(1))
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(there))
            await exchanged(stream, tls.do_handshake, incoming, outgoing)
        answering.send(b"x")  # tickets of TLS 1.3 come before the first data
        assert await exchanged(stream, lambda: tls.read(1), incoming, outgoing) == b"x"
        self._session = tls.session
        return bool(tls.session_reused)


async def exchanged(
    stream: trio.SocketStream, act: Callable[[], T], incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO
) -> T:
    """Return what `act` returns when the server has sent enough for it."""
    while True:
        with contextlib.suppress(ssl.SSLWantReadError):
            result = act()
            await stream.send_all(outgoing.read())
            return result
        await stream.send_all(outgoing.read())
        incoming.write(await stream.receive_some())


@pytest.mark.security("No session of TLS 1.3 is resumed.")
async def test_no_session_of_tls_1_3_is_resumed() -> None:
    with contextlib.closing(Resuming(ssl.TLSVersion.TLSv1_3)) as resuming:
        assert [await resuming.is_resumed() for _ in range(2)] == [False, False]


@pytest.mark.security("Each connection needs a certificate that is valid, also one that resumes a session of TLS 1.2.")
async def test_a_session_is_resumed_only_while_its_certificate_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(Resuming(ssl.TLSVersion.TLSv1_2)) as resuming:
        assert [await resuming.is_resumed() for _ in range(2)] == [False, True]
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=36500)
        monkeypatch.setattr(tls_transport, "_now", lambda: later)
        with pytest.RaisesGroup(pytest.RaisesExc(ssl.SSLError, match="not valid any more")):
            await resuming.is_resumed()


async def test_the_principal_is_that_of_the_rules(strict: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "offsetfs.kafka.broker")
    assert await is_answered(strict, client_context(certificates.client()))
    assert "ApiVersions v0 of 'test', 'User:alice'" in caplog.text


@pytest.mark.expect_log("no rule of ssl.principal.mapping.rules applies to 'CN=eve,OU=other'")
async def test_a_client_to_whom_no_rule_applies_is_refused(strict: Running) -> None:
    """Kafka: it throws NoMatchingRule, and the connection ends."""
    own = certificates.authority().issue("/OU=other/CN=eve")
    assert not await is_answered(strict, client_context(own))


async def test_the_principal_is_the_subject_or_anonymous(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "offsetfs.kafka.broker")
    assert await is_answered(running, client_context(certificates.client()))
    assert await is_answered(running)
    found = re.findall(r"ApiVersions v0 of 'test', '(.*?)'", caplog.text)
    assert found == ["User:CN=alice,OU=billing,O=Kafka", "User:ANONYMOUS"]


# --- peers that do something else


@pytest.mark.expect_log("TLS handshake failed: the client does not use TLS; it needs security.protocol=SSL")
async def test_a_client_without_tls_is_named(running: Running) -> None:
    stream = await trio.open_tcp_stream(*running.address)
    async with stream:
        await stream.send_all(VERSIONS)
    await _until_left(running)


@pytest.mark.expect_log("TLS handshake failed: an HTTP request; this is a port for Kafka clients")
async def test_an_http_request_is_named(running: Running) -> None:
    async with await trio.open_tcp_stream(*running.address) as stream:
        await stream.send_all(b"GET / HTTP/1.1\r\n\r\n")
        await _until_left(running)


@pytest.mark.security("A TLS listener accepts TLS 1.2 and 1.3 only.")
@pytest.mark.expect_log("TLS handshake failed: the client has no version of TLS that ssl.enabled.protocols permits")
async def test_an_old_version_is_refused(running: Running) -> None:
    context = client_context()
    with pytest.warns(DeprecationWarning):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    assert not await is_answered(running, context)


@pytest.mark.security(
    "A client that does not finish its TLS handshake within 10 seconds is disconnected; others do not wait for it."
)
@pytest.mark.expect_log("TLS handshake failed")
async def test_slow_handshakes_hold_nothing_up(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tls_transport.HANDSHAKE_S == 10
    monkeypatch.setattr(tls_transport, "HANDSHAKE_S", 60)  # a client that waited for the others would fail
    with contextlib.ExitStack() as sockets:
        for _ in range(20):
            sockets.enter_context(_slow_client(running))
        with trio.fail_after(30):
            assert await is_answered(running)
    await _until_left(running)
    monkeypatch.setattr(tls_transport, "HANDSHAKE_S", 0.1)
    with _slow_client(running) as client:
        assert await trio.to_thread.run_sync(client.recv, 1) == b"", "it is disconnected"


def _slow_client(running: Running) -> socket.socket:
    client = socket.create_connection(running.address, timeout=30)
    client.send(b"\x16\x03\x01\x02\x00\x01")  # the begin of a ClientHello
    return client


@pytest.mark.security("Hostile bytes in a TLS handshake end its connection alone.")
@pytest.mark.expect_log("TLS handshake failed")
async def test_random_bytes_end_their_connection_alone(running: Running) -> None:
    for seed in range(30):
        client = socket.create_connection(running.address)
        begin = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" if seed % 2 else b""
        client.send(begin + os.urandom(2000))
        client.close()
    assert await is_answered(running)
    await _until_left(running)


@pytest.mark.expect_log("TLS handshake failed")
async def test_a_hello_that_is_too_long_is_refused(running: Running) -> None:
    """OpenSSL takes 131,396 bytes at most."""
    async with await trio.open_tcp_stream(*running.address) as stream:
        with pytest.raises(trio.BrokenResourceError):
            for number in range(1000):
                head = b"\x01\xff\xff\xff" if not number else b""
                await stream.send_all(b"\x16\x03\x01\x40\x00" + head + bytes(16384 - len(head)))
    await _until_left(running)


async def test_new_keys_are_refused_before_tls_1_3(running: Running) -> None:
    """A client could ask for them again and again: renegotiation costs the broker more than the client."""
    host, port = running.address
    words = ("-connect", f"{host}:{port}", "-tls1_2", "-no_ign_eof")
    with trio.fail_after(SECONDS_MAX):
        found = await trio.run_process(
            ["openssl", "s_client", *words], stdin=b"R\n", capture_stdout=True, capture_stderr=True, check=False
        )
    assert found.returncode == 1
    assert b"no renegotiation" in found.stderr


@pytest.mark.expect_log("connection closed: a request of .* bytes")
async def test_a_wrong_request_within_tls_ends_the_connection(running: Running) -> None:
    async with tls_stream(running) as stream:
        await stream.send_all(b"\xff\xff\xff\xff" + bytes(20))
        assert await received(stream) == b""


@pytest.mark.security("A TLS record that was changed on its way ends its connection, and no request in it is handled.")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("at", [0, 1, 3, 5, 20, -1])
async def test_a_changed_record_ends_its_connection(running: Running, version: ssl.TLSVersion, at: int) -> None:
    context = client_context()
    context.minimum_version = context.maximum_version = version
    received_bytes = running.broker._metrics.received_bytes
    async with await trio.open_tcp_stream(*running.address) as stream:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        while not _is_agreed(tls):
            await stream.send_all(outgoing.read())
            incoming.write(await stream.receive_some())
        await stream.send_all(outgoing.read())
        tls.write(VERSIONS)
        record = bytearray(outgoing.read())
        record[at] ^= 1
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(record + bytes(1 << 15))  # a longer record has arrived, too
            while await stream.receive_some():
                pass
    await _until_left(running)
    assert running.broker._metrics.received_bytes == received_bytes


def _is_agreed(tls: ssl.SSLObject) -> bool:
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


async def test_a_client_that_leaves_in_a_handshake_is_forgotten(running: Running) -> None:
    client = socket.create_connection(running.address)
    client.send(b"\x16\x03")
    while not running.broker._connections:
        await trio.sleep(0.001)
    client.close()
    await _until_left(running)


async def _until_left(running: Running) -> None:
    with trio.fail_after(30):
        while running.broker._connections:
            await trio.sleep(0.005)


# --- files that change


@pytest.mark.security(
    "A certificate that is renewed is used for new connections; a file that cannot be used changes nothing."
)
@pytest.mark.expect_log("read again, because it has changed")
@pytest.mark.expect_log("the certificate in use is kept: .* has no certificate")
async def test_changed_files_are_used_for_new_connections(
    directory: LogDirectory,
    nursery: trio.Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tls_context, "RELOAD_S", 0.01)
    chain, key, first = tmp_path / "server.crt", tmp_path / "server.key", certificates.server()
    shutil.copy(first.chain, chain)
    shutil.copy(first.key, key)
    async with (
        tls_broker(directory, nursery, tls_listener(certificates.Certificate(chain, key))) as running,
        tls_stream(running) as old,
    ):
        await old.do_handshake()
        assert old.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(first.text)
        listener = running.listener.tls
        assert listener is not None
        context = listener.current
        chain.write_text("damaged")
        with trio.fail_after(30):
            while "the certificate in use is kept" not in caplog.text:
                await trio.sleep(0.005)
        assert listener.current is context
        second = certificates.authority().issue("/CN=second")
        shutil.copy(second.key, key)
        shutil.copy(second.chain, chain)
        with trio.fail_after(30):
            while listener.current is context:
                await trio.sleep(0.005)
        async with tls_stream(running) as new:
            await new.do_handshake()
            assert new.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(second.text)
        await old.send_all(VERSIONS)
        assert await received(old), "a connection goes on with the certificate of its begin"
