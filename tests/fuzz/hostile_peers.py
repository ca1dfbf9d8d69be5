"""Hostile peers of `offsetfs serve`, and what another client notices: hostile_peers.py [REQUESTS] [CONNECTIONS].

Each attack runs in a process of its own, while another client (`honest_client`) produces, reads and connects on a
listener of the same kind. Printed are its latencies and the memory of the server. Ends with 0 if in each attack that
client is answered within `LATENCY_S_MAX` and loses nothing, the server stays below `MEMORY_BYTES_MAX` and logs nothing
but what its peers did wrong, and if the log directory is without damage at the end.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import trio
from fixtures.broker.produce_requests import batch
from fixtures.broker.running import sent
from fixtures.hostile.targets import FEW_ACLS, LISTENERS, PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL, SUPER_USER, Target
from fixtures.security import certificates
from fixtures.security.authorized_broker import acl
from fixtures.security.logins import add_user
from honest_client import HonestClient
from hostile_attacks import (
    ATTACK_S,
    HONEST_TOPIC,
    Attack,
    changed_requests,
    churn,
    compression_bombs,
    half_open_connections,
    idle_connections,
    length_bombs,
    readers_of_names,
    slow_readers,
    slow_senders,
)
from hostile_login_attacks import (
    handshakes_that_never_end,
    logins_that_stay_open,
    wrong_handshakes,
    wrong_logins,
    wrong_passwords,
)

from offsetfs.kafka.broker.operations import Operation, Resource
from offsetfs.kafka.broker.settings import STANDARD_AUTHORIZER
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory

MEMORY_BYTES_MAX = 1 << 30
LATENCY_S_MAX = 5.0

REQUESTS, CONNECTIONS = 1_000_000, 10_000


@dataclass(frozen=True, slots=True)
class Row:
    """An attack, and the listener of the other client meanwhile."""

    name: str
    listener: str
    attack: Attack | None = None
    number: int = 0
    """Of connections, or of what the name says; of requests if `part` is given."""
    part: float = 0.0
    """Of all wrong requests."""

    def count(self, requests: int, connections: int) -> int:
        if self.part:
            return round(requests * self.part)
        return min(self.number, connections) if self.number == CONNECTIONS else self.number


ROWS = (
    Row("none", PLAINTEXT),
    Row("wrong requests", PLAINTEXT, changed_requests(PLAINTEXT), part=0.4),
    Row("length bombs", PLAINTEXT, length_bombs, 1000),
    Row("compression bombs", PLAINTEXT, compression_bombs, 8),
    Row("slow senders", PLAINTEXT, slow_senders(PLAINTEXT), 1000),
    Row("slow readers", PLAINTEXT, slow_readers(PLAINTEXT), 200),
    Row("slow readers of names", PLAINTEXT, readers_of_names, 200),
    Row("half-open connections", PLAINTEXT, half_open_connections, 2000),
    Row("connections", PLAINTEXT, idle_connections(PLAINTEXT), CONNECTIONS),
    Row("churn", PLAINTEXT, churn(PLAINTEXT), 20_000),
    Row("none, SASL", SASL_PLAINTEXT),
    Row("wrong requests after a login, few ACLs", SASL_PLAINTEXT, changed_requests(SASL_PLAINTEXT, FEW_ACLS), part=0.2),
    Row("wrong requests after a login, super user", SASL_PLAINTEXT, changed_requests(SASL_PLAINTEXT), part=0.2),
    Row("wrong logins", SASL_PLAINTEXT, wrong_logins, part=0.05),
    Row("wrong passwords", SASL_PLAINTEXT, wrong_passwords, 500),
    Row("logins that stay open", SASL_PLAINTEXT, logins_that_stay_open, 5000),
    Row("none, TLS", SSL),
    Row("wrong requests over TLS", SSL, changed_requests(SSL), part=0.1),
    Row("wrong requests after a login over TLS", SASL_SSL, changed_requests(SASL_SSL), part=0.05),
    Row("wrong handshakes and records", SSL, wrong_handshakes, 20_000),
    Row("handshakes that never end", SSL, handshakes_that_never_end, 5000),
    Row("slow senders, TLS", SSL, slow_senders(SSL), 1000),
    Row("slow readers, TLS", SSL, slow_readers(SSL), 200),
    Row("connections, TLS", SSL, idle_connections(SSL), 2000),
    Row("churn, TLS, without close_notify", SSL, churn(SSL), 5000),
)

EXPECTED = re.compile(
    r"connection closed: |connections? refused, |TLS handshake failed: |: login( of .*)?( by \S+)? failed: |"
    r"more like the next line|messages like this"
)
"""What the server logs of peers that do something wrong."""


class Log:
    """The standard error of the server, as far as it is not read yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def unexpected(self) -> list[str]:
        with open(self._path) as file:
            file.seek(self._position)
            lines = file.readlines()
            self._position = file.tell()
        return [each.rstrip() for each in lines if not EXPECTED.search(each)]


@dataclass(frozen=True, slots=True)
class Server:
    """A running `offsetfs serve` with all listeners."""

    target: Target
    process: subprocess.Popen[str]
    log: Log

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) << 10 if found else 0


class Noticed:
    """What the other client and the system notice of an attack."""

    def __init__(self, client: HonestClient, memory_bytes: int) -> None:
        self.latencies_s, self.connect_latencies_s = sorted(client.latencies_s), sorted(client.connect_latencies_s)
        self.memory_bytes = memory_bytes

    def __str__(self) -> str:
        return " | ".join([*map(_shown, (self.latencies_s, self.connect_latencies_s)), str(self.memory_bytes >> 20)])

    def wrong(self) -> list[str]:
        found = []
        for name, each in (("response", self.latencies_s), ("new connection", self.connect_latencies_s)):
            if each[-1] > LATENCY_S_MAX:
                found.append(f"the other client waited {each[-1]:.1f} s for a {name}")
        if self.memory_bytes > MEMORY_BYTES_MAX:
            found.append(f"{self.memory_bytes >> 20} MiB of memory")
        return found


def _shown(ordered: Sequence[float]) -> str:
    p50, p99 = (ordered[int(len(ordered) * each)] * 1000 for each in (0.5, 0.99))
    return f"{p50:.1f} | {p99:.0f} | {ordered[-1] * 1000:.0f}"


async def under_attack(row: Row, server: Server, count: int) -> tuple[Noticed, list[str]]:
    """Attack from another process; return what was noticed, and what is wrong."""
    client, wrong, memory_bytes = HonestClient(server.target, row.listener), [], 0

    async def watch_memory() -> None:
        nonlocal memory_bytes
        while True:
            memory_bytes = max(memory_bytes, server.memory_bytes())
            await trio.sleep(0.01)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.run)
        await trio.sleep(0.5)
        nursery.start_soon(watch_memory)
        client.begin()
        if row.attack is None:
            await trio.sleep(ATTACK_S)
        else:
            words = [sys.executable, __file__, "--attack", row.name, "--count", str(count), "--on", str(server.target)]
            attack = await trio.run_process(words, check=False, capture_stderr=True)
            if attack.returncode:
                wrong.append(f"the attack has failed: {attack.stderr.decode()}")
        nursery.cancel_scope.cancel()
    noticed = Noticed(client, memory_bytes)
    wrong += [*noticed.wrong(), await client.check(), *server.log.unexpected()[:20]]
    return noticed, [f"{row.name}: {each}" for each in wrong if each]


async def attack_all(server: Server, rows: Sequence[Row], requests: int, connections: int) -> list[str]:
    """Run the attacks one after the other, and print what was noticed; return what is wrong."""
    await _prepare(server.target)
    wrong = []
    print(
        "| attack | number | seconds | p50 ms | p99 ms | max ms | connect p50 ms | p99 ms | max ms | memory MiB |\n"
        f"|{'---|' * 10}",
        flush=True,
    )
    for row in rows:
        count, begun_s = row.count(requests, connections), time.monotonic()
        noticed, found = await under_attack(row, server, count)
        seconds = time.monotonic() - begun_s
        print(f"| {row.name} | {count:,} | {seconds:.0f} | {noticed} |", flush=True)
        for each in found:
            print(each, file=sys.stderr, flush=True)
        wrong += found
    return wrong


async def _prepare(target: Target) -> None:
    """Create the topic of the other client, with records for slow readers, and the few ACLs."""
    address = target.address(PLAINTEXT)
    configs = [m.CreatableTopicConfig("segment.bytes", str(64 << 20)), m.CreatableTopicConfig("retention.ms", "-1")]
    topics = [m.CreatableTopic(HONEST_TOPIC, 2, 1, configs=configs)]
    await sent(address, 19, "CreateTopics", 5, m.CreateTopicsRequest(topics, 10_000))
    filled = batch([(None, bytes(range(256)) * 3500)], times=[1])
    data = m.TopicProduceData(HONEST_TOPIC, partition_data=[m.PartitionProduceData(0, filled)])
    for _ in range(20):
        await sent(address, 0, "Produce", 9, m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]))
    few = f"User:{FEW_ACLS}"
    acls = [
        acl(Operation.READ, Resource.TOPIC, "generated", principal=few),
        acl(Operation.WRITE, Resource.TOPIC, "generated", principal=few),
        acl(Operation.READ, Resource.GROUP, "generated-group", principal=few),
        acl(Operation.WRITE, Resource.TRANSACTIONAL_ID, "generated-transactions", principal=few),
    ]
    await sent(address, 30, "CreateAcls", 3, m.CreateAclsRequest(acls))


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve `folder / "logs"` on all listeners; the end must be a clean one."""
    logs = folder / "logs"
    logs.mkdir()
    directory = LogDirectory.open(str(logs))
    for user in (SUPER_USER, FEW_ACLS):
        add_user(directory.security, user)
    directory.close()
    own, client = certificates.server(), certificates.client()
    authority = str(certificates.authority().chain)
    settings = {
        "listeners": ",".join(f"{each}://127.0.0.1:0" for each in LISTENERS),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "ssl.keystore.location": own.chain,
        "ssl.key.location": own.key,
        "ssl.truststore.location": authority,
        "listener.name.ssl.ssl.client.auth": "requested",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        "max.connections": CONNECTIONS + 100,
        "auto.create.topics.enable": "false",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    command = [sys.executable, "-m", "offsetfs", "serve", str(logs), *options]
    path = folder / "log"
    with open(path, "w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout is not None
            ports = re.findall(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert len(ports) == len(LISTENERS), path.read_text()
            target = Target(tuple(map(int, ports)), authority, str(client.chain), str(client.key))
            yield Server(target, process, Log(path))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def serve_and_attack(rows: Sequence[Row], requests: int, connections: int) -> list[str]:
    """Start a server, attack it, end it, and verify its log directory; return what is wrong."""
    with tempfile.TemporaryDirectory(prefix="offsetfs-hostile-") as name:
        with serving(Path(name)) as server:
            wrong = trio.run(attack_all, server, rows, requests, connections)
        wrong += server.log.unexpected()[:20]
        if server.process.returncode:
            wrong.append(f"exit status {server.process.returncode}")
        command = [sys.executable, "-m", "offsetfs", "verify", f"{name}/logs"]
        verified = subprocess.run(command, capture_output=True, text=True, check=False)
        print(verified.stdout.strip().rpartition("\n")[2])
        if verified.returncode:
            wrong.append(f"verify: exit status {verified.returncode}: {verified.stdout[-2000:]}{verified.stderr}")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("requests", nargs="?", type=int, default=REQUESTS)
    parser.add_argument("connections", nargs="?", type=int, default=CONNECTIONS)
    parser.add_argument("--row", action="append", help="the name of a row, for only some of them")
    parser.add_argument("--attack")
    parser.add_argument("--count", type=int)
    parser.add_argument("--on", type=Target.parse)
    given = parser.parse_args()
    if given.attack:
        attack = next(each.attack for each in ROWS if each.name == given.attack)
        assert attack is not None
        trio.run(attack, given.on, given.count)
        return
    rows = [each for each in ROWS if not given.row or each.name in given.row]
    sys.exit("\n".join(serve_and_attack(rows, given.requests, given.connections)))


if __name__ == "__main__":
    main()
