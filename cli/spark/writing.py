"""`offsetfs spark import`, `repartition`, `compact` and `reindex`: jobs that take the lock of a log directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import click

from offsetfs.cli.exit_codes import DONE
from offsetfs.cli.spark import arguments as spark_arguments
from offsetfs.cli.spark import session as spark_session
from offsetfs.common.formatting import size
from offsetfs.storage import JSON_VALUES
from offsetfs.storage.errors import counted
from offsetfs.storage.records import REFUSE


@click.command("import", short_help="Append files to a topic, each record once.")
@click.argument("source", metavar="FILE|DIRECTORY|PATTERN")
@click.argument("destination", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["text", "ndjson", "parquet", "csv"]),
    default="text",
    show_default=True,
    help="What the files contain.",
)
@click.option("--value-is-line", is_flag=True, help="Each whole line is a value, as with --format text.")
@click.option(
    "--json-values",
    type=click.Choice(JSON_VALUES),
    default=REFUSE,
    show_default=True,
    help="For ndjson: text takes a value that is not a string as its text.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Create the topic with N partitions if it is missing.",
)
@click.option("--rejects", metavar="FILE", help="Report rejected lines in this file, as lines of JSON.")
@click.option(
    "--rejects-max",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="How many lines may be rejected.",
)
@spark_session.job
def import_(
    source: str,
    destination: str,
    topic: str,
    kind: str,
    value_is_line: bool,
    json_values: str,
    partitions: int | None,
    rejects: str | None,
    rejects_max: int,
    master: str | None,
    conf: tuple[str, ...],
    as_json: bool,
) -> int:
    """Append the records of files to TOPIC. The same files, given again, are not imported again.

    With --format ndjson each line has the fields of records.ndjson. --json-values text takes a value that is a number,
    an object or a list as its text; --value-is-line takes the whole line as the value.

    \b
    offsetfs spark import lines.txt ~/logs lines --partitions 4
    offsetfs spark import 'dump/*.ndjson' ~/logs events --format ndjson --rejects bad.ndjson --rejects-max 100
    offsetfs spark import /backup/parquet/topic=orders ~/logs orders --format parquet --partitions 12
    """
    if value_is_line:
        if kind not in ("text", "ndjson"):
            raise click.UsageError(f"--value-is-line is for lines of text, not for --format {kind}")
        kind = "text"
    if json_values != REFUSE and kind != "ndjson":
        raise click.UsageError(f"--json-values {json_values} is for --format ndjson, not for --format {kind}")
    spark_arguments.input_exists(source, master)
    spark_arguments.check_destination(destination, master, topic, may_create=partitions is not None)
    with spark_session.open_session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.import_files import TooManyRejects, import_files, write_rejects

        if rejects is not None:
            write_rejects(rejects, ())  # where it cannot be written, that is to be known before anything is done
        try:
            result = import_files(
                *(spark, source, destination, topic),
                format=kind,
                partitions=partitions,
                rejects_max=rejects_max,
                json_values=json_values,
            )
        except TooManyRejects as error:
            if rejects is not None:
                write_rejects(rejects, error.rejects)
            raise
        if rejects is not None:
            write_rejects(rejects, result.rejects)
    published = result.published
    done = "imported before" if published.is_repeated else "imported"
    fields = {**published.fields(), "is_repeated": published.is_repeated, "rejected": result.rejected}
    sentence = f"{counted(published.records, 'record')} {done}, {counted(result.rejected, 'line')} rejected"
    spark_session.print_result(fields, sentence, as_json, _offsets(published.partitions))
    return DONE


def _offsets(partitions: Mapping[str, tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return a table of what each partition got."""
    rows = [(name, f"{end - start:,}", str(start), str(end)) for name, (start, end) in sorted(partitions.items())]
    return [("partition", "offsets", "from", "to before"), *rows]


@click.command("repartition", short_help="Copy a topic into a new one with another number of partitions.")
@click.argument("source", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.argument("destination", metavar="LOGDIR")
@click.argument("new_topic", metavar="NEW_TOPIC")
@click.option(
    "--partitions",
    type=click.IntRange(1, 100_000),
    required=True,
    metavar="N",
    help="Number of partitions of NEW_TOPIC.",
)
@click.option("--offset-map", metavar="FILE", help="Write the map of offsets to this file.")
@spark_session.job
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
    """Copy the records of TOPIC into NEW_TOPIC, which is created. Records of one key keep their order.

    The map of offsets, lines of JSON, gives the new offset of each old one, so that consumer groups can continue there.

    \b
    offsetfs spark repartition /var/lib/kafka/data orders ~/logs orders-wide --partitions 48
    """
    spark_arguments.check_source(source, master, [topic])
    spark_arguments.check_destination(destination, master, new_topic, may_create=True)
    with spark_session.open_session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.repartition import repartition as job

        result = job(spark, source, topic, destination, new_topic, partitions, offset_map=offset_map)
    published = result.published
    done = "written before" if published.is_repeated else f"written; the offset map is {result.offset_map}"
    fields = {**published.fields(), "is_repeated": published.is_repeated, "offset_map": result.offset_map}
    spark_session.print_result(
        fields, f"{counted(published.records, 'record')} {done}", as_json, _offsets(published.partitions)
    )
    return DONE


@click.command("compact", short_help="Compact all compacted topics, a partition a task.")
@click.argument("source", metavar="LOGDIR")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[-PARTITION] …]")
@spark_session.job
def compact(source: str, partitions: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Do what `offsetfs clean` does for compacted topics, many partitions in parallel. No other process may be writing.

    Partitions are compacted whatever their dirty ratio; the active segments stay.

    \b
    offsetfs spark compact ~/logs
    offsetfs spark compact ~/logs users-0 users-1
    """
    spark_arguments.check_rebuilt(source, master)
    partitions = spark_arguments.partition_names(source, master, partitions)
    with spark_session.open_session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.compact import compact as job

        result = job(spark, source, partitions)
    rows = [dataclasses.asdict(partition) for partition in result.partitions]
    table = [("partition", "records read", "that stay", "before", "after")]
    for row in rows:
        numbers = (f"{row['records_read']:,}", f"{row['records_kept']:,}")
        table.append((row["partition"], *numbers, size(row["bytes_before"]), size(row["bytes_after"])))
    sentence = f"{counted(len(rows), 'partition')} compacted" if rows else "nothing is dirty"
    spark_session.print_result({"partitions": rows}, sentence, as_json, table)
    return DONE


@click.command("reindex", short_help="Rebuild offset and time indexes.")
@click.argument("source", metavar="LOGDIR")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[-PARTITION] …]")
@spark_session.job
def reindex(source: str, partitions: tuple[str, ...], master: str | None, conf: tuple[str, ...], as_json: bool) -> int:
    """Rebuild the indexes of all segments from the logs, many in parallel. No other process may be writing.

    \b
    offsetfs spark reindex /backup/kafka
    """
    spark_arguments.check_rebuilt(source, master)
    partitions = spark_arguments.partition_names(source, master, partitions)
    with spark_session.open_session(master, conf, as_json) as spark:
        from offsetfs.pipeline.jobs.reindex import reindex as job

        result = job(spark, source, partitions)
    sentence = f"{counted(result.segments, 'segment')}, {size(result.bytes)}; {result.changed} with changed indexes"
    spark_session.print_result(dataclasses.asdict(result), sentence, as_json)
    return DONE
