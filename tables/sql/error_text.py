"""Errors of DuckDB in two lines: what is wrong and the remedy, then the line of the statement with the wrong word."""

from __future__ import annotations

import re

_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)(\^+)")
_KEPT = ("Candidate bindings:", "Did you mean")
"""The further lines of DuckDB that name what the statement may have meant."""


def in_two_lines(text: str, hint: str = "") -> str:
    """Return a message of DuckDB with `hint`, the remedy, first; the second line is left out if DuckDB knows no place.

    Lists of functions that take other types are left out: they fill a screen and name no remedy.
    """
    place = _PLACE.search(text)
    lines = (text if place is None else text[: place.start()]).splitlines()
    cause = "; ".join([lines[0].strip().rstrip(".!"), *(line.strip() for line in lines[1:] if _is_kept(line))])
    first = f"{hint} ({cause})" if hint else cause
    if place is None:
        return first
    number, source = place[1], place[2]
    start = len(place[3]) - len(f"LINE {number}: ")
    return f"{first}\nline {number}, at {_word(source, start, len(place[4]))}: {source.strip()}"


def _is_kept(line: str) -> bool:
    return line.strip().startswith(_KEPT)


def _word(source: str, start: int, length: int) -> str:
    """Return the marked part of a line; where DuckDB marks one character, the word that begins there."""
    marked = source[start : start + length]
    if length == 1 and (word := re.match(r"\w+", source[start:])):
        marked = word[0]
    return repr(marked) if marked else "its end"
