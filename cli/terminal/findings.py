"""The counts of findings in the last line of `verify`: of a directory, of an archive, and in Spark."""

from __future__ import annotations

from offsetfs.storage.errors import counted


def found(damage: int, notices: int = 0) -> str:
    """Return the counts of findings with their nouns: "2 damage, 1 notice"; "nothing found" without findings."""
    counts = (f"{damage} damage" if damage else "", counted(notices, "notice") if notices else "")
    return ", ".join(filter(None, counts)) or "nothing found"


__all__ = ["found"]
