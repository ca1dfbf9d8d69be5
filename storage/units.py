"""Numbers that must not be mixed up.

`Offset` is the number of a record in its partition, `Position` a byte in a file, `Timestamp` milliseconds since
1970-01-01T00:00:00Z (-1: none). They are plain ints at run time; the names are for the reader and the type checker.
"""

from typing import NewType

Offset = NewType("Offset", int)
Position = NewType("Position", int)
Timestamp = NewType("Timestamp", int)

NO_TIMESTAMP = Timestamp(-1)

I16_MAX = 2**15 - 1
I32_MIN = -(2**31)
I32_MAX = 2**31 - 1
"""The largest relative offset of a segment, and the largest position in its indexes: both are written as an i32."""

I64_MIN = -(2**63)
I64_MAX = 2**63 - 1
"""The largest offset, and the largest timestamp."""


def wrapped(number: int, least: int = I64_MIN) -> int:
    """Return a sum with the overflow of a Java long; of a Java int if `least` is `I32_MIN`."""
    return number if least <= number < -least else (number - least) % (-2 * least) + least
