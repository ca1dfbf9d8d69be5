"""`.offsetfs`: the state of a mount, and commands to it. Its files are found by name; readdir returns none of them.

    stats       a table for users                errors      recent errors
    metrics     the same for Prometheus          version
    config      the options and settings in use
    flush       after write(2) of a partition's name, or of `*`, the partition is on disk, or all are
    log-level   debug, info, warning or error; a level that is written here takes effect at once

The content of stats, metrics and config is made when the file is opened. Their size is 0, as that of files in /proc:
`cat` and `cp` read such files to the end. The content is made in a thread, from a copy of the counters.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable

from pyfuse3 import EntryAttributes, FUSEError

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.control import config_text, stats
from offsetfs.fs.control.report import Report, Reporter
from offsetfs.fs.inodes import Fixed, Kind, pack
from offsetfs.fs.nodes import FileNode, Listing, Opened, Opening, ShortListing
from offsetfs.fs.options import LOG_LEVELS
from offsetfs.fs.shared import Shared
from offsetfs.fs.views.texts import Text
from offsetfs.storage.names import TopicPartition

LEVELS = ("debug", "info", "warning", "error")
_log = logging.getLogger(__name__)

PACKAGE = "offsetfs"
LOG_LEVEL_MODE = 0o644
EVERYTHING = b"*"


class ControlDirectory:
    """The directory. `files` maps the number of each file to its node."""

    def __init__(
        self, shared: Shared, texts: dict[int, Text], accumulators: Accumulators, open_files: Callable[[], int]
    ) -> None:
        self._shared = shared
        reporter = Reporter(shared, accumulators, open_files)
        self.files: dict[int, FileNode] = {
            Fixed.ERRORS: texts[Fixed.ERRORS],
            Fixed.VERSION: texts[Fixed.VERSION],
            Fixed.STATS: _ReportFile(shared, reporter, Fixed.STATS, stats.text),
            Fixed.METRICS: _ReportFile(shared, reporter, Fixed.METRICS, _metrics),
            Fixed.CONFIG: _ConfigFile(shared),
            Fixed.FLUSH: FlushFile(shared, accumulators),
            Fixed.LOG_LEVEL: LogLevelFile(shared),
        }
        self._named = {number_name(number): file for number, file in self.files.items()}

    async def attributes(self, number: int) -> EntryAttributes:
        return self._shared.attributes.directory(pack(Kind.FIXED, 0, Fixed.CONTROL))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        file = self._named.get(name)
        return None if file is None else await file.attributes(0)

    async def listing(self, number: int) -> Listing:
        return ShortListing([])


def number_name(number: int) -> bytes:
    """Return the name of a file of this directory: `log-level` for `LOG_LEVEL`."""
    return Fixed(number).name.lower().replace("_", "-").encode()


def _attributes(shared: Shared, number: Fixed, mode: int | None = None, size: int = 0) -> EntryAttributes:
    inode = pack(Kind.FIXED, 0, number)
    if mode is None:
        return shared.attributes.file(inode, size, 0)
    return shared.attributes.file(inode, size, 0, mode=mode)


# --- read files ------------------------------------------------------------------------------------------------------


def _metrics(report: Report) -> bytes:
    from offsetfs.fs.control import metrics

    return metrics.text(report)


class _ReportFile:
    """stats and metrics: a report, formatted by `show`."""

    def __init__(self, shared: Shared, reporter: Reporter, number: Fixed, show: Callable[[Report], bytes]) -> None:
        self._shared = shared
        self._reporter = reporter
        self._number = number
        self._show = show

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._shared, self._number)

    async def open(self, number: int, opening: Opening) -> Opened:
        report = await self._reporter.report()
        return Opened(await self._shared.in_thread(lambda: self._show(report)), direct=True)


class _ConfigFile:
    """config: the options in use, and the settings of each topic."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._shared, Fixed.CONFIG)

    async def open(self, number: int, opening: Opening) -> Opened:
        shared = self._shared
        shared.refresh_config()
        made = await shared.in_thread(lambda: config_text.text(shared.directory, shared.options))
        return Opened(made, direct=True)


# --- written files ---------------------------------------------------------------------------------------------------


class FlushFile:
    """flush: accepts names of partitions, or `*`, separated by blanks. After write(2) these partitions are on disk."""

    def __init__(self, shared: Shared, accumulators: Accumulators) -> None:
        self._shared = shared
        self._accumulators = accumulators

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._shared, Fixed.FLUSH, APPEND_MODE)

    async def open(self, number: int, opening: Opening) -> Opened:
        if opening.writes:
            self.check_writable(number)
        return Opened(_Commands(self._flush), direct=True)

    def check_writable(self, number: int) -> None:
        if self._shared.is_read_only:
            raise FUSEError(errno.EROFS)

    async def _flush(self, data: bytes) -> None:
        """Return when the accepted records are on disk. EINVAL for a wrong name, ENOENT, or the errno of the sync."""
        names = data.split()
        if not names:
            raise FUSEError(errno.EINVAL)
        wanted = [None if name == EVERYTHING else self._partition(name) for name in names]
        for partition in wanted:
            await (self._flush_all() if partition is None else self._flush_one(partition))

    def _partition(self, name: bytes) -> TopicPartition:
        partition = TopicPartition.parse(name.decode("ascii", "replace"))
        if not self._shared.directory.has(partition):
            raise FUSEError(errno.ENOENT)
        return partition

    async def _flush_one(self, partition: TopicPartition) -> None:
        accumulator = self._accumulators.known(partition)
        if accumulator is not None:
            await accumulator.sync()
        log = self._shared.directory.opened(partition)
        if (
            log is not None
        ):  # the accumulator does not cover records that the mount appends itself, such as a coordinator's
            await self._shared.in_thread(log.flush)

    async def _flush_all(self) -> None:
        for error in (await self._accumulators.flush_all()).values():
            raise error
        await self._shared.in_thread(self._shared.directory.flush)


class LogLevelFile:
    """log-level: the lowest level of the messages that the mount logs."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._shared, Fixed.LOG_LEVEL, LOG_LEVEL_MODE, len(_content()))

    async def open(self, number: int, opening: Opening) -> Opened:
        return Opened(_Commands(self._set, _content()), direct=True)

    def check_writable(self, number: int) -> None:
        """Permit the write: the mode of the file is the only restriction."""

    async def _set(self, data: bytes) -> None:
        level = data.decode("ascii", "replace").strip().lower()
        if level not in LOG_LEVELS:
            raise FUSEError(errno.EINVAL)
        set_level(level)


def _content() -> bytes:
    return level().encode() + b"\n"


def level() -> str:
    """Return the lowest level that is logged: one of `LOG_LEVELS`."""
    return logging.getLevelName(logging.getLogger(PACKAGE).getEffectiveLevel()).lower()


def set_level(name: str) -> None:
    """Log messages of offsetfs from this level on. Takes effect at once."""
    logging.getLogger(PACKAGE).setLevel(name.upper())
    _log.info("log level is %s", name)


class _Commands:
    """An open file that accepts commands: one per write(2), whose errno is the result."""

    def __init__(self, command: Callable[[bytes], Awaitable[None]], content: bytes = b"") -> None:
        self._command = command
        self._content = content

    async def read(self, position: int, size: int) -> bytes:
        return self._content[position : position + size]

    async def write(self, data: bytes) -> int:
        await self._command(data)
        return len(data)

    async def flush(self) -> None:
        """Return at once: nothing is buffered."""

    fsync = release = flush
