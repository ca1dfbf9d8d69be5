"""`offsetfs convert`: rewrite segments in message formats v0 and v1 as v2."""

from __future__ import annotations

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.named_partitions import resolve_names
from offsetfs.cli.exit_codes import DONE, FAILED, Failure
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.common.formatting import printable
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted, sentence


@click.command("convert", short_help="Rewrite old message formats as v2.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="[TOPIC[-PARTITION]]...", nargs=-1)
@click.option(
    "--dry-run", is_flag=True, help="Show which segments hold v0 or v1, and change nothing; also while mounted."
)
def command(log_directory: str, names: tuple[str, ...], dry_run: bool) -> int:
    """Rewrite segments of LOGDIR with message formats v0 and v1 as v2. Without names, all partitions are converted;
    TOPIC stands for all its partitions.

    Offsets, timestamps, keys, values and their order do not change. Each new segment is written beside the old one and
    compared with it record by record; it replaces the old one atomically, also in a crash. This needs free space for
    one segment. Segments in v2 are not changed. First stop the broker, or unmount LOGDIR. Kafka 4 no longer reads v0
    and v1, so convert before you upgrade.

    \b
    offsetfs convert /var/lib/kafka/data --dry-run
    offsetfs convert /var/lib/kafka/data
    offsetfs convert /var/lib/kafka/data orders-0 orders-1

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused or damaged; the message gives the reason.
    """
    preflight.check_directory(log_directory, read_only=dry_run, may_be_empty=True)
    wanted = resolve_names(log_directory, names)
    try:
        return (_plan if dry_run else _convert)(log_directory, wanted)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT_FIRST) from error
    except StorageError as error:
        raise Failure(str(error)) from error


def _convert(log_directory: str, wanted: list[TopicPartition]) -> int:
    """Convert all partitions. If one fails that was not named, report it and continue with the others."""
    from offsetfs.cli.terminal.progress import bytes_progress, open_for_writing
    from offsetfs.storage.maintenance import convert_log

    directory, segments, code = open_for_writing(log_directory), 0, DONE
    try:
        for partition in wanted or directory.partitions():
            try:
                with bytes_progress(f"Converting {partition}") as on_progress:
                    done = convert_log(directory.writable_log(partition), on_progress=on_progress)
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
    from offsetfs.storage import LogDirectory
    from offsetfs.storage.maintenance import has_old_format

    old_segments = 0
    directory = LogDirectory.open(log_directory, read_only=True)
    try:
        for partition in wanted or directory.partitions():
            old = [segment for segment in directory.log(partition).snapshot() if has_old_format(segment)]
            old_segments += len(old)
            if old:
                size = sum(segment.size for segment in old)
                click.echo(f"{partition}: would convert {counted(len(old), 'segment')}, {counted(size, 'byte')}")
            elif wanted:
                click.echo(f"{partition}: nothing to convert")
        if not wanted and not old_segments:
            click.echo("nothing to convert")
    finally:
        directory.close()
    return DONE
