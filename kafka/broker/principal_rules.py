"""The rules that make the name of a principal from the subject of a client's certificate.

    ssl.principal.mapping.rules=RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=([^,]*).*$/$1/L,DEFAULT

The first rule whose pattern matches the whole subject applies; L and U change the case of its result. DEFAULT is the
subject itself. Follows Kafka's SslPrincipalMapper; a pattern is one of RE2, which most of Java's are as well.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from offsetfs.common.name_patterns import PatternError, compiled
from offsetfs.storage.settings import printable

_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,\s*|\Z)")
_REFERENCE = re.compile(r"\\(.)|\$(\d)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: Any
    """A compiled pattern of RE2."""
    replacement: str
    """The name, with `$1` for the first group."""
    case: str


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules, in their order; None stands for DEFAULT."""

    rules: tuple[_Rule | None, ...] = (None,)

    @classmethod
    def parse(cls, text: str) -> PrincipalRules:
        """Read the value of `ssl.principal.mapping.rules`; ValueError with the invalid rule."""
        found: list[_Rule | None] = []
        position = 0
        text = text.strip()
        while position < len(text):
            match = _RULE.match(text, position)
            if match is None:
                raise ValueError(
                    f"{printable(text[position:])} is not a rule; write RULE:PATTERN/REPLACEMENT/, DEFAULT"
                )
            found.append(None if match[1] else _rule(match[2], match[3], match[4]))
            position = match.end()
        return cls(tuple(found) or (None,))

    def name(self, subject: str) -> str | None:
        """Return the name of the client with this subject; None if no rule applies."""
        for each in self.rules:
            if each is None:
                return subject
            if each.pattern.fullmatch(subject):
                found: str = each.pattern.sub(functools.partial(_expanded, rule=each), subject)
                return found.lower() if each.case == "L" else found.upper() if each.case == "U" else found
        return None


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        return _Rule(compiled(pattern), replacement, case)
    except PatternError as error:
        raise ValueError(f"the pattern of RULE:{pattern}/{replacement}/ cannot be used: {error}") from error


def _expanded(match: Any, rule: _Rule) -> str:
    """Return the replacement of `rule` with the groups that it refers to; a number that is no group stays as it is."""

    def value(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        number = int(reference[2])
        return match[number] or "" if number <= rule.pattern.groups else reference[0]

    return _REFERENCE.sub(value, rule.replacement)
