"""`offsetfs convert`: message formats v0 and v1 become v2, on request only."""

from __future__ import annotations

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.served import UNMOUNT, in_use
from offsetfs.storage.errors import InvalidName, LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition


@click.command("convert", short_help="Rewrite old message formats as v2.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC-PARTITION]...", nargs=-1)
def command(log_directory: str, names: tuple[str, ...]) -> int:
    """Rewrite segments of LOGDIR that hold message formats v0 and v1 as v2; all partitions, or those named.

    Offsets, timestamps, keys, values and their order stay. Each segment is written beside the old one, compared with it
    record for record, and put in its place so that a crash leaves the one or the other. Needs room for one segment.
    Segments that are v2 already are not touched. Stop the broker, or unmount LOGDIR, before. Kafka 4 no longer reads
    v0 and v1: convert before moving to it.

    \b
    offsetfs convert /var/lib/kafka/data
    offsetfs convert /var/lib/kafka/data orders-0 orders-1

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused or damaged, for the reason it says.
    """
    try:
        wanted = [TopicPartition.parse(name) for name in names]
    except InvalidName as error:
        raise Failure(str(error), WRONG_CALL) from error
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    try:
        _convert(log_directory, wanted)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _convert(log_directory: str, wanted: list[TopicPartition]) -> None:
    from offsetfs.cli.progress import bytes_progress, open_for_writing
    from offsetfs.storage.partition.convert import convert

    directory, segments = open_for_writing(log_directory), 0
    try:
        for partition in wanted or directory.partitions():
            with bytes_progress(f"Converting {partition}") as on_progress:
                done = convert(directory.log(partition), on_progress=on_progress)
            segments += done.segments
            if done.segments:
                click.echo(
                    f"{partition}: {done.segments} segments, {done.records} records, "
                    f"{done.bytes_before} bytes became {done.bytes_after}"
                )
            elif wanted:
                click.echo(f"{partition}: nothing to convert")
        if not wanted and not segments:
            click.echo("nothing to convert")
    finally:
        directory.close()
