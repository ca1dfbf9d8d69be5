"""What becomes of a `value` of a line of JSON that is a number, a boolean, an object or a list.

REFUSE  the line is wrong
TEXT    the value is its text, byte by byte as it stands in the line

The words are those of the mount option `json-values`, of `offsetfs spark import` and of the library.
"""

from __future__ import annotations

REFUSE = "refuse"
TEXT = "text"
JSON_VALUES = (REFUSE, TEXT)
