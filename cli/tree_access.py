"""What `ls`, `cat`, `append` and `follow` share: the tree of a log directory in this process, and how they speak of it.

Each path that fails is one sentence on stderr, and the next one follows, as in cat(1). What a mount would write into
`.offsetfs/errors` is printed at the end, because the tree is gone afterwards.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import logging
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from offsetfs.cli import preflight
from offsetfs.cli.exit_codes import DONE, FAILED, SYSTEM, WRONG_CALL, Failure
from offsetfs.cli.log_directories import log_directories
from offsetfs.cli.named_partitions import parsed, partitions_of, some
from offsetfs.cli.open_warnings import print_open_warnings
from offsetfs.cli.printable import printable
from offsetfs.cli.progress import Line, recovery_progress
from offsetfs.cli.settings_file import parsed_options
from offsetfs.fs.options import MountOptions
from offsetfs.storage.directory.log_directories import LogDirectories, left_out, metadata_directory_among
from offsetfs.storage.errors import InvalidConfig, LogDirectoryLocked, NotALogDirectory, StorageError

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import OpenFile, Tree
    from offsetfs.fs.nodes import Buffer

READ_BYTES = 1 << 20
LINE_SECONDS = 10.0  # the interval of progress reports about something that has to be made first
ABOUT_A_PATH = WRONG_CALL
"""The exit code when a path, or some of its records, could not be read or written: that of cat(1)."""


class ReaderGone(Exception):
    """Standard output lost its reader: `| head` has seen enough. Not BrokenPipeError: a file may answer EPIPE."""


class Speaker:
    """Says on stderr what went wrong, in the name of a command, and remembers whether anything did."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._line = Line(f"offsetfs {verb}", every_seconds=LINE_SECONDS)
        self.code = DONE
        self.directories: Sequence[str] = ()
        """The log directories whose tree is read or written, for messages."""

    def say(self, sentence: str) -> None:
        self._line.clear()
        click.echo(f"offsetfs {self._verb}: {printable(sentence)}", err=True)

    def waits(self, text: str) -> None:
        """Tell how far something is that has to be made first, once it takes a while; "" when it is there."""
        if not text:
            self._line.clear()
            return
        self._line.show(printable(text.removeprefix("EAGAIN ")))

    def failed(self, error: OSError, path: str) -> None:
        """Tell of a path that could not be read or written."""
        self.say(f"{path}: {error.strerror}{_hint(error, path, self.directories, self._verb)}")
        self.code = ABOUT_A_PATH


def _hint(error: OSError, path: str, directories: Sequence[str], verb: str) -> str:
    """Return what to add to the text of an errno, where a name of Kafka's was given for one of the tree; else ""."""
    first, _, rest = path.strip("/").partition("/")
    present = [partition for directory in directories for partition in partitions_of(directory)]
    is_partition = any(str(partition) == first for partition in present)
    if error.errno == errno.EISDIR and is_partition and not rest:
        return f"; its records are in {first}/values and {first}/records.ndjson"
    if error.errno == errno.EPERM and is_partition and rest:
        return f"; {first}/append, append.ndjson and append.raw take records"
    if error.errno != errno.ENOENT or is_partition or first in (".offsetfs", "groups"):
        return ""
    topic = rest.partition("/")[0] if first == "topics" else first
    of_topic = [str(partition) for partition in present if partition.topic == topic]
    if of_topic and first == topic:
        return f"; {topic} is a topic: see topics/{topic}, or one of its partitions: {some(of_topic)}"
    if of_topic or not topic:
        return ""
    is_creatable = verb == "append" and not rest and parsed(first) is not None
    remedy = "; -o create creates partitions" if is_creatable else ""
    return f"; {','.join(directories)} has no such topic or partition{remedy}"


class _LogTeller(logging.Handler):
    """What the engine logs, on stderr; an error decides the exit code."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__(logging.WARNING)
        self._speaker = speaker

    def emit(self, record: logging.LogRecord) -> None:
        self._speaker.say(record.getMessage())
        if record.levelno >= logging.ERROR:
            self._speaker.code = SYSTEM


def reading(
    log_directory: str, texts: tuple[str, ...], speaker: Speaker, work: Callable[[Tree], Awaitable[None]]
) -> int:
    """Do `work` on the tree as it is read only: no lock, nothing written, a broker may be running."""
    paths = log_directories(log_directory)
    # The rest is printed, and the exit code says that some is missing.
    options = parsed_options(("damage=skip", *texts), log_directory)
    if options.create or options.delete or options.delete_records:
        raise Failure("create, delete and delete-records are for commands that write; this one only reads", WRONG_CALL)
    return _run(paths, dataclasses.replace(options, read_only=True), speaker, work)


def writing(
    log_directory: str, texts: tuple[str, ...], speaker: Speaker, work: Callable[[Tree], Awaitable[None]]
) -> int:
    """Do `work` on the tree under the lock of the directory; what it wrote is on disk after return."""
    paths = log_directories(log_directory)
    options = parsed_options(texts, log_directory)
    if options.read_only:
        raise Failure("-o ro is for commands that only read; this one writes", WRONG_CALL)
    return _run(paths, options, speaker, work)


def _run(paths: list[str], options: MountOptions, speaker: Speaker, work: Callable[[Tree], Awaitable[None]]) -> int:
    checked = preflight.check_directories(paths, read_only=options.read_only, may_be_empty=options.create)
    speaker.directories = checked.paths
    directory = _open(checked, options)
    for path, error in directory.failures.items():
        speaker.say(f"warning: {left_out(path, error)}")
    from offsetfs.fs.mounting.without_kernel import Unsaved, run  # after the checks: it loads trio and pyfuse3

    async def all_of_it(tree: Tree) -> None:
        try:
            await work(tree)
        finally:
            for line in tree.story():
                speaker.say(line)
            if tree.has_met_damage:
                speaker.code = ABOUT_A_PATH

    teller = _LogTeller(speaker)
    logging.getLogger("offsetfs").addHandler(teller)
    try:
        run(directory, options, all_of_it, speaker.waits)
    except ReaderGone:
        return SYSTEM
    except Unsaved as error:
        for sentence in error.sentences:
            speaker.say(sentence)
        speaker.code = SYSTEM
    finally:
        logging.getLogger("offsetfs").removeHandler(teller)
    return speaker.code


def _open(checked: preflight.Checked, options: MountOptions) -> LogDirectories:
    from offsetfs.cli.served import in_use, locked_directory
    from offsetfs.storage.directory.directory import LogDirectory

    metadata_directory = options.metadata_log_directory or metadata_directory_among(checked.paths)

    def open_one(path: str) -> LogDirectory:
        with recovery_progress() as on_progress:
            directory = LogDirectory.open(
                path,
                read_only=options.read_only,
                on_progress=on_progress,
                **options.of_directory(metadata_directory),
            )
        print_open_warnings(directory)
        return directory

    try:
        return LogDirectories.open(checked.paths, open_one, checked.left_out)
    except LogDirectoryLocked as error:
        raise in_use(error, locked_directory(error), "write to the files there") from error
    except (NotALogDirectory, InvalidConfig) as error:
        raise Failure(str(error), WRONG_CALL) from error
    except StorageError as error:
        raise Failure(str(error), FAILED) from error


# --- bytes in and out ----------------------------------------------------------------------------------------------


async def pour(file: OpenFile) -> None:
    """Write a file to standard output, to its end. Raises `ReaderGone`."""
    position = 0
    while data := await file.read(position, READ_BYTES):
        position += len(data)
        await put(data)


async def put(data: Buffer) -> None:
    """Write to standard output; from a thread, so that a reader who is slow keeps nothing else from being done.

    Raises `ReaderGone`.
    """
    import trio

    await trio.to_thread.run_sync(functools.partial(_write, data), abandon_on_cancel=True)


def _write(data: Buffer) -> None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(sys.stdout.fileno(), rest) :]
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:  # not of the file that is read
        raise Failure(f"standard output: {error.strerror}", SYSTEM) from error


async def while_read(work: Callable[[], Awaitable[None]]) -> None:
    """Do `work`; raise `ReaderGone` when the reader of standard output leaves meanwhile, be there nothing to write."""
    import trio

    output = sys.stdout.fileno()
    if not stat.S_ISFIFO(os.fstat(output).st_mode):
        await work()
        return
    errors: list[Exception] = []

    async def watch(scope: trio.CancelScope) -> None:
        await trio.lowlevel.wait_readable(output)  # the end that is written to: only that it is broken shows there
        errors.append(ReaderGone())
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        try:
            await work()
        except Exception as error:  # a nursery would wrap it
            errors.insert(0, error)
        nursery.cancel_scope.cancel()
    if errors:
        raise errors[0]
