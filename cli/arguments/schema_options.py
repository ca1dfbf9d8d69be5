"""The options `--schema`, `--schema-registry` and `--mask` of commands that read the tree, and the check of masks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.fs.options import MountOptions, option_text
from offsetfs.storage import AnyLogDirectory

Command = TypeVar("Command", bound=Callable[..., object])


def schema_options(command: Command) -> Command:
    """Add the options to a command, as `schema_words`, `registry_word` and `mask_words`."""
    mask = click.option(
        "--mask",
        "mask_words",
        metavar="TOPIC:FIELD[,FIELD]",
        multiple=True,
        help="Show null in place of fields in decoded/; the topic has no other files then. May be repeated.",
    )
    option = click.option(
        "--schema",
        "schema_words",
        metavar="NAME=FILE|DIR",
        multiple=True,
        help="A schema in a file, or files of a directory, for decoded/; may be repeated.",
    )
    registry = click.option(
        "--schema-registry",
        "registry_word",
        metavar="URL|FILE",
        help="A registry for schemas that are nowhere else, or a properties file with schema.registry.url.",
    )
    return option(registry(mask(command)))


def schema_texts(schemas: Iterable[str], registry: str | None, masks: Iterable[str]) -> tuple[str, ...]:
    """Return the words as mount options, with absolute paths."""
    place = registry if registry is None or "://" in registry else os.path.abspath(registry)
    return (
        *(option_text("schema", _absolute(word)) for word in schemas),
        *(() if place is None else (option_text("schema-registry", place),)),
        *(option_text("mask", word) for word in masks),
    )


Directory = TypeVar("Directory", bound=AnyLogDirectory)


def with_checked_masks(directory: Directory, options: MountOptions) -> Directory:
    """Return an open directory to which the masks of the options apply; else close it: `Failure`."""
    if not options.masks:
        return directory
    from offsetfs.fs.files.masked import MaskRefused, check_masks  # imports trio and pyfuse3

    try:
        check_masks(directory, options)
    except BaseException as error:
        directory.close()
        if isinstance(error, MaskRefused):
            raise Failure(str(error), WRONG_CALL) from error
        raise
    return directory


def _absolute(word: str) -> str:
    name, equals, path = word.rpartition("=")
    return os.path.abspath(word) if os.path.isdir(word) else f"{name}{equals}{os.path.abspath(path)}"
