"""Row 23: the disk below a broker is full and has space again, fails a sync or a write, or is slow in one file.

The clients are those of row 19. One more sends requests of its own, to see which error a refused batch gets: always
KAFKA_STORAGE_ERROR, which clients take as a reason to try again. What a full disk refused is nowhere in the log. After
a failed sync or write a partition takes nothing more until the broker is started again. Beside a slow file, other
partitions are written, synced and read as ever.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from broker_process import BrokerProcess
from client_history import Outcome, Partition, Write
from client_lives import LASTING, Client, Recorder, crew
from confluent_kafka.admin import AdminClient, NewTopic
from disks import NEEDS, SMALL, Disk, made, small_memory
from fault_program import Row
from fixtures.broker.produce_requests import batch
from fixtures.broker.running import decoded, framed
from fixtures.logs.left_logs import damage_left
from life import fill
from row_broker_history import OPTIONS, PROTOCOLS, at_work, check, wait_until
from tracing import injected

from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

FULL = "full"
FAULTS = (FULL, "sync", "write")
PARTITIONS = [Partition(topic, index) for topic, count in LASTING.items() for index in range(count)]
FILLING = 3000
"""How much longer values are below a full disk, so that the space is soon used up that segments have for themselves."""
SIZE = 64 << 20
"""Of the disk: more than the clients write."""
CALL_SECONDS = 30
SYNCS = "fsync|fdatasync"
SLOW_SECONDS = 1.0
"""How long a sync of the slow file takes."""
SLOW_FOR_SECONDS = 2.5


class Requests:
    """Requests over a connection, one after the other. OSError or EOFError without a connection."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)), CALL_SECONDS)

    def produce(self, partition: Partition, value: bytes) -> tuple[int, int]:
        """Produce a record with acks=all; return the error code and the offset."""
        data = m.PartitionProduceData(partition.index, batch([(None, value)]))
        topics = [m.TopicProduceData(partition.topic, partition_data=[data])]
        response = self._ask(0, "Produce", 9, m.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics))
        found = response.responses[0].partition_responses[0]
        return int(found.error_code), int(found.base_offset)

    def fetch(self, partition: Partition) -> int:
        """Fetch records from the start of a partition; return how many bytes there are."""
        asked = m.FetchRequestFetchPartition(partition.index, partition_max_bytes=1 << 16)
        topics = [m.FetchRequestFetchTopic(partition.topic, partitions=[asked])]
        request = m.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics)
        found = self._ask(1, "Fetch", 11, request).responses[0].partitions[0]
        assert not found.error_code, ErrorCode(found.error_code)
        return len(found.records or b"")

    def close(self) -> None:
        self._socket.close()

    def _ask(self, key: int, name: str, version: int, request: object) -> Any:
        self._socket.sendall(framed(key, name, version, request))
        size = int.from_bytes(self._receive(4), "big")
        return decoded(key, name, version, self._receive(size))

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise EOFError("the connection was closed")
            data += more
        return bytes(data)


class Prober(Client):
    """Writes records one by one. A batch is refused with KAFKA_STORAGE_ERROR while there is a fault, and never else."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder, "prober")
        self.fault = ""
        """Of the disk, now."""
        self.refused = 0
        self.taken: set[Partition] = set()
        """The partitions that took a batch since this was cleared."""

    def live(self) -> None:
        numbers = itertools.count()
        while not self.is_stopped:
            try:
                with closing(Requests(self.recorder.address)) as requests:
                    failed: set[Partition] = set()
                    while not self.is_stopped:
                        self._write(requests, next(numbers), failed)
                        time.sleep(0.005)
            except (OSError, EOFError):
                time.sleep(0.02)

    def _write(self, requests: Requests, number: int, failed: set[Partition]) -> None:
        """Write a record; `failed`: partitions that failed in the broker that is connected."""
        partition = self.chance.choice(PARTITIONS)
        size = FILLING if self.fault == FULL else 0
        value = b"%s:%d:%s" % (self.name.encode(), number, b"." * size)
        write = Write(self.name, number, partition, value, self.recorder.moment())
        try:
            code, offset = requests.produce(partition, write.value)
            ended = self.recorder.moment()
            if code == ErrorCode.NONE:
                assert partition not in failed, f"{partition} failed, and took another record"
                self.taken.add(partition)
                write = replace(write, ended=ended, outcome=Outcome.DONE, offset=offset)
                return
            assert code == ErrorCode.KAFKA_STORAGE_ERROR and self.fault, f"{partition}: {ErrorCode(code)}"
            self.refused += 1
            if self.fault == FULL:
                write = replace(write, ended=ended, outcome=Outcome.NOT_DONE)
            else:  # the batch may be there: written, and not synced
                failed.add(partition)
        finally:
            self.recorder.add_write(write)


def play(seed: int, scratch: Path) -> int:
    """Bring about faults, each until batches are refused, or one slow file; return how many."""
    if seed % 8 == 1:
        return _play_slow(scratch)
    chance = random.Random(seed)
    with made(replace(SMALL, size=SIZE), scratch) if seed % 4 == 2 else small_memory(scratch, SIZE) as disk:
        return _play_faults(seed, scratch, disk, chance)


def _play_faults(seed: int, scratch: Path, disk: Disk, chance: random.Random) -> int:
    faults = chance.sample(FAULTS, len(FAULTS))
    with closing(BrokerProcess(disk.log, scratch / "output", OPTIONS)) as broker:
        recorder = Recorder(broker.address, seed)
        prober = Prober(recorder)
        with at_work([*crew(recorder, PROTOCOLS), prober], recorder, broker):
            for fault in faults:
                _wait_until_all_goes_on(broker, prober)
                prober.fault = fault
                if fault == FULL:
                    _fill(broker, prober, disk, chance)
                else:
                    _fail(broker, prober, chance)
                _wait_until_all_goes_on(broker, prober)
                prober.fault = ""
        check(recorder.history)
    assert damage_left(disk.log) == []
    return len(faults)


def _wait_until_all_goes_on(broker: BrokerProcess, prober: Prober) -> None:
    """Return when each partition has taken a batch, and a transaction was committed, once more."""
    committed = prober.recorder.committed
    prober.taken.clear()
    wait_until(lambda: len(prober.taken) == len(PARTITIONS), broker)
    wait_until(lambda: prober.recorder.committed > committed, broker)


# --- a full disk -----------------------------------------------------------------------------------------------------


def _fill(broker: BrokerProcess, prober: Prober, disk: Disk, chance: random.Random) -> None:
    """Fill the disk until batches are refused; perhaps end the broker, and start it without space; then free it."""
    neighbor = disk.path / "neighbor"
    left = chance.choice((0, 0, 1 << 13, 1 << 16))

    def keep_full() -> None:  # the broker deletes files of its own now and then
        fill(os.fspath(neighbor), left)

    _wait_until_refused(broker, prober, keep_full)
    if chance.random() < 0.5:
        broker.kill()
        broker.start()
        broker.wait_until_ready()
        _wait_until_refused(broker, prober, keep_full)
    neighbor.unlink()


def _wait_until_refused(broker: BrokerProcess, prober: Prober, act: Callable[[], None] = lambda: None) -> None:
    """Return when another batch was refused; `act` is called again and again meanwhile."""
    refused = prober.refused

    def is_refused() -> bool:
        act()
        return prober.refused > refused

    wait_until(is_refused, broker)


# --- a failed sync or write ------------------------------------------------------------------------------------------


def _fail(broker: BrokerProcess, prober: Prober, chance: random.Random) -> None:
    """Let every few syncs or writes fail until a batch is refused, wait a moment, and kill the broker."""
    error = "EIO" if prober.fault == "sync" else chance.choice(("EIO", "ENOSPC"))
    calls = SYNCS if prober.fault == "sync" else "pwrite64"
    if error == "ENOSPC":
        prober.fault = FULL
    with injected(broker.pid, calls, f"error={error}:when={chance.randrange(1, 20)}+{chance.randrange(1, 10)}"):
        _wait_until_refused(broker, prober)
    time.sleep(chance.uniform(0, 0.5))
    broker.kill()
    broker.start()


# --- a slow file -----------------------------------------------------------------------------------------------------


def _play_slow(scratch: Path) -> int:
    """Let producers wait for syncs of one file; requests for other partitions take as long as ever."""
    slow = Partition("slow", 0)
    (scratch / "log").mkdir()
    with closing(BrokerProcess(scratch / "log", scratch / "output", OPTIONS)) as broker:
        broker.start()
        broker.wait_until_ready()
        admin = AdminClient(Recorder(broker.address, 0).settings())
        large = {"segment.bytes": str(1 << 30)}
        for future in admin.create_topics([NewTopic("slow", 1, config=large), NewTopic("quick", 1)]).values():
            future.result(CALL_SECONDS)
        file = scratch / "log" / str(slow) / f"{0:020}.log"
        ends = time.monotonic() + SLOW_FOR_SECONDS
        taken: list[float] = []
        with injected(broker.pid, SYNCS, f"delay_exit={int(SLOW_SECONDS * 1e6)}", path=file):
            writers = [_Writer(broker.address, slow, ends) for _ in range(3)]
            for writer in writers:
                writer.start()
            with closing(Requests(broker.address)) as requests:
                while time.monotonic() < ends:
                    for call in (
                        lambda: requests.produce(Partition("quick", 0), b"v"),
                        lambda: requests.fetch(Partition("quick", 0)),
                        lambda: requests.fetch(slow),
                    ):
                        began = time.monotonic()
                        call()
                        taken.append(time.monotonic() - began)
                        time.sleep(0.005)
            for writer in writers:
                writer.join()
        broker.terminate()
    waited = [each for writer in writers for each in writer.seconds]
    assert min(waited) > SLOW_SECONDS / 2, f"the slow file was quick: {waited}"
    assert statistics.quantiles(taken, n=10)[-1] < SLOW_SECONDS / 5, f"others were held up: {sorted(taken)[-40:]}"
    return 1


class _Writer(threading.Thread):
    """Writes to a partition until a moment; `seconds`: how long each batch took."""

    def __init__(self, address: str, partition: Partition, ends: float) -> None:
        super().__init__(daemon=True)
        self._address, self._partition, self._ends = address, partition, ends
        self.seconds: list[float] = []

    def run(self) -> None:
        with closing(Requests(self._address)) as requests:
            while time.monotonic() < self._ends:
                began = time.monotonic()
                requests.produce(self._partition, b"v")
                self.seconds.append(time.monotonic() - began)


ROW = Row(
    23,
    "broker_disk",
    "the disk below a broker is full, fails, or is slow, under producers, transactions and groups",
    play,
    seeds_in_ci=range(2),
    goal=200,
    unit="faults",
    needs=(*NEEDS, "strace"),
    promises=(
        "A disk that is full or fails is an error of the written partitions on it only; a full disk "
        "takes batches again once there is free space.",
        "If the sync of a batch, or another write to its partition before that sync, fails, the batch "
        "is refused with KAFKA_STORAGE_ERROR, and may be in the log; producers send it again.",
    ),
)
