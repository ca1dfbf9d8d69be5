"""How a command ends: the exit codes of mount(8), for all of them, and the error that carries one.

0  done               4  a mistake of ours       32  the mount or umount failed
1  wrong call         8  interrupted by the user
2  system error
"""

from __future__ import annotations

import click

DONE = 0
WRONG_CALL = 1
"""Incorrect invocation, or a permission that is missing."""
SYSTEM = 2
INTERNAL = 4
INTERRUPTED = 8
FAILED = 32
"""The command was right, and could not be carried out."""


class Failure(click.ClickException):
    """Ends the command with one sentence on stderr, `offsetfs VERB: …`, and an exit code."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code
