"""Mirrors of a running Kafka: `offsetfs mirror`, what others take instead, and what the broker can send."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import logs
import mounted
from bench import Bench
from commands import OFFSETFS, UNWAITING, seconds
from confluent_kafka import Consumer, Producer, TopicPartition
from fixtures.kafka.apps import app, properties
from fixtures.machine.free_ports import free_ports
from fixtures.mirrors.process import MirrorProcess, wait_until
from measuring import Contender, Goal, Measure, Opened, Peer, Row, times_as_fast
from served_logs import Server, consumed_seconds, filled_by_kcat, kafka

from offsetfs.kafka.mirror.options import FETCH_BYTES_MAX

MIRROR = 'exec "$1" -m offsetfs mirror "$2" "$3" --topic "$4" --once'
KCAT = f'exec kcat -C -b "$2" -t "$4" -p 0 -o beginning -e -q {UNWAITING} > "$3"'
COPY = 'exec cp -r "$5/$4-0" "$3"'

LINES_IN_1K = 10
_RATE = 200
_SECONDS_MAX = 300.0


@contextlib.contextmanager
def _filled(bench: Bench, codec: str, joined: int) -> Iterator[tuple[Server, str]]:
    """A topic of `count` records of so many lines each, which kcat wrote; the contenders of a row share it."""

    def make() -> tuple[Server, str]:
        server = kafka(bench)
        many = bench.for_row(bench.count * joined)
        lines = many.lines() if codec == "none" else many.prose()
        if joined > 1:
            path = bench.new("joined")
            separators = " " * (joined - 1) + "\\n"
            with path.open("wb") as file:
                subprocess.run(["paste", "-s", "-d", separators, str(lines)], stdout=file, check=True)
            lines = path
        topic = bench.until_the_end.enter_context(server.topic(bench.new("source").name))
        filled_by_kcat(server, topic, lines, codec)
        return server, topic

    yield bench.once(("mirrored", codec, joined, bench.count), make)


def _into_a_directory(script: str, codec: str, joined: int) -> Opened:
    """Return how long a script takes to copy the topic to a new place, `$3`."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with _filled(bench, codec, joined) as (server, topic):

            def measure(number: int) -> float:
                target = bench.new("copy")
                try:
                    return seconds(script, sys.executable, server.address, target, topic, server.log_dir)
                finally:
                    shutil.rmtree(target) if target.is_dir() else target.unlink()

            yield measure

    return opened


def _consumer_perf(codec: str, joined: int) -> Opened:
    """Kafka's consumer-perf-test: what the broker sends to a consumer of Kafka, which discards it."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with _filled(bench, codec, joined) as (server, topic):
            yield lambda number: consumed_seconds(server, topic, bench.count)

    return opened


def _fetch_only(codec: str, joined: int) -> Opened:
    """What the broker sends for the same requests to Fetch to a client that discards it; without its start."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        with _filled(bench, codec, joined) as (server, topic):
            yield lambda number: fetched_seconds(server.address, topic)

    return opened


def fetched_seconds(address: str, topic: str) -> float:
    """Return how long `fetch_floor.py` receives partition 0 of a topic."""
    script = Path(__file__).with_name("fetch_floor.py")
    words = (sys.executable, script, address, topic, FETCH_BYTES_MAX, 1)
    found = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    return float(found.stdout.split()[0])


@contextlib.contextmanager
def mirror_maker(bench: Bench) -> Iterator[Measure]:
    """MirrorMaker 2, from its first record in the target to the last one: its start does not count.

    The target is the same broker, where the copy has another name.
    """
    with _filled(bench, "none", 1) as (server, topic):

        def measure(number: int) -> float:
            folder, alias = bench.new("mirror-maker"), bench.new("from").name
            folder.mkdir()
            one = {f"{each}.topic.replication.factor": 1 for each in ("checkpoints", "heartbeats", "offset-syncs")}
            storages = {f"{each}.storage.replication.factor": 1 for each in ("config", "offset", "status")}
            settings = {
                "clusters": f"{alias}, to",
                f"{alias}.bootstrap.servers": server.address,
                "to.bootstrap.servers": server.address,
                f"{alias}->to.enabled": "true",
                f"{alias}->to.topics": topic,
                f"to->{alias}.enabled": "false",
                "replication.factor": 1,
                "dedicated.mode.enable.internal.rest": "true",
                "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
                "plugin.discovery": "service_load",
                **one,
                **storages,
            }
            main_class = "org.apache.kafka.connect.mirror.MirrorMaker"
            with contextlib.closing(Consumer({"bootstrap.servers": server.address, "group.id": "none"})) as consumer:
                copied = TopicPartition(f"{alias}.{topic}", 0)

                def end() -> int:
                    with contextlib.suppress(Exception):  # the topic is not there yet
                        return int(consumer.get_watermark_offsets(copied, 1.0, cached=False)[1])
                    return 0

                with app(folder, main_class, properties(folder / "mm2", settings)) as wait:
                    wait(lambda: end() > 0)
                    began, first = time.perf_counter(), end()
                    wait(lambda: end() >= bench.count)
                    elapsed = time.perf_counter() - began
            return elapsed * bench.count / max(bench.count - first, 1)

        yield measure


@contextlib.contextmanager
def live(bench: Bench) -> Iterator[Measure]:
    """From the acknowledgment of a record at the source to its line in `follow` of a mount of the mirror: p99 in ms."""
    server = kafka(bench)

    def measure(number: int) -> float:
        with server.topic(bench.new("live").name) as topic:
            path, mount_point = bench.new("mirror"), bench.new("mnt")
            with MirrorProcess(server.address, path, "--topic", topic):
                wait_until(lambda: (path / f"{topic}-0").is_dir(), "the mirror has begun")
                with mounted.offsetfs(path, mount_point, "ro") as mount:
                    delays = sorted(_delays(server, topic, mount.path / f"{topic}-0" / "follow@0", bench.count))
            shutil.rmtree(path)
            return delays[math.ceil(len(delays) * 0.99) - 1] * 1e3

    yield measure


def _delays(server: Server, topic: str, follow: Path, count: int) -> list[float]:
    """Produce records one by one; return how long after its acknowledgment each came out of `cat follow`."""
    acknowledged, seen = dict[int, float](), dict[int, float]()
    producer = Producer({"bootstrap.servers": server.address, "acks": "1", "linger.ms": 0})
    with subprocess.Popen(["cat", str(follow)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        lines = reader.stdout

        def read() -> None:
            for line in lines:
                seen[int(line)] = time.perf_counter()
                if len(seen) > count:
                    return

        thread = threading.Thread(target=read)
        thread.start()

        def note(number: int, error: object, message: object) -> None:
            acknowledged[number] = time.perf_counter()

        for number in range(count + 1):
            noted = functools.partial(note, number)
            producer.produce(topic, b"%d" % number, partition=0, on_delivery=noted)
            due = time.perf_counter() + 1 / _RATE
            producer.flush(_SECONDS_MAX)
            time.sleep(max(due - time.perf_counter(), 0))
        thread.join(_SECONDS_MAX)
        reader.terminate()
    return [seen[number] - acknowledged[number] for number in range(1, count + 1)]  # the first makes connections


def _peak_mib(server: Server, topic: str, target: Path) -> float:
    """Return the largest resident memory of `offsetfs mirror --once`."""
    words = (*OFFSETFS, "mirror", server.address, str(target), "--topic", topic, "--once")
    process = os.spawnv(os.P_NOWAIT, words[0], words)
    _, status, usage = os.wait4(process, 0)
    assert status == 0, f"the mirror ended with {status}"
    return usage.ru_maxrss / 1024


@contextlib.contextmanager
def memory(bench: Bench) -> Iterator[Measure]:
    """The largest resident memory of a mirror of `count` partitions with 100 records each."""
    server = kafka(bench)
    with server.topic(bench.new("many").name, bench.count) as topic:
        producer = Producer({"bootstrap.servers": server.address})
        for number in range(100 * bench.count):
            producer.produce(topic, b"%d" % number * 10, partition=number % bench.count)
            producer.poll(0)
        producer.flush(_SECONDS_MAX)

        def measure(number: int) -> float:
            target = bench.new("copy")
            try:
                return _peak_mib(server, topic, target)
            finally:
                shutil.rmtree(target)

        yield measure


@contextlib.contextmanager
def backlog(bench: Bench) -> Iterator[Measure]:
    """The largest resident memory of a mirror that has all of a topic to fetch."""
    with _filled(bench, "none", 1) as (server, topic):

        def measure(number: int) -> float:
            target = bench.new("copy")
            try:
                return _peak_mib(server, topic, target)
            finally:
                shutil.rmtree(target)

        yield measure


def _row(name: str, what: str, count: int, codec: str, joined: int = 1) -> Row:
    def peer(contender: str, opened: Opened, goal: Goal, *, is_goal: bool = True) -> Peer:
        return Peer(Contender(contender, opened), goal, is_goal)

    into = functools.partial(_into_a_directory, codec=codec, joined=joined)
    return Row(
        name,
        what,
        unit="s",
        of="records",
        count=count,
        count_quick=5_000,
        ours=Contender("offsetfs mirror --once", into(MIRROR)),
        peers=(
            peer("kcat -C > file", into(KCAT), times_as_fast(3)),
            peer("cp of the segments", into(COPY), times_as_fast(0.7)),
            peer("floor: fetch only", _fetch_only(codec, joined), times_as_fast(1), is_goal=False),
            peer("consumer-perf-test", _consumer_perf(codec, joined), times_as_fast(1), is_goal=False),
        ),
        record_bytes=logs.LINE_BYTES * joined,
    )


ROWS = (
    _row(
        "mirror",
        "a partition of a running Kafka into a new directory, start included: records of 100 bytes",
        5_000_000,
        "none",
    ),
    _row("mirror-lz4", "the same, LZ4", 5_000_000, "lz4"),
    _row("mirror-1k", "the same, records of 1 kB", 1_000_000, "none", LINES_IN_1K),
    _row("mirror-1k-lz4", "the same, records of 1 kB, LZ4", 1_000_000, "lz4", LINES_IN_1K),
    Row(
        "mirror-maker",
        "records of 100 bytes; MirrorMaker 2 writes into the same Kafka, and its start does not count",
        unit="s",
        of="records",
        count=1_000_000,
        count_quick=5_000,
        ours=Contender("offsetfs mirror --once", _into_a_directory(MIRROR, "none", 1)),
        peers=(Peer(Contender("MirrorMaker 2", mirror_maker), times_as_fast(5)),),
    ),
    Row(
        "mirror-live",
        "from the acknowledgment of a record by Kafka to its line in `cat follow` of a mirror's mount, 200 a second",
        unit="ms",
        of="records",
        count=2_000,
        count_quick=50,
        ours=Contender("offsetfs mirror and mount, p99", live),
        limit=50.0,
    ),
    Row(
        "mirror-memory",
        "largest resident memory of a mirror of 1,000 partitions",
        unit="MiB",
        of="partitions",
        count=1_000,
        count_quick=10,
        ours=Contender("offsetfs mirror --once", memory),
        limit=150.0,
    ),
    Row(
        "mirror-backlog",
        "largest resident memory of a mirror that has 500 MB to fetch",
        unit="MiB",
        of="records",
        count=5_000_000,
        count_quick=5_000,
        ours=Contender("offsetfs mirror --once", backlog),
        limit=150.0,
    ),
)
