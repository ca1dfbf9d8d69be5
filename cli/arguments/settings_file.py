"""The options `-o` and `--config`, for commands that take the same settings as a mount."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

from offsetfs.cli.arguments.log_directories import is_settings_file
from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.fs.options import MountOptionError, MountOptions

Command = TypeVar("Command", bound=Callable[..., object])

_KEY = "offsetfs.config"


def _keep(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
    context.meta[_KEY] = path


config_option = click.option(
    "--config",
    metavar="FILE",
    type=click.Path(),
    expose_value=False,
    callback=_keep,
    help="Take settings from a broker's server.properties; -o has precedence.",
)


def with_file(texts: tuple[str, ...], log_directory: str = "") -> tuple[str, ...]:
    """Return the values of `-o`, preceded by the settings file: that of `--config`, or LOGDIR if it is a file."""
    path = settings_path()
    if path is None and is_settings_file(log_directory):
        path = log_directory
    return texts if path is None else (f'config="{os.path.abspath(path)}"', *texts)


def settings_path() -> str | None:
    """Return the path that --config of the current command has."""
    context = click.get_current_context(silent=True)
    path: str | None = None if context is None else context.meta.get(_KEY)
    return path


def settings_options(command: Command) -> Command:
    """Add `-o` and `--config` to a command."""
    option = click.option(
        "-o", "texts", metavar="OPT[,OPT=...]", multiple=True, help="Mount options and settings, see offsetfs mount."
    )
    return option(config_option(command))


def parsed_options(texts: tuple[str, ...], log_directory: str = "") -> MountOptions:
    """Parse the options in `texts` and in the settings file (see `with_file`); `Failure` if one is invalid."""
    try:
        return MountOptions.parse(with_file(texts, log_directory))
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error
