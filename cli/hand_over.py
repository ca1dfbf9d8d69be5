"""`offsetfs hand-over`: give a partition that we wrote to a stopped Kafka broker."""

from __future__ import annotations

import os

import click

from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.served import UNMOUNT, in_use
from offsetfs.storage.errors import InvalidName, LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition


@click.command("hand-over", short_help="Give a partition to a stopped Kafka broker.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("name", metavar="TOPIC-PARTITION")
@click.argument("broker_directory", metavar="BROKER_LOGDIR")
def command(log_directory: str, name: str, broker_directory: str) -> int:
    """Copy TOPIC-PARTITION of LOGDIR into the log directory of a stopped Kafka broker.

    A KRaft broker sets aside partitions that it did not create. So create the topic there, with as many partitions;
    stop the broker; hand over each partition; start the broker. LOGDIR, which nobody may be writing to, stays as it
    is. Every batch is verified on the way, and a partition of the broker's that holds records is refused.

    \b
    kafka-topics.sh --create --topic orders --bootstrap-server localhost:9092
    systemctl stop kafka
    offsetfs hand-over ~/logs orders-0 /var/lib/kafka/data
    systemctl start kafka

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, for the reason it says.
    """
    from offsetfs.cli.progress import bytes_progress
    from offsetfs.storage.directory.hand_over import hand_over

    try:
        partition = TopicPartition.parse(name)
        with bytes_progress(f"Copying {name}") as on_progress:
            result = hand_over(log_directory, partition, broker_directory, on_progress=on_progress)
    except InvalidName as error:
        raise Failure(str(error), WRONG_CALL) from error
    except LogDirectoryLocked as error:
        locked = os.path.dirname(error.path or log_directory)
        raise in_use(error, locked, UNMOUNT) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    click.echo(
        f"{name}: offsets {result.log_start_offset} to {result.next_offset - 1}, {result.bytes} bytes in "
        f"{result.segments} segments; start the broker"
        if result.next_offset > result.log_start_offset
        else f"{name}: empty; start the broker"
    )
    return DONE
