"""`offsetfs mirror`: keep a local log directory in step with a running cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.clusters import (
    broker_addresses,
    bytes_per_second,
    client_properties,
    groups_option,
    mirror_options,
    mirror_settings,
    topic_option,
)
from offsetfs.cli.arguments.topic_settings import parsed_settings, topic_settings_option
from offsetfs.cli.exit_codes import DONE, FAILED, WRONG_CALL, Failure
from offsetfs.cli.mounts.mirroring_process import publish, withdraw
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.cli.terminal.progress import Line
from offsetfs.common.addresses import Address, AddressError, address_text, check_loopback, parse_address
from offsetfs.common.formatting import printable, size
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted

if TYPE_CHECKING:
    from offsetfs.kafka.mirror.process import MirrorSource
    from offsetfs.kafka.mirror.status import MirrorStatus

METRICS_PORT = 9309
_WAITING_S = 10.0
"""The interval of the lines about a cluster that does not answer."""


@click.command("mirror", short_help="Keep a copy of a running cluster's topics.")
@click.argument("brokers", metavar="BROKERS")
@click.argument("log_directory", metavar="LOGDIR")
@topic_option
@groups_option
@click.option(
    "--from",
    "start",
    metavar="WHEN",
    default="earliest",
    show_default=True,
    help="Where new partitions begin (see above).",
)
@click.option("--once", is_flag=True, help="End when LOGDIR has what the cluster has at the start.")
@click.option("--keep", is_flag=True, help="Keep records that the cluster deletes or compacts.")
@click.option(
    "--on-gap",
    type=click.Choice(("fail", "skip")),
    default="fail",
    show_default=True,
    help="The cluster has deleted records that are not here: stop, or go on.",
)
@topic_settings_option("retention.ms=7d: remove records of LOGDIR at this age; -1: never.")
@click.option("--rate", metavar="BYTES", help="At most so many bytes per second, such as 20M.")
@click.option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus over HTTP; default port 9309.")
@click.option("--allow-anonymous", is_flag=True, help="Also serve metrics on addresses that other machines reach.")
@click.option("--config", metavar="FILE", type=click.Path(), help="client.properties, as Java's tools take it.")
def command(
    brokers: str,
    log_directory: str,
    names: tuple[str, ...],
    groups: tuple[str, ...],
    start: str,
    once: bool,
    keep: bool,
    on_gap: str,
    settings: tuple[str, ...],
    rate: str | None,
    metrics: str | None,
    allow_anonymous: bool,
    config: str | None,
) -> int:
    """Keep topics of a running Kafka cluster in LOGDIR: the same batches at the same offsets, with headers, times,
    transactions and gaps, topic ids and settings. Runs until SIGTERM or Ctrl-C; with --once, until LOGDIR has what the
    cluster has at the start. A restart continues where the last run ended, also after a crash.

    BROKERS are addresses of some brokers: HOST:PORT, separated by commas. All topics are mirrored; internal ones only
    where --topic is their name. All commands of offsetfs can read LOGDIR, also while the mirror runs (mount -o ro);
    appends are refused.

    WHEN is earliest, latest, or a time (2026-11-21T13:05, @1795253676, -7d). It counts for partitions that are not in
    LOGDIR yet.

    Records that the cluster deletes are deleted in LOGDIR, too, unless --keep is given; later runs without it are then
    refused. LOGDIR does not remove records by age, unless -o retention.ms is given. Changes of other topic settings are
    followed; this needs the permission DESCRIBE_CONFIGS.

    With --groups, committed offsets are written to __consumer_offsets in LOGDIR every five seconds: consumers can
    continue from the mirror (offsetfs serve). This needs the permission to describe the groups.

    \b
    offsetfs mirror broker1:9092,broker2:9092 ~/mirror --topic 'orders|users.*' --from -7d
    offsetfs mirror broker1:9092 /backup/kafka --once --keep --groups '.*'
    offsetfs mirror broker1:9093 ~/mirror --config client.properties
    offsetfs mount ~/mirror /mnt -o ro

    Exit codes: 1 wrong call or permissions, 2 system error, 32 a topic or partition could not be mirrored; the message
    gives the reason.
    """
    from offsetfs.kafka.mirror.process import MirrorSource

    addresses = broker_addresses(brokers)
    options = mirror_options(
        names,
        start,
        once=once,
        keep=keep,
        on_gap=on_gap,
        bytes_per_s=bytes_per_second("--rate", rate),
        groups=groups,
        settings=mirror_settings(parsed_settings(settings)),
    )
    source = MirrorSource(addresses, client_properties(config), options)
    listener = _metrics_address(metrics, allow_anonymous=allow_anonymous)
    if not log_directory or "://" in log_directory:
        raise Failure(f"{log_directory!r}: a mirror is a local directory; give its path", WRONG_CALL)
    is_new = preflight.make_missing(log_directory)
    preflight.check_mirror(log_directory)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if is_new and not _has_answer(source, log_directory):
        return DONE
    return DONE if _mirror(log_directory, source, listener) else FAILED


def _has_answer(source: MirrorSource, new_directory: str) -> bool:
    """Wait for the cluster; `Failure`, or False after SIGTERM or Ctrl-C, and the new directory is removed.

    No lock is needed: LOGDIR is not open yet, and rmdir(2) refuses one where another process has begun to write.
    """
    import trio

    from offsetfs.kafka.client.errors import ClientError
    from offsetfs.kafka.mirror.process import answers

    has_answered = False
    line = Line("offsetfs mirror", every_seconds=_WAITING_S)
    try:
        has_answered = trio.run(answers, source, partial(line.show, f"{printable(source.text)}: no answer yet"))
    except ClientError as error:
        raise Failure(str(error)) from error
    finally:
        line.clear()
        if not has_answered:
            with contextlib.suppress(OSError):
                os.rmdir(new_directory)
    return has_answered


def _metrics_address(text: str | None, *, allow_anonymous: bool) -> Address | None:
    if text is None:
        return None
    try:
        address = parse_address(text, METRICS_PORT)
        if not allow_anonymous:
            check_loopback([address], "--allow-anonymous")
    except AddressError as error:
        raise Failure(f"--metrics: {error}", WRONG_CALL) from error
    return address


def _mirror(log_directory: str, source: MirrorSource, metrics: Address | None) -> bool:
    """Mirror; return whether everything could be. `Failure` where it cannot begin."""
    import trio

    from offsetfs.cli.terminal.progress import open_for_writing
    from offsetfs.kafka.client.errors import ClientError
    from offsetfs.kafka.mirror.options import MirrorError
    from offsetfs.kafka.mirror.process import mirror

    preflight.check_descriptors()  # each partition needs some, and 1,024 is the usual limit
    try:
        directory = open_for_writing(log_directory)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT_FIRST) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    terminal = Terminal()
    statuses: list[MirrorStatus] = []  # the last one

    def progress(status: MirrorStatus) -> None:
        statuses[:] = [status]
        terminal.show(status)
        with contextlib.suppress(OSError):  # the mirror continues without `offsetfs status`
            publish(log_directory, status)

    try:
        done = trio.run(mirror, directory, source, terminal.event, progress, partial(_served_metrics, metrics))
    except (ClientError, MirrorError, StorageError) as error:
        raise Failure(str(error)) from error
    finally:
        terminal.end()
        withdraw()
    if source.options.once and done and statuses:
        click.echo(_summary(statuses[0]))
    return done


def _summary(status: MirrorStatus) -> str:
    """Return what a run with --once has done."""
    partitions = counted(len(status.partitions), "partition")
    if not status.appended_bytes:
        return f"nothing new: {partitions} up to date"
    return f"{partitions} up to date, {size(status.appended_bytes)} received"


class Terminal:
    """Events as lines of standard error, and on a terminal a line of progress that is overwritten in place."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._line = Line("mirroring", every_seconds=0, now=now) if sys.stderr.isatty() else None
        self._now = now
        self._last = 0, now()

    def show(self, status: MirrorStatus) -> None:
        """Show the state; called every second."""
        (size, at), now = self._last, self._now()
        self._last = status.appended_bytes, now
        if self._line is not None:
            self._line.show(status.progress((status.appended_bytes - size) / max(now - at, 0.1)))

    def event(self, text: str) -> None:
        """Print an event."""
        self.end()
        click.echo(printable(text), err=True)

    def end(self) -> None:
        """Remove the line of progress."""
        if self._line is not None:
            self._line.clear()


@contextlib.contextmanager
def _served_metrics(address: Address | None, status: Callable[[], MirrorStatus]) -> Iterator[None]:
    """Serve metrics for Prometheus at an address, if there is one; `Failure`."""
    if address is None:
        yield
        return
    from offsetfs.common.metrics_server import MetricsServer
    from offsetfs.kafka.mirror.status import MirrorStatus

    async def report() -> MirrorStatus:
        return status()

    try:
        server = MetricsServer(report, MirrorStatus.metrics, *address)
    except OSError as error:
        raise Failure(f"--metrics {address_text(address)}: {error.strerror}") from error
    try:
        click.echo(f"metrics are at http://{address_text(server.address)}/metrics")
        yield
    finally:
        server.close()
