"""The option `--schema` of commands that read the tree."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from offsetfs.fs.options import option_text

Command = TypeVar("Command", bound=Callable[..., object])


def schema_option(command: Command) -> Command:
    """Add `--schema` to a command."""
    option = click.option(
        "--schema",
        "schema_words",
        metavar="NAME=FILE|DIR",
        multiple=True,
        help="A schema in a file, or files of a directory, for decoded/; may be repeated.",
    )
    return option(command)


def schema_texts(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words as mount options, with absolute paths."""
    return tuple(option_text("schema", _absolute(word)) for word in words)


def _absolute(word: str) -> str:
    name, equals, path = word.rpartition("=")
    return os.path.abspath(word) if os.path.isdir(word) else f"{name}{equals}{os.path.abspath(path)}"
