"""`offsetfs doctor`: what is wrong with a log directory, and whether a broker starts with it."""

from __future__ import annotations

import os
import time

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.archives import attached
from offsetfs.cli.arguments.cluster_options import refuse_cluster
from offsetfs.cli.arguments.log_directories import is_settings_file, log_directories
from offsetfs.cli.exit_codes import SYSTEM, Failure
from offsetfs.cli.terminal.progress import bytes_progress
from offsetfs.cli.terminal.reports import ReportForm, report_options, write_metrics
from offsetfs.common.formatting import printable
from offsetfs.storage.directory import check_log_directory
from offsetfs.storage.errors import NotALogDirectory, sentence
from offsetfs.storage.settings import read_properties_file


@click.command("doctor", short_help="Find what is wrong, and whether a broker starts.")
@click.argument("log_directory", metavar="LOGDIR")
@report_options
@click.option("--metrics", metavar="FILE", type=click.Path(), help="Write the findings for Prometheus as well.")
def command(log_directory: str, as_json: bool, html: str | None, shows_all: bool, metrics: str | None) -> int:
    """Find what is wrong with a log directory, and whether a broker starts with it. Nothing is changed.

    Each finding has evidence, a consequence and a remedy: topic ids and partitions that contradict the metadata log,
    strays, leftovers, an unclean shutdown and the time of its recovery, leader epochs that go back, indexes that
    contradict their logs, timestamps in the future, files of another user, hanging transactions, partitions that are
    not compacted, commits outside of their partitions, disks that fill. It reads headers, indexes and checkpoints;
    offsetfs verify reads every byte.

    LOGDIR may be several directories, a server.properties, of which metadata.log.dir is read as well, or the URL of an
    archive. The command works beside a running
    broker or mount, and needs no JVM.

    \b
    offsetfs doctor /var/lib/kafka/data
    offsetfs doctor /disk1/kafka,/disk2/kafka
    offsetfs doctor /etc/kafka/server.properties --json | jq '.findings[].kind'
    offsetfs doctor /var/lib/kafka/data --html report.html

    Exit codes: 0 nothing found but notices, 1 findings (or a wrong call), 2 a directory could not be read.
    """
    refuse_cluster(log_directory, "run it where the files of its brokers are; offsetfs groups takes clusters")
    paths = [attached(path) for path in [*log_directories(log_directory), *_metadata_directory(log_directory)]]
    for path in paths:
        _check(path)
    from offsetfs.answers.doctor.doctor import examine

    form = ReportForm(as_json=as_json, html=html, shows_all=shows_all)
    try:
        with bytes_progress("Reading partitions") as show:
            report = examine(paths, time.time_ns() // 1_000_000, on_partition=show)
    except OSError as error:
        raise Failure(printable(sentence(error)), SYSTEM) from error
    if metrics is not None:
        write_metrics(report, metrics)
    return form.show(report)


def _metadata_directory(text: str) -> list[str]:
    """Return the directory of the metadata log, if LOGDIR is a server.properties that names one of its own."""
    if not is_settings_file(text):
        return []
    path = read_properties_file(text).get("metadata.log.dir", "").strip()
    held = {os.path.realpath(each) for each in log_directories(text)}
    return [path] if os.path.isdir(path) and os.path.realpath(path) not in held else []


def _check(path: str) -> None:
    preflight.check_not_mounted(path)
    try:
        check_log_directory(path, read_only=False)
    except NotALogDirectory as error:
        raise preflight.not_a_log_directory(error, SYSTEM) from error
    except OSError as error:
        raise Failure(printable(sentence(error)), SYSTEM) from error
