"""The regular expressions by which consumers subscribe to topics (KIP-848, version 1 of ConsumerGroupHeartbeat).

Kafka takes the syntax of RE2/J, whose time is linear. Python's `re` goes back and tries again, so a pattern here has at
most `REPEATS_MAX` repetitions, none of them within another one, and nothing that RE2/J does not have.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable

from offsetfs.broker.groups.group import GroupError
from offsetfs.protocol.error_codes import ErrorCode

REPEATS_MAX = 3
"""`*`, `+` and `{…}` in one pattern: names have up to 249 characters, so a match takes milliseconds at most."""

LENGTH_MAX = 1000

MayDescribe = Callable[[str], bool]
"""Returns whether a client may describe a topic: others do not match."""

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?[^:)]*:?)?|\)|\{[^}]*\}|.", re.DOTALL)
_REPEATS = "*+{"
_GROUP = re.compile(r"\((\?(:|P<\w+>|[ims]+:))?|\(\?[ims]+")
"""How a group of RE2/J begins; not look-around, back-references and the like."""


def check_pattern(pattern: str) -> None:
    """Check a regular expression; INVALID_REGULAR_EXPRESSION."""
    _compiled(pattern)


def matching(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Return the names that a regular expression matches as a whole; INVALID_REGULAR_EXPRESSION."""
    compiled = _compiled(pattern)
    return frozenset(name for name in names if compiled.fullmatch(name))


def _compiled(pattern: str) -> re.Pattern[str]:
    reason = _refusal(pattern)
    if reason is None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # what later versions of Python read otherwise, such as [[:alpha:]]
                return re.compile(pattern, re.ASCII)
        except (re.error, Warning, OverflowError, RecursionError) as error:
            reason = str(error)
    message = f"SubscribedTopicRegex `{pattern[:LENGTH_MAX]}` is not a valid regular expression: {reason}."
    raise GroupError(ErrorCode.INVALID_REGULAR_EXPRESSION, message=message)


def _refusal(pattern: str) -> str | None:
    """Return why a pattern is not taken, None if it can be compiled."""
    if len(pattern) > LENGTH_MAX:
        return f"it is longer than {LENGTH_MAX} characters"
    repeats = 0
    open_groups: list[int] = []  # the number of repetitions before each group that is open
    before = 0  # the number of repetitions before the last element
    for token in _TOKEN.findall(pattern):
        if token[0] in _REPEATS:
            if repeats > before:
                return "a repetition within another one"
            repeats += 1
            before = repeats
        elif token[0] == "(":
            if not _GROUP.fullmatch(token):
                return f"{token} is not supported"
            open_groups.append(repeats)
        elif token == ")":
            before = open_groups.pop() if open_groups else repeats
        elif token[0] == "\\" and token[1:].isdigit():
            return f"the back-reference {token} is not supported"
        elif token != "?":
            before = repeats
    return f"more than {REPEATS_MAX} repetitions" if repeats > REPEATS_MAX else None
