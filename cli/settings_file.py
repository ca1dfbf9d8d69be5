"""`-o` and `--config`: settings, as a mount takes them, for commands that work on a log directory without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.cli.log_directories import is_settings_file
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
    """Return the texts behind `-o`, and before them the file that `--config` names in this call, or else LOGDIR."""
    context = click.get_current_context(silent=True)
    path = None if context is None else context.meta.get(_KEY)
    if path is None and is_settings_file(log_directory):
        path = log_directory
    return texts if path is None else (f'config="{os.path.abspath(path)}"', *texts)


def settings_options(command: Command) -> Command:
    """Add `-o` and `--config` to a command."""
    option = click.option(
        "-o", "texts", metavar="OPT[,OPT=...]", multiple=True, help="Options as of a mount, see offsetfs mount."
    )
    return option(config_option(command))


def parsed_options(texts: tuple[str, ...], log_directory: str = "") -> MountOptions:
    """Return the options in `texts` and in the file of `--config`, or else LOGDIR; `Failure` where one is wrong."""
    try:
        return MountOptions.parse(with_file(texts, log_directory))
    except MountOptionError as error:
        raise Failure(str(error), WRONG_CALL) from error
