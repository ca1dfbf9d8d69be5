"""Settings of new topics in arguments: `-o NAME=VALUE`, with Kafka's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.quantities import plain_number, unit_hint
from offsetfs.storage.errors import InvalidConfig

Command = TypeVar("Command", bound=Callable[..., object])


def topic_settings_option(help_text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds `-o NAME=VALUE` to a command, which gets the texts as `settings`."""
    return click.option("-o", "settings", metavar="NAME=VALUE", multiple=True, help=help_text)


def parsed_settings(texts: Iterable[str]) -> dict[str, str]:
    """Return the values of `-o` by name, durations and sizes as plain numbers; `Failure` for a text without `=`."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise Failure(f"-o {text}: write NAME=VALUE, such as retention.ms=7d", WRONG_CALL)
        values[name] = plain_number(name, value)
    return values


def illegal_setting(error: InvalidConfig, names: Iterable[str]) -> Failure:
    """Return the failure for an illegal value of one of the settings `names`, with the units that it takes."""
    is_number = "must be a whole number" in error.reason
    hints = (unit_hint(name) for name in names if is_number and f"{name} is " in error.reason)
    return Failure(f"{error.reason}{next(hints, '')}", WRONG_CALL)
