"""Reads `sasl.jaas.config` (JAAS): a login module with options, of which the users of PLAIN are some.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="b" password="c" user_alice="secret";

Follows JaasConfig, and Java's StreamTokenizer as far as values need it. Errors contain no value: values are secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.storage.errors import InvalidConfig

_WORD = r'"(?:[^"\\\n]|\\.)*"|[^\s"=;]+'
_SPACE = re.compile(r"\s*")
_OPTION = re.compile(rf"(?P<name>{_WORD})\s*=\s*(?P<value>{_WORD})", re.DOTALL)
_HEAD = re.compile(r"(?P<module>[\w.$]+)\s+(?P<flag>\w+)")
_FLAGS = frozenset(("required", "requisite", "sufficient", "optional"))
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_USER = "user_"


@dataclass(frozen=True, slots=True)
class LoginModule:
    """The class and the options of a login module."""

    name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.name!r})"  # options are secrets

    @property
    def passwords(self) -> Mapping[str, str]:
        """The password of each user of PLAIN: `user_NAME="PASSWORD"`."""
        return {name.removeprefix(_USER): text for name, text in self.options.items() if name.startswith(_USER)}


def login_module(text: str) -> LoginModule:
    """Return the only module of a JAAS configuration; InvalidConfig."""
    head = _HEAD.match(text.strip())
    if head is None or head["flag"].lower() not in _FLAGS:
        raise InvalidConfig('is not in the form of JAAS; write MODULE required user_NAME="PASSWORD";')
    rest, options = text.strip()[head.end() :], dict[str, str]()
    position = _skip(rest, 0)
    while (found := _OPTION.match(rest, position)) is not None:
        options[_unquoted(found["name"])] = _unquoted(found["value"])
        position = _skip(rest, found.end())
    if rest[position:].strip() != ";":
        count = len(options)
        raise InvalidConfig(f'is not in the form of JAAS after {count} options; write NAME="VALUE", and ; at the end')
    return LoginModule(head["module"], options)


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return position if found is None else found.end()


def _unquoted(word: str) -> str:
    if not word.startswith('"'):
        return word
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), word[1:-1])
