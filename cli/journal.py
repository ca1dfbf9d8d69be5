"""Where a mount's log goes: stderr in the foreground, else syslog, else a file.

The file is ~/.local/state/offsetfs/offsetfs.log ($XDG_STATE_HOME is honoured), root's /var/log/offsetfs.log; it is
turned over at 1 MiB, once. Who can have none there has it beside the files of his daemons (running). Lines hold no
record contents, and control characters in them are escaped.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
from collections.abc import Mapping

from offsetfs.cli import running
from offsetfs.cli.printable import printable

SYSLOG = "/dev/log"
FILE_BYTES_MAX = 1 << 20


class _Printable(logging.Formatter):
    """One line per event: nothing in it can move the cursor or begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n  ".join(printable(line) for line in super().format(record).split("\n"))


def open_journal(*, foreground: bool) -> None:
    """Send the log of this process where it belongs."""
    handler, layout = _handler(foreground)
    handler.setFormatter(_Printable(layout))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def _handler(foreground: bool) -> tuple[logging.Handler, str]:
    if foreground:
        return logging.StreamHandler(), "%(asctime)s %(levelname)s %(message)s"
    if os.path.exists(SYSLOG):
        syslog = logging.handlers.SysLogHandler(SYSLOG, logging.handlers.SysLogHandler.LOG_DAEMON)
        syslog.ident = f"offsetfs[{os.getpid()}]: "
        return syslog, "%(levelname)s %(message)s"
    return _file_handler(), "%(asctime)s [%(process)d] %(levelname)s %(message)s"


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
