"""Lines about a log directory: that it is new; that its settings or some of its partitions cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from offsetfs.common.formatting import printable

if TYPE_CHECKING:
    from offsetfs.storage import AnyLogDirectory


def directory_warnings(directory: AnyLogDirectory) -> Iterator[str]:
    """Yield a message for each problem. The other partitions of the directory work."""
    problem = directory.refresh_config()
    if problem is not None:
        yield f"{problem}: its topics use the defaults, and retention and compaction are off"
    for partition, cause in sorted(directory.failed.items()):
        yield f"{partition}: recovery failed, the partition is read only: {cause}"


def print_directory_warnings(directory: AnyLogDirectory) -> None:
    """Print the warnings on stderr, prefixed with the name of the running command."""
    for sentence in directory_warnings(directory):
        _print(f"warning: {sentence}")


def print_new_directory(path: str) -> None:
    """Print that a command has created its log directory, whose path may be a typing error."""
    _print(f"{path}: is a new log directory")


def _print(sentence: str) -> None:
    context = click.get_current_context(silent=True)
    command_name = "offsetfs" if context is None else context.command_path
    click.echo(f"{command_name}: {printable(sentence)}", err=True)
