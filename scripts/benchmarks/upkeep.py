"""What keeps a log in order, and looks into it: compaction, recovery, verify, dump, against Kafka's own.

A core each: our command is tied to one core from its start to its end, and Kafka gets one thread (its defaults) whose
work it times itself, while its compiler, its collector and the rest of the broker may use the other cores. So ours
includes the start of Python and the opening of the directory, theirs neither that nor the start of the JVM. The tools
that need no broker are commands on both sides, and timed as such.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import brokers
import keyed
import logs
import mounted
from bench import Bench
from brokers import Planted
from commands import OFFSETFS, one_core, seconds
from fixtures.kafka import programs
from fixtures.kafka.broker import KafkaBroker
from logs import PARTITION
from measuring import WARM_UP, Contender, Measure, Opened, Peer, Row, times_as_fast

from offsetfs.storage.names import TopicPartition

_QUIETLY = 'exec "$@" > /dev/null'

# --- compaction ------------------------------------------------------------------------------------------------------


def _keyed(bench: Bench, codec: str) -> tuple[Path, int]:
    """A log of `count` records with keys, and how many of them the newest of their key are."""

    def make() -> tuple[Path, int]:
        directory = bench.new("keyed")
        return directory, keyed.keyed(directory, bench.count, codec)

    return bench.once(("keyed", bench.count, codec), make)


def clean(codec: str) -> Opened:
    """`offsetfs clean --now` of a copy, on one core."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        source, keys = _keyed(bench, codec)

        def measure(number: int) -> float:
            copy = bench.new("copy")
            shutil.copytree(source, copy)
            seconds(_QUIETLY, *OFFSETFS, "config", copy, PARTITION.topic, "cleanup.policy=compact")
            figure = seconds(_QUIETLY, *one_core(), *OFFSETFS, "clean", "--now", copy)
            assert keyed.records_left(copy, PARTITION) == keys
            shutil.rmtree(copy)
            return figure

        yield measure

    return opened


def kafka_cleaner(codec: str) -> Opened:
    """Kafka's LogCleaner, warm from the second round on: a copy in a topic each, which becomes a compacted one."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        _, keys = _keyed(bench, codec)
        broker = _broker_with_copies(bench)

        def measure(number: int) -> float:
            copy = _copy(codec, number)
            change = ("--alter", "--topic", copy.topic, "--add-config", "cleanup.policy=compact")
            broker.tool("org.apache.kafka.tools.ConfigCommand", *change)
            figure = brokers.cleaned_seconds(broker, copy)
            assert keyed.records_left(broker.log_dir, copy) == keys
            return figure

        yield measure

    return opened


_CODECS = ("none", "lz4")


def _broker_with_copies(bench: Bench) -> KafkaBroker:
    """A running broker with a copy of each keyed log for each round, not yet to be compacted."""

    def make() -> KafkaBroker:
        brokers.plant(
            bench.broker(),
            {
                _copy(codec, number): Planted(_keyed(bench, codec)[0] / str(PARTITION), bench.count)
                for codec in _CODECS
                for number in range(WARM_UP, bench.rounds)
            },
        )
        return bench.broker()

    return bench.once(("copies", bench.count), make)


def _copy(codec: str, number: int) -> TopicPartition:
    return TopicPartition(f"copy-{codec}-{number - WARM_UP}", 0)


# --- recovery --------------------------------------------------------------------------------------------------------

_RECOVERED = TopicPartition("recovered", 0)


def _recovered(bench: Bench) -> tuple[KafkaBroker, int]:
    """A stopped broker with a partition of `count` MiB that we wrote, and its records; both recover the same files."""

    def make() -> tuple[KafkaBroker, int]:
        settings = {**brokers.SETTINGS, "num.recovery.threads.per.data.dir": "1"}
        with mounted.broker(bench.new("kafka"), settings) as broker:
            broker.produce(_RECOVERED.topic, b"made\n")
            broker.stop()
        brokers.empty(broker.log_dir, _RECOVERED)
        return broker, keyed.fill(broker.log_dir, _RECOVERED, bench.count << 20)

    return bench.once(("recovered", bench.count), make)


@contextlib.contextmanager
def recovery(bench: Bench) -> Iterator[Measure]:
    """`offsetfs mount` of the broker's directory, on one core, until it has returned."""
    broker, records = _recovered(bench)

    def measure(number: int) -> float:
        brokers.make_unclean(broker.log_dir, _RECOVERED)
        start = time.perf_counter()
        with mounted.offsetfs(broker.log_dir, bench.folder / "ours", before=one_core()) as mount:
            elapsed = time.perf_counter() - start
            end = int((mount.path / str(_RECOVERED) / "next").read_text())
        assert end == records, (end, records)
        return elapsed

    yield measure


@contextlib.contextmanager
def kafka_recovery(bench: Bench) -> Iterator[Measure]:
    """The broker's start on it: what its log says of the loading of this partition."""
    broker, _ = _recovered(bench)

    def measure(number: int) -> float:
        brokers.make_unclean(broker.log_dir, _RECOVERED)
        with broker:
            figure = brokers.loaded_seconds(broker, _RECOVERED)
            assert "Recovering unflushed segment" in broker.log_text()
            broker.kill()
        return figure

    yield measure


# --- looking into it -------------------------------------------------------------------------------------------------


def offsetfs_command(*words: str) -> Opened:
    """One of our commands over the lines in batches of 16 KiB, its output thrown away."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        log_directory = bench.filled(logs.PRODUCER_BATCH_BYTES)
        yield lambda number: seconds(_QUIETLY, *OFFSETFS, *words, log_directory)

    return opened


def dump_log_segments(*options: str) -> Opened:
    """Kafka's DumpLogSegments over the same file, its output thrown away."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        segments = sorted((bench.filled(logs.PRODUCER_BATCH_BYTES) / str(PARTITION)).glob("*.log"))
        files = ",".join(map(str, segments))
        words = ("kafka.tools.DumpLogSegments", *options, "--files", files)
        version = mounted.KAFKA_VERSION
        command = programs.java(*words, log_level="warn", log_target="SYSTEM_ERR", version=version)
        yield lambda number: seconds(_QUIETLY, *command)

    return opened


# --- the rows --------------------------------------------------------------------------------------------------------

_compaction = functools.partial(
    Row, unit="s", of="records", count=5_000_000, count_quick=50_000, record_bytes=keyed.RECORD_BYTES
)

ROWS = (
    _compaction(
        "compaction",
        "500 MB over a million keys in batches of 16 KiB, by one core: `offsetfs clean --now`",
        ours=Contender("`offsetfs clean --now`", clean("none")),
        peers=(Peer(Contender("Kafka's LogCleaner", kafka_cleaner("none")), times_as_fast(2)),),
    ),
    _compaction(
        "compaction-lz4",
        "The same, LZ4: inflated and compressed again",
        ours=Contender("`offsetfs clean --now`", clean("lz4")),
        peers=(Peer(Contender("Kafka's LogCleaner", kafka_cleaner("lz4")), times_as_fast(2)),),
    ),
    Row(
        "recovery",
        "5 GiB in batches of 16 KiB, none known to be synced, by one core: `offsetfs mount`",
        unit="s",
        of="MiB",
        count=5120,
        count_quick=64,
        ours=Contender("`offsetfs mount`", recovery),
        peers=(Peer(Contender("Kafka's LogLoader", kafka_recovery), times_as_fast(1.5)),),
    ),
    Row(
        "verify",
        "Every checksum, offset and index entry checked, start included: `offsetfs verify`",
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("`offsetfs verify`", offsetfs_command("verify")),
        peers=(Peer(Contender("DumpLogSegments, without printing", dump_log_segments()), times_as_fast(2)),),
    ),
    Row(
        "dump",
        "Every record as Kafka's tool prints it: `offsetfs dump --print-data-log > /dev/null`",
        unit="s",
        of="records",
        count=5_000_000,
        count_quick=50_000,
        ours=Contender("`offsetfs dump`", offsetfs_command("dump", "--print-data-log")),
        peers=(Peer(Contender("DumpLogSegments", dump_log_segments("--print-data-log")), times_as_fast(5)),),
    ),
)
