"""`offsetfs follow`: print new records as they arrive, without a mount."""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.numbers import argument_time_ms
from offsetfs.cli.arguments.schema_options import schema_options, schema_texts
from offsetfs.cli.arguments.settings_file import settings_options
from offsetfs.cli.exit_codes import INTERRUPTED, WRONG_CALL, Failure
from offsetfs.cli.tree_access import READ_BYTES, CommandOutput, read_tree, while_output_open, write_output
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.fs.naming.tree_table import Kind

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import Entry, OpenFile, Tree
    from offsetfs.fs.nodes import Buffer

    Write = Callable[[Buffer], Awaitable[None]]

_TOPICS = Kind.TOPICS.file_name.decode()


@click.command("follow", short_help="Print new records as they arrive, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("paths", metavar="TREE_PATH...", nargs=-1, required=True)
@click.option("--from", "start", metavar="WHEN", help="Start at this offset or time, or with the newest N: -N.")
@click.option("-n", "newest", metavar="N", type=click.IntRange(0), help="Start with the newest N, as --from -N.")
@click.option("--to", "end", metavar="WHEN", help="Print what is there before this offset or time, and end.")
@click.option("--ndjson", is_flag=True, help="Print a JSON object per record, with key, headers and timestamp.")
@schema_options
@settings_options
def command(
    log_directory: str,
    paths: tuple[str, ...],
    start: str | None,
    newest: int | None,
    end: str | None,
    ndjson: bool,
    texts: tuple[str, ...],
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
) -> int:
    """Print records of partitions or topics as any process writes them to LOGDIR, one value per line, until Ctrl-C.

    TREE_PATH is a partition, a topic, or a follow file of the tree. The records of a topic are in order within each
    partition, and -N means the newest N of each. Neither a mount nor /dev/fuse is needed, and nothing in LOGDIR is
    changed. Records that were removed before they could be printed are reported on stderr. With an offset beyond the
    end, the command waits until the partition reaches it; with a time in the future, it prints all new records.

    With --to, the command prints the records from --from, or from the start, one partition after the other, and ends.

    \b
    offsetfs follow /var/lib/kafka/data orders-0
    offsetfs follow /var/lib/kafka/data orders payments -n 10 --ndjson
    offsetfs follow /var/lib/kafka/data orders-0 --from -15m --ndjson | jq .key
    offsetfs follow /var/lib/kafka/data orders --from -2h --to -1h
    offsetfs follow /var/lib/kafka/data orders-0/follow@-10
    offsetfs follow /var/lib/kafka/data orders-0 -o isolation=read_committed

    Exit codes: 1 wrong call, or a path or some of its records could not be read; 2 system error, 8 interrupted.
    """
    if newest is not None:
        if start is not None:
            raise Failure("-n and --from exclude each other: give one of them", WRONG_CALL)
        if end is not None:
            reason = "with --to give --from an offset (42) or a time (2026-11-20T18:40, -1h) instead of -n"
            raise Failure(f"-n {newest}: {reason}", WRONG_CALL)
        start = f"-{newest}" if newest else None
    if start is not None and not _is_start(start):
        argument_time_ms("--from", start)  # refuses a time before 1970 for that reason
        wanted = "an offset (42), the newest N (-10), or a time (2026-11-20T18:40:01, -1h30m)"
        raise Failure(f"--from {start}: give {wanted}", WRONG_CALL)
    if end is not None:
        _check_end(start, end)
    output = CommandOutput("follow")

    async def work(tree: Tree) -> None:
        files: dict[str, str] = {}  # the path of each file
        for path in paths:
            try:
                if end is not None:
                    files.update(dict.fromkeys(await _ranges_at(tree, path, start, end, ndjson), path))
                    continue
                name = await _file_at(tree, path, start, ndjson)
                await _report_future_offset(tree, name, output)
                files[name] = path
            except OSError as error:
                await output.failed_in(tree, error, path)
        if start is None and end is None and sys.stdout.isatty() and (waiting := [n for n in files if files[n] != n]):
            names = ", ".join(name.rpartition("/")[0] for name in waiting)
            output.print_error(f"waiting for new records of {names}; --from prints older ones, Ctrl-C ends")
        if end is None and len(files) > 1:
            await while_output_open(functools.partial(_copy_together, tree, files, output))
            return
        for name, path in files.items():
            await while_output_open(functools.partial(_copy_file, tree, name, output, path))

    try:
        return read_tree(log_directory, (*texts, *schema_texts(schema_words, registry_word, mask_words)), output, work)
    except KeyboardInterrupt:  # the normal end of this command
        return INTERRUPTED


def _check_end(start: str | None, end: str) -> None:
    """`Failure` unless the records between `start` and `end` can be named by a range."""
    for option, text in (("--from", start), ("--to", end)):
        if text is not None and parse_offset(text.encode()) is None and argument_time_ms(option, text) is None:
            raise Failure(
                f"{option} {text}: with --to give an offset (42) or a time (2026-11-20T18:40, -1h)", WRONG_CALL
            )


def _is_start(text: str) -> bool:
    """Whether `text` is an offset, a time, or a number of newest records (-N)."""
    from offsetfs.fs.files.follow import parse_follow  # imports trio, which would slow down completion in a shell

    return parse_follow(f"follow@{text}".encode("utf-8", "surrogateescape")) is not None


async def _report_future_offset(tree: Tree, name: str, output: CommandOutput) -> None:
    """Print a message if the first offset is beyond the end of the partition, so that nothing is printed for now."""
    folder, _, file = name.rpartition("/")
    offset = parse_offset(file.removesuffix(".ndjson").partition("@")[2].encode())
    if not folder or offset is None:
        return
    async with tree.open(f"{folder}/next") as opened:
        end = int(bytes(await opened.read(0, READ_BYTES)))
    if offset > end:
        output.print_error(
            f"{folder} ends at offset {end}: waiting for offset {offset}, records before it are not printed"
        )


async def _of_topic(tree: Tree, path: str) -> str:
    """Return the path of a topic, or of its only partition; `path` itself if it is not the name of a topic."""
    if "/" in path.strip("/"):
        return path
    topic = path.strip("/")
    partitions = await _partitions(tree, topic)
    if len(partitions) > 1:
        return f"{_TOPICS}/{topic}"
    return partitions[0] if partitions else path


async def _partitions(tree: Tree, topic: str) -> list[str]:
    names = list[str]()

    async def collect(entries: list[Entry]) -> None:
        names.extend(name for entry in entries if (name := os.fsdecode(entry.name)).rpartition("-")[0] == topic)

    await tree.entries("", collect)
    return names


async def _file_at(tree: Tree, path: str, start: str | None, ndjson: bool) -> str:
    path = await _found(tree, path)
    if stat.S_ISDIR((await tree.find(path)).mode):
        _check_offset("--from", start, path)
        return f"{path.rstrip('/')}/follow" + (f"@{start}" if start is not None else "") + (".ndjson" if ndjson else "")
    if start is not None or ndjson:
        raise click.UsageError(
            "--from and --ndjson are for a partition or topic; the name of a follow file already contains both"
        )
    return path


async def _ranges_at(tree: Tree, path: str, start: str | None, end: str, ndjson: bool) -> list[str]:
    """Return the files of the records between two offsets or times, one for each partition of a topic."""
    path = (await _found(tree, path)).strip("/")
    _check_offset("--from", start, path)
    _check_offset("--to", end, path)
    if not stat.S_ISDIR((await tree.find(path)).mode):
        raise click.UsageError(f"--to is for a partition or topic, not for {path}")
    partitions = await _partitions(tree, path.rpartition("/")[2]) if _is_topic(path) else [path]
    return [f"{partition}/range/{start or ''}..{end}" + (".ndjson" if ndjson else "") for partition in partitions]


async def _found(tree: Tree, path: str) -> str:
    try:
        await tree.find(path)
    except FileNotFoundError:
        return await _of_topic(tree, path)
    return path


def _check_offset(option: str, text: str | None, path: str) -> None:
    if text is not None and parse_offset(text.encode()) is not None and _is_topic(path):
        reason = "an offset belongs to one partition, such as"
        raise Failure(f"{option} {text}: {reason} {path.rstrip('/').rpartition('/')[2]}-0", WRONG_CALL)


def _is_topic(path: str) -> bool:
    return path.strip("/").rpartition("/")[0] == _TOPICS


async def _copy_file(tree: Tree, name: str, output: CommandOutput, path: str, write: Write = write_output) -> None:
    try:
        async with tree.open(name) as file:
            await _copy_records(file, output, path, write)
    except OSError as error:
        await output.failed_in(tree, error, path)


async def _copy_together(tree: Tree, files: Mapping[str, str], output: CommandOutput) -> None:
    """Copy several files at once, each by whole lines. Raises `OutputClosed`, and the first other error."""
    import trio

    lock, errors = trio.Lock(), list[Exception]()

    async def write(lines: Buffer) -> None:
        async with lock:
            await write_output(lines)

    async def copy(name: str, path: str) -> None:
        rest = bytearray()

        async def write_lines(data: Buffer) -> None:
            rest.extend(data)
            whole = rest.rfind(b"\n") + 1
            lines = bytes(rest[:whole])
            del rest[:whole]
            await write(lines)

        try:
            await _copy_file(tree, name, output, path, write_lines)
        except Exception as error:  # outside of the nursery, which would wrap it in an exception group
            errors.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for name, path in files.items():
            nursery.start_soon(copy, name, path)
    if errors:
        raise errors[0]


async def _copy_records(file: OpenFile, output: CommandOutput, path: str, write: Write) -> None:
    position = 0
    while True:
        try:
            data = await file.read(position, READ_BYTES)
        except BrokenPipeError:  # once, after retention removed records that were not read yet
            output.print_error(f"{path}: records were removed before they could be read")
            continue
        if not data:
            return
        position += len(data)
        await write(data)
