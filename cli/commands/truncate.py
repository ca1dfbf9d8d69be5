"""`offsetfs truncate`: remove the records of a partition from an offset on."""

from __future__ import annotations

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.named_partitions import resolve_name
from offsetfs.cli.exit_codes import DONE, Failure
from offsetfs.cli.mounts.serving_daemon import UNMOUNT_FIRST, in_use
from offsetfs.cli.terminal import confirmation
from offsetfs.storage import Log, TopicPartition
from offsetfs.storage.errors import CorruptBatch, LogDirectoryLocked, MalformedBatch, StorageError


@click.command("truncate", short_help="Remove the records from an offset to the end.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("name", metavar="TOPIC[-PARTITION]")
@click.argument("offset", metavar="OFFSET", type=click.IntRange(min=0))
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def command(log_directory: str, name: str, offset: int, yes: bool) -> int:
    """Remove the records of TOPIC-PARTITION from OFFSET on; the next record gets that offset.

    Batches are never split: the batch that contains OFFSET is removed whole, and the next record gets the base offset
    of that batch. The removed offsets are assigned again: a consumer that has read them would see other records there,
    so truncate only if there is no such consumer. An OFFSET below the log start offset empties the partition. The
    removed end of a segment is kept beside it, in a .cut- file. TOPIC stands for its partition if it has only one.

    \b
    offsetfs truncate ~/logs orders-0 1234
    offsetfs truncate ~/logs orders-0 1234 --yes

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    try:
        _truncate(log_directory, resolve_name(log_directory, name), offset, yes)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT_FIRST) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _truncate(log_directory: str, partition: TopicPartition, offset: int, yes: bool) -> None:
    from offsetfs.cli.terminal.progress import open_for_writing

    directory = open_for_writing(log_directory)
    try:
        log = directory.log(partition)
        if offset >= log.next_offset:
            click.echo(f"{partition}: ends at {log.next_offset} already; nothing to remove")
            return
        first = _first_removed(log, offset)
        click.echo(_sentence(log, offset, first))
        confirmation.require("Remove these records?", is_given=yes)
        log.truncate_to(first)
        click.echo(f"{partition}: ends at {log.next_offset}")
    finally:
        directory.close()


def _first_removed(log: Log, offset: int) -> int:
    """Return the base offset of the batch that contains `offset`; `offset` itself in a gap, or below the log start."""
    if offset <= log.log_start_offset:
        return offset
    try:
        batch = log.batch_at(offset)
    except (CorruptBatch, MalformedBatch):
        return offset  # damage is removed from here on
    return min(batch.base_offset, offset) if batch is not None else offset


def _sentence(log: Log, offset: int, first: int) -> str:
    if offset <= log.log_start_offset:
        return f"{log.partition}: removes offsets {log.log_start_offset} to {log.next_offset - 1}: all records"
    text = f"{log.partition}: removes offsets {first} to {log.next_offset - 1}"
    return text if first == offset else f"{text}: offset {offset} is inside a batch that begins at {first}"
