"""Values of options: durations and sizes (a plain number in the unit of the option, or with a unit), and times."""

from __future__ import annotations

import math
from collections.abc import Callable

import click

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.common.quantities import BEFORE_1970, is_before_1970, parse_duration_ms, parse_size, time_ms

SECONDS_MS, DAYS_MS = 1000, 86_400_000


def duration_type(unit_ms: int, low: float = 0, high: float = math.inf) -> Callable[[object], float]:
    """Return the `type` of an option in units of `unit_ms`, from `low` to `high`: `90`, or `90s`, `15m`, `7d`."""

    def convert(value: object) -> float:
        number = parse_duration(str(value), unit_ms)
        if number is None:
            raise click.BadParameter(f"{value!r} is not a duration, such as 90, 90s, 15m or 7d")
        if not low <= number <= high:
            limit = f"must be {low:g} or greater" if number < low else f"must be at most {high:g}"
            raise click.BadParameter(f"{value} {limit}")
        return number

    return convert


def parse_duration(text: str, unit_ms: int) -> float | None:
    """Return the duration in units of `unit_ms`, of which a plain number is one; None if the text is no duration."""
    duration_ms = parse_duration_ms(text.strip())
    if duration_ms is not None:
        return duration_ms / unit_ms
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def size_type(high: int) -> Callable[[object], int]:
    """Return the `type` of an option in bytes, at most `high`: `500`, `500k`, `20M` or `1g`."""

    def convert(value: object) -> int:
        size = parse_size(str(value))
        if size is None:
            raise click.BadParameter(f"{value!r} is not a size, such as 500, 500k or 20M")
        if size > high:
            raise click.BadParameter(f"{value} must be at most {high}")
        return size

    return convert


def argument_time_ms(option: str, text: str) -> int | None:
    """Return the milliseconds since 1970 of a time, None for a text that is no time; `Failure` before 1970."""
    if is_before_1970(text.encode("utf-8", "replace")):
        raise Failure(f"{option}: {printable(text)} {BEFORE_1970}", WRONG_CALL)
    return time_ms(text)
