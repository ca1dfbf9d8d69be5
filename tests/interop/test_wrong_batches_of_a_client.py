"""Wrong batches get the error codes of a real Kafka 4.4."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from fixtures.broker.produce_requests import GOOD, WRONG
from fixtures.broker.running import framed
from fixtures.kafka.broker import KafkaBroker

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.interop

STRICTER = {
    "a byte more",  # Kafka leaves it out without a word
    "offset deltas from 1",  # Kafka stores it
    "the time type of the log",  # Kafka stores it, unless the topic has LogAppendTime
    "a codec that there is not",  # UNKNOWN_SERVER_ERROR
    "records that are not gzip",  # UNKNOWN_SERVER_ERROR
}


def answer_to(address: str, data: bytes) -> Any:
    topics = [m.TopicProduceData("wrong", partition_data=[m.PartitionProduceData(0, data)])]
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client, client.makefile("rb") as file:
        client.sendall(framed(0, "Produce", 9, m.ProduceRequest(None, 1, 5000, topics)))
        response = file.read(int.from_bytes(file.read(4), "big"))
    return codec.reader("ProduceResponse", 9)(memoryview(response), 5)[0].responses[0].partition_responses[0]


@pytest.mark.damages  # Kafka stores offset deltas that do not count from 0
def test_a_broker_answers_wrong_batches_with_the_same_codes(kafka: KafkaBroker) -> None:
    kafka.create_topic("wrong", partitions=1, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    assert answer_to(kafka.address, GOOD).error_code == 0
    found = {name: ErrorCode(answer_to(kafka.address, data).error_code) for name, data, _, _ in WRONG}
    wanted = {name: code for name, _, code, _ in WRONG}
    assert {name for name in wanted if found[name] != wanted[name]} == STRICTER, found
