"""The types of settings: integer, number, flag, choice, list. Parses, validates and formats their texts.

Each type knows its legal range and includes it in errors. Text is parsed as by Kafka's `ConfigDef.parseType`: blanks
around it are removed, `true` and `false` are case-insensitive, lists are separated by commas.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.storage.errors import InvalidConfig
from offsetfs.storage.records.compression.compression import LEVELS, Compression
from offsetfs.storage.units import I32_MAX, I64_MAX

TEXT_LENGTH_MAX = 1000  # no setting needs more; protects int() and the error message

Value = int | float | str | tuple[str, ...]  # a bool is an int

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}\Z")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\Z")
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}(?:-IV[0-9]{1,4})?\Z")


class SettingType(ABC):
    """The legal values of one setting."""

    __slots__ = ()

    @abstractmethod
    def parse(self, name: str, text: str) -> Value:
        """Parse `text`; InvalidConfig if it has the wrong form. `check` checks the range."""

    @abstractmethod
    def check(self, name: str, value: object) -> None:
        """Raise InvalidConfig unless `value` is legal."""

    def format(self, value: object) -> str:
        """Return the text that `parse` parses as `value`."""
        return str(value)


@dataclass(frozen=True, slots=True)
class IntegerType(SettingType):
    """An integer in `[low, high]`."""

    low: int
    high: int

    def parse(self, name: str, text: str) -> int:
        stripped = text.strip()
        # `int()` accepts underscores and digits of other scripts, which Java's parser refuses.
        if not _WHOLE.match(stripped):
            raise _refused(name, text, self.legal)
        return int(stripped)

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            is_above = isinstance(value, int) and value > self.high
            raise _refused(name, value, f"at most {self.high}" if is_above else self.legal)

    @property
    def legal(self) -> str:
        return _whole_number(self.low, self.high)


@dataclass(frozen=True, slots=True)
class CompressionLevelType(SettingType):
    """A compression level of one codec, validated by the codec itself."""

    codec: str

    def parse(self, name: str, text: str) -> int:
        return IntegerType(-I32_MAX, I32_MAX).parse(name, text)

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not self._takes(value):
            raise _refused(name, value, self.legal)

    def _takes(self, level: int) -> bool:
        try:
            Compression(self.codec, level)
        except ValueError:
            return False
        return True

    @property
    def legal(self) -> str:
        if self.codec == "gzip":  # its range has 0, which is no level
            return "-1, or a whole number from 1 to 9"
        return _whole_number(LEVELS[self.codec][0], LEVELS[self.codec][-1])


@dataclass(frozen=True, slots=True)
class NumberType(SettingType):
    """A number in `[low, high]`."""

    low: float
    high: float

    def parse(self, name: str, text: str) -> float:
        stripped = text.strip()
        if len(stripped) > TEXT_LENGTH_MAX or not _NUMBER.match(stripped):
            raise _refused(name, text, self.legal)
        return float(stripped)

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int | float) or isinstance(value, bool) or not self.low <= value <= self.high:
            raise _refused(name, value, self.legal)

    @property
    def legal(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class BooleanType(SettingType):
    """`true` or `false`, or only the value in `allowed`."""

    allowed: tuple[bool, ...] = (True, False)

    def parse(self, name: str, text: str) -> bool:
        for value in self.allowed:
            if text.strip().lower() == self.format(value):
                return value
        raise _refused(name, text, self.legal)

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, bool) or value not in self.allowed:
            raise _refused(name, value, self.legal)

    def format(self, value: object) -> str:
        return str(value).lower()

    @property
    def legal(self) -> str:
        return " or ".join(self.format(value) for value in self.allowed)


@dataclass(frozen=True, slots=True)
class ChoiceType(SettingType):
    """One of these words, case-sensitive."""

    words: tuple[str, ...]

    def parse(self, name: str, text: str) -> str:
        return text.strip()

    def check(self, name: str, value: object) -> None:
        if value not in self.words:
            raise _refused(name, value, "one of " + ", ".join(word or "empty" for word in self.words))


@dataclass(frozen=True, slots=True)
class ListType(SettingType):
    """Any of these words, separated by commas, without repeats. The empty list is legal, and has an empty text."""

    words: tuple[str, ...]

    def parse(self, name: str, text: str) -> tuple[str, ...]:
        if len(text) > TEXT_LENGTH_MAX:
            raise _refused(name, text, self.legal)
        parts = [part.strip() for part in text.split(",")] if text.strip() else []
        return tuple(dict.fromkeys(parts))

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, tuple) or any(word not in self.words for word in value):
            raise _refused(name, ",".join(map(str, value)) if isinstance(value, tuple) else value, self.legal)

    def format(self, value: object) -> str:
        return ",".join(value) if isinstance(value, tuple) else ""

    @property
    def legal(self) -> str:
        return "a list of " + ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class VersionType(SettingType):
    """A version of Kafka, such as `3.0` or `2.8-IV1`."""

    def parse(self, name: str, text: str) -> str:
        return text.strip()

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, str) or not _VERSION.match(value):
            raise _refused(name, value, "a version of Kafka such as 3.0")


def setting_type(kinds: Mapping[str, SettingType], name: str) -> SettingType:
    """Return the type of the setting `name`; InvalidConfig, with the closest name, if it does not exist."""
    kind = kinds.get(name)
    if kind is None:
        # The length is bounded: difflib takes quadratic time, and the name comes from the user.
        near = difflib.get_close_matches(name[:100].replace("_", "."), kinds, n=1)
        raise InvalidConfig(f"unknown setting {printable(name)}" + (f"; did you mean {near[0]}?" if near else ""))
    return kind


def parse_value(kinds: Mapping[str, SettingType], name: str, text: str) -> Value:
    """Parse `text` for the setting `name`; InvalidConfig with setting, value and range."""
    kind = setting_type(kinds, name)
    value = kind.parse(name, text)
    kind.check(name, value)
    return value


def printable(value: object) -> str:
    """Return `value` for a message: control characters escaped, at most a line long."""
    text = repr(value[:TEXT_LENGTH_MAX] if isinstance(value, str) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def _whole_number(low: int, high: int) -> str:
    """Describe the range. The largest Java long means no upper limit."""
    if high == I64_MAX:
        return f"a whole number, {low} or greater"
    return f"a whole number from {low} to {high}"


def _refused(name: str, value: object, legal: str) -> InvalidConfig:
    return InvalidConfig(f"{name} is {printable(value)}, but must be {legal}")
