"""`offsetfs cat`: print files of the tree, without a mount."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from offsetfs.cli.arguments.schema_options import schema_options, schema_texts
from offsetfs.cli.arguments.settings_file import settings_options
from offsetfs.cli.tree_access import CommandOutput, copy_to_output, read_tree

if TYPE_CHECKING:
    from offsetfs.fs.mounting.path_tree import Tree


@click.command("cat", short_help="Print files of the tree, without a mount.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("paths", metavar="TREE_PATH...", nargs=-1, required=True)
@schema_options
@settings_options
def command(
    log_directory: str,
    paths: tuple[str, ...],
    texts: tuple[str, ...],
    schema_words: tuple[str, ...],
    registry_word: str | None,
    mask_words: tuple[str, ...],
) -> int:
    """Print files of the tree that a mount of LOGDIR would show, with the same names and bytes.

    Neither a mount nor /dev/fuse is needed. Nothing in LOGDIR is changed; a broker or a mount may be using it. Damaged
    records are left out and reported on stderr, and the exit code is 1. With -o damage=eio, the output of a file ends
    at the damage.

    \b
    offsetfs cat /var/lib/kafka/data orders-0/42
    offsetfs cat /var/lib/kafka/data orders-0/values | grep refused
    offsetfs cat /var/lib/kafka/data topics/orders/records.ndjson
    offsetfs cat /var/lib/kafka/data orders-0/by-time/-15m orders-0/latest
    offsetfs cat /var/lib/kafka/data orders-0/values -o isolation=read_committed

    Exit codes: 1 wrong call, or a path or some of its records could not be read; 2 system error, 8 interrupted.
    """
    output = CommandOutput("cat")

    async def work(tree: Tree) -> None:
        for path in paths:
            try:
                async with tree.open(path) as file:
                    await copy_to_output(file)
            except OSError as error:
                await output.failed_in(tree, error, path)

    return read_tree(log_directory, (*texts, *schema_texts(schema_words, registry_word, mask_words)), output, work)
