"""`offsetfs delete`: remove topics or single partitions, with everything in them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from offsetfs.cli import consent, preflight
from offsetfs.cli.exit_codes import DONE, Failure
from offsetfs.cli.named_partitions import named
from offsetfs.cli.served import daemon_of, in_use
from offsetfs.storage.counted import counted
from offsetfs.storage.errors import LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition

if TYPE_CHECKING:
    from offsetfs.storage.directory.directory import LogDirectory

_INSTEAD = "mount it with -o delete and use rmdir {mount}/TOPIC-PARTITION, or unmount it first"


@click.command("delete", short_help="Remove topics or partitions.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("names", metavar="TOPIC[-PARTITION]...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do it without asking.")
def command(log_directory: str, names: tuple[str, ...], yes: bool) -> int:
    """Remove partitions of LOGDIR, all records in them, and what the checkpoints say of them.

    TOPIC stands for all its partitions; its settings go with the last one. A partition is first renamed, as Kafka does
    (TOPIC-0.<uuid>-delete), so that a crash leaves it whole or gone; then its files are removed. Where LOGDIR is
    mounted with -o delete, it is done through the mount, which removes the files file.delete.delay.ms later.

    \b
    offsetfs delete ~/logs orders
    offsetfs delete ~/logs orders-3 payments-0 --yes

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, for the reason it says.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    partitions = named(log_directory, names)
    for partition in partitions:
        click.echo(f"{partition}: deletes {_content(os.path.join(log_directory, str(partition)))}")
    try:
        _in_directory(log_directory, partitions, yes)
    except LogDirectoryLocked as error:
        daemon = daemon_of(log_directory)
        if daemon is None or "delete" not in daemon.options:
            raise in_use(error, log_directory, _INSTEAD) from error
        consent.require("Delete them?", is_given=yes)
        for partition in partitions:
            os.rmdir(os.path.join(daemon.mount_point, str(partition)))
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _content(path: str) -> str:
    sizes = [os.lstat(os.path.join(path, name)).st_size for name in os.listdir(path) if name.endswith(".log")]
    return f"{counted(sum(sizes), 'byte')} in {counted(len(sizes), 'segment')}"


def _in_directory(log_directory: str, partitions: list[TopicPartition], yes: bool) -> None:
    from offsetfs.cli.progress import open_for_writing

    directory = open_for_writing(log_directory)
    try:
        consent.require("Delete them?", is_given=yes)
        _delete(directory, partitions)
    finally:
        directory.close()


def _delete(directory: LogDirectory, partitions: list[TopicPartition]) -> None:
    for partition in partitions:
        directory.delete_partition(partition)
    directory.deletions.run_all()  # no reader holds files of this process, which ends now
