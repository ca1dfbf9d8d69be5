"""`offsetfs truncate`: cut the end off a partition."""

from __future__ import annotations

import click

from offsetfs.cli import consent, preflight
from offsetfs.cli.exit_codes import DONE, Failure
from offsetfs.cli.named_partitions import single
from offsetfs.cli.served import UNMOUNT, in_use
from offsetfs.storage.errors import LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log


@click.command("truncate", short_help="Remove the records from an offset to the end.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("name", metavar="TOPIC[-PARTITION]")
@click.argument("offset", metavar="OFFSET", type=click.IntRange(min=0))
@click.option("--yes", is_flag=True, help="Do it without asking.")
def command(log_directory: str, name: str, offset: int, yes: bool) -> int:
    """Remove the records of TOPIC-PARTITION from OFFSET on; the next record gets that offset.

    Batches are never split: the batch that contains OFFSET is removed whole, and the next record gets the base offset
    of that batch. The offsets are assigned a second time: a consumer that has read them sees other records there, so
    truncate only if there is no such consumer. An OFFSET below the log start empties the partition. The tail of a
    segment that is cut is kept beside it, as a .cut- file. TOPIC stands for its partition where it has only one.

    \b
    offsetfs truncate ~/logs orders-0 1234
    offsetfs truncate ~/logs orders-0 1234 --yes

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, for the reason it says.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    try:
        _truncate(log_directory, single(log_directory, name), offset, yes)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, UNMOUNT) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _truncate(log_directory: str, partition: TopicPartition, offset: int, yes: bool) -> None:
    from offsetfs.cli.progress import open_for_writing

    directory = open_for_writing(log_directory)
    try:
        log = directory.log(partition)
        if offset >= log.next_offset:
            click.echo(f"{partition}: ends at {log.next_offset} already; nothing to remove")
            return
        first = _first_to_go(log, offset)
        click.echo(_sentence(log, offset, first))
        consent.require("Cut them off?", is_given=yes)
        log.truncate_to(first)
        click.echo(f"{partition}: ends at {log.next_offset}")
    finally:
        directory.close()


def _first_to_go(log: Log, offset: int) -> int:
    """Return where the batch that holds `offset` begins; `offset` itself in a gap, and where nothing is left."""
    if offset <= log.log_start_offset:
        return offset
    batch = log.batch_at(offset)
    return min(batch.base_offset, offset) if batch is not None else offset


def _sentence(log: Log, offset: int, first: int) -> str:
    if offset <= log.log_start_offset:
        return f"{log.partition}: removes offsets {log.log_start_offset} to {log.next_offset - 1}: all records"
    said = f"{log.partition}: removes offsets {first} to {log.next_offset - 1}"
    return said if first == offset else f"{said}: offset {offset} is inside a batch that begins at {first}"
