"""`offsetfs spark JOB`: bulk work over whole log directories in Apache Spark, of this machine or of a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from offsetfs.cli.exit_codes import DONE, FAILED, INTERRUPTED, WRONG_CALL, Failure
from offsetfs.fs.figures import duration, size
from offsetfs.storage.errors import StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOUND = 1
"""Verify has found damage; the same number as that of `offsetfs verify`."""

_Command = Callable[..., int]


@click.group("spark", short_help="Import, export, count and verify with Apache Spark.")
def command() -> None:
    """Bulk work over whole log directories, in all cores of this machine or in a cluster that sees the same files.

    PySpark comes with `pip install 'offsetfs[spark]'`; Java 17 or later has to be there. Reading jobs work beside a
    broker or a mount; import takes the lock of the log directory.

    \b
    offsetfs spark stats /var/lib/kafka/data
    offsetfs spark verify /var/lib/kafka/data --json
    offsetfs spark export /var/lib/kafka/data /backup/parquet --topic orders
    offsetfs spark import events.ndjson ~/logs events --format ndjson --partitions 12
    offsetfs spark repartition /var/lib/kafka/data orders ~/logs orders-wide --partitions 48
    offsetfs spark tail /var/lib/kafka/data /lake/orders --topic orders --once

    The same in SQL and DataFrames: spark.read.format("offsetfs").load("/var/lib/kafka/data"). docs/spark.md.

    Exit codes: 0 done, 1 wrong call, or damage found by verify, 2 system error, 32 not possible now.
    """


def _job(function: _Command) -> _Command:
    """Add what all jobs take."""
    options = (
        click.option("--master", metavar="URL", help="Spark's master, or sc://…; all cores here if left out."),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text."),
    )
    for option in options:
        function = option(function)
    return function


_TOPIC = click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; may be repeated.")


@command.command("stats", short_help="Count records, bytes, keys and codecs.")
@click.argument("source", metavar="LOGDIR")
@_TOPIC
@_job
def stats(source: str, topics: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Count what is in each partition: records, bytes, times, different keys, the most frequent one, codecs.

    \b
    offsetfs spark stats /var/lib/kafka/data
    offsetfs spark stats /var/lib/kafka/data --topic orders --json | jq '.partitions[].records'
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.stats import stats as job

        result = job(spark, source, topics)
    rows = [dataclasses.asdict(each) for each in result.partitions]
    if as_json:
        click.echo(json.dumps({"records": result.records, "partitions": rows}))
    else:
        _print_stats(rows)
    return DONE


def _print_stats(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for name in ("partition", "records", "", "bytes", "from", "to", "keys", "hottest", "codecs"):
        table.add_column(name, justify="right" if name in ("records", "bytes", "keys", "hottest") else "left")
    most = max((row["records"] for row in rows), default=0)
    for row in rows:
        hottest = f"≤ {row['hottest_key_records'] / row['keyed']:.0%}" if row["keyed"] else ""
        table.add_row(
            f"{row['topic']}-{row['partition']}",
            f"{row['records']:,}",
            "▇" * -(-12 * row["records"] // most) if most else "",
            size(row["bytes"]),
            _moment(row["earliest_ms"]),
            _moment(row["latest_ms"]),
            f"{row['distinct_keys']:,}" if row["keyed"] else "",
            hottest,
            " ".join(sorted(row["codecs"])) + (f" {row['unreadable']} unreadable" if row["unreadable"] else ""),
        )
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _moment(timestamp_ms: int | None) -> str:
    return "" if timestamp_ms is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(timestamp_ms // 1000))


@command.command("verify", short_help="Check logs, indexes and checkpoints, a partition a task.")
@click.argument("source", metavar="LOGDIR")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION …]")
@_job
def verify(source: str, partitions: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Find what `offsetfs verify` finds, in as many partitions at a time as there are cores.

    \b
    offsetfs spark verify /var/lib/kafka/data
    offsetfs spark verify /nfs/kafka --master spark://head:7077
    """
    begun = time.monotonic()
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.verify import verify as job

        result = job(spark, source, partitions)
    if as_json:
        findings = [each.fields() for each in result.findings]
        click.echo(json.dumps({"damage": result.damage, "findings": findings, **result.tally.fields()}))
    else:
        for finding in result.findings:
            click.echo(finding)
        looked = ", ".join(f"{count} {name}" for name, count in result.tally.fields().items())
        click.echo(f"{looked} in {duration(time.monotonic() - begun)}: {len(result.findings)} findings")
    return FOUND if result.damage else DONE


@command.command("reindex", short_help="Make offset and time indexes anew.")
@click.argument("source", metavar="LOGDIR")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION …]")
@_job
def reindex(source: str, partitions: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Make the indexes of all segments anew from the logs, many at a time. Nobody else may be writing.

    \b
    offsetfs spark reindex /backup/kafka
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.reindex import reindex as job

        result = job(spark, source, partitions)
    sentence = f"{result.segments} segments, {size(result.bytes)}; {result.changed} got other indexes than they had"
    _tell(dataclasses.asdict(result), sentence, as_json)
    return DONE


@command.command("compact", short_help="Compact all compacted topics, a partition a task.")
@click.argument("source", metavar="LOGDIR")
@click.argument("partitions", nargs=-1, metavar="[TOPIC-PARTITION …]")
@_job
def compact(source: str, partitions: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Do what `offsetfs clean` does for compacted topics, in many partitions at a time. Nobody else may be writing.

    All that is dirty is taken, whatever its ratio; the active segments stay.

    \b
    offsetfs spark compact ~/logs
    offsetfs spark compact ~/logs users-0 users-1
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.compact import compact as job

        result = job(spark, source, partitions)
    rows = [dataclasses.asdict(each) for each in result.partitions]
    lines = [
        f"{row['partition']}: {row['records_kept']} of {row['records_read']} records stay,"
        f" {size(row['bytes_before'])} → {size(row['bytes_after'])}"
        for row in rows
    ]
    _tell({"partitions": rows}, "\n".join(lines) or "nothing is dirty", as_json)
    return DONE


@command.command("export", short_help="Write records as Parquet, with a manifest.")
@click.argument("source", metavar="LOGDIR")
@click.argument("destination", metavar="DIRECTORY")
@_TOPIC
@click.option("--committed", is_flag=True, help="Leave out open and aborted transactions.")
@_job
def export(
    source: str,
    destination: str,
    topics: tuple[str, ...],
    committed: bool,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Write the records of a log directory as Parquet files, a range of offsets each.

    Begun again it makes the files that are missing; later, those for what has come since.

    \b
    offsetfs spark export /var/lib/kafka/data /backup/parquet --topic orders --topic users
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.export import export as job

        isolation = "read_committed" if committed else "read_uncommitted"
        result = job(spark, source, destination, topics, isolation=isolation)
    made = f"{result.records_made} records, {size(result.bytes_made)} in {result.files_made} new files"
    _tell(dataclasses.asdict(result), f"{made}; {result.files} files in all", as_json)
    return DONE


@command.command("import", short_help="Append files to a topic, each record once.")
@click.argument("source", metavar="FILE|DIRECTORY|PATTERN")
@click.argument("destination", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--format", "kind", type=click.Choice(["text", "ndjson", "parquet", "csv"]), default="text", show_default=True
)
@click.option("--partitions", type=click.IntRange(1, 100_000), metavar="N", help="Make the topic where it is missing.")
@click.option("--rejects", metavar="FILE", help="Where lines that are wrong are told, as lines of JSON.")
@click.option("--rejects-max", type=click.IntRange(0), default=0, show_default=True, help="How many may be wrong.")
@_job
def import_(
    source: str,
    destination: str,
    topic: str,
    kind: str,
    partitions: int | None,
    rejects: str | None,
    rejects_max: int,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Append the records of files to TOPIC. The same files, given again, are not imported again.

    \b
    offsetfs spark import lines.txt ~/logs lines --partitions 4
    offsetfs spark import 'dump/*.ndjson' ~/logs events --format ndjson --rejects bad.ndjson --rejects-max 100
    offsetfs spark import /backup/parquet/topic=orders ~/logs orders --format parquet --partitions 12
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.import_files import import_files, write_rejects

        result = import_files(
            spark, source, destination, topic, format=kind, partitions=partitions, rejects_max=rejects_max
        )
        if rejects is not None:
            write_rejects(rejects, result.rejects)
    published = result.published
    done = "were imported before" if published.is_repeated else "imported"
    fields = {**published.fields(), "is_repeated": published.is_repeated, "rejected": result.rejected}
    _tell(fields, f"{published.records} records {done}, {result.rejected} lines rejected", as_json)
    return DONE


@command.command("repartition", short_help="Write a topic into one of another number of partitions.")
@click.argument("source", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.argument("destination", metavar="LOGDIR")
@click.argument("new_topic", metavar="NEW_TOPIC")
@click.option("--partitions", type=click.IntRange(1, 100_000), required=True, metavar="N", help="How many it gets.")
@click.option("--offset-map", metavar="FILE", help="Where the map of offsets goes.")
@_job
def repartition(
    source: str,
    topic: str,
    destination: str,
    new_topic: str,
    partitions: int,
    offset_map: str | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Write what TOPIC holds now into NEW_TOPIC, which is made. Records of one key keep their order.

    The map of offsets, lines of JSON, says which old offset lies where, so that groups can go on there.

    \b
    offsetfs spark repartition /var/lib/kafka/data orders ~/logs orders-wide --partitions 48
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.repartition import repartition as job

        result = job(spark, source, topic, destination, new_topic, partitions, offset_map=offset_map)
    published = result.published
    done = "were written before" if published.is_repeated else f"written; the offset map is {result.offset_map}"
    fields = {**published.fields(), "is_repeated": published.is_repeated, "offset_map": result.offset_map}
    _tell(fields, f"{published.records} records {done}", as_json)
    return DONE


@command.command("tail", short_help="Carry over what comes, to Parquet or the console.")
@click.argument("source", metavar="LOGDIR")
@click.argument("destination", metavar="[DIRECTORY]", required=False)
@_TOPIC
@click.option("--once", is_flag=True, help="What there is now, and end.")
@_job
def tail(
    source: str,
    destination: str | None,
    topics: tuple[str, ...],
    once: bool,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Carry over records as they come, until it is interrupted. Begun again it goes on where it was.

    \b
    offsetfs spark tail /var/lib/kafka/data /lake/orders --topic orders
    offsetfs spark tail /var/lib/kafka/data --topic orders --once
    """
    with _session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.tail import tail as job

        result = job(spark, source, destination, topics, is_once=once)
    _tell(dataclasses.asdict(result), f"{result.records} records in {result.batches} batches", as_json)
    return DONE


def _tell(fields: Mapping[str, Any], sentence: str, as_json: bool) -> None:
    click.echo(json.dumps(fields) if as_json else sentence)


@contextlib.contextmanager
def _session(master: str | None, conf: tuple[str, ...], as_json: bool) -> Iterator[SparkSession]:
    """Yield a session that is stopped at the end; what a job raises becomes a sentence."""
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("PySpark is not installed: pip install 'offsetfs[spark]'")
    from offsetfs.pipeline.jobs.workers import sentence_of
    from offsetfs.pipeline.session import session

    is_watched = sys.stderr.isatty() and not as_json
    ours = {"spark.ui.showConsoleProgress": str(is_watched).lower(), "spark.log.level": "ERROR"}
    is_remote = master is not None and master.startswith("sc://")
    try:
        spark = session(master, {**({} if is_remote else ours), **_settings(conf)})
    except Exception as error:
        raise Failure(f"Spark does not start: {sentence_of(error)}") from error
    try:
        yield spark
    except (StorageError, ValueError) as error:
        raise Failure(str(error), WRONG_CALL if isinstance(error, ValueError) else FAILED) from error
    except KeyboardInterrupt:
        raise Failure("interrupted", INTERRUPTED) from None
    except OSError:
        raise
    except Exception as error:
        raise Failure(sentence_of(error)) from error
    finally:
        spark.stop()


def _settings(conf: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for setting in conf:
        name, equals, value = setting.partition("=")
        if not equals:
            raise Failure(f"--conf {setting}: KEY=VALUE is meant", WRONG_CALL)
        settings[name] = value
    return settings
