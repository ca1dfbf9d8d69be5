"""Exit codes of all commands, which are those of mount(8), and the exception that carries one.

0  done               4  internal error (a bug)  32  the mount, umount or other operation failed
1  wrong call         8  interrupted by the user
2  system error          141  the reader of a pipe closed it, as of cat(1)
"""

from __future__ import annotations

import errno

import click

DONE = 0
WRONG_CALL = 1
"""Incorrect arguments, or missing permissions."""
SYSTEM = 2
INTERNAL = 4
INTERRUPTED = 8
OUTPUT_CLOSED = 128 + 13
"""The reader of standard output closed the pipe, as head(1) does: what a shell returns for a program that SIGPIPE
ends, so that scripts with `pipefail` treat every program of a pipe the same."""
FAILED = 32
"""The arguments were correct, but the operation failed or was refused."""


def of_os_error(error: OSError) -> int:
    """Return the exit code for an error of the system: a missing permission is a wrong call."""
    return WRONG_CALL if error.errno in (errno.EACCES, errno.EPERM) else SYSTEM


def of_output(error: OSError) -> int:
    """Return the exit code for an error of a file that an option names: a path that cannot be is a wrong call."""
    is_path = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
    return WRONG_CALL if is_path else of_os_error(error)


class Failure(click.ClickException):
    """Ends the command with a message on stderr, `offsetfs VERB: …`, and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
