"""`offsetfs delete`: remove topics or partitions with all their records."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.named_partitions import resolve_names
from offsetfs.cli.exit_codes import DONE, Failure
from offsetfs.cli.mounts.serving_daemon import daemon_of, in_use
from offsetfs.cli.mounts.serving_process import serving_process
from offsetfs.cli.terminal import confirmation
from offsetfs.common.formatting import printable
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted, sentence

if TYPE_CHECKING:
    from offsetfs.storage import LogDirectory

_REMEDY_WHILE_MOUNTED = "mount it with -o delete and use rmdir {mount}/TOPIC-PARTITION, or unmount it first"


@click.command("delete", short_help="Remove topics or partitions.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="TOPIC[-PARTITION]...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def command(log_directory: str, names: tuple[str, ...], yes: bool) -> int:
    """Remove partitions of LOGDIR with all their records, and their entries in the checkpoints.

    TOPIC stands for all its partitions; its settings are removed with its last partition. A partition is first renamed
    to TOPIC-0.<uuid>-delete, as in Kafka, so that after a crash it is either complete or gone; then its files are
    removed. If LOGDIR is mounted with -o delete, or served, the command works through the mount or the server, which
    removes the files after file.delete.delay.ms.

    The offsets that consumer groups have committed for a partition are deleted with it. In the directory of a Kafka
    broker they stay, because other brokers may have the partition, too.

    \b
    offsetfs delete ~/logs orders
    offsetfs delete ~/logs orders-3 payments-0 --yes

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    partitions = resolve_names(log_directory, names)
    try:
        _in_directory(log_directory, partitions, yes)
    except LogDirectoryLocked as error:
        server = serving_process(log_directory)
        if server is not None:
            _confirm(log_directory, partitions, yes)
            server.request("delete", partitions)
            return DONE
        daemon = daemon_of(log_directory)
        if daemon is None or "delete" not in daemon.options:
            raise in_use(error, log_directory, _REMEDY_WHILE_MOUNTED) from error
        _confirm(log_directory, partitions, yes)
        for partition in partitions:
            os.rmdir(os.path.join(daemon.mount_point, str(partition)))
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _confirm(log_directory: str, partitions: list[TopicPartition], yes: bool) -> None:
    """Print what will be deleted, once nothing else can refuse it, and ask; `Failure` without a yes."""
    for partition in partitions:
        click.echo(f"{partition}: deletes {_content(os.path.join(log_directory, str(partition)))}")
    confirmation.require("Delete them?", is_given=yes)


def _content(path: str) -> str:
    sizes = [os.lstat(os.path.join(path, name)).st_size for name in os.listdir(path) if name.endswith(".log")]
    return f"{counted(sum(sizes), 'byte')} in {counted(len(sizes), 'segment')}"


def _in_directory(log_directory: str, partitions: list[TopicPartition], yes: bool) -> None:
    from offsetfs.cli.terminal.progress import open_for_writing

    directory = open_for_writing(log_directory)
    try:
        _confirm(log_directory, partitions, yes)
        _delete(directory, partitions)
    finally:
        directory.close()


def _delete(directory: LogDirectory, partitions: list[TopicPartition]) -> None:
    _delete_commits(directory, partitions)
    for partition in partitions:
        directory.delete_partition(partition)
    directory.deletions.run_all()  # without file.delete.delay.ms: this process has no readers, and ends now


def _delete_commits(directory: LogDirectory, partitions: list[TopicPartition]) -> None:
    """Delete the committed offsets first: a deletion that is interrupted can be repeated."""
    from offsetfs.storage.coordinators import ConsumerGroups, delete_commits

    try:
        number = delete_commits(directory, ConsumerGroups(directory, _warn), partitions)
    except (StorageError, OSError) as error:  # on a full disk, records are deleted to get space
        _warn(f"committed offsets were not deleted, and expire later: {sentence(error)}")
    else:
        if number:
            click.echo(f"deleted {counted(number, 'committed offset')} of consumer groups")


def _warn(text: str) -> None:
    click.echo(f"warning: {printable(text)}", err=True)
