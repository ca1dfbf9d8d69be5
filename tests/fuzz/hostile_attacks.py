"""Attacks on listeners with and without TLS: wrong requests, bombs, slow peers, many connections."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator

import trio
from fixtures.broker.produce_requests import batch
from fixtures.broker.running import framed, received, sent
from fixtures.comparison.generated_requests import OTHER_TOPIC, TOPIC, TRANSACTIONAL_ID, There
from fixtures.hostile.requests import Versions, hostile_requests, kind_of, missing, versions_of
from fixtures.hostile.targets import PLAINTEXT, SUPER_USER, Target

from offsetfs.kafka.protocol import messages as m

HONEST_TOPIC = "hostile"
"""Partition 0 is for attackers that read, partition 1 for the other client."""

ATTACK_S = 10.0
ATTACKERS = 24
ANSWER_S = 0.05
"""How long an attacker waits for a response: some requests wait for records or for members."""

COVERED_COUNT = 10_000
"""So many wrong requests have all versions of all APIs among them."""

TCP_REPAIR = 19
"""From linux/tcp.h: a socket with it is closed without a packet. Only root may set it."""

VERSIONS = framed(18, "ApiVersions", 0, m.ApiVersionsRequest())

Attack = Callable[[Target, int], Awaitable[None]]


# --- wrong requests


def changed_requests(listener: str, user: str = SUPER_USER) -> Attack:
    """Return the attack with changed requests on a listener, after the login of a user if it has SASL."""

    async def attack(target: Target, count: int) -> None:
        versions, there = await versions_of_target(target), await _there(target)
        sender = _WrongRequests(lambda: target.connect(listener, user), versions)
        async with trio.open_nursery() as nursery:
            requests = itertools.islice(hostile_requests(versions, there, count), count)
            for _ in range(ATTACKERS):
                nursery.start_soon(sender.send, requests)
        if count >= COVERED_COUNT and (lacking := sender.lacking()):
            raise SystemExit(f"never sent, or never answered: {', '.join(lacking)}")

    return attack


class _WrongRequests:
    """Sends wrong requests, and opens a connection after each that was closed."""

    def __init__(self, connect: Callable[[], Awaitable[trio.abc.Stream]], versions: Versions) -> None:
        self._connect = connect
        self._versions = versions
        self._sent: set[tuple[int, int]] = set()
        self._answered: set[int] = set()

    def lacking(self) -> list[str]:
        """Return the versions of APIs that were not sent, and the APIs that were not answered once."""
        silent = [name for key, (name, *_) in self._versions.items() if key not in self._answered]
        return [*missing(self._versions, self._sent), *silent]

    async def send(self, requests: Iterator[bytes]) -> None:
        stream = None
        for data in requests:
            stream = stream or await self._connect()
            self._sent.add(kind_of(data))
            if await _is_answered(stream, struct.pack(">i", len(data)) + data):
                self._answered.add(kind_of(data)[0])
            else:
                await trio.aclose_forcefully(stream)
                stream = None
        if stream is not None:
            await trio.aclose_forcefully(stream)


async def _is_answered(stream: trio.abc.Stream, data: bytes) -> bool:
    answer = b""
    with contextlib.suppress(trio.BrokenResourceError), trio.move_on_after(ANSWER_S):
        await stream.send_all(data)
        while len(answer) < 4 or len(answer) < 4 + int.from_bytes(answer[:4], "big"):
            more = await stream.receive_some()
            if not more:
                break
            answer += more
    return len(answer) >= 4 and len(answer) == 4 + int.from_bytes(answer[:4], "big")


async def versions_of_target(target: Target) -> Versions:
    asked = m.ApiVersionsRequest("test", "1")
    return versions_of(await sent(target.address(PLAINTEXT), 18, "ApiVersions", 3, asked))


async def _there(target: Target) -> There:
    """Return the ids that the wrong requests may name; their topics are there afterwards."""
    address = target.address(PLAINTEXT)
    topics = [m.CreatableTopic(each, 2, 1) for each in (TOPIC, OTHER_TOPIC)]
    await sent(address, 19, "CreateTopics", 5, m.CreateTopicsRequest(topics, 10_000))
    described = await sent(address, 3, "Metadata", 12, m.MetadataRequest([m.MetadataRequestTopic(name=TOPIC)]))
    init = m.InitProducerIdRequest(TRANSACTIONAL_ID, 60_000)
    producer = await sent(address, 22, "InitProducerId", 4, init)
    return There(described.topics[0].topic_id, "member", 1, producer.producer_id, producer.producer_epoch)


# --- bombs


async def length_bombs(target: Target, count: int) -> None:
    """Announce 100 MiB on each connection, and send 64 KiB of them."""
    begin = struct.pack(">ihhi", 100 << 20, 3, 9, 1) + bytes(1 << 16)
    await with_connections(target, PLAINTEXT, count, lambda stream: stream.send_all(begin))


async def compression_bombs(target: Target, count: int) -> None:
    """Produce batches of 20 KiB to 1 MiB that inflate to 100 MiB."""
    bombs = [batch([(None, bytes(100 << 20))], times=[1], codec=codec) for codec in ("gzip", "zstd", "lz4")]
    requests = []
    for each in bombs:
        topics = [m.TopicProduceData(HONEST_TOPIC, partition_data=[m.PartitionProduceData(0, each)])]
        requests.append(framed(0, "Produce", 9, m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)))

    async def attack() -> None:
        async with await target.connect(PLAINTEXT) as stream:
            for each in requests:
                await stream.send_all(each)
                await received(stream)

    with trio.move_on_after(ATTACK_S):
        while True:
            async with trio.open_nursery() as nursery:
                for _ in range(count):
                    nursery.start_soon(attack)


# --- slow peers


def slow_senders(listener: str) -> Attack:
    """Return the attack that sends a request byte by byte, ten a second."""

    async def send(stream: trio.abc.Stream) -> None:
        for each in framed(3, "Metadata", 9, m.MetadataRequest([m.MetadataRequestTopic(name="x" * 200)])):
            await stream.send_all(bytes([each]))
            await trio.sleep(0.1)

    return lambda target, count: with_connections(target, listener, count, send)


def slow_readers(listener: str) -> Attack:
    """Return the attack that asks for all records again and again, and reads nothing."""
    partitions = [m.FetchRequestFetchPartition(0, partition_max_bytes=1 << 20)]
    topics = [m.FetchRequestFetchTopic(HONEST_TOPIC, partitions=partitions)]
    data = framed(1, "Fetch", 11, m.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics))
    return lambda target, count: with_connections(target, listener, count, lambda stream: _send_forever(stream, data))


async def readers_of_names(target: Target, count: int) -> None:
    """Send requests of 120 KiB with many names again and again, and read nothing: the responses are larger."""
    names = [m.MetadataRequestTopic(name=f"{number:05}") for number in range(15_000)]
    data = framed(3, "Metadata", 9, m.MetadataRequest(names, allow_auto_topic_creation=False))
    await with_connections(target, PLAINTEXT, count, lambda stream: _send_forever(stream, data))


async def _send_forever(stream: trio.abc.Stream, data: bytes) -> None:
    while True:
        await stream.send_all(data)


# --- many connections


def idle_connections(listener: str) -> Attack:
    """Return the attack that opens connections and sends one request on each."""

    async def send(stream: trio.abc.Stream) -> None:
        await stream.send_all(VERSIONS)
        await received(stream)

    return lambda target, count: with_connections(target, listener, count, send)


async def half_open_connections(target: Target, count: int) -> None:
    """Leave connections without a packet that says so, as a machine does that loses its power."""
    for _ in range(count):
        stream = await trio.open_tcp_stream(*target.address(PLAINTEXT))
        await stream.send_all(VERSIONS)
        stream.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        stream.socket.close()
    await trio.sleep(ATTACK_S)


def churn(listener: str) -> Attack:
    """Return the attack that connects, asks once and leaves, as often as possible; over TLS without close_notify."""

    async def attack(target: Target, count: int) -> None:
        async def leave_often() -> None:
            for _ in range(count // ATTACKERS):
                stream = await target.connect(listener)
                await stream.send_all(VERSIONS)
                await received(stream)
                await trio.aclose_forcefully(stream)

        async with trio.open_nursery() as nursery:
            for _ in range(ATTACKERS):
                nursery.start_soon(leave_often)

    return attack


async def with_connections(
    target: Target, listener: str, count: int, attack: Callable[[trio.abc.Stream], Awaitable[None]]
) -> None:
    """Open `count` connections, and attack on all of them for `ATTACK_S`."""
    await open_connections(count, lambda: target.connect(listener), attack)


async def open_connections(
    count: int,
    connect: Callable[[], Awaitable[trio.abc.Stream]],
    attack: Callable[[trio.abc.Stream], Awaitable[None]],
) -> None:
    async def one(stream: trio.abc.Stream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await attack(stream)
            await trio.sleep_forever()  # a stream that is let go is closed

    with trio.move_on_after(ATTACK_S + count / 1000):
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one, await connect())
            await trio.sleep_forever()
