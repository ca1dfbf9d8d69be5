"""The Kafka protocol: the same client against `offsetfs serve` and against Kafka, in turn."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import group_members
import logs
import mounted
import socket_costs
from bench import Bench
from commands import UNWAITING, seconds
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from crowds import side_by_side
from fixtures.broker.running import framed
from fixtures.broker.served import served
from fixtures.kafka import programs
from fixtures.kafka.broker import KafkaBroker
from group_members import FIND_COORDINATOR, GroupMember
from measuring import Contender, Goal, Measure, Opened, Peer, Row, times_as_fast, times_as_long

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import BatchBuilder

SECONDS_MAX = 600.0
JOIN_SECONDS_MAX = 100.0
MEMBERS_POLL_S = 0.001

_CPU_CLOCK = 2
"""The last bits of the clock of a process, CPUCLOCK_SCHED of Linux; the others are the complement of its number."""

METADATA, LIST_OFFSETS, PRODUCE = 3, 2, 0


@dataclass(frozen=True, slots=True)
class Server:
    """A broker under measurement."""

    address: str
    pid: int
    log_dir: Path

    @contextlib.contextmanager
    def topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> Iterator[str]:
        """Create a topic; delete it afterwards."""
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, partitions, 1, config=dict(configs or {}))])[name].result()
        yield name
        admin.delete_topics([name])[name].result()

    @property
    def kcat(self) -> str:
        """The words by which kcat connects."""
        return f"-b {self.address}"

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process until now, in and outside of the kernel.

        /proc/PID/stat has hundredths of a second: with little data the difference of two of them was 0.
        """
        return time.clock_gettime(~self.pid << 3 | _CPU_CLOCK)

    def resident_mib(self) -> float:
        return mounted.Mounted(self.log_dir, self.pid).resident_bytes() / (1 << 20)

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask_for_metadata(self, connection: socket.socket) -> m.MetadataResponse:
        """Return all topics."""
        connection.sendall(framed(METADATA, "Metadata", 8, m.MetadataRequest(topics=None)))
        response: m.MetadataResponse = codec.reader("MetadataResponse", 8)(memoryview(_response(connection)), 4)[0]
        return response


def _response(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as answers:
        return answers.read(int.from_bytes(answers.read(4), "big"))


Find = Callable[[Bench], Server]
"""Returns the broker of one side. Both run for the whole bench, as a broker does."""

Work = Callable[[Find, Bench], AbstractContextManager[Measure]]


def offsetfs_serve(bench: Bench) -> Server:
    def make() -> Server:
        log_dir = bench.new("served")
        log_dir.mkdir()
        broker = bench.until_the_end.enter_context(served(log_dir, "-o", "log.retention.ms=-1"))
        return Server(broker.address, broker.process.pid, log_dir)

    return bench.once("served", make)


def kafka(bench: Bench) -> Server:
    broker = bench.broker()
    return Server(broker.address, broker.pid, broker.log_dir)


def server_cpu(work: Work) -> Work:
    """Return `work` with the CPU seconds that the broker spends for a gigabyte as its figure."""

    @contextlib.contextmanager
    def opened(find: Find, bench: Bench) -> Iterator[Measure]:
        server = find(bench)
        with work(find, bench) as take:

            def measure(number: int) -> float:
                before = server.cpu_seconds()
                take(number)
                return (server.cpu_seconds() - before) / (bench.count * logs.LINE_BYTES / 1e9)

            yield measure

    return opened


def system_calls_alone(direction: str) -> Opened:
    """Return the CPU seconds for a gigabyte of what no broker can do without; see `socket_costs`."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        path, size = bench.new("pieces"), bench.count * logs.LINE_BYTES
        pieces = max(size // socket_costs.PIECE_BYTES, 1)
        path.write_bytes(os.urandom(socket_costs.PIECE_BYTES) * min(pieces, 256))

        def measure(number: int) -> float:
            size_sent = pieces * socket_costs.PIECE_BYTES
            command = (sys.executable, socket_costs.__file__, direction, path, str(size_sent))
            return float(subprocess.check_output(command, timeout=SECONDS_MAX)) / (size_sent / 1e9)

        yield measure

    return opened


# --- produce ---------------------------------------------------------------------------------------------------------


def kcat_in(compression: str = "none") -> Work:
    """`kcat -P` of lines, until all are in a segment file: acks=1."""

    @contextlib.contextmanager
    def opened(find: Find, bench: Bench) -> Iterator[Measure]:
        server, lines = find(bench), bench.lines() if compression == "none" else bench.prose()

        def measure(number: int) -> float:
            with server.topic(bench.new("in").name) as topic:
                return filled_by_kcat(server, topic, lines, compression)

        yield measure

    return opened


def filled_by_kcat(server: Server, topic: str, lines: Path, compression: str = "none") -> float:
    """Write the lines of a file to a topic with `kcat -P`; return how long it takes."""
    command = f"exec kcat -P {server.kcat} -t {topic} -p 0 -X acks=1 -z {compression}"
    return seconds(f'{command} < "$1"', lines)


def perf_in(record_bytes: int) -> Work:
    """Kafka's producer-perf-test with records of that size and acks=1; the start of Java does not count."""

    @contextlib.contextmanager
    def opened(find: Find, bench: Bench) -> Iterator[Measure]:
        server = find(bench)

        def measure(number: int) -> float:
            with server.topic(bench.new("perf").name) as topic:
                words = ("--topic", topic, "--num-records", str(bench.count), "--record-size", str(record_bytes))
                address = f"bootstrap.servers={server.address}"
                properties = ("--throughput", "-1", "--command-property", address, "acks=1")
                text = _java("org.apache.kafka.tools.ProducerPerformance", *words, *properties)
                count, rate = re.findall(r"(\d+) records sent, ([\d.]+) records/sec", text)[-1]
                assert int(count) == bench.count, text
                return bench.count / float(rate)

        yield measure

    return opened


def _java(main_class: str, *words: str) -> str:
    command = programs.java(main_class, *words, log_level="warn", log_target="SYSTEM_ERR")
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX).stdout


CONNECTIONS = 32


@contextlib.contextmanager
def small_requests(find: Find, bench: Bench) -> Iterator[Measure]:
    """Produce requests of one record on 32 connections, acks=1: µs for each. The broker has one core."""
    server = find(bench)

    def measure(number: int) -> float:
        with server.topic(bench.new("small").name) as topic, _on_one_core(server.pid):
            return _small_requests(server, topic, bench.count) / bench.count * 1e6

    yield measure


def _small_requests(server: Server, topic: str, count: int) -> float:
    """Send `count` requests, on each connection after the response to the one before; return the seconds."""
    builder = BatchBuilder(1 << 10)
    builder.append(None, b"v" * 100, (), int(time.time() * 1000))
    data = [m.TopicProduceData(name=topic, partition_data=[m.PartitionProduceData(0, bytes(builder.seal().data))])]
    request = framed(PRODUCE, "Produce", 9, m.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=data))
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        connections = [stack.enter_context(server.connect()) for _ in range(CONNECTIONS)]
        deadline = time.monotonic() + SECONDS_MAX
        while True:  # opens the log, and shows that the request is a good one, once the new topic has a leader
            connections[0].sendall(request)
            response = _response(connections[0])
            produced: m.ProduceResponse = codec.reader("ProduceResponse", 9)(memoryview(response), 5)[0]
            error = produced.responses[0].partition_responses[0].error_code
            if error != ErrorCode.NOT_LEADER_OR_FOLLOWER or time.monotonic() > deadline:
                break
        assert not error, produced
        start = time.perf_counter()
        for each in connections:
            waiting.register(each, selectors.EVENT_READ)
            each.sendall(request)
        sent, received = CONNECTIONS, 0
        while received < max(count, CONNECTIONS):
            for key, _ in waiting.select(SECONDS_MAX):
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                found = connection.recv(4096)
                assert len(found) == len(response) + 4, found
                received += 1
                if sent < count:
                    connection.sendall(request)
                    sent += 1
        return time.perf_counter() - start


@contextlib.contextmanager
def _on_one_core(pid: int) -> Iterator[None]:
    """Bind all threads of a process to the last core, and this one to the others."""
    cores = os.sched_getaffinity(0)
    last = {max(cores)}
    _bind(pid, last)
    os.sched_setaffinity(0, cores - last or cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        _bind(pid, cores)


def _bind(pid: int, cores: set[int]) -> None:
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # ended since
            os.sched_setaffinity(int(thread), cores)


# --- fetch -----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def filled(find: Find, bench: Bench) -> Iterator[tuple[Server, str]]:
    """A topic with the lines, which kcat wrote; the rows share it."""
    server = find(bench)

    def make() -> str:
        topic = bench.until_the_end.enter_context(server.topic(bench.new("out").name))
        filled_by_kcat(server, topic, bench.lines())
        return topic

    yield server, bench.once(("out", find, bench.count), make)


def _kcat_out(server: Server, topic: str) -> str:
    return f"exec kcat -C {server.kcat} -t {topic} -p 0 -o beginning -e -q {UNWAITING} > /dev/null"


@contextlib.contextmanager
def kcat_out(find: Find, bench: Bench) -> Iterator[Measure]:
    """`kcat -C -e` of a partition in the page cache."""
    with filled(find, bench) as (server, topic):
        yield lambda number: seconds(_kcat_out(server, topic))


@contextlib.contextmanager
def kcat_out_cold(find: Find, bench: Bench) -> Iterator[Measure]:
    """The same, after the page cache has dropped the segments."""
    with filled(find, bench) as (server, topic):

        def measure(number: int) -> float:
            for path in (server.log_dir / f"{topic}-0").glob("*.log"):
                fd = os.open(path, os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
            return seconds(_kcat_out(server, topic))

        yield measure


@contextlib.contextmanager
def eight_out(find: Find, bench: Bench) -> Iterator[Measure]:
    """8 × `kcat -C -e` at once."""
    with filled(find, bench) as (server, topic):
        yield lambda number: side_by_side([_kcat_out(server, topic)] * 8)


@contextlib.contextmanager
def perf_out(find: Find, bench: Bench) -> Iterator[Measure]:
    """Kafka's consumer-perf-test; the start of Java and the join of its group do not count."""
    with filled(find, bench) as (server, topic):
        yield lambda number: consumed_seconds(server, topic, bench.count)


def consumed_seconds(server: Server, topic: str, count: int) -> float:
    """Return how long Kafka's consumer-perf-test fetches so many records."""
    words = ("--bootstrap-server", server.address, "--topic", topic, "--messages", str(count))
    text = _java("org.apache.kafka.tools.ConsumerPerformance", *words, "--timeout", "60000")
    names, values = (line.split(", ") for line in text.strip().splitlines()[-2:])
    found = dict(zip(names, values, strict=True))
    assert int(found["data.consumed.in.nMsg"]) >= count, text
    return int(found["fetch.time.ms"]) / 1000


# --- latency ---------------------------------------------------------------------------------------------------------

_RATE = 1000
_SENT = struct.Struct(">d")


def latency(acks: str) -> Work:
    """From `produce` to the consumer, 1,000 records a second, each a request of its own: p99 in ms.

    With acks=all both brokers sync each batch before they answer: Kafka because of `flush.messages=1`.
    """

    @contextlib.contextmanager
    def opened(find: Find, bench: Bench) -> Iterator[Measure]:
        server = find(bench)

        def measure(number: int) -> float:
            configs = {"flush.messages": "1"} if acks == "all" else {}
            with server.topic(bench.new("latency").name, 1, configs) as topic:
                delays = sorted(_delays(server, topic, acks, bench.count))
                return delays[math.ceil(len(delays) * 0.99) - 1] * 1e3

        yield measure

    return opened


def _delays(server: Server, topic: str, acks: str, count: int) -> list[float]:
    settings = {"bootstrap.servers": server.address, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": server.address, "acks": acks, "linger.ms": 0})
    first: Future[None] = Future()
    delays: list[float] = []

    def consume() -> None:
        while len(delays) <= count:
            record = consumer.poll(1.0)
            if record is not None and record.error() is None:
                (sent,) = _SENT.unpack(record.value() or b"")
                delays.append(time.perf_counter() - sent)
                if not first.done():
                    first.set_result(None)

    reader = threading.Thread(target=consume)
    reader.start()
    producer.produce(topic, _SENT.pack(time.perf_counter()), partition=0)
    first.result(SECONDS_MAX)  # connections are there, and the consumer waits for records
    start = time.perf_counter()
    for number in range(count):
        time.sleep(max(start + number / _RATE - time.perf_counter(), 0))
        producer.produce(topic, _SENT.pack(time.perf_counter()), partition=0)
        producer.poll(0)
    assert producer.flush(SECONDS_MAX) == 0
    reader.join(SECONDS_MAX)
    consumer.close()
    return delays[1:]


# --- transactions ----------------------------------------------------------------------------------------------------

_RECORDS_OF_TRANSACTION = 100
_STATE_TOPIC = "__transaction_state"


@contextlib.contextmanager
def transactions(find: Find, bench: Bench) -> Iterator[Measure]:
    """Transactions of 100 records of 100 bytes, one after the other; seconds."""
    server = find(bench)
    yield lambda number: _transactions(server, bench)[0]


@contextlib.contextmanager
def commits(find: Find, bench: Bench) -> Iterator[Measure]:
    """The time of `commit_transaction` of them, which sends the last records: p99 in ms."""
    server = find(bench)

    def measure(number: int) -> float:
        delays = sorted(_transactions(server, bench)[1])
        return delays[math.ceil(len(delays) * 0.99) - 1] * 1e3

    yield measure


def _transactions(server: Server, bench: Bench) -> tuple[float, list[float]]:
    """Return the seconds of all transactions, and those of each commit.

    Both brokers sync what they have answered: Kafka the records and the states because of `flush.messages=1`.
    """
    name = bench.new("transactions").name
    producer = Producer({"bootstrap.servers": server.address, "transactional.id": name})
    producer.init_transactions(SECONDS_MAX)  # Kafka creates the topic of the states
    admin = AdminClient({"bootstrap.servers": server.address})
    flush = ConfigEntry("flush.messages", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, _STATE_TOPIC, incremental_configs=[flush])
    admin.incremental_alter_configs([resource])[resource].result()
    with server.topic(name, 1, {"flush.messages": "1"}) as topic:
        _transaction(producer, topic)
        start = time.perf_counter()
        delays = [_transaction(producer, topic) for _ in range(bench.count)]
        return time.perf_counter() - start, delays


def _transaction(producer: Producer, topic: str) -> float:
    """Commit one transaction; return the seconds of the commit."""
    producer.begin_transaction()
    for _ in range(_RECORDS_OF_TRANSACTION):
        producer.produce(topic, b"v" * 100, partition=0)
    start = time.perf_counter()
    producer.commit_transaction(SECONDS_MAX)
    return time.perf_counter() - start


# --- many partitions, connections, members ---------------------------------------------------------------------------

_IDLE_CONNECTIONS, _IDLE_CONNECTIONS_QUICK = 1000, 20


@contextlib.contextmanager
def start_of_ours(bench: Bench) -> Iterator[Measure]:
    """From the start of the process until the first Metadata answer; a clean directory of `count` partitions."""
    log_dir = logs.partitions(bench.new("many"), bench.count)

    def measure(number: int) -> float:
        with ExitStack() as stack:
            start = time.perf_counter()
            broker = stack.enter_context(served(log_dir, "-o", "log.retention.ms=-1"))
            _expect_partitions(Server(broker.address, broker.process.pid, log_dir), bench.count)
            return time.perf_counter() - start

    yield measure


@contextlib.contextmanager
def start_of_kafka(bench: Bench) -> Iterator[Measure]:
    """The same of Kafka, a broker apart."""
    with _kafka_with_partitions(bench) as broker:

        def measure(number: int) -> float:
            broker.stop()
            start = time.perf_counter()
            broker.start()
            _expect_partitions(Server(broker.address, broker.pid, broker.log_dir), bench.count)
            return time.perf_counter() - start

        yield measure


@contextlib.contextmanager
def _kafka_with_partitions(bench: Bench) -> Iterator[KafkaBroker]:
    with mounted.broker(bench.new("kafka-many"), {}) as broker:
        broker.create_topic(logs.PARTITION.topic, bench.count)
        yield broker


def _expect_partitions(server: Server, count: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    with server.connect() as connection:
        while True:
            topics = {each.name: each for each in server.ask_for_metadata(connection).topics}
            found = topics.get(logs.PARTITION.topic)
            # A broker of Kafka accepts connections before it has read of all its partitions.
            if found is not None and sum(each.leader_id >= 0 for each in found.partitions) == count:
                return
            assert time.monotonic() < deadline, f"{count} partitions were expected"


def idle_memory(server: Server, bench: Bench) -> float:
    """Return the resident MiB with all partitions open and idle connections, each of which has asked once."""
    partitions = [m.ListOffsetsPartition(partition_index=each, timestamp=-1) for each in range(bench.count)]
    topics = [m.ListOffsetsTopic(name=logs.PARTITION.topic, partitions=partitions)]
    with ExitStack() as stack:
        connections = _IDLE_CONNECTIONS if bench.is_full else _IDLE_CONNECTIONS_QUICK
        for _ in range(connections):
            connection = stack.enter_context(server.connect())
            connection.sendall(framed(METADATA, "Metadata", 8, m.MetadataRequest(topics=[])))
            _response(connection)
        connection.sendall(framed(LIST_OFFSETS, "ListOffsets", 6, m.ListOffsetsRequest(replica_id=-1, topics=topics)))
        _response(connection)
        return server.resident_mib()


@contextlib.contextmanager
def memory_of_ours(bench: Bench) -> Iterator[Measure]:
    """The resident memory of `offsetfs serve`, started for each figure."""
    log_dir = logs.partitions(bench.new("many"), bench.count)

    def measure(number: int) -> float:
        with served(log_dir, "-o", "log.retention.ms=-1") as broker:
            return idle_memory(Server(broker.address, broker.process.pid, log_dir), bench)

    yield measure


@contextlib.contextmanager
def memory_of_kafka(bench: Bench) -> Iterator[Measure]:
    """The resident memory of Kafka with the heap of its own start script, for all figures one broker."""
    with _kafka_with_partitions(bench) as broker:
        yield lambda number: idle_memory(Server(broker.address, broker.pid, broker.log_dir), bench)


@contextlib.contextmanager
def group_join(find: Find, bench: Bench) -> Iterator[Measure]:
    """From the first `subscribe` of `count` members until each has got a record, one partition for each; seconds."""
    server = find(bench)

    def measure(number: int) -> float:
        group = bench.new("group").name
        with server.topic(group, bench.count) as topic:
            producer = Producer({"bootstrap.servers": server.address})
            for partition in range(bench.count):
                producer.produce(topic, b"one", partition=partition)
            assert producer.flush(SECONDS_MAX) == 0
            settings = {"bootstrap.servers": server.address, "group.id": group, "auto.offset.reset": "earliest"}
            members = [Consumer({**settings, "enable.auto.commit": False}) for _ in range(bench.count)]
            start = time.perf_counter()
            for each in members:
                each.subscribe([topic])
            waiting = set(members)
            while waiting:
                assert time.perf_counter() - start < JOIN_SECONDS_MAX, f"{len(waiting)} members have got nothing"
                waiting -= {each for each in members if _is_record(each.poll(0))}  # all: a poll serves rebalances
                time.sleep(MEMBERS_POLL_S)
            elapsed = time.perf_counter() - start
            closing = [threading.Thread(target=each.close) for each in members]
            for thread in closing:
                thread.start()
            for thread in closing:
                thread.join()
        return elapsed

    yield measure


@contextlib.contextmanager
def group_grows(find: Find, bench: Bench) -> Iterator[Measure]:
    """A consumer group of one member that reads `count` partitions gets `count` members, until each reads one."""
    server = find(bench)

    def measure(number: int) -> float:
        group = bench.new("consumers").name
        with server.topic(group, bench.count) as topic, ExitStack() as stack:
            members = [
                GroupMember(group, topic, f"member-{each:04}", stack.enter_context(server.connect()))
                for each in range(bench.count)
            ]
            find_coordinator = m.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
            members[0].connection.sendall(framed(FIND_COORDINATOR, "FindCoordinator", 4, find_coordinator))
            _response(members[0].connection)
            group_members.run(members[:1], lambda: len(members[0].reads) == bench.count)
            elapsed = group_members.run(members, lambda: all(len(each.reads) == 1 for each in members))
            assert len(frozenset().union(*(each.reads for each in members))) == bench.count
            for each in members:
                each.leave()
        return elapsed

    yield measure


def _is_record(found: Message | None) -> bool:
    return found is not None and found.error() is None


# --- rows ------------------------------------------------------------------------------------------------------------

OURS, KAFKA = "`offsetfs serve`", "Kafka 4.1"


def _row(
    name: str,
    what: str,
    work: Work,
    goal: Goal,
    *,
    count: int,
    count_quick: int,
    unit: str = "s",
    of: str = "records",
    limit: float | None = None,
    record_bytes: int = logs.LINE_BYTES,
    is_goal: bool = True,
    floor: Contender | None = None,
) -> Row:
    peers = [Peer(Contender(KAFKA, functools.partial(work, kafka)), goal, is_goal)]
    if floor is not None:
        peers.append(Peer(floor, times_as_long(1.0), is_goal=False))
    return Row(
        name,
        what,
        unit=unit,
        of=of,
        count=count,
        count_quick=count_quick,
        ours=Contender(OURS, functools.partial(work, offsetfs_serve)),
        peers=tuple(peers),
        limit=limit,
        record_bytes=record_bytes,
    )


_lines = functools.partial(_row, of="lines", count=5_000_000, count_quick=5_000)
_records = functools.partial(_row, count=5_000_000, count_quick=5_000)
_NEVER_SLOWER, _QUICKER = times_as_fast(1.0), times_as_fast(1.2)

ROWS = (
    _lines("serve-in", "Lines of 100 bytes through `kcat -P`, acks=1", kcat_in(), _NEVER_SLOWER),
    _lines("serve-in-lz4", "Lines of words through `kcat -P -z lz4`", kcat_in("lz4"), _NEVER_SLOWER),
    _lines("serve-in-zstd", "Lines of words through `kcat -P -z zstd`", kcat_in("zstd"), _NEVER_SLOWER),
    _lines(
        "serve-in-cpu",
        "CPU time of the broker for each GB of `serve-in`",
        server_cpu(kcat_in()),
        times_as_long(0.4),
        unit="s/GB",
        floor=Contender("receive, CRC and write alone", system_calls_alone("in")),
    ),
    _records(
        "serve-in-perf",
        "Kafka's producer-perf-test, records of 100 bytes, acks=1",
        perf_in(100),
        _NEVER_SLOWER,
        count=2_000_000,
    ),
    _records(
        "serve-in-perf-1k",
        "Kafka's producer-perf-test, records of 1 KiB, acks=1",
        perf_in(1024),
        _NEVER_SLOWER,
        count=500_000,
        record_bytes=1024,
    ),
    _row(
        "serve-small",
        "Produce requests of one record on 32 connections, acks=1; the broker has one core",
        small_requests,
        times_as_fast(1.0),
        unit="µs",
        of="requests",
        count=30_000,
        count_quick=200,
        limit=125.0,
        is_goal=False,
    ),
    _records("serve-out", "A partition that was written by `kcat -P`: `kcat -C -e`", kcat_out, _QUICKER),
    _records(
        "serve-out-cpu",
        "CPU time of the broker for each GB of `serve-out`",
        server_cpu(kcat_out),
        times_as_long(0.3),
        unit="s/GB",
        floor=Contender("sendfile alone", system_calls_alone("out")),
    ),
    _records("serve-out-cold", "The same, not in the page cache", kcat_out_cold, _QUICKER),
    _records("serve-out-8", "8 × `kcat -C -e` of it at once", eight_out, _QUICKER, record_bytes=8 * logs.LINE_BYTES),
    _records("serve-out-perf", "Kafka's consumer-perf-test, records of 100 bytes", perf_out, _QUICKER),
    _records(
        "serve-latency",
        "From `produce` to the consumer, 1,000 records a second, acks=1: p99",
        latency("1"),
        times_as_long(1.0),
        unit="ms",
        count=5_000,
        count_quick=50,
    ),
    _records(
        "serve-latency-all",
        "The same with acks=all, on disk on both sides: p99",
        latency("all"),
        times_as_long(1.0),
        unit="ms",
        count=5_000,
        count_quick=50,
    ),
    _row(
        "serve-transactions",
        "Transactions of 100 records, on disk on both sides",
        transactions,
        _NEVER_SLOWER,
        of="transactions",
        count=300,
        count_quick=10,
    ),
    _row(
        "serve-commit",
        "The commit of these transactions: p99",
        commits,
        times_as_long(1.0),
        unit="ms",
        of="transactions",
        count=300,
        count_quick=10,
    ),
    Row(
        "serve-start",
        "From the start of the process until the first Metadata answer, 1,000 partitions",
        unit="s",
        of="partitions",
        count=1000,
        count_quick=10,
        ours=Contender(OURS, start_of_ours),
        peers=(Peer(Contender(KAFKA, start_of_kafka), times_as_fast(1.0)),),
        limit=0.5,
    ),
    Row(
        "serve-memory",
        "Resident memory with 1,000 partitions that are open and 1,000 idle connections",
        unit="MiB",
        of="partitions",
        count=1000,
        count_quick=10,
        ours=Contender(OURS, memory_of_ours),
        peers=(Peer(Contender(KAFKA, memory_of_kafka), times_as_long(1.0)),),
        limit=150.0,
    ),
    _row(
        "serve-join",
        "A new group of 50 members, until each has got a record",
        group_join,
        times_as_long(1.0),
        of="members",
        count=50,
        count_quick=3,
    ),
    _row(
        "serve-group-500",
        "A KIP-848 group grows from one member to 500, until each reads a partition",
        group_grows,
        times_as_long(1.0),
        of="members",
        count=500,
        count_quick=4,
    ),
)
