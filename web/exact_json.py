"""JSON in which no number is rounded: browsers read numbers as doubles, which are exact up to 2⁵³ − 1.

A larger integer is the text of its digits, in every answer of the API, also inside of decoded values.
"""

from __future__ import annotations

import json
import re
from typing import Any

EXACT_MAX = 2**53 - 1

_LONG = re.compile(r"[0-9]{16}")


def exact_json(value: object) -> bytes:
    """Return a value as JSON."""
    text = json.dumps(value)
    return (json.dumps(_exact(value)) if _LONG.search(text) else text).encode()


def _exact(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _exact(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(member) for member in value]
    is_large = isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_MAX
    return str(value) if is_large else value
