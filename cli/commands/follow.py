"""`offsetfs follow`: print new records as they arrive, without a mount."""

from __future__ import annotations

import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.settings_file import settings_options
from offsetfs.cli.exit_codes import INTERRUPTED, WRONG_CALL, Failure
from offsetfs.cli.tree_access import READ_BYTES, CommandOutput, read_tree, while_output_open, write_output
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.fs.naming.tree_table import Kind

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import Entry, OpenFile, Tree

_TOPICS = Kind.TOPICS.file_name.decode()


@click.command("follow", short_help="Print new records as they arrive, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("path", metavar="TREE_PATH")
@click.option("--from", "start", metavar="WHEN", help="Start at this offset or time, or with the newest N: -N.")
@click.option("--ndjson", is_flag=True, help="Print a JSON object per record, with key, headers and timestamp.")
@settings_options
def command(log_directory: str, path: str, start: str | None, ndjson: bool, texts: tuple[str, ...]) -> int:
    """Print records of a partition or topic as any process writes them to LOGDIR, one value per line, until Ctrl-C.

    TREE_PATH is a partition, a topic, or a follow file of the tree. The records of a topic are in order within each
    partition, and -N means the newest N of each. Neither a mount nor /dev/fuse is needed, and nothing in LOGDIR is
    changed. Records that were removed before they could be printed are reported on stderr. With an offset beyond the
    end, the command waits until the partition reaches it; with a time in the future, it prints all new records.

    \b
    offsetfs follow /var/lib/kafka/data orders-0
    offsetfs follow /var/lib/kafka/data orders-0 --from -15m --ndjson | jq .key
    offsetfs follow /var/lib/kafka/data orders-0/follow@-10
    offsetfs follow /var/lib/kafka/data orders --from -10 --ndjson
    offsetfs follow /var/lib/kafka/data orders-0 -o isolation=read_committed

    Exit codes: 1 wrong call, or the path or some of its records could not be read; 2 system error, 8 interrupted.
    """
    if start is not None and not _is_start(start):
        wanted = "an offset (42), the newest N (-10), or a time (2026-11-20T18:40:01, -1h30m)"
        raise Failure(f"--from {start}: give {wanted}", WRONG_CALL)
    output = CommandOutput("follow")

    async def work(tree: Tree) -> None:
        try:
            name = await _file_at(tree, path, start, ndjson)
            await _report_future_offset(tree, name, output)
            if start is None and path != name and sys.stdout.isatty():
                output.print_error(
                    f"waiting for new records of {name.rpartition('/')[0]}; --from prints older ones, Ctrl-C ends"
                )
            async with tree.open(name) as file:
                await while_output_open(functools.partial(_copy_records, file, output, path))
        except FileNotFoundError as error:
            output.failed(error, path)
        except OSError as error:
            output.failed(error, path)

    try:
        return read_tree(log_directory, texts, output, work)
    except KeyboardInterrupt:  # the normal end of this command
        return INTERRUPTED


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
    topic, found = path.strip("/"), list[str]()

    async def collect(entries: list[Entry]) -> None:
        found.extend(name for entry in entries if (name := os.fsdecode(entry.name)).rpartition("-")[0] == topic)

    await tree.entries("", collect)
    if len(found) > 1:
        return f"{_TOPICS}/{topic}"
    return found[0] if found else path


async def _file_at(tree: Tree, path: str, start: str | None, ndjson: bool) -> str:
    try:
        await tree.find(path)
    except FileNotFoundError:
        path = await _of_topic(tree, path)
    if stat.S_ISDIR((await tree.find(path)).mode):
        if start is not None and parse_offset(start.encode()) is not None and _is_topic(path):
            reason = "an offset belongs to one partition, such as"
            raise Failure(f"--from {start}: {reason} {path.rstrip('/').rpartition('/')[2]}-0", WRONG_CALL)
        return f"{path.rstrip('/')}/follow" + (f"@{start}" if start is not None else "") + (".ndjson" if ndjson else "")
    if start is not None or ndjson:
        raise click.UsageError(
            "--from and --ndjson are for a partition or topic; the name of a follow file already contains both"
        )
    return path


def _is_topic(path: str) -> bool:
    return path.strip("/").rpartition("/")[0] == _TOPICS


async def _copy_records(file: OpenFile, output: CommandOutput, path: str) -> None:
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
        await write_output(data)
