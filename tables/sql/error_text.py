"""Errors of DuckDB in two lines: what is wrong and the remedy, then the line of the statement with the wrong word."""

from __future__ import annotations

import re

import duckdb

_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)(\^+)")
_KEPT = ("Candidate bindings:", "Did you mean")
"""The further lines of DuckDB that name what the statement may have meant."""

_BARE_OFFSET = re.compile(r'(?<![".\w])offset(?![".\w])(?!\s+[\d$?])', re.IGNORECASE)
"""The name of the column without quotes, and no clause OFFSET 10."""

_HINT_OF_BYTES = (
    "key and value are bytes: key_text, value_text and value_json are what text functions take, octet_length(value) is "
    "a size"
)
_HINT_OF_BYTES_OF_A_TEXT = "compare the text with key_text or value_text; encode('…') makes bytes of any text"
_HINT_OF_TEXTS = "->> gives a text: (value->>'NAME')::DOUBLE is a number, (value->>'NAME')::TIMESTAMP a time"
_HINT_OF_WRITES = "topics can only be read here; offsetfs append, delete-records and delete change them"
_HINT_OF_SETTINGS = "statements change no setting by which DuckDB may write into the log directory"
_HINT_OF_EXTENSIONS = "extensions are native code, which may write into the log directory"
_WRITES = re.compile(
    r"is not an table|is of type View|Can only (delete from|update) base table|Can only modify view", re.IGNORECASE
)
_HINTS = (
    (re.compile("STRING -> BLOB conversion"), _HINT_OF_BYTES_OF_A_TEXT),
    (re.compile(r"\(BLOB( ->|[,)])|, BLOB[,)]"), _HINT_OF_BYTES),
    (_WRITES, _HINT_OF_WRITES),
    (re.compile("the configuration has been locked"), _HINT_OF_SETTINGS),
    (re.compile("extensions is disabled"), _HINT_OF_EXTENSIONS),
)
"""Remedies by the text of DuckDB's error."""

_NEEDS_A_CAST = re.compile("(VARCHAR|STRING_LITERAL).*explicit (type )?cast", re.DOTALL)
_HEADER_BY_NAME = re.compile(r"headers\s*\[\s*'")


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


def hint_for(error: duckdb.Error, text: str, statement: str) -> str:
    """Return the remedy for an error of DuckDB; "" if none is known."""
    if isinstance(error, duckdb.ParserException) and _BARE_OFFSET.search(statement):
        return 'OFFSET is a word of SQL; write "offset" with quotes, or TABLE.offset'
    if "to INT64" in text and _HEADER_BY_NAME.search(statement):
        return "headers is a list; header(headers, 'NAME') is the text of a header"
    if "->>" in statement and _NEEDS_A_CAST.search(text):
        return _HINT_OF_TEXTS
    return next((hint for pattern, hint in _HINTS if pattern.search(text)), "")
