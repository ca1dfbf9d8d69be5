"""Confirmation before data is deleted: a question on a terminal, or `--yes`."""

from __future__ import annotations

import sys

import click

from offsetfs.cli.exit_codes import WRONG_CALL, Failure


def require(question: str, *, is_given: bool) -> None:
    """Return if --yes is given, or the user answers yes. `Failure` otherwise, and if there is no terminal to ask on."""
    if is_given:
        return
    if not sys.stdin.isatty():
        raise Failure("nothing changed; add --yes to do it", WRONG_CALL)
    if not click.confirm(question, default=False, err=True):
        raise Failure("nothing changed", WRONG_CALL)
