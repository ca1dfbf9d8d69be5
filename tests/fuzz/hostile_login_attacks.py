"""Attacks on logins by SASL and on handshakes of TLS."""

from __future__ import annotations

import contextlib
import itertools
import random
import ssl
from collections.abc import Awaitable, Callable

import trio
from fixtures.broker.running import framed
from fixtures.comparison.generated_requests import Generator
from fixtures.hostile.logins import HostileLogin, log_in_wrong
from fixtures.hostile.requests import NOT_THERE
from fixtures.hostile.targets import SASL_PLAINTEXT, SSL, SUPER_USER, Target, context_of
from fixtures.hostile.tls import WrongFlights
from fixtures.messages.decoded_messages import written_request
from fixtures.security.logins import LoginClient
from fixtures.security.scram_client import ScramClient
from hostile_attacks import ATTACK_S, VERSIONS, open_connections, versions_of_target

from offsetfs.kafka.protocol import messages as m

LOGINS_AT_ONCE = 300
"""Most of them wait for the answer to a failed login."""

FLIGHTS_AT_ONCE = 100

FAILED_S = 0.1
"""`connection.failed.authentication.delay.ms`."""


# --- logins


async def wrong_logins(target: Target, count: int) -> None:
    """Log in with one message that is wrong."""
    versions = await versions_of_target(target)
    others = [written_request(each) for each in Generator(NOT_THERE, 0).requests(versions, 1)]

    async def log_in(seed: int) -> None:
        source = random.Random(seed)
        async with await trio.open_tcp_stream(*target.address(SASL_PLAINTEXT)) as stream:
            await log_in_wrong(stream, HostileLogin(others, source))

    await _at_once(LOGINS_AT_ONCE, count, log_in)


async def wrong_passwords(target: Target, count: int) -> None:
    """Log in with wrong passwords, all of `count` connections at a time."""

    async def log_in() -> None:
        source = random.Random(count)
        while True:
            with contextlib.suppress(trio.BrokenResourceError):
                async with await trio.open_tcp_stream(*target.address(SASL_PLAINTEXT)) as stream:
                    client = LoginClient(stream)
                    login = client.plain if source.random() < 0.1 else client.scram
                    await login(source.choice((SUPER_USER, "unknown")), "wrong")

    with trio.move_on_after(ATTACK_S):
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(log_in)


async def logins_that_stay_open(target: Target, count: int) -> None:
    """Begin logins, and go on with none: no byte, a part of a message, or a message too few."""
    handshake = framed(17, "SaslHandshake", 1, m.SaslHandshakeRequest("SCRAM-SHA-256"))
    first = framed(36, "SaslAuthenticate", 2, m.SaslAuthenticateRequest(ScramClient(SUPER_USER, "").first()))
    begins = itertools.cycle((b"", handshake[:7], handshake, handshake + first[:20], handshake + first))

    async def begin(stream: trio.abc.Stream) -> None:
        await stream.send_all(next(begins))

    await open_connections(count, lambda: trio.open_tcp_stream(*target.address(SASL_PLAINTEXT)), begin)


# --- TLS


async def wrong_handshakes(target: Target, count: int) -> None:
    """Send flights of TLS of which one is changed, cut off, sent twice, or something else."""
    contexts = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = ssl.create_default_context(cafile=target.authority)
        context.minimum_version = context.maximum_version = version
        contexts.append(context)
        context = ssl.create_default_context(cafile=target.authority)
        context.minimum_version = context.maximum_version = version
        context.load_cert_chain(target.chain, target.key)
        contexts.append(context)

    async def shake_hands(seed: int) -> None:
        source = random.Random(seed)
        async with await trio.open_tcp_stream(*target.address(SSL)) as stream:
            await WrongFlights(stream, source.choice(contexts), source).run(VERSIONS)

    await _at_once(FLIGHTS_AT_ONCE, count, shake_hands)


async def handshakes_that_never_end(target: Target, count: int) -> None:
    """Send a part of a ClientHello or a whole one, and nothing more; some send a byte a second."""
    outgoing = ssl.MemoryBIO()
    tls = context_of(target.authority).wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    hello = outgoing.read()
    begins = itertools.cycle((b"", hello[:5], hello[:100], hello))

    async def begin(stream: trio.abc.Stream) -> None:
        data = next(begins)
        await stream.send_all(data)
        for each in hello[len(data) :] if data else b"":
            await trio.sleep(1)
            await stream.send_all(bytes([each]))

    await open_connections(count, lambda: trio.open_tcp_stream(*target.address(SSL)), begin)


async def _at_once(at_once: int, count: int, attack: Callable[[int], Awaitable[None]]) -> None:
    """Attack with each of `count` seeds, `at_once` at a time."""
    seeds = iter(range(count))

    async def some() -> None:
        for seed in seeds:
            await attack(seed)

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(some)
