"""What is wrong with a log directory that was opened all the same: settings that cannot be read, partitions that could
not be recovered. Each is a sentence; the rest of the directory works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from offsetfs.cli.printable import printable

if TYPE_CHECKING:
    from offsetfs.storage.directory.log_directories import AnyLogDirectory


def open_warnings(directory: AnyLogDirectory) -> Iterator[str]:
    """Yield a sentence for each problem."""
    problem = directory.refresh_config()
    if problem is not None:
        yield f"{problem}: its topics have the defaults, and nothing is removed or compacted"
    for partition, cause in sorted(directory.failed.items()):
        yield f"{partition}: recovery failed, the partition is read only: {cause}"


def print_open_warnings(directory: AnyLogDirectory) -> None:
    """Print the problems on stderr, in the name of the command that runs."""
    context = click.get_current_context(silent=True)
    speaker = "offsetfs" if context is None else context.command_path
    for sentence in open_warnings(directory):
        click.echo(f"{speaker}: warning: {printable(sentence)}", err=True)
