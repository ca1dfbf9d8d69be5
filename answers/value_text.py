"""A value of a report as text for people."""

from __future__ import annotations

from offsetfs.answers.report import Bar, Histogram, Measure, Value
from offsetfs.common.formatting import count, duration, printable, size, utc_time

_UNKNOWN = "?"
_TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def value_text(value: Value, kind: Measure) -> str:
    """Return `value` with its unit; "?" if it is not known."""
    if value is None:
        return _UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return printable(value)
    match kind:
        case Measure.BYTES | Measure.COUNT if value < 0:  # a difference
            return f"-{value_text(-value, kind)}"
        case Measure.BYTES:
            return size(value)
        case Measure.TIME:
            return utc_time(int(value)) if 0 <= value <= _TIME_MS_MAX else str(int(value))
        case Measure.SECONDS:
            return duration(value) if value >= 0 else f"-{duration(-value)}"
        case Measure.SHARE:
            return f"{value:.3g}" if 0 < value < 0.0005 else f"{value:.1%}"
        case Measure.RATIO:
            return f"{value:.2f}"
        case Measure.PER_SECOND:
            return f"{count(value)}/s"
        case _:
            return f"{value:,}" if kind is Measure.COUNT else str(value)


def bar_label(bar: Bar, histogram: Histogram) -> str:
    """Return what a bar stands for: its label, else its range."""
    if bar.label or bar.low is None:
        return printable(bar.label)
    low = value_text(bar.low, histogram.kind)
    if histogram.kind is Measure.TIME:
        return low
    return f"{low} …" if bar.high is None else f"{low} – {value_text(bar.high, histogram.kind)}"
