"""`offsetfs convert`: message formats v0 and v1 become v2, on request only."""

from __future__ import annotations

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, FAILED, Failure
from offsetfs.cli.named_partitions import named
from offsetfs.cli.printable import printable
from offsetfs.cli.served import UNMOUNT, in_use
from offsetfs.storage.counted import counted
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, sentence
from offsetfs.storage.names import TopicPartition


@click.command("convert", short_help="Rewrite old message formats as v2.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Show which segments hold v0 or v1; change nothing. Works while mounted.")
def command(log_directory: str, names: tuple[str, ...], dry_run: bool) -> int:
    """Rewrite segments of LOGDIR that hold message formats v0 and v1 as v2; all partitions, or those named
    (TOPIC stands for all of its partitions).

    Offsets, timestamps, keys, values and their order stay. Each segment is written beside the old one, compared with it
    record for record, and put in its place so that a crash leaves the one or the other. Needs room for one segment.
    Segments that are v2 already are not touched. Stop the broker, or unmount LOGDIR, before. Kafka 4 no longer reads
    v0 and v1: convert before moving to it.

    \b
    offsetfs convert /var/lib/kafka/data --dry-run
    offsetfs convert /var/lib/kafka/data
    offsetfs convert /var/lib/kafka/data orders-0 orders-1

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused or damaged, for the reason it says.
    """
    preflight.check_directory(log_directory, read_only=dry_run, may_be_empty=True)
    wanted = named(log_directory, names)
    try:
        return (_plan if dry_run else _convert)(log_directory, wanted)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT) from error
    except StorageError as error:
        raise Failure(str(error)) from error


def _convert(log_directory: str, wanted: list[TopicPartition]) -> int:
    """Convert what can be; a partition that fails keeps no other from it."""
    from offsetfs.cli.progress import bytes_progress, open_for_writing
    from offsetfs.storage.partition.convert import convert

    directory, segments, code = open_for_writing(log_directory), 0, DONE
    try:
        for partition in wanted or directory.partitions():
            try:
                with bytes_progress(f"Converting {partition}") as on_progress:
                    done = convert(directory.writable_log(partition), on_progress=on_progress)
            except (StorageError, OSError) as error:
                if partition in wanted:
                    raise
                click.echo(f"offsetfs convert: {partition}: {printable(sentence(error))}", err=True)
                code = FAILED
                continue
            segments += done.segments
            if done.segments:
                click.echo(
                    f"{partition}: {counted(done.segments, 'segment')}, {counted(done.records, 'record')}, "
                    f"{counted(done.bytes_before, 'byte')} became {done.bytes_after}"
                )
            elif wanted:
                click.echo(f"{partition}: nothing to convert")
        if not wanted and not segments:
            click.echo("nothing to convert")
    finally:
        directory.close()
    return code


def _plan(log_directory: str, wanted: list[TopicPartition]) -> int:
    from offsetfs.storage.directory.directory import LogDirectory
    from offsetfs.storage.partition.convert import is_old

    found = 0
    directory = LogDirectory.open(log_directory, read_only=True)
    try:
        for partition in wanted or directory.partitions():
            old = [segment for segment in directory.log(partition).snapshot() if is_old(segment)]
            found += len(old)
            if old:
                size = sum(segment.size for segment in old)
                click.echo(f"{partition}: would convert {counted(len(old), 'segment')}, {counted(size, 'byte')}")
            elif wanted:
                click.echo(f"{partition}: nothing to convert")
        if not wanted and not found:
            click.echo("nothing to convert")
    finally:
        directory.close()
    return DONE
