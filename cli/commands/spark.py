"""`offsetfs spark JOB`: processes whole log directories with Apache Spark, on this machine or on a cluster."""

from __future__ import annotations

import click

from offsetfs.cli.spark import reading as spark_reading
from offsetfs.cli.spark import writing as spark_writing

_SYNONYMS = {
    "count": "stats",
    "describe": "stats",
    "check": "verify",
    "read": "export",
    "load": "import",
    "write": "import",
    "follow": "tail",
}


class _Jobs(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in _SYNONYMS and not ctx.resilient_parsing:
            raise click.UsageError(f"no such command {name!r}; did you mean {_SYNONYMS[name]}?", ctx)
        return super().resolve_command(ctx, args)


@click.group("spark", cls=_Jobs, short_help="Import, export, count and verify with Apache Spark.")
def command() -> None:
    """Process whole log directories on all cores of this machine, or on a cluster that shares the files.

    Needs PySpark (`pip install 'offsetfs[spark]'`) and Java 17 or later. Reading jobs work beside a broker or a mount;
    import, repartition, compact and reindex take the lock of the log directory.

    \b
    offsetfs spark stats /var/lib/kafka/data
    offsetfs spark verify /var/lib/kafka/data --json
    offsetfs spark export /var/lib/kafka/data /backup/parquet --topic orders
    offsetfs spark import events.ndjson ~/logs events --format ndjson --partitions 12
    offsetfs spark repartition /var/lib/kafka/data orders ~/logs orders-wide --partitions 48
    offsetfs spark tail /var/lib/kafka/data /lake/orders --topic orders --once

    The same in SQL and DataFrames: spark.read.format("offsetfs").load("/var/lib/kafka/data"): offsetfs-datasource(7).

    Exit codes: 1 wrong call, or damage found by verify; 2 system error, 32 not possible now.
    """


for _job in (
    spark_reading.stats,
    spark_reading.verify,
    spark_reading.export,
    spark_reading.tail,
    spark_writing.import_,
    spark_writing.repartition,
    spark_writing.compact,
    spark_writing.reindex,
):
    command.add_command(_job)
