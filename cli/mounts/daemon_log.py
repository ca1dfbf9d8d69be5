"""The log of a mount: the file of `log-file=`, else stderr in the foreground, else syslog, else a default file.

If stderr is systemd's journal, each line begins with its priority (sd-daemon(3)) and has no time. The file of
`log-file=` is reopened when it was renamed, so that logrotate needs no signal.

The default file is ~/.local/state/offsetfs/offsetfs.log ($XDG_STATE_HOME is honored), for root /var/log/offsetfs.log.
It is rotated at 1 MiB; one old file is kept. If it cannot be created, the log goes into the registry of daemons
(`daemon_registry`). Lines contain no data of records, and control characters are escaped.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import time
from collections.abc import Mapping

from offsetfs.cli.mounts import daemon_registry
from offsetfs.common.formatting import printable
from offsetfs.common.user_directories import state_directory

SYSLOG = "/dev/log"
FILE_BYTES_MAX = 1 << 20


_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))  # of syslog; below: 7, debug


class _Printable(logging.Formatter):
    """Escapes control characters, so that text of a record cannot move the cursor or forge a line. Times are UTC."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        return "\n  ".join(printable(line) for line in super().format(record).split("\n"))


class _Prioritized(_Printable):
    """Puts the priority before each line, for the journal."""

    def format(self, record: logging.LogRecord) -> str:
        number = next((number for level, number in _PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{number}>{line}" for line in super().format(record).split("\n"))


def configure_log(*, foreground: bool, level: str = "info", path: str | None = None) -> None:
    """Configure the log of this process. `path`: the file of `log-file=`. OSError if it cannot be written."""
    root = logging.getLogger()
    root.addHandler(_handler(foreground) if path is None else _named(path))
    root.setLevel(logging.INFO)
    logging.getLogger("offsetfs").setLevel(level.upper())


def is_journal(fd: int, environment: Mapping[str, str]) -> bool:
    """Whether `fd` is connected to systemd's journal."""
    device, _, inode = environment.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))


def _handler(foreground: bool) -> logging.Handler:
    if foreground:
        if is_journal(2, os.environ):
            return _with(_Prioritized("%(message)s"), logging.StreamHandler())
        return _with(_Printable("%(asctime)s %(levelname)s %(message)s"), logging.StreamHandler())
    if os.path.exists(SYSLOG):
        syslog = logging.handlers.SysLogHandler(SYSLOG, logging.handlers.SysLogHandler.LOG_DAEMON)
        syslog.ident = f"offsetfs[{os.getpid()}]: "
        return _with(_Printable("%(levelname)s %(message)s"), syslog)
    return _with(_IN_FILES, _file_handler())


def _named(path: str) -> logging.Handler:
    """Return the handler of `log-file=`, a file that the user rotates."""
    return _with(_IN_FILES, logging.handlers.WatchedFileHandler(path))


def _with(formatter: logging.Formatter, handler: logging.Handler) -> logging.Handler:
    handler.setFormatter(formatter)
    return handler


_IN_FILES = _Printable("%(asctime)s [%(process)d] %(levelname)s %(message)s")


def _file_handler() -> logging.Handler:
    path = file_path(os.geteuid(), os.environ)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return _rotating(path)
    except OSError:  # no home directory, or a read-only one
        return _file_handler_without_home()


def _file_handler_without_home() -> logging.Handler:
    registry = daemon_registry.own_directory()
    try:
        daemon_registry.create_own(registry)
        return _rotating(os.path.join(registry, "offsetfs.log"))
    except OSError:  # the mount works without a log
        return logging.NullHandler()


def _rotating(path: str) -> logging.Handler:
    return logging.handlers.RotatingFileHandler(path, maxBytes=FILE_BYTES_MAX, backupCount=1)


def file_path(uid: int, environment: Mapping[str, str]) -> str:
    """Return the default log file of a user, for machines without syslog."""
    if uid == 0:
        return "/var/log/offsetfs.log"
    return os.path.join(state_directory(environment) or "/tmp/.local/state/offsetfs", "offsetfs.log")
