"""What other clients notice of the largest request of each API.

    python largest_requests.py [NAME…]     those of `LARGE_REQUESTS` whose names begin so, or all

Each request has as many elements as a request may have, and is sent once to an `offsetfs serve` of its own process.
Meanwhile a bystander on another connection asks for ApiVersions, and for Metadata of one topic, every 5 ms, or as soon
as it has the response before. Memory is the peak of the resident set of the server above that before the request.

Prints a table in Markdown. Goals: p99 of the bystander below 50 ms, and memory below 64 MiB.
"""

from __future__ import annotations

import re
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from fixtures.broker.large_requests import ELEMENTS_MAX, LARGE_REQUESTS, LargeRequest
from fixtures.broker.running import decoded, framed
from fixtures.broker.served import served

from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.schemas import schema

INTERVAL_S = 0.005
BEFORE_S = 0.2
"""How long the bystander asks before the request, so that its connection and our memory are as always."""
SECONDS_MAX = 120
SETTINGS = (
    "auto.create.topics.enable=false",
    "offsets.topic.num.partitions=2",
    "transaction.state.log.num.partitions=2",
)

SMALL_REQUESTS = (
    framed(18, "ApiVersions", 3, m.ApiVersionsRequest("bystander", "1")),
    framed(3, "Metadata", 12, m.MetadataRequest([m.MetadataRequestTopic(name="t")], False)),
)

Address = tuple[str, int]


@dataclass(slots=True)
class Measured:
    """What one large request cost."""

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    memory_bytes: int = 0
    codes: str = ""


def main(wanted: list[str]) -> None:
    print("| request | s | bystander p50 ms | p99 ms | max ms | memory MiB | codes |")
    print("|---|---|---|---|---|---|---|")
    for name, large in LARGE_REQUESTS.items():
        if not wanted or any(name.startswith(each) for each in wanted):
            print(_line(name, measured(large)), flush=True)


def _line(name: str, found: Measured) -> str:
    p99 = statistics.quantiles(found.latencies_ms, n=100, method="inclusive")[-1]
    times = f"{statistics.median(found.latencies_ms):.1f} | {p99:.0f} | {max(found.latencies_ms):.0f}"
    return f"| {name} | {found.seconds:.1f} | {times} | {found.memory_bytes / 2**20:.0f} | {found.codes} |"


def measured(large: LargeRequest) -> Measured:
    """Send a request to a new broker, and ask it small things meanwhile."""
    data = framed(_key(large.api), large.api, large.version, large.make(ELEMENTS_MAX))
    with tempfile.TemporaryDirectory() as folder:
        options = [word for each in SETTINGS for word in ("-o", each)]
        with served(Path(folder), *options, reports=".") as broker:
            address = ("127.0.0.1", int(broker.address.rpartition(":")[2]))
            _prepare(address)
            return _beside(address, broker.process.pid, large, data)


def _prepare(address: Address) -> None:
    """Create topic `t`, the topic of the groups, and a commit of the group `g`."""
    committed = m.OffsetCommitRequestTopic("t", partitions=[m.OffsetCommitRequestPartition(0, 1)])
    for api, version, request in (
        ("CreateTopics", 7, m.CreateTopicsRequest([m.CreatableTopic("t", 1, 1)], 10_000)),
        ("FindCoordinator", 6, m.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])),
        ("OffsetCommit", 9, m.OffsetCommitRequest("g", topics=[committed])),
        ("InitProducerId", 4, m.InitProducerIdRequest("tx", 60_000)),
    ):
        with _connected(address) as peer:
            _exchange(peer, framed(_key(api), api, version, request))


def _beside(address: Address, pid: int, large: LargeRequest, data: bytes) -> Measured:
    found = Measured()
    with _connected(address) as peer, _connected(address) as other:
        begun = _bystander(peer, BEFORE_S)
        next(begun)  # connections, caches
        before = _memory(pid, "VmRSS")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins again
        sender = _Sender(other, data)
        sender.start()
        found.latencies_ms = _latencies(peer, sender)
        sender.join()
        found.seconds = sender.seconds
        found.memory_bytes = _memory(pid, "VmHWM") - before
        found.codes = _codes(large, sender.response)
    return found


def _bystander(peer: socket.socket, seconds: float) -> Iterator[None]:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for each in SMALL_REQUESTS:
            _exchange(peer, each)
        time.sleep(INTERVAL_S)
    yield


class _Sender(threading.Thread):
    """Sends the large request and receives its response."""

    def __init__(self, peer: socket.socket, data: bytes) -> None:
        super().__init__()
        self._peer = peer
        self._data = data
        self.response = b""
        self.seconds = 0.0

    def run(self) -> None:
        begin = time.perf_counter()
        self._peer.settimeout(SECONDS_MAX)
        try:
            self.response = _exchange(self._peer, self._data)
        except OSError as error:
            self.response = b""
            print(f"no response: {error!r}", file=sys.stderr)
        self.seconds = time.perf_counter() - begin


def _latencies(peer: socket.socket, sender: threading.Thread) -> list[float]:
    found = list[float]()
    while sender.is_alive() or len(found) < 3:
        begin = time.perf_counter()
        _exchange(peer, SMALL_REQUESTS[len(found) % len(SMALL_REQUESTS)])
        seconds = time.perf_counter() - begin
        found.append(seconds * 1000)
        time.sleep(max(INTERVAL_S - seconds, 0))
    return found


@contextmanager
def _connected(address: Address) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=SECONDS_MAX) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield peer


def _exchange(peer: socket.socket, data: bytes) -> bytes:
    """Return the response to a request, without its size."""
    peer.sendall(data)
    size = int.from_bytes(_received(peer, 4), "big")
    return _received(peer, size)


def _received(peer: socket.socket, size: int) -> bytes:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = peer.recv_into(view[done:])
        if not count:
            raise ConnectionError("the broker has closed the connection")
        done += count
    return bytes(data)


def _memory(pid: int, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def _codes(large: LargeRequest, response: bytes) -> str:
    """Return the error codes of a response, with their numbers."""
    if not response:
        return "connection closed"
    counts = Counter(_codes_of(decoded(_key(large.api), large.api, large.version, response)))
    return ", ".join(f"{count:,} {ErrorCode(code).name}" for code, count in counts.most_common(3))


def _codes_of(message: Any) -> Iterator[int]:
    for name in message.__slots__:
        value = getattr(message, name)
        if name == "error_code":
            yield value
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "__slots__"):
                    yield from _codes_of(each)


def _key(api: str) -> int:
    return schema(f"{api}Request").key


if __name__ == "__main__":
    main(sys.argv[1:])
