"""`offsetfs spark stats`, `verify`, `export` and `tail`: jobs that leave the log directory as it is."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from offsetfs.cli.exit_codes import DONE, INTERRUPTED, WRONG_CALL, Failure
from offsetfs.cli.spark import arguments as spark_arguments
from offsetfs.cli.spark import session as spark_session
from offsetfs.cli.terminal.findings import found
from offsetfs.cli.terminal.output_files import write_pieces
from offsetfs.common.ending import until_signal
from offsetfs.common.formatting import duration, size
from offsetfs.storage.errors import counted

if TYPE_CHECKING:
    from offsetfs.pipeline.jobs.export import PartitionExported

_BARS_WIDTH_MIN = 110
"""The columns of a terminal that bars need."""

FOUND = 1
"""Verify has found damage; the same number as that of `offsetfs verify`."""


_COMMITTED = click.option("--committed", is_flag=True, help="Leave out open and aborted transactions.")
_BY_DATE = click.option("--by-date", is_flag=True, help="Directories topic=…/date=…, by the times of records in UTC.")


@click.command("stats", short_help="Count records, bytes, keys and codecs.")
@click.argument("source", metavar="LOGDIR")
@spark_session.TOPIC
@click.option("--plot", metavar="FILE", help="Draw the records of each partition, as SVG.")
@spark_session.job
def stats(
    source: str,
    topics: tuple[str, ...],
    plot: str | None,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Count records, bytes, distinct keys and codecs of each partition; show times and the most frequent key.

    \b
    offsetfs spark stats /var/lib/kafka/data
    offsetfs spark stats /var/lib/kafka/data --plot data.svg
    offsetfs spark stats /var/lib/kafka/data --topic orders --json | jq '.partitions[].records'
    """
    spark_arguments.check_source(source, master, topics)
    with spark_session.open_session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.stats import stats as job

        result = job(spark, source, topics)
    rows = [dataclasses.asdict(partition) for partition in result.partitions]
    if plot is not None:
        from offsetfs.cli.spark.plot import svg

        write_pieces(plot, [svg(rows, f"{source}: {_in_all(rows)}").encode()])
    if as_json:
        click.echo(json.dumps({"records": result.records, "partitions": rows}))
    else:
        _print_stats(rows)
        click.echo(_in_all(rows))
    return DONE


def _in_all(rows: list[dict[str, Any]]) -> str:
    """Return a sentence on all partitions, and how unevenly they share."""
    records = sum(row["records"] for row in rows)
    noun = "record" if records == 1 else "records"
    unreadable = sum(row["unreadable"] for row in rows)
    summary = f"{records:,} {noun}, {size(sum(row['bytes'] for row in rows))} in {counted(len(rows), 'partition')}"
    if unreadable:
        summary += f"; left out {counted(unreadable, 'damaged batch', 'damaged batches')} (offsetfs verify names them)"
    if len(rows) < 2 or not records:
        return summary
    largest = max(rows, key=lambda row: int(row["records"]))
    times = largest["records"] * len(rows) / records
    return f"{summary}; {largest['topic']}-{largest['partition']} has {times:.1f} times its share"


def _print_stats(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    unreadable = sum(row["unreadable"] for row in rows)
    console = Console(width=None if sys.stdout.isatty() else 160)
    has_bars = console.width >= _BARS_WIDTH_MIN
    table = Table(box=None, header_style="bold")
    for name in (
        "partition",
        "records",
        *([""] if has_bars else []),
        "bytes",
        "from",
        "to",
        "keys",
        "hottest",
        "codecs",
        *(["unreadable"] if unreadable else []),
    ):
        is_number = name in ("records", "bytes", "keys", "hottest", "unreadable")
        may_wrap = name in ("from", "to", "codecs")  # a truncated number would be a wrong number
        table.add_column(name, justify="right" if is_number else "left", no_wrap=not may_wrap, overflow="fold")
    most = max((row["records"] for row in rows), default=0)
    for row in rows:
        hottest = f"≤ {row['hottest_key_records'] / row['keyed']:.0%}" if row["keyed"] else ""
        bar = "▇" * -(-12 * row["records"] // most) if most else ""
        table.add_row(
            f"{row['topic']}-{row['partition']}",
            f"{row['records']:,}",
            *([bar] if has_bars else []),
            size(row["bytes"]),
            _moment(row["earliest_ms"]),
            _moment(row["latest_ms"]),
            f"{row['distinct_keys']:,}" if row["keyed"] else "",
            hottest,
            " ".join(sorted(row["codecs"])),
            *([f"{row['unreadable']:,}"] if unreadable else []),
        )
    console.print(table)


def _moment(timestamp_ms: int | None) -> str:
    return "" if timestamp_ms is None else time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(timestamp_ms // 1000))


@click.command("verify", short_help="Check logs, indexes and checkpoints, in all cores.")
@click.argument("source", metavar="LOGDIR")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[-PARTITION] …]")
@spark_session.job
def verify(source: str, partitions: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Check as `offsetfs verify` does, in all cores, also within one large partition.

    \b
    offsetfs spark verify /var/lib/kafka/data
    offsetfs spark verify /nfs/kafka --master spark://head:7077
    """
    spark_arguments.check_source(source, master)
    partitions = spark_arguments.partition_names(source, master, partitions)
    begun = time.monotonic()
    with spark_session.open_session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.verify import verify as job

        result = job(spark, source, partitions)
    if as_json:
        findings = [dataclasses.asdict(finding) for finding in result.findings]
        click.echo(json.dumps({"damage": result.damage, "findings": findings, **dataclasses.asdict(result.tally)}))
    else:
        for finding in result.findings:
            click.echo(finding)
        seconds = duration(time.monotonic() - begun)
        text = found(result.damage, len(result.findings) - result.damage)
        click.echo(f"{result.tally} in {seconds}: {text}")
    return FOUND if result.damage else DONE


@click.command("export", short_help="Write records as Parquet, or into a table of a database.")
@click.argument("source", metavar="LOGDIR")
@click.argument("destination", metavar="DIRECTORY|URL|jdbc:…")
@spark_session.TOPIC
@_COMMITTED
@click.option("--from", "start", metavar="TIME", help="From the first record at this time or later.")
@click.option("--to", "end", metavar="TIME", help="To before the first record at this time or later.")
@_BY_DATE
@click.option("--table", metavar="TABLE", help="The table to write in the database.")
@click.option("--append", is_flag=True, help="Append to an existing table.")
@click.option("--decode", is_flag=True, help="Values of one topic by their schema, as a struct with their types.")
@click.option("--schema", "schema_words", metavar="NAME=FILE|DIR", multiple=True, help="With --decode: a schema.")
@click.option("--schema-registry", "registry_word", metavar="URL|FILE", help="With --decode: a registry.")
@click.option("--mask", "mask_words", metavar="TOPIC:FIELD[,FIELD]", multiple=True, help="With --decode: null fields.")
@spark_session.job
def export(
    source: str,
    destination: str,
    topics: tuple[str, ...],
    committed: bool,
    start: str | None,
    end: str | None,
    by_date: bool,
    table: str | None,
    append: bool,
    decode: bool,
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Write the records of a log directory as Parquet files, a range of offsets each, or into a table of a database.

    Files: started again, it writes the missing files; later, files of the records that were appended since. With
    --by-date, and at a URL of Hadoop (s3a://, hdfs://), Spark's own writer makes a new directory. A table is created;
    what a failed job has written stays in it. Give Spark the jar of the database driver, or of the file system, with
    --conf.

    \b
    offsetfs spark export /var/lib/kafka/data /backup/parquet --topic orders --topic users
    offsetfs spark export /var/lib/kafka/data s3a://lake/orders --topic orders --by-date --from 2026-11-01
    offsetfs spark export /var/lib/kafka/data 'jdbc:postgresql://db/shop?user=ada' --table orders \\
        --topic orders --conf spark.jars=postgresql-42.7.4.jar
    """
    is_database = destination.startswith("jdbc:")
    if is_database != (table is not None) or (append and not is_database):
        raise Failure("--table belongs to a destination that begins with jdbc:, and --append to a table", WRONG_CALL)
    if is_database and by_date:
        raise Failure("--by-date divides files, and a table has none", WRONG_CALL)
    decoding = _decoding(decode, schema_words, registry_word, mask_words, topics)
    if decoding and is_database:
        raise Failure("--decode writes files; offsetfs table sync --decode fills a table of a database", WRONG_CALL)
    start_ms, end_ms = spark_arguments.time_of("--from", start), spark_arguments.time_of("--to", end)
    spark_arguments.check_source(source, master, topics)
    isolation = "read_committed" if committed else "read_uncommitted"
    with spark_session.open_session(master, conf, as_json) as spark:
        if table is not None:
            from offsetfs.pipeline.jobs.export_table import export_table

            written = export_table(
                spark,
                source,
                destination,
                table,
                topics,
                isolation=isolation,
                is_to_append=append,
                start_ms=start_ms,
                end_ms=end_ms,
            )
            spark_session.print_result(
                dataclasses.asdict(written), f"{counted(written.records, 'record')} into {table}", as_json
            )
            return DONE
        from offsetfs.pipeline.jobs.export import export as job
        from offsetfs.pipeline.jobs.lake import export_lake, hadoop_path, selection

        if by_date or hadoop_path(destination) is not None:
            options = selection(topics, isolation=isolation, start_ms=start_ms, end_ms=end_ms) | decoding
            lake = export_lake(spark, source, destination, options, is_by_date=by_date, compression="zstd")
            sentence = f"{counted(lake.records, 'record')} into {lake.destination}"
            spark_session.print_result(dataclasses.asdict(lake), sentence, as_json)
            return DONE
        result = job(
            spark,
            source,
            destination,
            topics,
            isolation=isolation,
            start_ms=start_ms,
            end_ms=end_ms,
            decoding=decoding,
        )
    new_files = counted(result.files_made, "new file")
    made = f"{counted(result.records_made, 'record')}, {size(result.bytes_made)} in {new_files}"
    sentence = f"{made}; {counted(result.files, 'file')} in all"
    spark_session.print_result(dataclasses.asdict(result), sentence, as_json, _exported(result.partitions))
    return DONE


def _decoding(
    decode: bool,
    schema_words: Sequence[str],
    registry_word: str | None,
    mask_words: Sequence[str],
    topics: Sequence[str],
) -> dict[str, str]:
    """Return the options of a reader that decodes values; none without --decode."""
    if not decode:
        if schema_words or registry_word or mask_words:
            raise Failure("--schema, --schema-registry and --mask: go with --decode", WRONG_CALL)
        return {}
    if len(topics) != 1:
        raise Failure("--decode: the columns are those of one topic; give one --topic", WRONG_CALL)
    registry = {"schemaRegistry": registry_word} if registry_word else {}
    return {"decode": "auto", "schemas": ",".join(schema_words), "mask": ";".join(mask_words), **registry}


def _exported(partitions: Sequence[PartitionExported]) -> list[tuple[str, ...]]:
    """Return a table of what there is of each partition."""
    rows = [
        (
            partition.partition,
            f"{partition.records_made:,}",
            size(partition.bytes_made),
            str(partition.files_made),
            str(partition.start),
            str(partition.end),
        )
        for partition in partitions
    ]
    return [("partition", "new records", "bytes", "files", "offsets from", "to before"), *rows]


@click.command("tail", short_help="Copy new records as they arrive, to Parquet or the console.")
@click.argument("source", metavar="LOGDIR")
@click.argument("destination", metavar="[DIRECTORY|URL]", required=False)
@spark_session.TOPIC
@click.option(
    "--from", "start", metavar="WHEN", default="earliest", help="The first start: earliest (default), latest or a time."
)
@_COMMITTED
@click.option("--trigger", metavar="DURATION", help="A batch so often, such as 30s; default one after the other.")
@_BY_DATE
@click.option("--once", is_flag=True, help="Copy the records that are there now, and end.")
@spark_session.job
def tail(
    source: str,
    destination: str | None,
    topics: tuple[str, ...],
    start: str,
    committed: bool,
    trigger: str | None,
    by_date: bool,
    once: bool,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Copy records as they arrive, until interrupted. Started again, it continues where it was. A URL is one of Hadoop.

    \b
    offsetfs spark tail /var/lib/kafka/data /lake/orders --topic orders
    offsetfs spark tail /var/lib/kafka/data s3a://lake/orders --topic orders --by-date --trigger 1m --committed
    offsetfs spark tail /var/lib/kafka/data --topic orders --once
    """
    if once and trigger is not None:
        raise Failure("--trigger is for a stream that goes on, and --once ends it: give one of them", WRONG_CALL)
    is_end = start in ("earliest", "latest")
    start_ms = None if is_end else spark_arguments.time_of("--from", start)
    trigger_ms = spark_arguments.duration_of("--trigger", trigger)
    spark_arguments.check_source(source, master, topics)
    with spark_session.open_session(master, conf, as_json, has_bar=False) as spark, until_signal() as is_ending:
        from offsetfs.pipeline.jobs.tail import tail as job

        result = job(
            spark,
            source,
            destination,
            topics,
            starting_offsets=start if is_end else "earliest",
            start_ms=start_ms,
            isolation="read_committed" if committed else "read_uncommitted",
            is_once=once,
            trigger_ms=trigger_ms,
            is_by_date=by_date,
            is_ending=is_ending.is_set,
        )
    spark_session.print_result(
        dataclasses.asdict(result),
        f"{counted(result.records, 'record')} in {counted(result.batches, 'batch', 'batches')}",
        as_json,
    )
    # A signal is the normal end of a stream, as of `archive --follow`; a copy with --once is not complete then.
    return INTERRUPTED if once and is_ending.is_set() else DONE
