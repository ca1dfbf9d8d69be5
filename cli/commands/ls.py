"""`offsetfs ls`: list directories of the tree, without a mount."""

from __future__ import annotations

import functools
import grp
import os
import pwd
import stat
from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.schema_options import schema_options, schema_texts
from offsetfs.cli.arguments.settings_file import settings_options
from offsetfs.cli.tree_access import CommandOutput, read_tree, write_output
from offsetfs.common.formatting import printable, utc_time

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import Entry, Tree


@click.command("ls", short_help="List the tree, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("paths", metavar="[TREE_PATH]...", nargs=-1)
@click.option("-l", "is_long", is_flag=True, help="Print mode, owner, size and time as well, like ls -l.")
@schema_options
@settings_options
def command(
    log_directory: str,
    paths: tuple[str, ...],
    is_long: bool,
    texts: tuple[str, ...],
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
) -> int:
    """List directories of the tree that a mount of LOGDIR would show, one name per line. A file lists itself.

    Neither a mount nor /dev/fuse is needed. Nothing in LOGDIR is changed; a broker or a mount may be using it. Fixed
    names come first, then records by offset. Times are UTC with milliseconds; the time of a record is its timestamp.

    \b
    offsetfs ls /var/lib/kafka/data
    offsetfs ls -l /var/lib/kafka/data orders-0
    offsetfs ls /var/lib/kafka/data orders-0 -o list=all | tail -n 1
    offsetfs ls /var/lib/kafka/data orders-0/by-time/2026/11/21/13

    Exit codes: 1 wrong call, or a path is not there; 2 system error, 8 interrupted.
    """
    output = CommandOutput("ls")

    async def work(tree: Tree) -> None:
        for number, path in enumerate(paths or ("",)):
            try:
                await _list(tree, path, ("\n" if number else "") if len(paths) > 1 else None, is_long)
            except OSError as error:
                await output.failed_in(tree, error, path or "/")

    return read_tree(log_directory, (*texts, *schema_texts(schema_words, registry_word, mask_words)), output, work)


async def _list(tree: Tree, path: str, before: str | None, is_long: bool) -> None:
    """Print a file, or the entries of a directory; if `before` is not None, after `before` and the path."""

    async def show(entries: list[Entry]) -> None:
        lines = [await _line(tree, entry) if is_long else _shown(entry.name) for entry in entries]
        await write_output("".join(f"{line}\n" for line in lines).encode())

    entry = await tree.find(path, follows=path.endswith("/") or not is_long)
    if not stat.S_ISDIR(entry.mode):
        await show([entry])
        return
    if before is not None:
        await write_output(f"{before}{printable(path)}:\n".encode())
    await tree.entries(path, show)


def _shown(name: bytes) -> str:
    return printable(os.fsdecode(name))


async def _line(tree: Tree, entry: Entry) -> str:
    when = utc_time(entry.mtime_ns // 1_000_000)
    target = f" -> {printable(await tree.target(entry))}" if stat.S_ISLNK(entry.mode) else ""
    mode, owner = stat.filemode(entry.mode), f"{_user(entry.uid)} {_group(entry.gid)}"
    return f"{mode} {owner} {entry.size:>12} {when} {_shown(entry.name)}{target}"


@functools.cache
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@functools.cache
def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
