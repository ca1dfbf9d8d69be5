"""Where a mount's log goes: stderr in the foreground, else syslog, else a file.

The file is ~/.local/state/offsetfs/offsetfs.log ($XDG_STATE_HOME is honoured), root's /var/log/offsetfs.log; it is
turned over at 1 MiB, once. Lines hold no record contents, and control characters in them are escaped.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
from collections.abc import Mapping

SYSLOG = "/dev/log"
FILE_BYTES_MAX = 1 << 20


class _Printable(logging.Formatter):
    """One line per event: nothing in it can move the cursor or begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return "".join(c if c.isprintable() else "\n  " if c == "\n" else repr(c)[1:-1] for c in text)


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
    path = file_path(os.geteuid(), os.environ)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    file = logging.handlers.RotatingFileHandler(path, maxBytes=FILE_BYTES_MAX, backupCount=1)
    return file, "%(asctime)s [%(process)d] %(levelname)s %(message)s"


def file_path(uid: int, environment: Mapping[str, str]) -> str:
    """Return the file for a user without syslog."""
    if uid == 0:
        return "/var/log/offsetfs.log"
    state = environment.get("XDG_STATE_HOME") or os.path.join(environment.get("HOME", "/tmp"), ".local", "state")
    return os.path.join(state, "offsetfs", "offsetfs.log")
