"""Decoded values as objects of Python: dict for records and maps, list, int, str, Decimal, datetime and so on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from offsetfs.schemas.decoding import DecodedColumn

_TWICE = "a map in the value has a key twice"


def python_values(column: DecodedColumn) -> Iterator[tuple[Any, str | None]]:
    """Yield each value, and why it is not decoded.

    A value that Python cannot hold, such as a time in the year 10000 or a map with a key twice, is None with a reason.
    """
    reasons = column.reasons.to_pylist()
    try:
        return zip(column.values.to_pylist(maps_as_pydicts="strict"), reasons, strict=True)
    except (ValueError, OverflowError, KeyError):
        return (_one(column.values.slice(row, 1), reason) for row, reason in enumerate(reasons))


def _one(value: pa.Array, reason: str | None) -> tuple[Any, str | None]:
    try:
        return value.to_pylist(maps_as_pydicts="strict")[0], reason
    except KeyError:
        return None, _TWICE
    except (ValueError, OverflowError) as error:
        if "duplicate" in str(error):  # pyarrow has another error for a map within a struct
            return None, _TWICE
        if "anosecond" in str(error):
            return None, "the value has a time with nanoseconds, which needs pandas"
        return None, "the value has a time outside of the years 1 to 9999"
