"""`offsetfs delete-records`: raise the log start offset of partitions, as kafka-delete-records does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.named_partitions import resolve_names
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.mounts.serving_daemon import daemon_of, in_use
from offsetfs.cli.mounts.serving_process import ServingProcess, serving_process
from offsetfs.cli.terminal import confirmation
from offsetfs.storage import TopicPartition
from offsetfs.storage.errors import LogDirectoryLocked, StorageError, counted

END = -1
OFFSET_DIGITS_MAX = 19  # of a 64-bit number
_REMEDY_WHILE_MOUNTED = (
    "mount it with -o delete-records and write the offset to {mount}/TOPIC-PARTITION/start, or unmount it first"
)


class _Deletion(NamedTuple):
    """The new log start offset of a partition; `END`: its end, so that all records are deleted."""

    partition: TopicPartition
    offset: int


class _Bounds(NamedTuple):
    """The offsets that a partition holds: `[start, end)`."""

    start: int
    end: int


@click.command("delete-records", short_help="Delete the records below an offset.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("requests", metavar="TOPIC[-PARTITION]=OFFSET...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def command(log_directory: str, requests: tuple[str, ...], yes: bool) -> int:
    """Delete the records below OFFSET: the log start offset of the partition becomes OFFSET. -1 stands for the end of
    the partition, TOPIC for all its partitions.

    The new log start offset is on disk when the command returns, and never decreases. Segments that contain only
    deleted records are removed by the next retention pass (offsetfs clean, or a mount). Topics without
    cleanup.policy=delete are refused. If LOGDIR is mounted with -o delete-records, or served, the command works through
    the mount or the server.

    \b
    offsetfs delete-records ~/logs orders-0=1234
    offsetfs delete-records ~/logs orders-0=1234 orders-1=-1 --yes

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    wanted = [deletion for text in requests for deletion in _parse(log_directory, text)]
    try:
        _in_directory(log_directory, wanted, yes)
    except LogDirectoryLocked as error:
        server = serving_process(log_directory)
        if server is not None:
            _through_server(server, wanted, yes)
            return DONE
        daemon = daemon_of(log_directory)
        if daemon is None or "delete-records" not in daemon.options:
            raise in_use(error, log_directory, _REMEDY_WHILE_MOUNTED) from error
        _through_mount(daemon.mount_point, wanted, yes)
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _parse(log_directory: str, deletion: str) -> list[_Deletion]:
    name, equals, text = deletion.rpartition("=")
    digits = text.removeprefix("-")
    if not equals or not digits.isascii() or not digits.isdigit() or len(digits) > OFFSET_DIGITS_MAX:
        raise Failure(f"{deletion}: give TOPIC-PARTITION=OFFSET, such as orders-0=1234", WRONG_CALL)
    return [_Deletion(partition, int(text)) for partition in resolve_names(log_directory, [name])]


def _in_directory(log_directory: str, wanted: list[_Deletion], yes: bool) -> None:
    from offsetfs.cli.terminal.progress import open_for_writing

    directory = open_for_writing(log_directory)
    try:
        logs = {deletion.partition: directory.log(deletion.partition) for deletion in wanted}
        bounds = {partition: _Bounds(log.log_start_offset, log.next_offset) for partition, log in logs.items()}
        _delete_after_question(
            wanted, bounds, yes, lambda deletion: logs[deletion.partition].delete_records(deletion.offset)
        )
    finally:
        directory.close()


def _through_server(server: ServingProcess, wanted: list[_Deletion], yes: bool) -> None:
    partitions = [deletion.partition for deletion in wanted]
    answers = server.request("bounds", partitions)
    bounds = {partition: _Bounds(*answer) for partition, answer in zip(partitions, answers, strict=True)}
    _delete_after_question(
        wanted,
        bounds,
        yes,
        lambda deletion: server.request("delete_records", [deletion.partition], offset=deletion.offset),
    )


def _through_mount(mount_point: str, wanted: list[_Deletion], yes: bool) -> None:
    def number(partition: TopicPartition, name: str) -> int:
        with open(os.path.join(mount_point, str(partition), name)) as file:
            return int(file.read())

    def delete(deletion: _Deletion) -> int:
        try:
            with open(os.path.join(mount_point, str(deletion.partition), "start"), "w") as file:
                file.write(f"{deletion.offset}\n")
        except OSError as error:
            error_log = os.path.join(mount_point, ".offsetfs", "errors")
            raise Failure(
                f"{deletion.partition}={deletion.offset}: {error.strerror}; see {error_log} for the reason"
            ) from error
        return number(deletion.partition, "start")

    for partition, _ in wanted:
        if not os.path.isdir(os.path.join(mount_point, str(partition))):
            raise Failure(f"{mount_point} has no partition {partition}", WRONG_CALL)
    bounds = {p: _Bounds(number(p, "start"), number(p, "next")) for p, _ in wanted}
    _delete_after_question(wanted, bounds, yes, delete)


def _delete_after_question(
    wanted: list[_Deletion], bounds: dict[TopicPartition, _Bounds], yes: bool, delete: Callable[[_Deletion], int]
) -> None:
    for deletion in wanted:
        _check(deletion, bounds[deletion.partition])
    for deletion in wanted:
        click.echo(_sentence(deletion, bounds[deletion.partition]))
    if not yes and all(
        _start(deletion, bounds[deletion.partition]) <= bounds[deletion.partition].start for deletion in wanted
    ):
        return
    confirmation.require("Delete these records?", is_given=yes)
    for deletion in wanted:
        click.echo(f"{deletion.partition}: begins at {delete(deletion)}")


def _check(deletion: _Deletion, bounds: _Bounds) -> None:
    if deletion.offset != END and not 0 <= deletion.offset <= bounds.end:
        held = f"contains offsets {bounds.start} to {bounds.end - 1}" if bounds.end > bounds.start else "is empty"
        raise Failure(f"{deletion.partition}={deletion.offset}: the partition {held}")


def _start(deletion: _Deletion, bounds: _Bounds) -> int:
    return bounds.end if deletion.offset == END else deletion.offset


def _sentence(deletion: _Deletion, bounds: _Bounds) -> str:
    start = _start(deletion, bounds)
    if start <= bounds.start:
        return f"{deletion.partition}: begins at {bounds.start} already; nothing to delete"
    return f"{deletion.partition}: deletes offsets {bounds.start} to {start - 1}; {_remain(bounds.end - start)}"


def _remain(count: int) -> str:
    return f"{counted(count, 'record')} {'remains' if count == 1 else 'remain'}"
