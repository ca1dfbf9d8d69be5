"""The same requests to Kafka 4.1 and to `offsetfs serve` have the same answers, field by field."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from admin_requests import Request, requests
from kafka_broker import KafkaBroker
from running_broker import decoded, framed, received
from served import served

from offsetfs.protocol.message import NO_ID, ProtocolMessage

pytestmark = pytest.mark.interop

DIFFERENT = {
    "min.insync.replicas",  # a dynamic default of Kafka since its clusters have eligible leader replicas
    "message.timestamp.after.max.ms",  # without a limit here
    "follower.replication.throttled.replicas",  # one broker has no replicas
    "leader.replication.throttled.replicas",
}
"""Settings that are left out of the comparison."""

CHANGES = re.compile("Create|Delete|Alter|Incremental")
"""Names of requests that change something."""

SECONDS_MAX = 10

OF_ONE_BROKER = {
    "error_message",
    "host",
    "port",
    "rack",
    "cluster_id",
    "throttle_time_ms",
    "topic_authorized_operations",
}
"""Fields whose values are texts for people, or differ by their nature."""


def comparable(value: Any) -> Any:
    """Return a message as values that can be compared: lists of structs sorted, topic ids as whether there is one."""
    if isinstance(value, ProtocolMessage):
        fields = {name: getattr(value, name) for name in value.__slots__ if name not in OF_ONE_BROKER}
        return {name: _field(name, each) for name, each in fields.items()}
    if isinstance(value, list):
        kept = [each for each in value if getattr(each, "name", None) not in DIFFERENT]
        return sorted((comparable(each) for each in kept), key=repr) if kept and _is_struct(kept[0]) else kept
    return bytes(value) if isinstance(value, memoryview) else value


def _field(name: str, value: Any) -> Any:
    return value != NO_ID if name == "topic_id" else comparable(value)


def _is_struct(value: object) -> bool:
    return isinstance(value, ProtocolMessage)


class Client:
    """A connection that asks one request after the other."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    async def ask(self, asked: Request) -> Any:
        """Return the response as values that can be compared."""
        key, name, version, request = asked
        await self._stream.send_all(framed(key, name, version, request))
        return comparable(decoded(key, name, version, await received(self._stream)))

    async def ask_until(self, asked: Request, expected: Any) -> Any:
        """Repeat a request that changes nothing until the response is the expected one; return the last one.

        A broker of Kafka applies what its controller has answered a moment later.
        """
        deadline = trio.current_time() + (0 if CHANGES.match(asked[1]) else SECONDS_MAX)
        while (found := await self.ask(asked)) != expected and trio.current_time() < deadline:
            await trio.sleep(0.02)
        return found


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    host, port = address.rsplit(":", 1)
    async with await trio.open_tcp_stream(host, int(port)) as stream:
        yield Client(stream)


async def test_kafka_answers_the_same(kafka: KafkaBroker, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    different = []
    with served(tmp_path / "logs") as broker:
        async with connected(broker.address) as ours, connected(kafka.address) as kafkas:
            for number, asked in enumerate(requests()):
                found = await ours.ask(asked)
                expected = await kafkas.ask_until(asked, found)
                if found != expected:
                    different.append(f"{number} {asked}\nKafka    {expected}\noffsetfs {found}\n")
    assert not different, "\n".join(different)
