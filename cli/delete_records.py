"""`offsetfs delete-records`: let partitions begin at a later offset, as kafka-delete-records does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import click

from offsetfs.cli import consent, preflight
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.cli.named_partitions import named
from offsetfs.cli.served import daemon_of, in_use
from offsetfs.storage.counted import counted
from offsetfs.storage.errors import LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition

END = -1
OFFSET_DIGITS_MAX = 19  # of a 64-bit number
_INSTEAD = "mount it with -o delete-records and write the offset to {mount}/TOPIC-PARTITION/start, or unmount it first"


class _Wish(NamedTuple):
    """What a partition is to begin with; `END`: nothing that is there now."""

    partition: TopicPartition
    offset: int


class _Bounds(NamedTuple):
    """The offsets that a partition holds: `[start, end)`."""

    start: int
    end: int


@click.command("delete-records", short_help="Delete the records below an offset.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("wishes", metavar="TOPIC[-PARTITION]=OFFSET...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do it without asking.")
def command(log_directory: str, wishes: tuple[str, ...], yes: bool) -> int:
    """Delete the records below OFFSET: the partition's log start becomes OFFSET; -1 stands for its end, TOPIC
    for all its partitions.

    The new start is on disk when the command returns, and never falls again. Segments that hold nothing else are
    removed by the next retention pass (offsetfs clean, or a mount). Only topics with cleanup.policy delete can do this.
    Where LOGDIR is mounted with -o delete-records, it is done through the mount.

    \b
    offsetfs delete-records ~/logs orders-0=1234
    offsetfs delete-records ~/logs orders-0=1234 orders-1=-1 --yes

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused, for the reason it says.
    """
    preflight.check_directory(log_directory, read_only=False, may_be_empty=True)
    wanted = [each for wish in wishes for each in _parse(log_directory, wish)]
    try:
        _in_directory(log_directory, wanted, yes)
    except LogDirectoryLocked as error:
        daemon = daemon_of(log_directory)
        if daemon is None or "delete-records" not in daemon.options:
            raise in_use(error, log_directory, _INSTEAD) from error
        _through_mount(daemon.mount_point, wanted, yes)
    except StorageError as error:
        raise Failure(str(error)) from error
    return DONE


def _parse(log_directory: str, wish: str) -> list[_Wish]:
    name, equals, text = wish.rpartition("=")
    digits = text.removeprefix("-")
    if not equals or not digits.isascii() or not digits.isdigit() or len(digits) > OFFSET_DIGITS_MAX:
        raise Failure(f"{wish}: give TOPIC-PARTITION=OFFSET, such as orders-0=1234", WRONG_CALL)
    return [_Wish(partition, int(text)) for partition in named(log_directory, [name])]


def _in_directory(log_directory: str, wanted: list[_Wish], yes: bool) -> None:
    from offsetfs.cli.progress import open_for_writing

    directory = open_for_writing(log_directory)
    try:
        logs = {wish.partition: directory.log(wish.partition) for wish in wanted}
        bounds = {partition: _Bounds(log.log_start_offset, log.next_offset) for partition, log in logs.items()}
        _carry_out(wanted, bounds, yes, lambda wish: logs[wish.partition].delete_records(wish.offset))
    finally:
        directory.close()


def _through_mount(mount_point: str, wanted: list[_Wish], yes: bool) -> None:
    def number(partition: TopicPartition, name: str) -> int:
        with open(os.path.join(mount_point, str(partition), name)) as file:
            return int(file.read())

    def delete(wish: _Wish) -> int:
        try:
            with open(os.path.join(mount_point, str(wish.partition), "start"), "w") as file:
                file.write(f"{wish.offset}\n")
        except OSError as error:
            said = os.path.join(mount_point, ".offsetfs", "errors")
            raise Failure(f"{wish.partition}={wish.offset}: {error.strerror}; {said} says why") from error
        return number(wish.partition, "start")

    for partition, _ in wanted:
        if not os.path.isdir(os.path.join(mount_point, str(partition))):
            raise Failure(f"{mount_point} has no partition {partition}", WRONG_CALL)
    bounds = {p: _Bounds(number(p, "start"), number(p, "next")) for p, _ in wanted}
    _carry_out(wanted, bounds, yes, delete)


def _carry_out(
    wanted: list[_Wish], bounds: dict[TopicPartition, _Bounds], yes: bool, delete: Callable[[_Wish], int]
) -> None:
    for wish in wanted:
        _check(wish, bounds[wish.partition])
    for wish in wanted:
        click.echo(_sentence(wish, bounds[wish.partition]))
    if not yes and all(_start(wish, bounds[wish.partition]) <= bounds[wish.partition].start for wish in wanted):
        return
    consent.require("Delete these records?", is_given=yes)
    for wish in wanted:
        click.echo(f"{wish.partition}: begins at {delete(wish)}")


def _check(wish: _Wish, bounds: _Bounds) -> None:
    if wish.offset != END and not 0 <= wish.offset <= bounds.end:
        held = f"holds offsets {bounds.start} to {bounds.end - 1}" if bounds.end > bounds.start else "is empty"
        raise Failure(f"{wish.partition}={wish.offset}: the partition {held}")


def _start(wish: _Wish, bounds: _Bounds) -> int:
    return bounds.end if wish.offset == END else wish.offset


def _sentence(wish: _Wish, bounds: _Bounds) -> str:
    start = _start(wish, bounds)
    if start <= bounds.start:
        return f"{wish.partition}: begins at {bounds.start} already; nothing to delete"
    return f"{wish.partition}: deletes offsets {bounds.start} to {start - 1}; {_remain(bounds.end - start)}"


def _remain(count: int) -> str:
    return f"{counted(count, 'record')} {'remains' if count == 1 else 'remain'}"
