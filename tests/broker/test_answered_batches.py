"""What a producer may rely on when its batch was answered: kills, power loss, restarts."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from fixtures.broker.produce_requests import batch, produced, producing_of, response_of
from fixtures.broker.running import Running, framed
from fixtures.simulation.simdisk import SimDisk
from fixtures.simulation.simsystem import System

from offsetfs.kafka.broker.connections.response_queue import DelayedResponse
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory, LogReader, TopicPartition

pytestmark = pytest.mark.unit

T = TopicPartition("t", 0)
ID = 4242


def numbered(number: int) -> bytes:
    """The batch with this number of an idempotent producer: two records."""
    return batch([(b"k", b"%d" % number), (b"k", b"")], producer_id=ID, sequence=2 * number)


def request(data: bytes, acks: int) -> m.ProduceRequest:
    return m.ProduceRequest(
        None, acks, 1000, [m.TopicProduceData("t", partition_data=[m.PartitionProduceData(0, data)])]
    )


class Client:
    """A connection to a broker in another process."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._file = self._socket.makefile("rb")

    def send(self, key: int, name: str, version: int, request: Any) -> None:
        self._socket.sendall(framed(key, name, version, request))

    def answer(self, name: str, version: int) -> Any:
        size = int.from_bytes(self._file.read(4), "big")
        return codec.reader(f"{name}Response", version)(memoryview(self._file.read(size)), 5)[0]

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def killed_after(path: Path, batches: int) -> list[int]:
    """Let a broker answer batches with acks=1; send twice as many with acks=all and 1 without waiting for responses.

    Kill it when it has answered the first half of those; return the producer ids that it handed out.
    """
    command = [sys.executable, "-m", "offsetfs", "serve", str(path), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        match = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert match is not None
        client, ids = Client(int(match[1])), []
        for number in range(batches):
            client.send(0, "Produce", 9, request(numbered(number), 1))
            answer = client.answer("Produce", 9).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 2 * number)
            client.send(22, "InitProducerId", 4, m.InitProducerIdRequest(None))
            ids.append(client.answer("InitProducerId", 4).producer_id)
        for number in range(batches, 3 * batches):
            client.send(0, "Produce", 9, request(numbered(number), 1 if number % 2 else -1))
        for number in range(batches, 2 * batches):
            answer = client.answer("Produce", 9).responses[0].partition_responses[0]
            assert (answer.error_code, answer.base_offset) == (0, 2 * number)
        process.send_signal(signal.SIGKILL)
        client.close()
    return ids


@pytest.mark.long
@pytest.mark.promise(
    "A batch that was produced with `acks=1` is in the segment file when it is answered: "
    "it survives a crash of the broker."
)
@pytest.mark.promise(
    "A repeated batch of an idempotent producer is answered with its first offset and stored once, "
    "also after a restart or a crash of the broker, if it is among the last five of its producer."
)
@pytest.mark.promise(
    "Producer ids are from random blocks of 1,024: however the broker ended, none is handed out "
    "twice, except with a probability of 1 in 18,000 for a million blocks."
)
async def test_a_killed_broker_has_what_it_answered(tmp_path: Path, nursery: trio.Nursery) -> None:
    with_topic(str(tmp_path)).close()
    former = await trio.to_thread.run_sync(killed_after, tmp_path, 20)
    directory = LogDirectory.open(str(tmp_path))
    values = [each.value for each in LogReader(directory.log(T)).records()][::2]
    assert 40 <= len(values) <= 60 and values == [b"%d" % number for number in range(len(values))]
    running = Running(directory)
    nursery.start_soon(running.run)
    for number in range(len(values) - 4, len(values)):
        answer = await produced(running, "t", numbered(number))
        assert (answer.error_code, answer.base_offset) == (0, 2 * number)
    assert (await produced(running, "t", numbered(len(values)))).base_offset == 2 * len(values)
    fresh = (await running.send(22, "InitProducerId", 4, m.InitProducerIdRequest(None))).producer_id
    assert len({*former, fresh}) == 21
    running.broker.stop()
    directory.close()


def with_topic(path: str) -> LogDirectory:
    directory = LogDirectory.open(path)
    directory.create_partitions([T], {"segment.bytes": "300"})
    return directory


# --- power loss, on a simulated disk


async def answered(directory: LogDirectory, settings: ServerSettings, acks: int, numbers: range) -> None:
    producing = producing_of(directory, settings)
    for number in numbers:
        response = await response_of(producing, request(numbered(number), acks))
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, 2 * number)


def left(system: System, disk: SimDisk) -> list[bytes | None]:
    system.disk = disk
    directory = LogDirectory.open("/logs")
    return [each.value for each in LogReader(directory.log(T)).records()][::2]


@pytest.mark.promise(
    "A batch that was produced with `acks=all` is on disk when it is answered: it survives power loss."
)
async def test_a_power_cut_leaves_what_was_answered_with_acks_all(system: System) -> None:
    directory = with_topic("/logs")
    await answered(directory, ServerSettings(), -1, range(12))
    assert len(directory.log(T).snapshot()) > 2, "some segments were rolled"
    await answered(directory, ServerSettings(), 1, range(12, 15))
    disk = system.disk
    for seed in range(20):
        found = left(system, disk.crash(Random(seed)))
        assert len(found) >= 12 and found == [b"%d" % number for number in range(len(found))]


async def test_a_power_cut_leaves_what_was_answered_while_later_batches_were_appended(system: System) -> None:
    """Requests of one connection overlap: a response must not come from a sync that began before its append."""
    directory = with_topic("/logs")
    producing = producing_of(directory)
    waiting: deque[DelayedResponse] = deque()
    for number in range(12):
        response = await producing.produce(request(numbered(number), -1), 9)
        assert isinstance(response, DelayedResponse)
        waiting.append(response)
        if len(waiting) == 4:
            await waiting.popleft().wait()
            disk = system.disk
            found = left(system, disk.crash(Random(number), "none"))
            system.disk = disk
            assert len(found) >= number - 2 and found == [b"%d" % each for each in range(len(found))]


async def test_a_power_cut_may_take_what_was_answered_from_the_page_cache(system: System) -> None:
    """`acks_all = "page-cache"` promises what Kafka does: that it survives a crash of the process."""
    directory = with_topic("/logs")
    directory.flush()
    await answered(directory, ServerSettings(acks_all="page-cache"), -1, range(3))
    assert directory.log(T).recovery_point == 0
    disk = system.disk
    assert left(system, disk.clone()) == [b"0", b"1", b"2"]
    assert left(system, disk.crash(Random(0), "none")) == []
