"""Spark: our data source and jobs against Spark's Kafka source and sink, which talk to a real broker.

Both sides run in the same session, with as many tasks at a time as there are cores, and read the same files: those of
the broker's log directory. Where executors are counted, each is a JVM of its own with one core.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spark_driver
from bench import Bench
from commands import kcat, seconds
from measuring import WARM_UP, Contender, Measure, Opened, Peer, Row, times_as_fast, times_as_long
from spark_driver import SparkDriver

READ_PARTITIONS = 4
"""The partitions of the topic that is read: the Kafka source takes one task for each."""
WRITTEN_PARTITIONS = 12
_FILES = 4
_KEYS = 1_000_000
_FILLING = "abcdefghijklmnopqrstuvwxyz0123456789" * 3


def spark_session(bench: Bench, master: str = "local[*]") -> SparkDriver:
    def make() -> SparkDriver:
        begun = spark_driver.begun(master, bench.new("spark-words"), with_kafka=master.startswith("local["))
        return bench.until_the_end.enter_context(begun)

    return bench.once(("spark", master), make)


def _topic(bench: Bench) -> str:
    """Return the topic of the broker with the lines of `bench`, over some partitions."""

    def fill(name: str) -> float:
        return seconds(f'exec {kcat("-P", bench.broker(), name, None)} < "$1"', bench.lines())

    return bench.topic("spark", fill, READ_PARTITIONS)


def _of_log(bench: Bench) -> dict[str, Any]:
    return {
        "format": "offsetfs",
        "options": {"subscribe": _topic(bench), "includeHeaders": "true"},
        "path": bench.broker().log_dir,
    }


def _of_kafka(bench: Bench) -> dict[str, Any]:
    address = bench.broker().address
    options = {"subscribe": _topic(bench), "includeHeaders": "true", "kafka.bootstrap.servers": address}
    return {"format": "kafka", "options": options}


# --- reading ---------------------------------------------------------------------------------------------------------


def scan(source: Any) -> Opened:
    """All records read and put together by partition; the same query for both sources."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark = spark_session(bench)
        result = spark.result("scan", source=source(bench))
        assert sum(count for _, count, *_ in result) == bench.count, result
        assert bench.once(("scanned", bench.count), lambda: result) == result
        yield lambda number: spark.seconds("scan", source=source(bench))

    return opened


def export(function: str, arguments: Any) -> Opened:
    """All records as Parquet files, ZSTD."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark = spark_session(bench)

        def measure(number: int) -> float:
            destination = bench.new("parquet")
            figure = spark.seconds(function, **arguments(bench), destination=destination)
            if number == WARM_UP:
                sums = spark.result("parquet_sums", directory=destination)
                assert sums[0] == bench.count, sums
                assert bench.once(("exported", bench.count), lambda: sums) == sums
            shutil.rmtree(destination)
            return figure

        yield measure

    return opened


def _of_export(bench: Bench) -> dict[str, Any]:
    return {"log_directory": bench.broker().log_dir, "topic": _topic(bench)}


def _of_parquet(bench: Bench) -> dict[str, Any]:
    return {"source": _of_kafka(bench)}


# --- writing ---------------------------------------------------------------------------------------------------------


def _keyed_lines(bench: Bench, count: int) -> Path:
    """Files of so many lines of JSON: a key and a value of about 80 bytes."""

    def make() -> Path:
        folder = bench.new("keyed-lines")
        folder.mkdir()
        for number in range(_FILES):
            numbers = range(count * number // _FILES, count * (number + 1) // _FILES)
            with (folder / f"{number}.ndjson").open("w") as file:
                for start in range(numbers.start, numbers.stop, 100_000):
                    part = range(start, min(start + 100_000, numbers.stop))
                    file.write("".join([_LINE % (n * 2_654_435_761 % _KEYS, n) for n in part]))
        return folder

    return bench.once(("keyed-lines", count), make)


_LINE = f'{{"key":"%08d","value":"%011d {_FILLING[:68]}"}}\n'


def import_lines(master: str = "local[*]") -> Opened:
    """`import` of the lines into a new topic; on disk when it is done."""

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark, lines = spark_session(bench, master), _keyed_lines(bench, bench.count)

        def measure(number: int) -> float:
            directory = bench.new("log")
            log = {"log_directory": directory, "topic": "T"}
            figure = spark.seconds("import_lines", lines=lines, **log, partitions=WRITTEN_PARTITIONS)
            if number == WARM_UP:
                _check_imported(bench, spark.result("partition_sums", **log))
            shutil.rmtree(directory)
            return figure

        yield measure

    return opened


@contextlib.contextmanager
def kafka_sink(bench: Bench) -> Iterator[Measure]:
    """Spark's reader of JSON and its Kafka sink, into a new topic; acknowledged when it is done."""
    spark, lines, broker = spark_session(bench), _keyed_lines(bench, bench.count), bench.broker()

    def measure(number: int) -> float:
        topic = f"sink-{bench.count}-{number - WARM_UP}"
        broker.create_topic(topic, WRITTEN_PARTITIONS)
        figure = spark.seconds("lines_to_kafka", lines=lines, address=broker.address, topic=topic)
        if number == WARM_UP:
            _check_imported(bench, spark.result("partition_sums", log_directory=broker.log_dir, topic=topic))
        broker.tool("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", topic)
        return figure

    yield measure


def _check_imported(bench: Bench, sums: list[Any]) -> None:
    """The same records in the same partitions, for any writer."""
    assert sum(count for _, count, *_ in sums) == bench.count, sums
    assert bench.once(("imported", bench.count), lambda: sums) == sums


_NAMES = 8
"""A gigabyte is verified in half a second, less than a job takes anyway: it is there eight times, by hard links."""


def verify(master: str, *, is_of_processors: bool = False) -> Opened:
    """`verify` of a log directory with the lines, each of its logs there under `_NAMES` names, by a job.

    The figure is its time, or with `is_of_processors` the processor time of driver, executors and Python workers.
    """

    @contextlib.contextmanager
    def opened(bench: Bench) -> Iterator[Measure]:
        spark, count = spark_session(bench, master), bench.count // _NAMES

        def make() -> Path:
            log_directory = bench.new("log")
            words = {"lines": _keyed_lines(bench, count), "log_directory": log_directory, "topic": "T"}
            spark.result("import_lines", **words, partitions=WRITTEN_PARTITIONS)
            for folder in list(log_directory.glob("T-*")):
                for name in range(1, _NAMES):
                    shutil.copytree(folder, log_directory / f"T{name}{folder.name[1:]}", copy_function=os.link)
            return log_directory

        log_directory = bench.once(("imported-log", count), make)
        found = spark.result("verify", log_directory=log_directory)
        assert (found["damage"], found["records"]) == (0, count * _NAMES), found
        figure = spark.processor_seconds if is_of_processors else spark.seconds
        yield lambda number: figure("verify", log_directory=log_directory)

    return opened


# --- the rows --------------------------------------------------------------------------------------------------------

_row = functools.partial(Row, unit="s", of="records", count=5_000_000, count_quick=20_000)
ONE, TWO = "local-cluster[1,1,1024]", "local-cluster[2,1,1024]"

ROWS = (
    _row(
        "spark-scan",
        "Spark aggregates a topic of 4 partitions: count, bytes, last offset and time",
        ours=Contender('`format("offsetfs")`', scan(_of_log)),
        peers=(Peer(Contender('`format("kafka")`', scan(_of_kafka)), times_as_fast(2)),),
    ),
    _row(
        "spark-import",
        "Lines of JSON with keys into a new topic of 12 partitions: `offsetfs spark import --format ndjson`",
        of="lines",
        count=10_000_000,
        ours=Contender("`import`", import_lines()),
        peers=(Peer(Contender("Spark's reader of JSON and Kafka sink", kafka_sink), times_as_fast(3)),),
    ),
    _row(
        "spark-export",
        "A topic of 4 partitions as Parquet files, ZSTD: `offsetfs spark export`",
        ours=Contender("`export`", export("parquet_by_export", _of_export)),
        peers=(
            Peer(
                Contender('`format("kafka")`, Spark\'s Parquet', export("parquet_from", _of_parquet)), times_as_fast(2)
            ),
        ),
    ),
    _row(
        "spark-two-import",
        "The same import by two executors of one core, and by one",
        of="lines",
        count=10_000_000,
        ours=Contender("two executors", import_lines(TWO)),
        peers=(Peer(Contender("one executor", import_lines(ONE)), times_as_fast(1.6)),),
    ),
    _row(
        "spark-two-verify",
        "`offsetfs spark verify` of 9 GB in 96 partitions by two executors of one core, and by one",
        count=80_000_000,
        ours=Contender("two executors", verify(TWO)),
        peers=(Peer(Contender("one executor", verify(ONE)), times_as_fast(1.6)),),
    ),
    _row(
        "spark-two-cpu",
        "The same `verify`: processor time of all",
        count=80_000_000,
        ours=Contender("two executors", verify(TWO, is_of_processors=True)),
        peers=(Peer(Contender("one executor", verify(ONE, is_of_processors=True)), times_as_long(1.15)),),
    ),
)
