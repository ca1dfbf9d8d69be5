"""`offsetfs stats`: what is in a log directory: records, bytes, codecs, times, producers, gaps."""

from __future__ import annotations

import click

from offsetfs.cli.arguments.cluster_options import ClusterQuestion, cluster_options
from offsetfs.cli.arguments.named_partitions import resolve_among
from offsetfs.cli.arguments.sources import opened_source
from offsetfs.cli.exit_codes import FAILED, SYSTEM, Failure
from offsetfs.cli.terminal.reports import ReportForm, report_options
from offsetfs.common.extras import install_command


@click.command("stats", short_help="Show what topics hold: records, sizes, codecs, times.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@click.option("--values", "reads_values", is_flag=True, help="Read all records, for sizes and keys.")
@cluster_options
@report_options
def command(
    log_directory: str,
    names: tuple[str, ...],
    reads_values: bool,
    as_json: bool,
    html: str | None,
    shows_all: bool,
) -> int:
    """Show what topics and partitions hold, the largest first: records, bytes, codecs and their ratio, times,
    producers, gaps of offsets and of time, skew between partitions, and what retention would remove now.

    Without names, all partitions of LOGDIR are counted; TOPIC stands for all its partitions. LOGDIR is only read, also
    beside a broker; it may be an archive, or a cluster, whose topics are copied first. Only the headers of batches are
    read, and a sample of batches for the ratio of compression.

    With --values all records are read: quantiles of sizes, the largest records, distinct and heaviest keys, null
    values, tombstones, headers. The errors of estimates are in the report. Needs `pip install 'offsetfs[arrow]'`.

    \b
    offsetfs stats /var/lib/kafka/data
    offsetfs stats /var/lib/kafka/data orders payments-0
    offsetfs stats /var/lib/kafka/data orders --values
    offsetfs stats s3://backup/kafka --html report.html
    offsetfs stats kafka://broker1:9092/ orders
    offsetfs stats /var/lib/kafka/data --json | jq '.tables.topics[0]'

    Exit codes: 1 wrong call, or damage was found; 2 system error, 8 interrupted, 32 a log could not be read.
    """
    try:
        from offsetfs.answers.stats.stats_report import stats_report
    except ModuleNotFoundError as error:
        raise Failure(f"stats needs {error.name}: {install_command('arrow')}", SYSTEM) from error
    from offsetfs.cli.terminal.progress import bytes_progress

    form = ReportForm(as_json, html, shows_all)
    with opened_source(log_directory, question=ClusterQuestion(names)) as directory:
        present = directory.partitions()
        partitions = resolve_among(log_directory, present, names) if names else list(present)
        with bytes_progress("Counting") as on_bytes:
            report, is_complete = stats_report(
                directory, partitions, names, reads_values=reads_values, on_bytes=on_bytes
            )
    code = form.show(report)
    return code if is_complete else FAILED
