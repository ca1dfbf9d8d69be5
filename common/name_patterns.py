"""Regular expressions for names of topics, groups and principals, matched in linear time.

The syntax is that of RE2, which Kafka's brokers use as RE2/J: no look-around and no back-references. With Python's `re`
a name of 249 characters can take longer than a process lives, and nothing else runs meanwhile, signal handlers
included: it goes back and tries again, and it holds the lock of the interpreter. RE2 releases the lock.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable
from typing import Any

import re2

NAME_LENGTH_MAX = 255
"""The characters of a pattern that are compared with names, because difflib takes quadratic time."""
STEPS_MAX = 20_000
"""The steps of a compiled pattern: a list of 500 topics has 15,000. It bounds the time that one name takes."""


class PatternError(ValueError):
    """A text that is not a regular expression of RE2; the message is the reason."""


def compiled(pattern: str, *, has_groups: bool = True) -> Any:
    """Return a compiled pattern of RE2; PatternError. Without groups its matches are found faster."""
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not has_groups
    try:
        program = re2.compile(pattern, options)
    except UnicodeEncodeError:
        raise PatternError("it is not Unicode text") from None
    except re2.error as error:
        raise PatternError(_reason(error.args[0].decode(errors="replace"))) from None
    finally:
        re2.purge()  # its cache keeps 128 patterns, each of up to 8 MiB
    if program.programsize > STEPS_MAX:
        raise PatternError(f"it has more than {STEPS_MAX} steps")
    return program


def common_prefix(pattern: str, length_max: int = 32) -> bytes:
    """Return bytes with which every match of a valid pattern begins, at most `length_max`; b"" if none are known."""
    try:
        first, last = compiled(f"^(?:{pattern})", has_groups=False).possiblematchrange(length_max)
    except (PatternError, re2.error):
        return b""
    return bytes(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def _reason(message: str) -> str:
    if message.startswith("invalid perl operator: (?"):
        return f"{message.partition(': ')[2]} is not supported, as in RE2: no look-around, no conditions"
    return message


class NamePattern:
    """A regular expression that matches whole names."""

    def __init__(self, pattern: str) -> None:
        """PatternError."""
        self.pattern = pattern
        self._compiled = compiled(pattern, has_groups=False)

    def fullmatch(self, name: str) -> bool:
        """Whether the whole name matches."""
        return self._compiled.fullmatch(name.encode(errors="surrogateescape")) is not None


def suggestion(patterns: Iterable[str], names: Iterable[str]) -> str:
    """Return the question whether a name like one of the patterns was meant; "" if there is none."""
    known = sorted(names)
    for pattern in patterns:
        if near := difflib.get_close_matches(pattern[:NAME_LENGTH_MAX], known, n=1):
            return f"did you mean {near[0]}?"
    return ""
