"""`offsetfs follow`: records as they come, without a mount."""

from __future__ import annotations

import functools
import stat
from typing import TYPE_CHECKING

import click

from offsetfs.cli.exit_codes import INTERRUPTED, WRONG_CALL, Failure
from offsetfs.cli.tree_access import READ_BYTES, Speaker, mount_options, put, reading, while_read

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import OpenFile, Tree


@click.command("follow", short_help="Print records as they come, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("path", metavar="TREE_PATH")
@click.option("--from", "start", metavar="WHEN", help="Begin with this offset or time, or with the newest N: -N.")
@click.option("--ndjson", is_flag=True, help="A JSON object a line, with key, headers and timestamp.")
@mount_options
def command(log_directory: str, path: str, start: str | None, ndjson: bool, texts: tuple[str, ...]) -> int:
    """Print records of a partition as they are written by whoever writes LOGDIR, a value a line, until Ctrl-C.

    TREE_PATH is a partition, or a follow file in one as a mount has it. No mount and no /dev/fuse is needed, and
    nothing in LOGDIR is changed. Records that were removed before they could be printed are told of on stderr.

    \b
    offsetfs follow /var/lib/kafka/data orders-0
    offsetfs follow /var/lib/kafka/data orders-0 --from -15m --ndjson | jq .key
    offsetfs follow /var/lib/kafka/data orders-0/follow@-10
    offsetfs follow /var/lib/kafka/data orders-0 -o isolation=read_committed

    Exit codes: 1 wrong call, or the path could not be read; 2 system error, 8 interrupted.
    """
    speaker = Speaker("follow")

    async def work(tree: Tree) -> None:
        try:
            name = await _file_at(tree, path, start, ndjson)
            async with tree.open(name) as file:
                await while_read(functools.partial(_pass_on, file, speaker, path))
        except FileNotFoundError as error:
            if start is not None:
                raise Failure(f"--from {start}: neither an offset, nor -N, nor a time", WRONG_CALL) from None
            speaker.failed(error, path)
        except OSError as error:
            speaker.failed(error, path)

    try:
        return reading(log_directory, texts, speaker, work)
    except KeyboardInterrupt:  # the way it ends
        return INTERRUPTED


async def _file_at(tree: Tree, path: str, start: str | None, ndjson: bool) -> str:
    if stat.S_ISDIR((await tree.find(path)).mode):
        return f"{path.rstrip('/')}/follow" + (f"@{start}" if start is not None else "") + (".ndjson" if ndjson else "")
    if start is not None or ndjson:
        raise click.UsageError("--from and --ndjson are for a partition; a follow file says them in its name")
    return path


async def _pass_on(file: OpenFile, speaker: Speaker, path: str) -> None:
    position = 0
    while True:
        try:
            data = await file.read(position, READ_BYTES)
        except BrokenPipeError:  # once, when retention was faster
            speaker.say(f"{path}: records were removed before they could be read")
            continue
        if not data:
            return
        position += len(data)
        await put(data)
