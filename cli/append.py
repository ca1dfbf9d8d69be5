"""`offsetfs append`: standard input into a file of the tree, without a mount."""

from __future__ import annotations

import functools
import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from offsetfs.cli.tree_access import READ_BYTES, Speaker, mount_options, put, writing

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import OpenFile, Tree


@click.command("append", short_help="Append standard input, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("path", metavar="TREE_PATH")
@click.option("--offsets", "tells", is_flag=True, help="For each line print `offset timestamp`.")
@mount_options
def command(log_directory: str, path: str, tells: bool, texts: tuple[str, ...]) -> int:
    """Write standard input to a file of the tree that a mount of LOGDIR would show; a partition means its append.

    LOGDIR is locked, as a mount for writing locks it: not while a broker or such a mount is using it. Records are in
    the log as soon as -o linger-ms says, and all of them are on disk when the command returns, one that has no newline
    too. With -o create a partition is made where there is none. Retention and compaction are left to mounts and to
    offsetfs clean.

    \b
    echo hello | offsetfs append ~/logs orders-0
    offsetfs append ~/logs orders-0/append < lines.txt
    jq -c '{value: .name}' people | offsetfs append ~/logs people-0/append.ndjson
    offsetfs append ~/logs photos-0/append.raw < photo.jpg
    tail -f access.log | offsetfs append ~/logs access-0/append -o create,linger-ms=100
    echo hello | offsetfs append ~/logs orders-0 --offsets

    Exit codes: 1 wrong call, or a record was refused; 2 something could not be saved, 8 interrupted, 32 in use.
    """
    speaker = Speaker("append")

    async def work(tree: Tree) -> None:
        try:
            name = await _file_at(tree, path)
            async with tree.open(name, (os.O_RDWR if tells else os.O_WRONLY) | os.O_CREAT) as file:
                await _fill(file, tells)
        except OSError as error:
            speaker.failed(error, path)

    return writing(log_directory, texts, speaker, work)


async def _file_at(tree: Tree, path: str) -> str:
    try:
        entry = await tree.find(path)
    except FileNotFoundError:
        return path  # some files are made when they are opened
    return f"{path.rstrip('/')}/append" if stat.S_ISDIR(entry.mode) else path


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
    while told := await file.read(0, READ_BYTES):
        await put(told)
