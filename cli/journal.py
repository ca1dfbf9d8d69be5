"""Where a mount's log goes: the file of an option, stderr in the foreground, else syslog, else a file of its own.

Where stderr is systemd's journal, each line begins with its priority as sd-daemon(3) has it, and no time. A file that
was asked for with `log-file=` is opened anew when it was moved away, so that logrotate needs no signal.

The file of its own is ~/.local/state/offsetfs/offsetfs.log ($XDG_STATE_HOME is honored), root's
/var/log/offsetfs.log; it is turned over at 1 MiB, once. Who can have none there has it beside the files of his daemons
(running). Lines hold no record contents, and control characters in them are escaped.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import time
from collections.abc import Mapping

from offsetfs.cli import running
from offsetfs.cli.printable import printable

SYSLOG = "/dev/log"
FILE_BYTES_MAX = 1 << 20


_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))  # of syslog; below: 7, debug


class _Printable(logging.Formatter):
    """One line per event: nothing in it can move the cursor or begin a line of its own. Times are UTC, with a Z."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        return "\n  ".join(printable(line) for line in super().format(record).split("\n"))


class _Prioritized(_Printable):
    """Each line with its priority, for the journal."""

    def format(self, record: logging.LogRecord) -> str:
        number = next((number for level, number in _PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{number}>{line}" for line in super().format(record).split("\n"))


def open_journal(*, foreground: bool, level: str = "info", path: str | None = None) -> None:
    """Send the log of this process where it belongs, or to `path`; OSError when that cannot be written."""
    root = logging.getLogger()
    root.addHandler(_handler(foreground) if path is None else _named(path))
    root.setLevel(logging.INFO)
    logging.getLogger("offsetfs").setLevel(level.upper())


def is_journal(fd: int, environment: Mapping[str, str]) -> bool:
    """Whether what is written to `fd` goes to systemd's journal."""
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
    """Return the handler of a file that the user has named, and rotates."""
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
    except OSError:  # no home, or a read-only one
        return _file_handler_without_home()


def _file_handler_without_home() -> logging.Handler:
    place = running.own_directory()
    try:
        running.make_own(place)
        return _rotating(os.path.join(place, "offsetfs.log"))
    except OSError:  # the mount is worth more than its log
        return logging.NullHandler()


def _rotating(path: str) -> logging.Handler:
    return logging.handlers.RotatingFileHandler(path, maxBytes=FILE_BYTES_MAX, backupCount=1)


def file_path(uid: int, environment: Mapping[str, str]) -> str:
    """Return the file for a user without syslog."""
    if uid == 0:
        return "/var/log/offsetfs.log"
    state = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", "/tmp"), ".local", "state")
    return os.path.join(state, "offsetfs", "offsetfs.log")
