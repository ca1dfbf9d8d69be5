"""Hostile peers of `offsetfs serve`, and what another client notices: hostile_peers.py [REQUESTS] [CONNECTIONS].

Each attack runs in a process of its own, while another client produces and reads a record every 10 ms. Printed are its
latency and the memory of the server. Ends with 0 if the server answers that client in each attack, logs no error, and
stays below `MEMORY_BYTES_MAX`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures"))

import trio
from generated_requests import There
from hostile_requests import hostile_requests, versions_of
from produce_requests import batch
from running_broker import framed, received, sent

from offsetfs.protocol import messages as m

TOPIC = "hostile"
MEMORY_BYTES_MAX = 1 << 30
LATENCY_S_MAX = 5.0
RECORD_BYTES = 100_000
"""Of a record of the other client: its requests take memory that is limited."""

ATTACK_S = 10.0
ATTACKERS = 8
ANSWER_S = 0.05
"""How long an attacker waits for a response: some requests wait for records or for members."""

TCP_REPAIR = 19
"""From linux/tcp.h: a socket with it is closed without a packet. Only root may set it."""

Address = tuple[str, int]


# --- attacks: each runs in a process of its own


async def changed_requests(address: Address, count: int) -> None:
    """Send changed requests over several connections, and a new connection after each that was closed."""
    versions = versions_of(await sent(address, 18, "ApiVersions", 3, m.ApiVersionsRequest("test", "1")))
    there = There(bytes(range(16)), "member", 1, 5, 0)

    async def attack(seed: int) -> None:
        stream = None
        for data in itertools.islice(hostile_requests(versions, there, seed), count // ATTACKERS):
            stream = stream or await trio.open_tcp_stream(*address)
            answer: bytes | bytearray = b""
            try:
                await stream.send_all(len(data).to_bytes(4, "big") + data)
                with trio.move_on_after(ANSWER_S):
                    answer = await stream.receive_some()
            except trio.BrokenResourceError:
                pass
            if not answer or int.from_bytes(answer[:4], "big") + 4 != len(answer):
                await stream.aclose()
                stream = None

    async with trio.open_nursery() as nursery:
        for seed in range(ATTACKERS):
            nursery.start_soon(attack, seed)


async def length_bombs(address: Address, count: int) -> None:
    """Announce 100 MiB on each connection, and send 64 KiB of them."""
    begin = struct.pack(">ihhi", 100 << 20, 3, 9, 1) + bytes(1 << 16)
    await _with_connections(address, count, lambda stream: stream.send_all(begin))


async def compression_bombs(address: Address, count: int) -> None:
    """Produce batches of 20 KiB to 1 MiB that inflate to 100 MiB."""
    bombs = [batch([(None, bytes(100 << 20))], times=[1], codec=codec) for codec in ("gzip", "zstd", "lz4")]
    requests = []
    for each in bombs:
        topics = [m.TopicProduceData(TOPIC, partition_data=[m.PartitionProduceData(0, each)])]
        requests.append(framed(0, "Produce", 9, m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)))

    async def attack() -> None:
        async with await trio.open_tcp_stream(*address) as stream:
            for each in requests:
                await stream.send_all(each)
                await received(stream)

    with trio.move_on_after(ATTACK_S):
        while True:
            async with trio.open_nursery() as nursery:
                for _ in range(min(count, ATTACKERS)):
                    nursery.start_soon(attack)


async def slow_senders(address: Address, count: int) -> None:
    """Send a request byte by byte, ten a second."""
    data = framed(3, "Metadata", 9, m.MetadataRequest([m.MetadataRequestTopic(name="x" * 200)]))

    async def send(stream: trio.SocketStream) -> None:
        for each in data:
            await stream.send_all(bytes([each]))
            await trio.sleep(0.1)

    await _with_connections(address, count, send)


async def slow_readers(address: Address, count: int) -> None:
    """Ask for all records again and again, and read nothing."""
    partitions = [m.FetchRequestFetchPartition(0, partition_max_bytes=1 << 20)]
    topics = [m.FetchRequestFetchTopic(TOPIC, partitions=partitions)]
    data = framed(1, "Fetch", 11, m.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics))

    async def send(stream: trio.SocketStream) -> None:
        while True:
            await stream.send_all(data)

    await _with_connections(address, count, send)


async def idle_connections(address: Address, count: int) -> None:
    """Open connections and send one request on each."""
    data = framed(18, "ApiVersions", 0, m.ApiVersionsRequest())

    async def send(stream: trio.SocketStream) -> None:
        await stream.send_all(data)
        await received(stream)

    await _with_connections(address, count, send)


async def half_open_connections(address: Address, count: int) -> None:
    """Leave connections without a packet that says so, as a machine does that loses its power."""
    for _ in range(count):
        stream = await trio.open_tcp_stream(*address)
        await stream.send_all(framed(18, "ApiVersions", 0, m.ApiVersionsRequest()))
        stream.socket.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        stream.socket.close()
    await trio.sleep(ATTACK_S)


async def churn(address: Address, count: int) -> None:
    """Connect, ask once and leave, as often as possible."""

    async def attack() -> None:
        for _ in range(count // ATTACKERS):
            await sent(address, 18, "ApiVersions", 0, m.ApiVersionsRequest())

    async with trio.open_nursery() as nursery:
        for _ in range(ATTACKERS):
            nursery.start_soon(attack)


async def _with_connections(
    address: Address, count: int, attack: Callable[[trio.SocketStream], Awaitable[None]]
) -> None:
    """Open `count` connections, and attack on all of them for `ATTACK_S`."""

    async def one(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await attack(stream)
            await trio.sleep_forever()  # a stream that is let go is closed

    with trio.move_on_after(ATTACK_S + count / 1000):
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                nursery.start_soon(one, await trio.open_tcp_stream(*address))
            await trio.sleep_forever()


ATTACKS: dict[str, tuple[Callable[[Address, int], Awaitable[None]], int]] = {
    "changed requests": (changed_requests, 1_000_000),
    "length bombs": (length_bombs, 1000),
    "compression bombs": (compression_bombs, 8),
    "slow senders": (slow_senders, 1000),
    "slow readers": (slow_readers, 200),
    "half-open connections": (half_open_connections, 2000),
    "connections": (idle_connections, 10_000),
    "churn": (churn, 20_000),
}
"""Each with its number of requests or connections."""


# --- the other client, and the server


class Noticed:
    """What another client and the system notice of an attack."""

    def __init__(self) -> None:
        self.latencies_s: list[float] = []
        self.memory_bytes = 0

    def __str__(self) -> str:
        ordered = sorted(self.latencies_s)
        found = [ordered[int(len(ordered) * each)] * 1000 for each in (0.5, 0.99)]
        return f"{found[0]:.1f} | {found[1]:.0f} | {ordered[-1] * 1000:.0f} | {self.memory_bytes >> 20}"


async def measure(address: Address, pid: int, noticed: Noticed) -> None:
    """Produce and read a record every 10 ms over one connection, until cancelled."""
    data = batch([(b"key", random.Random(1).randbytes(RECORD_BYTES))], times=[1])
    topics = [m.TopicProduceData(TOPIC, partition_data=[m.PartitionProduceData(1, data)])]
    partitions = [m.FetchRequestFetchPartition(1, partition_max_bytes=100)]
    requests = (
        framed(0, "Produce", 9, m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=topics)),
        framed(1, "Fetch", 11, m.FetchRequest(topics=[m.FetchRequestFetchTopic(TOPIC, partitions=partitions)])),
    )
    async with await trio.open_tcp_stream(*address) as stream:
        while True:
            begun_s = time.perf_counter()
            try:
                for each in requests:
                    await stream.send_all(each)
                    if not await received(stream):
                        sys.exit("the server has closed the connection of the other client")
            finally:  # also for a request that waits at the end of an attack
                noticed.latencies_s.append(time.perf_counter() - begun_s)
            status = Path(f"/proc/{pid}/status").read_text()
            found = re.search(r"VmRSS:\s+(\d+) kB", status)
            noticed.memory_bytes = max(noticed.memory_bytes, int(found[1]) << 10 if found else 0)
            await trio.sleep(0.01)


async def under_attack(name: str, address: Address, pid: int, count: int) -> Noticed:
    """Attack from another process; return what was noticed. Fails if the attack does."""
    noticed = Noticed()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(measure, address, pid, noticed)
        await trio.sleep(0.5)
        noticed.latencies_s.clear()
        if name:
            words = [sys.executable, __file__, "--attack", name, "--count", str(count), "--address", str(address[1])]
            await trio.run_process(words)
        else:
            await trio.sleep(ATTACK_S)
        nursery.cancel_scope.cancel()
    return noticed


async def attack_all(address: Address, pid: int, counts: dict[str, int]) -> list[str]:
    """Run the attacks one after the other, and print what was noticed; return what is wrong."""
    topics = [m.CreatableTopic(TOPIC, 2, 1)]
    await sent(address, 19, "CreateTopics", 5, m.CreateTopicsRequest(topics, 10_000))
    filled = batch([(None, random.Random(1).randbytes(900_000))], times=[1])
    data = m.TopicProduceData(TOPIC, partition_data=[m.PartitionProduceData(0, filled)])
    for _ in range(20):
        await sent(address, 0, "Produce", 9, m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]))
    wrong = []
    print(
        "| attack | number | seconds | p50 ms | p99 ms | max ms | memory MiB |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in ("", *ATTACKS):
        begun_s = time.monotonic()
        noticed = await under_attack(name, address, pid, counts.get(name, 0))
        seconds = time.monotonic() - begun_s
        print(f"| {name or 'none'} | {counts.get(name, 0)} | {seconds:.0f} | {noticed} |", flush=True)
        if max(noticed.latencies_s) > LATENCY_S_MAX:
            wrong.append(f"{name}: the other client waited {max(noticed.latencies_s):.1f} s")
        if noticed.memory_bytes > MEMORY_BYTES_MAX:
            wrong.append(f"{name}: {noticed.memory_bytes >> 20} MiB of memory")
    return wrong


def serve_and_attack(counts: dict[str, int]) -> list[str]:
    """Start a server, attack it, and end it; return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="offsetfs-hostile-") as folder:
        options = ("-o", "max.connections=10100", "-o", "auto.create.topics.enable=false")
        command = [sys.executable, "-m", "offsetfs", "serve", folder, "--listen", "127.0.0.1:0", *options]
        with (
            tempfile.TemporaryFile("w+") as log,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):
            try:
                assert process.stdout is not None
                found = re.search(r"served at 127\.0\.0\.1:(\d+)", process.stdout.readline())
                assert found is not None
                wrong = trio.run(attack_all, ("127.0.0.1", int(found[1])), process.pid, counts)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
            log.seek(0)
            lines = log.readlines()
        errors = [each for each in lines if "connection closed" not in each]
        print(f"{len(lines)} lines of the log, {len(errors)} of them not of closed connections")
        return [*wrong, *errors[:20], *([f"exit status {process.returncode}"] if process.returncode else [])]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("requests", nargs="?", type=int, default=ATTACKS["changed requests"][1])
    parser.add_argument("connections", nargs="?", type=int, default=ATTACKS["connections"][1])
    parser.add_argument("--attack")
    parser.add_argument("--count", type=int)
    parser.add_argument("--address", type=int)
    given = parser.parse_args()
    if given.attack:
        trio.run(ATTACKS[given.attack][0], ("127.0.0.1", given.address), given.count)
        return
    counts = {name: count for name, (_, count) in ATTACKS.items()}
    wrong = serve_and_attack(counts | {"changed requests": given.requests, "connections": given.connections})
    sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
