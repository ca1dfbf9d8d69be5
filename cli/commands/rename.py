"""`offsetfs rename`: give a topic another name."""

from __future__ import annotations

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import in_use
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import (
    InvalidName,
    LogDirectoryLocked,
    PartitionExists,
    PolicyViolation,
    StorageError,
    UnknownPartition,
    counted,
)


@click.command("rename", short_help="Rename a topic, while nothing has it open.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("topic", metavar="TOPIC")
@click.argument("new_name", metavar="NAME")
def command(log_directory: str, topic: str, new_name: str) -> int:
    """Rename a topic of LOGDIR, with its settings, checkpoints and the committed offsets of consumer groups.

    Records, offsets, timestamps and the topic id stay. LOGDIR must not be mounted or served. ACLs, and what lies
    elsewhere (archives, mirrors, tables), keep the old name: an archive takes the renamed topic for a new one.

    If the command is interrupted, some partitions have the old name and others the new one, each complete; the same
    command goes on. Topics of a broker's directory, of a mirror, and topics with an open transaction are refused.

    \b
    offsetfs rename ~/logs orders orders-2025

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=False)
    try:
        number = _renamed(log_directory, topic, new_name)
    except LogDirectoryLocked as error:
        raise in_use(error, log_directory, "unmount it, or stop the server, first") from error
    except (InvalidName, UnknownPartition, PartitionExists) as error:
        raise Failure(str(error), WRONG_CALL) from error
    except PolicyViolation as error:
        raise Failure(error.reason) from error
    except StorageError as error:
        raise Failure(str(error)) from error
    click.echo(f"renamed {counted(number, 'partition')} of {topic} to {new_name}")
    return DONE


def _renamed(log_directory: str, topic: str, new_name: str) -> int:
    from offsetfs.cli.terminal.progress import open_for_writing
    from offsetfs.storage.coordinators import ConsumerGroups, rename_topic

    directory = open_for_writing(log_directory)
    if directory.open_logs():  # recovered: the directories of open logs cannot be renamed
        directory.close()
        directory = open_for_writing(log_directory)
    try:
        return rename_topic(directory, ConsumerGroups(directory, _warn), topic, new_name)
    finally:
        directory.close()


def _warn(text: str) -> None:
    click.echo(f"warning: {printable(text)}", err=True)
