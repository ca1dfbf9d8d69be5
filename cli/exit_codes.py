"""Exit codes of all commands, which are those of mount(8), and the exception that carries one.

0  done               4  internal error (a bug)  32  the mount, umount or other operation failed
1  wrong call         8  interrupted by the user
2  system error
"""

from __future__ import annotations

import click

DONE = 0
WRONG_CALL = 1
"""Incorrect arguments, or missing permissions."""
SYSTEM = 2
INTERNAL = 4
INTERRUPTED = 8
FAILED = 32
"""The arguments were correct, but the operation failed or was refused."""


class Failure(click.ClickException):
    """Ends the command with a message on stderr, `offsetfs VERB: …`, and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
