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

from offsetfs.fs.appends.accumulator import Accumulators
from offsetfs.fs.attributes import APPEND_MODE
from offsetfs.fs.control.report import MountReport, Reporter
from offsetfs.fs.control.texts import config_text, stats_text
from offsetfs.fs.files.texts import Text
from offsetfs.fs.fuse_types import EntryAttributes, FUSEError
from offsetfs.fs.groups.known_groups import Groups
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.inodes import pack
from offsetfs.fs.naming.tree_table import IN_CONTROL, Kind, fixed_names
from offsetfs.fs.nodes import FileNode, Listing, Opened, Opening, ShortListing
from offsetfs.fs.options import LOG_LEVELS
from offsetfs.storage import TopicPartition

LEVELS = ("debug", "info", "warning", "error")
_log = logging.getLogger(__name__)

PACKAGE = "offsetfs"
LOG_LEVEL_MODE = 0o644
EVERYTHING = b"*"


class ControlDirectory:
    """The directory. `files` maps the number of each file to its node."""

    def __init__(
        self,
        mount: MountContext,
        texts: dict[int, Text],
        accumulators: Accumulators,
        groups: Groups,
        open_files: Callable[[], int],
    ) -> None:
        self._mount = mount
        reporter = Reporter(mount, accumulators, groups, open_files)
        self.files: dict[int, FileNode] = {
            Kind.ERRORS: texts[Kind.ERRORS],
            Kind.VERSION: texts[Kind.VERSION],
            Kind.STATS: _ReportFile(mount, reporter, Kind.STATS, stats_text),
            Kind.METRICS: _ReportFile(mount, reporter, Kind.METRICS, _metrics),
            Kind.CONFIG: _ConfigFile(mount),
            Kind.FLUSH: FlushFile(mount, accumulators),
            Kind.LOG_LEVEL: LogLevelFile(mount),
        }
        self._named = {name.encode(): self.files[kind] for name, kind in fixed_names(IN_CONTROL)}

    async def attributes(self, number: int) -> EntryAttributes:
        return self._mount.attributes.directory(pack(Kind.CONTROL))

    async def lookup(self, number: int, name: bytes) -> EntryAttributes | None:
        file = self._named.get(name)
        return None if file is None else await file.attributes(0)

    async def listing(self, number: int) -> Listing:
        return ShortListing([])


def _attributes(mount: MountContext, number: Kind, mode: int | None = None, size: int = 0) -> EntryAttributes:
    inode = pack(number)
    if mode is None:
        return mount.attributes.file(inode, size, 0)
    return mount.attributes.file(inode, size, 0, mode=mode)


# --- read files ------------------------------------------------------------------------------------------------------


def _metrics(report: MountReport) -> bytes:
    from offsetfs.fs.control import metrics

    return metrics.text(report)


class _ReportFile:
    """stats and metrics: a report, formatted by `show`."""

    def __init__(
        self, mount: MountContext, reporter: Reporter, number: Kind, show: Callable[[MountReport], bytes]
    ) -> None:
        self._mount = mount
        self._reporter = reporter
        self._number = number
        self._show = show

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._mount, self._number)

    async def open(self, number: int, opening: Opening) -> Opened:
        report = await self._reporter.report(has_lags=self._number is Kind.METRICS)
        return Opened(await self._mount.executor.in_thread(lambda: self._show(report)), direct=True)


class _ConfigFile:
    """config: the options in use, and the settings of each topic."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._mount, Kind.CONFIG)

    async def open(self, number: int, opening: Opening) -> Opened:
        mount = self._mount
        mount.config.refresh()
        made = await mount.executor.in_thread(lambda: config_text(mount.directory, mount.options))
        return Opened(made, direct=True)


# --- written files ---------------------------------------------------------------------------------------------------


class FlushFile:
    """flush: accepts names of partitions, or `*`, separated by blanks. After write(2) these partitions are on disk."""

    def __init__(self, mount: MountContext, accumulators: Accumulators) -> None:
        self._mount = mount
        self._accumulators = accumulators

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._mount, Kind.FLUSH, APPEND_MODE)

    async def open(self, number: int, opening: Opening) -> Opened:
        if opening.writes:
            self.check_writable(number)
        return Opened(_Commands(self._flush), direct=True)

    def check_writable(self, number: int) -> None:
        if self._mount.is_read_only:
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
        if not self._mount.directory.has(partition):
            raise FUSEError(errno.ENOENT)
        return partition

    async def _flush_one(self, partition: TopicPartition) -> None:
        accumulator = self._accumulators.by_partition.get(partition)
        if accumulator is not None:
            await accumulator.sync()
        log = self._mount.directory.opened(partition)
        if (
            log is not None
        ):  # the accumulator does not cover records that the mount appends itself, such as a coordinator's
            await self._mount.executor.in_thread(log.flush)

    async def _flush_all(self) -> None:
        for error in (await self._accumulators.flush_all()).values():
            raise error
        await self._mount.executor.in_thread(self._mount.directory.flush)


class LogLevelFile:
    """log-level: the lowest level of the messages that the mount logs."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount

    async def attributes(self, number: int) -> EntryAttributes:
        return _attributes(self._mount, Kind.LOG_LEVEL, LOG_LEVEL_MODE, len(_content()))

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
