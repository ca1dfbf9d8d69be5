"""Asking before something is destroyed: on a terminal the user answers, in a script `--yes` does."""

from __future__ import annotations

import sys

import click

from offsetfs.cli.exit_codes import WRONG_CALL, Failure


def require(question: str, *, is_given: bool) -> None:
    """Return when the user agrees: with --yes, or by answering. `Failure` without a terminal or consent."""
    if is_given:
        return
    if not sys.stdin.isatty():
        raise Failure("nothing changed; add --yes to do it", WRONG_CALL)
    if not click.confirm(question, default=False, err=True):
        raise Failure("nothing changed", WRONG_CALL)
