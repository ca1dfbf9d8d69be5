"""The same requests to Kafka 4.1 and to `offsetfs serve` have the same answers, field by field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from admin_requests import Request, requests
from kafka_broker import KafkaBroker
from running_broker import framed, received
from served import served

from offsetfs.protocol import codec
from offsetfs.protocol.message import NO_ID, ProtocolMessage
from offsetfs.protocol.schemas import schema

pytestmark = pytest.mark.interop

DIFFERENT = {
    "min.insync.replicas",  # a dynamic default of Kafka since its clusters have eligible leader replicas
    "message.timestamp.after.max.ms",  # without a limit here
    "follower.replication.throttled.replicas",  # one broker has no replicas
    "leader.replication.throttled.replicas",
}
"""Settings that are left out of the comparison."""

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


async def answers(address: str, asked: list[Request]) -> list[Any]:
    host, port = address.rsplit(":", 1)
    found = []
    stream = await trio.open_tcp_stream(host, int(port))
    async with stream:
        for key, name, version, request in asked:
            await stream.send_all(framed(key, name, version, request))
            data = memoryview(await received(stream))
            is_flexible = version >= schema(f"{name}Request").layout(version).flexible
            found.append(codec.reader(f"{name}Response", version)(data, 5 if is_flexible else 4)[0])
    return found


async def test_kafka_answers_the_same(kafka: KafkaBroker, tmp_path: Path) -> None:
    asked = list(requests())
    logs = tmp_path / "logs"
    logs.mkdir()
    expected = await answers(kafka.address, asked)
    with served(logs) as broker:
        found = await answers(broker.address, asked)
    different = [
        f"{number} {request}\nKafka    {comparable(kafkas)}\noffsetfs {comparable(ours)}\n"
        for number, (request, kafkas, ours) in enumerate(zip(asked, expected, found, strict=True))
        if comparable(kafkas) != comparable(ours)
    ]
    assert not different, "\n".join(different)
