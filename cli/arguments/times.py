"""Times in arguments."""

from __future__ import annotations

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.common.quantities import BEFORE_1970, is_before_1970, time_ms


def argument_time_ms(option: str, text: str) -> int | None:
    """Return the milliseconds since 1970 of a time, None for a text that is no time; `Failure` before 1970."""
    if is_before_1970(text.encode("utf-8", "replace")):
        raise Failure(f"{option}: {printable(text)} {BEFORE_1970}", WRONG_CALL)
    return time_ms(text)
