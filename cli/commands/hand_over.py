"""`offsetfs hand-over`: copy a partition into the log directory of a stopped Kafka broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.named_partitions import resolve_names
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted

if TYPE_CHECKING:
    from offsetfs.storage.maintenance import HandOverResult


@click.command("hand-over", short_help="Copy a partition to a stopped Kafka broker.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("name", metavar="TOPIC[-PARTITION]")
@click.argument("broker_directory", metavar="BROKER_LOGDIR")
def command(log_directory: str, name: str, broker_directory: str) -> int:
    """Copy a partition of LOGDIR, or all partitions of a topic, into the log directory of a stopped Kafka broker.

    A KRaft broker moves partitions away that it did not create. Therefore create the topic with the broker, with the
    same number of partitions; stop the broker; hand over each partition; start the broker. No process may be writing to
    LOGDIR, which is not changed. Every batch is verified. A partition of the broker that contains records is refused.

    \b
    kafka-topics.sh --create --topic orders --bootstrap-server localhost:9092
    systemctl stop kafka
    offsetfs hand-over ~/logs orders-0 /var/lib/kafka/data
    offsetfs hand-over ~/logs orders /var/lib/kafka/data
    systemctl start kafka

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    from offsetfs.cli.terminal.progress import bytes_progress
    from offsetfs.storage.maintenance import hand_over

    preflight.check_directory(log_directory, read_only=True, may_be_empty=True)
    preflight.check_directory(broker_directory, read_only=True, may_be_empty=False)
    if os.path.realpath(log_directory) == os.path.realpath(broker_directory):
        raise Failure(f"{broker_directory}: is the same log directory as LOGDIR; give that of the broker", WRONG_CALL)
    try:
        for partition in resolve_names(log_directory, [name]):
            with bytes_progress(f"Copying {partition}") as on_progress:
                result = hand_over(log_directory, partition, broker_directory, on_progress=on_progress)
            click.echo(f"{partition}: {_content(result)}; start the broker")
    except LogDirectoryLocked as error:
        locked = os.path.dirname(error.path or log_directory)
        raise in_use(error, locked, UNMOUNT_FIRST) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _content(result: HandOverResult) -> str:
    if result.next_offset == result.log_start_offset:
        return "empty"
    return (
        f"offsets {result.log_start_offset} to {result.next_offset - 1}, {counted(result.bytes, 'byte')} in "
        f"{counted(result.segments, 'segment')}"
    )
