"""`offsetfs follow`: records as they come, without a mount."""

from __future__ import annotations

import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from offsetfs.cli.exit_codes import INTERRUPTED, WRONG_CALL, Failure
from offsetfs.cli.settings_file import settings_options
from offsetfs.cli.tree_access import READ_BYTES, Speaker, put, reading, while_read
from offsetfs.fs.tree import TOPICS_NAME, parse_offset

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import Entry, OpenFile, Tree


@click.command("follow", short_help="Print new records as they arrive, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("path", metavar="TREE_PATH")
@click.option("--from", "start", metavar="WHEN", help="Begin with this offset or time, or with the newest N: -N.")
@click.option("--ndjson", is_flag=True, help="A JSON object a line, with key, headers and timestamp.")
@settings_options
def command(log_directory: str, path: str, start: str | None, ndjson: bool, texts: tuple[str, ...]) -> int:
    """Print records of a partition or topic as they are written to LOGDIR by any process, a value a line, until Ctrl-C.

    TREE_PATH is a partition, a topic, or a follow file as a mount has it. The records of a topic come in order within
    each partition, and -N means the newest N of each. No mount and no /dev/fuse is needed, and nothing in LOGDIR is
    changed. Records that were removed before they could be printed are reported on stderr. With an offset beyond the
    end, it waits until the partition has that offset; with a time in the future, it prints what comes from now on.

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
    speaker = Speaker("follow")

    async def work(tree: Tree) -> None:
        try:
            name = await _file_at(tree, path, start, ndjson)
            await _say_if_beyond(tree, name, speaker)
            if start is None and path != name and sys.stdout.isatty():
                speaker.say(
                    f"waiting for new records of {name.rpartition('/')[0]}; --from prints older ones, Ctrl-C ends"
                )
            async with tree.open(name) as file:
                await while_read(functools.partial(_pass_on, file, speaker, path))
        except FileNotFoundError as error:
            speaker.failed(error, path)
        except OSError as error:
            speaker.failed(error, path)

    try:
        return reading(log_directory, texts, speaker, work)
    except KeyboardInterrupt:  # the way it ends
        return INTERRUPTED


def _is_start(text: str) -> bool:
    """Whether a stream can begin with `text`: an offset, a time, or the newest N."""
    from offsetfs.fs.views.follow import parse_follow  # loads trio, which completion in a shell does without

    return parse_follow(f"follow@{text}".encode("utf-8", "surrogateescape")) is not None


async def _say_if_beyond(tree: Tree, name: str, speaker: Speaker) -> None:
    """Say that nothing comes for now where the stream begins with an offset that the partition has not reached."""
    place, _, file = name.rpartition("/")
    offset = parse_offset(file.removesuffix(".ndjson").partition("@")[2].encode())
    if not place or offset is None:
        return
    async with tree.open(f"{place}/next") as opened:
        end = int(bytes(await opened.read(0, READ_BYTES)))
    if offset > end:
        speaker.say(f"{place} ends at offset {end}: waiting for offset {offset}, records before it are not printed")


async def _of_topic(tree: Tree, path: str) -> str:
    """Return the path of a topic, or of its only partition; `path` itself where it is not the name of a topic."""
    if "/" in path.strip("/"):
        return path
    topic, found = path.strip("/"), list[str]()

    async def collect(entries: list[Entry]) -> None:
        found.extend(name for entry in entries if (name := os.fsdecode(entry.name)).rpartition("-")[0] == topic)

    await tree.entries("", collect)
    if len(found) > 1:
        return f"{TOPICS_NAME.decode()}/{topic}"
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
        raise click.UsageError("--from and --ndjson are for a partition; a follow file says them in its name")
    return path


def _is_topic(path: str) -> bool:
    return path.strip("/").rpartition("/")[0] == TOPICS_NAME.decode()


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
