"""`offsetfs append`: standard input into a file of the tree, without a mount."""

from __future__ import annotations

import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from offsetfs.cli.settings_file import settings_options
from offsetfs.cli.tree_access import READ_BYTES, Speaker, put, writing

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import OpenFile, Tree


@click.command("append", short_help="Append standard input, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("path", metavar="TREE_PATH")
@click.option("--offsets", "tells", is_flag=True, help="For each line print `offset timestamp`.")
@click.option("--value-is-line", is_flag=True, help="Each whole line is a value, for append.ndjson too.")
@settings_options
def command(log_directory: str, path: str, tells: bool, value_is_line: bool, texts: tuple[str, ...]) -> int:
    """Write standard input to a file of the tree that a mount of LOGDIR would show; a partition or
    a topic means its append.

    LOGDIR is locked, as a mount for writing locks it: not while a broker or such a mount is using it. Records are in
    the log as soon as -o linger-ms says, and all of them are on disk when the command returns, one that has no newline
    too. With -o create a partition is made where there is none. Retention and compaction are left to mounts and to
    offsetfs clean. Lines for append.ndjson have the fields of records.ndjson: with --value-is-line each line is the
    value, whatever it holds; with -o json-values=text a value that is a number, an object or a list is its text.

    \b
    echo hello | offsetfs append ~/logs orders-0
    echo hello | offsetfs append ~/logs orders
    offsetfs append ~/logs orders-0/append < lines.txt
    jq -c '{value: .name}' people | offsetfs append ~/logs people-0/append.ndjson
    offsetfs append ~/logs events-0/append.ndjson --value-is-line < events.json
    offsetfs append ~/logs photos-0/append.raw < photo.jpg
    tail -f access.log | offsetfs append ~/logs access-0/append -o create,linger-ms=100
    echo hello | offsetfs append ~/logs orders-0 --offsets

    Exit codes: 1 wrong call, or a record was refused; 2 something could not be saved, 8 interrupted, 32 in use.
    """
    speaker = Speaker("append")

    async def work(tree: Tree) -> None:
        try:
            name = await _file_at(tree, path)
            if value_is_line:
                name = _file_of_lines(name)
            async with tree.open(name, (os.O_RDWR if tells else os.O_WRONLY) | os.O_CREAT) as file:
                await _fill(file, tells)
        except OSError as error:
            speaker.failed(error, path)

    return writing(log_directory, texts, speaker, work)


async def _file_at(tree: Tree, path: str) -> str:
    try:
        entry = await tree.find(path)
    except FileNotFoundError:
        return await _of_topic(tree, path)
    return f"{path.rstrip('/')}/append" if stat.S_ISDIR(entry.mode) else path


def _file_of_lines(name: str) -> str:
    """Return the append file that takes each line as a value, in the place of `name`."""
    directory, _, file = name.rpartition("/")
    if file not in ("append", "append.ndjson"):
        raise click.UsageError(f"--value-is-line is for append and append.ndjson, not for {name}")
    return f"{directory}/append"


async def _of_topic(tree: Tree, path: str) -> str:
    """Return the append file of the topic `path`; `path` itself where there is none: some files are made by opening."""
    file = f"topics/{path.strip('/')}/append"
    try:
        await tree.find(file)
    except OSError:
        return path
    return file


async def _fill(file: OpenFile, tells: bool) -> None:
    import trio

    read = functools.partial(os.read, sys.stdin.fileno(), READ_BYTES)
    while data := await trio.to_thread.run_sync(read, abandon_on_cancel=True):
        await file.write(data)
        if tells:
            await _tell(file)
    await file.sync()
    if tells:
        await _tell(file)  # of append.raw, which is one record


async def _tell(file: OpenFile) -> None:
    while data := await file.read(0, READ_BYTES):
        await put(data)
