"""`offsetfs append`: append standard input to a partition or topic, without a mount."""

from __future__ import annotations

import functools
import os
import stat
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.settings_file import parsed_options, settings_options
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.terminal.directory_warnings import print_new_directory
from offsetfs.cli.tree_access import READ_BYTES, CommandOutput, created_by, write_output, write_tree

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import OpenFile, Tree

STREAMS = ("append", "append.ndjson", "append.raw")
"""The files that take records. Others take a line with each write(2): `start` and the commits of groups."""
LINE_BYTES_MAX = 4096
"""The longest input of a file that takes an offset. Protects the memory from input without newlines."""

Read = Callable[[], Awaitable[bytes]]


@click.command("append", short_help="Append standard input, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("path", metavar="TREE_PATH")
@click.option("--offsets", "prints_offsets", is_flag=True, help="Print `offset timestamp` for each record.")
@click.option("--ndjson", is_flag=True, help="Take JSON objects with key, value and headers: append.ndjson.")
@click.option("--value-is-line", is_flag=True, help="Take each whole line as a value, also for append.ndjson.")
@settings_options
def command(
    log_directory: str, path: str, prints_offsets: bool, ndjson: bool, value_is_line: bool, texts: tuple[str, ...]
) -> int:
    """Append standard input to a file of the tree that a mount of LOGDIR would show. For a partition or a topic, that
    is its file append.

    LOGDIR is locked, so no broker and no mount for writing may be using it. Records are in the log after -o linger-ms,
    and on disk when the command returns, including a last line without a newline. With -o create, a missing partition
    is created, for a topic its partition 0, and a missing LOGDIR. Retention and compaction do not run here, but in
    mounts and in offsetfs clean.

    Lines for append.ndjson have the fields of records.ndjson; --ndjson stands for this file. With --value-is-line, each
    line is a value, whatever it contains. With -o json-values=text, a value that is a number, an object or a list is
    stored as its JSON text.

    \b
    echo hello | offsetfs append ~/logs orders-0
    echo hello | offsetfs append ~/logs orders
    offsetfs append ~/logs orders-0/append < lines.txt
    jq -c '{key: .id, value: .name}' people | offsetfs append ~/logs people --ndjson -o create
    offsetfs append ~/logs events-0/append.ndjson --value-is-line < events.json
    offsetfs append ~/logs photos-0/append.raw < photo.jpg
    tail -f access.log | offsetfs append ~/logs access-0/append -o create,linger-ms=100
    echo hello | offsetfs append ~/logs orders-0 --offsets

    Exit codes: 1 wrong call, or a record was refused; 2 something could not be saved, 8 interrupted, 32 in use.
    """
    output = CommandOutput("append")
    creates = parsed_options(texts, log_directory).create
    if creates:
        _begin_directory(log_directory, path)

    async def work(tree: Tree) -> None:
        try:
            name = await _file_at(tree, path, creates=creates)
            if ndjson:
                name = _file_of_json(name)
            if value_is_line:
                name = _file_of_lines(name)
            async with tree.open(name, (os.O_RDWR if prints_offsets else os.O_WRONLY) | os.O_CREAT) as file:
                takes_records = name.rpartition("/")[2] in STREAMS
                await _fill(file, _read_input if takes_records else _Lines().read, prints_offsets)
        except OSError as error:
            await output.failed_in(tree, error, path)

    return write_tree(log_directory, texts, output, work)


def _begin_directory(log_directory: str, path: str) -> None:
    """Create a missing log directory. `Failure` if `path` cannot be created in an empty one: nothing is left there."""
    directories = log_directories(log_directory)
    if len(directories) > 1 or not preflight.is_empty_or_missing(directories[0]):
        return
    if created_by(path) is None:
        raise Failure(f"{path}: cannot be created; give TOPIC or TOPIC-PARTITION, such as orders-0", WRONG_CALL)
    if preflight.make_missing(directories[0]):
        print_new_directory(directories[0])


async def _file_at(tree: Tree, path: str, *, creates: bool) -> str:
    try:
        entry = await tree.find(path)
    except FileNotFoundError:
        file = await _of_topic(tree, path)
        partition = created_by(path) if creates and file == path else None
        if partition is None:
            return file
        await tree.make_directory(str(partition))
        name = path.strip("/").removeprefix("topics/")
        if "/" in name:
            return path
        return f"{partition}/append" if name == str(partition) else f"topics/{name}/append"
    return f"{path.rstrip('/')}/append" if stat.S_ISDIR(entry.mode) else path


def _file_of_json(name: str) -> str:
    """Return the append file that takes JSON objects, in the directory of `name`."""
    directory, _, file = name.rpartition("/")
    if file not in ("append", "append.ndjson"):
        raise click.UsageError(f"--ndjson is for a partition or topic, not for {name}")
    return f"{directory}/append.ndjson"


def _file_of_lines(name: str) -> str:
    """Return the append file that takes each line as a value, in the directory of `name`."""
    directory, _, file = name.rpartition("/")
    if file not in ("append", "append.ndjson"):
        raise click.UsageError(f"--value-is-line is for append and append.ndjson, not for {name}")
    return f"{directory}/append"


async def _of_topic(tree: Tree, path: str) -> str:
    """Return the append file of the topic `path`; `path` itself if there is none: opening may create the file."""
    file = f"topics/{path.strip('/')}/append"
    try:
        await tree.find(file)
    except OSError:
        return path
    return file


async def _fill(file: OpenFile, read: Read, prints_offsets: bool) -> None:
    while data := await read():
        await file.write(data)
        if prints_offsets:
            await _print_offsets(file)
    await file.sync()
    if prints_offsets:
        await _print_offsets(file)  # append.raw: the record is complete only now


async def _read_input() -> bytes:
    """Return what standard input has, b"" at its end. Where a pipe is cut has no meaning."""
    import trio

    read = functools.partial(os.read, sys.stdin.fileno(), READ_BYTES)
    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)


class _Lines:
    """The lines of standard input, for the files that take an offset with each write(2)."""

    def __init__(self) -> None:
        self._rest = b""

    async def read(self) -> bytes:
        """Return the next line, b"" at the end; of a line that is too long its beginning, which is no offset."""
        while b"\n" not in self._rest and len(self._rest) <= LINE_BYTES_MAX and (data := await _read_input()):
            self._rest += data
        line, newline, self._rest = self._rest.partition(b"\n")
        return line + newline


async def _print_offsets(file: OpenFile) -> None:
    while data := await file.read(0, READ_BYTES):
        await write_output(data)
