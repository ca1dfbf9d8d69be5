"""The conditions and bounds of a search, from the texts of a command line or of an address."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from offsetfs.answers.find import FindBounds
from offsetfs.answers.find_conditions import FIELDS, Condition, HasHeader, HasKey, HasText
from offsetfs.common.quantities import BEFORE_1970, is_before_1970, time_ms
from offsetfs.storage import INTERNAL_TOPICS, METADATA_TOPIC, TopicPartition

_SECONDS_MIN, _MILLISECONDS_MIN = 10**9, 10**12
"""Larger offsets of several partitions are taken for times since 1970, in messages."""


class WrongText(ValueError):
    """A text that means no search. `name`: that of the parameter; the message: cause and remedy."""

    def __init__(self, name: str, message: str, text: str = "") -> None:
        super().__init__(message)
        self.name, self._text = name, text

    def sentence(self, name: str) -> str:
        """Return the message with the parameter as the caller names it, and its text."""
        return f"{name} {self._text}: {self}" if self._text else f"{name}: {self}"


def key_of(text: str | None, encoded: str | None) -> bytes | None:
    """Return a key that is given as text or in base64; None without one. `WrongText`."""
    if text is not None and encoded is not None:
        raise WrongText("key", "text and base64 exclude each other: give one of them")
    if encoded is None:
        return None if text is None else os.fsencode(text)
    import base64
    import binascii

    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongText("key_base64", f"not base64: {error}", encoded) from error


def conditions_of(
    key: bytes | None,
    texts: Sequence[str],
    patterns: Sequence[str],
    place: str,
    headers: Sequence[str],
    *,
    ignores_case: bool,
) -> list[Condition]:
    """Return what a record must have: all of it. `place`: of `FIELDS`. `WrongText` for a wrong pattern."""
    fields = FIELDS[place]
    conditions: list[Condition] = [] if key is None else [HasKey(key)]
    for header in map(os.fsencode, headers):
        name, equals, value = header.partition(b"=")
        conditions.append(HasHeader(name, value if equals else None))
    if not ignores_case:
        conditions += [HasText(os.fsencode(text), fields) for text in texts]
    if patterns or (texts and ignores_case):
        conditions += _patterns(texts if ignores_case else (), patterns, fields, ignores_case)
    return conditions


def _patterns(texts: Sequence[str], patterns: Sequence[str], fields: int, ignores_case: bool) -> Iterator[Condition]:
    from offsetfs.answers.find_patterns import HasPattern  # with RE2
    from offsetfs.common.name_patterns import PatternError

    try:
        yield from [HasPattern.of_text(text, fields) for text in texts]
        yield from [HasPattern(f"(?i){pattern}" if ignores_case else pattern, fields) for pattern in patterns]
    except PatternError as error:
        raise WrongText("regex" if patterns else "text", str(error)) from error


def place_of(name: str, text: str) -> tuple[int, bool]:
    """Return an offset, or a time in milliseconds, and whether it is a time; `WrongText`."""
    from offsetfs.fs.naming.grammar import parse_offset

    encoded = text.encode("utf-8", "surrogateescape")
    offset = parse_offset(encoded)
    if offset is not None:
        return offset, False
    if is_before_1970(text.encode("utf-8", "replace")):
        raise WrongText(name, f"{text} {BEFORE_1970}")
    time = time_ms(text)
    if time is None:
        raise WrongText(name, "give an offset (42) or a time (2026-11-20T18:40, -1h)", text)
    return time, True


def _time_hint(offset: int) -> str:
    """Return what to give instead of an offset; for what looks like milliseconds or seconds since 1970, the time."""
    seconds = offset // 1000 if offset >= _MILLISECONDS_MIN else offset
    return f"the time is @{seconds}" if seconds >= _SECONDS_MIN else "give a time for several"


def bounds_of(start: str | None, end: str | None, partitions: Sequence[TopicPartition]) -> FindBounds:
    """Return the bounds of a search in some partitions; `WrongText`."""
    numbers: dict[str, int] = {}
    for parameter, text, name in (("from", start, "start"), ("to", end, "stop")):
        if text is None:
            continue
        place, is_time = place_of(parameter, text)
        if not is_time and len(partitions) > 1:
            reason = f"an offset belongs to one partition, such as {partitions[0]}; {_time_hint(place)}"
            raise WrongText(parameter, reason, text)
        numbers[f"{name}_ms" if is_time else name] = place
    return FindBounds(**numbers)


def own_partitions(present: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions that are searched if no topic is named: all but those of internal topics."""
    return [name for name in present if name.topic not in INTERNAL_TOPICS and name.topic != METADATA_TOPIC]
