"""Numbers with their noun, for messages: "1 segment", "2 segments"."""

from __future__ import annotations


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return `count` and the noun in the form that fits it; `plural` where it is not `singular` and an s."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
