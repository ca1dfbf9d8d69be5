"""Times and sizes as users write them: in names of the mounted tree, in options and in arguments.

All times are UTC, unless they have a zone, and from 1970 on. No signs, no spaces, no digits of other scripts.

    time     2026-11-21[T13:05[:07[.123]][Z|±hh:mm]] | @1795253676[.123] | -15m | -1h30m | now
             (a space may replace the T; units after a minus: s m h d w)
    size     500 | 500k | 20M | 10g                 units of 1024, also as 20MB or 20MiB
    duration 30s | 15m | 1h30m | 7d | 2weeks        units: ms s m h d w, or their words
"""

from __future__ import annotations

import errno
import re
import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLE_TIMES = "2026-11-20T18:40:01, @1795253676, -15m, -1h30m, -1w or now"
"""For messages: each form of a time."""
BEFORE_1970 = "is before 1970, where Kafka's times begin"
"""For messages: why a time is refused."""
MINUTE_MS = 60_000
_UNIT_MS = {"s": 1000, "m": MINUTE_MS, "h": 60 * MINUTE_MS, "d": 24 * 60 * MINUTE_MS, "w": 7 * 24 * 60 * MINUTE_MS}
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?(?:Z|([+-])(\d\d):(\d\d))?)?", re.ASCII
)
_EPOCH = re.compile(r"@(\d{1,15})(?:\.(\d{1,3}))?", re.ASCII)
_AGO = re.compile(r"-((?:\d{1,9}[smhdw]){1,5})", re.ASCII)
_AGO_PART = re.compile(r"(\d+)([smhdw])", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,19})(?:([a-z])(?:i?b)?)?")
_DURATION_UNIT = "ms|s(?:ecs?|econds?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
_DURATION = re.compile(rf"(?:[0-9]{{1,12}}(?:{_DURATION_UNIT})){{1,6}}")
_DURATION_PART = re.compile(r"([0-9]+)(ms|[smhdw])")  # of a duration: the letters after the unit complete its word
_DURATION_UNIT_MS = {"ms": 1, **_UNIT_MS}
_SETTING_UNIT_MS = {"ms": 1, "seconds": _UNIT_MS["s"], "minutes": _UNIT_MS["m"], "hours": _UNIT_MS["h"]}
_SETTING_SIZE_WORDS = frozenset(("bytes", "size"))
_UNIT_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_size(text: str, units: str = "kmg") -> int | None:
    """Return the bytes of a size; None if the text is no size. `units`: those that are permitted."""
    match = _SIZE.fullmatch(text.lower())
    if match is None or (match[2] is not None and match[2] not in units):
        return None
    return int(match[1]) * _UNIT_BYTES[match[2] or ""]


def parse_duration_ms(text: str) -> int | None:
    """Return the milliseconds of a duration with units; None if the text is not a duration."""
    if _DURATION.fullmatch(text.lower()) is None:
        return None
    return sum(int(number) * _DURATION_UNIT_MS[unit] for number, unit in _DURATION_PART.findall(text.lower()))


def plain_number(name: str, text: str) -> str:
    """Return the value of the setting `name` as Kafka takes it: `604800000` for the text `7d` of `retention.ms`.

    The name of a setting contains its unit: `.ms`, `.minutes` or `.hours` is a duration, `.bytes` or `.size` a size.
    Any other text, and a duration that is not a whole number of the unit, is returned unchanged.
    """
    words = re.split(r"[.-]", name)
    unit_ms = _SETTING_UNIT_MS.get(words[-1])
    if unit_ms is not None:
        duration_ms = parse_duration_ms(text.strip())
        return text if duration_ms is None or duration_ms % unit_ms else str(duration_ms // unit_ms)
    if _SETTING_SIZE_WORDS.isdisjoint(words):
        return text
    size = parse_size(text.strip(), "kmgt")
    return text if size is None else str(size)


def unit_hint(name: str) -> str:
    """Return the end of a message about the setting `name`: the units that `plain_number` takes; "" if none."""
    words = re.split(r"[.-]", name)
    if words[-1] in _SETTING_UNIT_MS:
        return ", or a duration such as 7d"
    return "" if _SETTING_SIZE_WORDS.isdisjoint(words) else ", or a size such as 64m"


def parse_time(name: bytes, now: int) -> int | None:
    """Return the time of a time expression, in milliseconds since 1970. None if the name is not a time from 1970 on.

    `now` is the time that `now` and `-15m` start from, in milliseconds. Kafka cannot look up a time before 1970: a
    negative timestamp is no time (-1), or a mark of ListOffsets.
    """
    timestamp = _any_time(name, now)
    return timestamp if timestamp is None or timestamp >= 0 else None


def is_before_1970(name: bytes) -> bool:
    """Whether a name is a time that `parse_time` refuses for that reason."""
    timestamp = _any_time(name, _now_ms())
    return timestamp is not None and timestamp < 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _any_time(name: bytes, now: int) -> int | None:
    text = name.decode("ascii", "replace")
    if text == "now":
        return now
    if match := _DATE.fullmatch(text):
        return _date_ms(match)
    if match := _EPOCH.fullmatch(text):
        return int(match[1]) * 1000 + _fraction_ms(match[2])
    if match := _AGO.fullmatch(text):
        ago_ms = sum(int(number) * _UNIT_MS[unit] for number, unit in _AGO_PART.findall(match[1]))
        return now - ago_ms
    return None


def time_ms(text: str) -> int | None:
    """Return the time of a time expression, relative to the present; None if the text is not a time."""
    return parse_time(text.encode("utf-8", "replace"), _now_ms())


def unreadable_time(name: bytes) -> OSError:
    """Return the error for a name that should be a time and is not."""
    shown = name.decode("utf-8", "backslashreplace")
    reason = BEFORE_1970 if is_before_1970(name) else "is not a time"
    return OSError(errno.EINVAL, f"{shown!r} {reason}; write {EXAMPLE_TIMES}")


def _date_ms(match: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second = (int(field or 0) for field in match.groups()[:6])
    zone_hours, zone_minutes = int(match[9] or 0), int(match[10] or 0)
    if zone_hours > 23 or zone_minutes > 59:
        return None
    try:
        instant = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    zone_ms = (zone_hours * 60 + zone_minutes) * MINUTE_MS * (-1 if match[8] == "-" else 1)
    return timestamp_ms(instant) + _fraction_ms(match[7]) - zone_ms


def _fraction_ms(digits: str | None) -> int:
    return int(digits.ljust(3, "0")) if digits else 0


def timestamp_ms(instant: datetime) -> int:
    """Return the milliseconds since 1970."""
    return (instant - EPOCH) // timedelta(milliseconds=1)
