"""The tree of a log directory in this process, for `ls`, `cat`, `append` and `follow`, which need no mount.

For each path that fails, a message is printed on stderr, and the command continues with the next path, as cat(1) does.
The messages that a mount would write to `.offsetfs/errors` are printed at the end.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import logging
import os
import re
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.arguments.log_directories import log_directories
from offsetfs.cli.arguments.named_partitions import no_such, partitions_of, shortened
from offsetfs.cli.arguments.schema_options import with_checked_masks
from offsetfs.cli.arguments.settings_file import parsed_options
from offsetfs.cli.exit_codes import DONE, FAILED, OUTPUT_CLOSED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.terminal.directory_warnings import print_directory_warnings
from offsetfs.cli.terminal.progress import Line, recovery_progress
from offsetfs.common.formatting import printable
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.fs.options import MountOptions
from offsetfs.fs.reporting.errors import OF_MOUNT_README
from offsetfs.storage import LogDirectories, TopicPartition
from offsetfs.storage.directory import left_out_message, metadata_directory_among
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, NotALogDirectory, StorageError

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import OpenFile, Tree
    from offsetfs.fs.nodes import Buffer

READ_BYTES = 1 << 20
LINE_SECONDS = 10.0  # the interval of progress reports about an index that must be built before reading
ABOUT_A_PATH = WRONG_CALL
"""The exit code if a path, or some of its records, could not be read or written; the same as that of cat(1)."""


class OutputClosed(Exception):
    """The reader of standard output closed the pipe, as head(1) does. Not BrokenPipeError: files fail with EPIPE."""


class CommandOutput:
    """The messages of a command on stderr, and its exit code: `code` is raised by the first error."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._line = Line(f"offsetfs {verb}", every_seconds=LINE_SECONDS)
        self.code = DONE
        self.printed_lines: set[str] = set()
        """Lines of `.offsetfs/errors` that are printed already, with the path that failed."""
        self.printed_sentences: set[str] = set()
        self.logged: list[str] = []
        """The messages of the engine, which are printed already."""
        self.directories: Sequence[str] = ()
        """The log directories whose tree is read or written, for messages."""

    def print_error(self, sentence: str) -> None:
        self.printed_sentences.add(sentence)
        self._line.clear()
        click.echo(f"offsetfs {self._verb}: {printable(sentence)}", err=True)

    def progress(self, text: str) -> None:
        """Show the progress of building an index, if it takes longer than two seconds; "" when it is complete."""
        if not text:
            self._line.clear()
            return
        self._line.show(printable(text.removeprefix("EAGAIN ")))

    def failed(self, error: OSError, path: str) -> None:
        """Print the error of a path that could not be read or written, and set the exit code."""
        self.print_error(f"{path}: {error.strerror}{_hint(error, path, self.directories, self._verb)}")
        self.code = ABOUT_A_PATH

    async def failed_in(self, tree: Tree, error: OSError, path: str) -> None:
        """As `failed`, with the cause that a mount writes to `.offsetfs/errors`, or with the offsets of a partition."""
        if error.errno == errno.ENOENT:  # of a directory that could not be created: `_hint` has the option
            self.printed_lines.update(
                line for line in _errors(tree) if line.startswith(("EPERM mkdir ", "EPERM create "))
            )
        name = errno.errorcode.get(error.errno or 0, "")
        lines = [line for line in _errors(tree) if line.startswith(f"{name} ") and line not in self.printed_lines]
        if lines:
            self.printed_lines.add(lines[-1])
            sentence = _sentence(lines[-1])
            if any(sentence.partition(": ")[2] in message for message in self.logged):
                return  # the engine has reported the error already, with what is lost
            self.print_error(sentence)
            self.code = ABOUT_A_PATH
            return
        self.failed(OSError(error.errno, f"{error.strerror}{await _offsets_hint(tree, error, path)}"), path)


_TIMES = re.compile(r" \(\d+ times\)\n?$")


def _errors(tree: Tree) -> list[str]:
    """Return the lines of `.offsetfs/errors` without their counts.

    A refusal counts twice where a write that had accepted lines before the wrong one is continued there.
    """
    return [_TIMES.sub("", line) for line in tree.errors()]


def created_by(path: str) -> TopicPartition | None:
    """Return the partition that `append -o create` creates for `path`: partition 0 of a topic. None if it cannot."""
    match path.strip("/").split("/"):
        case [name] if (partition := TopicPartition.parse_or_none(name)) is not None:
            return partition
        case [name, "append" | "append.ndjson" | "append.raw"] | [name, "decoded", "append.ndjson"]:
            return TopicPartition.parse_or_none(name)
        case [topic] | ["topics", topic] | ["topics", topic, "append" | "append.ndjson"]:
            return TopicPartition.parse_or_none(f"{topic}-0")
        case ["topics", topic, "decoded", "append.ndjson"]:
            return TopicPartition.parse_or_none(f"{topic}-0")
    return None


def _sentence(line: str) -> str:
    """Return a line of `_errors` as the message of a command: without errno, system call and README."""
    _, _, sentence = line.split(" ", 2)
    path, _, cause = sentence.partition(": ")
    if cause.startswith(f"{path}/"):
        sentence = cause
    return sentence.removeprefix("-: ").replace(f"; {OF_MOUNT_README}", "")


async def _offsets_hint(tree: Tree, error: OSError, path: str) -> str:
    folder, _, name = path.strip("/").partition("/")
    offset = parse_offset(name.encode("utf-8", "surrogateescape"))
    if error.errno != errno.ENOENT or offset is None:
        return ""
    try:
        start, end = [int(await _text(tree, f"{folder}/{file}")) for file in ("start", "next")]
    except OSError:  # no partition
        return ""
    if start == end:
        return f"; {folder} has no records, its next offset is {end}"
    if start <= offset < end:
        return f"; compaction or a transaction marker left no record at this offset of {start} to {end - 1}"
    return f"; {folder} has offsets {start} to {end - 1}"


async def _text(tree: Tree, path: str) -> str:
    async with tree.open(path) as file:
        return bytes(await file.read(0, READ_BYTES)).decode()


def _hint(error: OSError, path: str, directories: Sequence[str], verb: str) -> str:
    """Return a remedy for the error message of a path, such as the right name in the tree; "" if none is known."""
    first, _, rest = path.strip("/").partition("/")
    present = [partition for directory in directories for partition in partitions_of(directory)]
    is_partition = any(str(partition) == first for partition in present)
    if error.errno == errno.EISDIR and is_partition and not rest:
        return f"; its records are in {first}/values and {first}/records.ndjson"
    if error.errno != errno.ENOENT or is_partition or first in (".offsetfs", "groups"):
        return ""
    topic = rest.partition("/")[0] if first == "topics" else first
    of_topic = [str(partition) for partition in present if partition.topic == topic]
    if of_topic and first == topic:
        return f"; {topic} is a topic: see topics/{topic}, or one of its partitions: {shortened(of_topic)}"
    if of_topic or not topic:
        return ""
    remedy = "; -o create creates it" if verb == "append" and created_by(path) is not None else ""
    return f"; {no_such(directories, topic, present)}{remedy}"


class _LogPrinter(logging.Handler):
    """Prints warnings and errors that the engine logs on stderr; an error sets the exit code."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__(logging.WARNING)
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        self._output.logged.append(record.getMessage())
        self._output.print_error(record.getMessage())
        if record.levelno >= logging.ERROR:
            self._output.code = SYSTEM


def read_tree(
    log_directory: str, texts: tuple[str, ...], output: CommandOutput, work: Callable[[Tree], Awaitable[None]]
) -> int:
    """Run `work` on the read-only tree, without a lock, also beside a running broker. Return the exit code."""
    paths = log_directories(log_directory)
    # Readable records are printed in spite of damage; the exit code shows that some are missing.
    options = parsed_options(("damage=skip", *texts), log_directory)
    if options.create or options.delete or options.delete_records:
        raise Failure("-o create, delete and delete-records have no use here: this command only reads", WRONG_CALL)
    return _run(paths, dataclasses.replace(options, read_only=True), output, work)


def write_tree(
    log_directory: str, texts: tuple[str, ...], output: CommandOutput, work: Callable[[Tree], Awaitable[None]]
) -> int:
    """Run `work` on the tree, with the lock of the directory. Return the exit code when all records are on disk."""
    paths = log_directories(log_directory)
    options = parsed_options(texts, log_directory)
    if options.read_only:
        raise Failure("-o ro has no use here: this command writes", WRONG_CALL)
    return _run(paths, options, output, work)


def _run(
    paths: list[str], options: MountOptions, output: CommandOutput, work: Callable[[Tree], Awaitable[None]]
) -> int:
    checked = preflight.check_directories(paths, read_only=options.read_only, may_be_empty=options.create)
    output.directories = checked.paths
    directory = _open(checked, options)
    for path, error in directory.failures.items():
        output.print_error(f"warning: {left_out_message(path, error)}")
    from offsetfs.fs.mounting.in_process_tree import (
        Unsaved,
        run,
    )  # after the checks, because it imports trio and pyfuse3

    async def all_of_it(tree: Tree) -> None:
        try:
            await work(tree)
        finally:
            for line in _errors(tree):
                if line not in output.printed_lines and _sentence(line) not in output.printed_sentences:
                    output.print_error(_sentence(line))
            if tree.has_met_damage:
                output.code = ABOUT_A_PATH

    printer = _LogPrinter(output)
    logging.getLogger("offsetfs").addHandler(printer)
    try:
        run(directory, options, all_of_it, output.progress)
    except OutputClosed:
        return OUTPUT_CLOSED
    except Unsaved as error:
        for sentence in error.sentences:
            output.print_error(sentence)
        output.code = SYSTEM
    finally:
        logging.getLogger("offsetfs").removeHandler(printer)
    return output.code


def _open(checked: preflight.CheckedDirectories, options: MountOptions) -> LogDirectories:
    from offsetfs.cli.mounts.serving_daemon import in_use, locked_directory
    from offsetfs.storage import LogDirectory

    settings = options.of_directory(metadata_directory_among(checked.paths))

    def open_one(path: str) -> LogDirectory:
        with recovery_progress() as on_progress:
            directory = LogDirectory.open(
                path,
                read_only=options.read_only,
                on_progress=on_progress,
                **settings,
            )
        print_directory_warnings(directory)
        return directory

    try:
        return with_checked_masks(LogDirectories.open(checked.paths, open_one, checked.left_out), options)
    except LogDirectoryLocked as error:
        raise in_use(error, locked_directory(error), "write to the files there") from error
    except (NotALogDirectory, InvalidConfig) as error:
        raise Failure(str(error), WRONG_CALL) from error
    except StorageError as error:
        raise Failure(str(error), FAILED) from error


# --- bytes in and out ----------------------------------------------------------------------------------------------


async def copy_to_output(file: OpenFile) -> None:
    """Copy a file to standard output. Raises `OutputClosed`."""
    position = 0
    while data := await file.read(position, READ_BYTES):
        position += len(data)
        await write_output(data)


async def write_output(data: Buffer) -> None:
    """Write to standard output, in a thread, so that a slow reader does not block the event loop.

    Raises `OutputClosed`.
    """
    import trio

    await trio.to_thread.run_sync(functools.partial(_write, data), abandon_on_cancel=True)


def _write(data: Buffer) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
    except BrokenPipeError:
        raise OutputClosed from None
    except OSError as error:  # not an error of the file that is read
        raise Failure(f"standard output: {error.strerror}", SYSTEM) from error


async def while_output_open(work: Callable[[], Awaitable[None]]) -> None:
    """Run `work`; raise `OutputClosed` as soon as the reader of standard output closes it, even if `work` is idle."""
    import trio

    output = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        await work()
        return
    errors: list[Exception] = []

    async def watch(scope: trio.CancelScope) -> None:
        await trio.lowlevel.wait_readable(
            output
        )  # the write end of a pipe: poll(2) reports only that its reader closed it
        errors.append(OutputClosed())
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        try:
            await work()
        except Exception as error:  # outside of the nursery, which would wrap it in an exception group
            errors.insert(0, error)
        nursery.cancel_scope.cancel()
    if errors:
        raise errors[0]
