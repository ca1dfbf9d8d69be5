"""Batches in every framing, produced by raw requests: `serve` accepts what Kafka 4.4 accepts, and stores the same."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fixtures.broker.running import decoded
from fixtures.broker.running import framed as request_of
from fixtures.broker.served import served
from fixtures.kafka.broker import KafkaBroker
from fixtures.logs.framings import framed

from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import files
from offsetfs.storage.records.compression.compression import CODECS
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch_header import MAGIC, MAGIC_END

pytestmark = pytest.mark.interop

CASES = 150  # of each codec
TOPIC = "framings"

STRICTER = [
    *(("none", seed) for seed in (1511, 1555, 1810)),  # offset deltas that do not count from 0
    # Records that end too early or too late: Kafka's broker does not look at all of a compressed record, and stores
    # what its own consumers refuse.
    *(("snappy", 958), ("lz4", 1624), ("lz4", 1981), *(("zstd", seed) for seed in (464, 713, 1217, 1373))),
]
"""Those of the first 2,500 of each codec that Kafka accepts and `serve` refuses. No case is the other way round."""


class Client:
    """A connection that sends one request after the other."""

    def __init__(self, address: str, ends: ExitStack) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = ends.enter_context(socket.create_connection((host, int(port)), timeout=60))
        self._file = ends.enter_context(self._socket.makefile("rb"))

    def ask(self, key: int, name: str, version: int, request: Any) -> Any:
        self._socket.sendall(request_of(key, name, version, request))
        return decoded(key, name, version, self._file.read(int.from_bytes(self._file.read(4), "big")))

    def create(self) -> None:
        settings = [m.CreatableTopicConfig("retention.ms", "-1")]
        request = m.CreateTopicsRequest([m.CreatableTopic(TOPIC, 1, 1, configs=settings)], 30_000)
        assert self.ask(19, "CreateTopics", 5, request).topics[0].error_code == 0

    def produce(self, data: bytes) -> Any:
        topics = [m.TopicProduceData(TOPIC, partition_data=[m.PartitionProduceData(0, data)])]
        response = self.ask(0, "Produce", 9, m.ProduceRequest(None, 1, 30_000, topics))
        return response.responses[0].partition_responses[0]


@pytest.mark.damages  # Kafka stores batches that no reader takes
def test_serve_accepts_the_framings_of_kafka_and_stores_the_same_bytes(tmp_path: Path) -> None:
    cases = [*((codec, seed) for codec in CODECS for seed in range(CASES)), *STRICTER]
    ours = tmp_path / "logs"
    ours.mkdir()
    with KafkaBroker(tmp_path / "kafka") as kafka, served(ours) as broker, ExitStack() as ends:
        theirs = kafka.log_dir
        clients = [Client(each.address, ends) for each in (kafka, broker)]
        for each in clients:
            each.create()
        answers = [[each.produce(framed(seed, codec, MAGIC).data) for each in clients] for codec, seed in cases]
    accepted = [[each.error_code == 0 for each in pair] for pair in answers]
    differences = [
        (case, [(each.error_code, each.error_message) for each in pair])
        for case, pair, (there, here) in zip(cases, answers, accepted, strict=True)
        if there != here and case not in STRICTER
    ]
    assert not differences, differences[:5]
    assert accepted[-len(STRICTER) :] == [[True, False]] * len(STRICTER)
    assert len(cases) / 4 < sum(here for _, here in accepted) < len(cases) * 3 / 4
    assert stored(ours) == stored(theirs)[: -len(STRICTER)]


def stored(logs: Path) -> list[tuple[int, bytes]]:
    """Return the base offset of each batch, and its bytes behind what a broker writes into it."""
    (path,) = (logs / f"{TOPIC}-0").glob("*.log")
    with files.open_file(str(path)) as log:
        return [(each.base_offset, bytes(each.data[MAGIC_END:])) for each in batch_chain.batches(log, 0, log.size())]
