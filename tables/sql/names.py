"""Names of tables and columns, as SQL writes them."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection

import duckdb

QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL)
"""Parts of a statement without unquoted names of tables: texts, names in quotes, comments."""

_RESERVED_QUERY = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"


def table_names(topics: Collection[str]) -> dict[str, str]:
    """Return the topic of each table.

    Names of DuckDB have no case. Topics whose names differ in nothing else get a number that depends on the name alone,
    so that no name moves to another topic when one is created or deleted: the bits of the letters that are capital,
    `orders~0`, `Orders~1`, `oRders~2`. No topic has such a name.
    """
    alike = Counter(topic.lower() for topic in topics)
    return {(topic if alike[topic.lower()] == 1 else f"{topic}~{_capitals(topic):x}"): topic for topic in topics}


def _capitals(topic: str) -> int:
    return sum(1 << place for place, letter in enumerate(topic) if letter.isupper())


def places(count: int) -> list[str]:
    """Return names for columns that may have equal ones."""
    return [f"column{number}" for number in range(count)]


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL: with quotes, unless it needs none."""
    if name.isidentifier() and name.isascii() and name.islower() and name not in reserved():
        return name
    return '"' + name.replace('"', '""') + '"'


@functools.cache
def reserved() -> frozenset[str]:
    """Return the words that are no identifiers without quotes."""
    with duckdb.connect() as connection:
        return frozenset(str(row[0]) for row in connection.execute(_RESERVED_QUERY).fetchall())


def is_complete(text: str) -> bool:
    """Return whether a text ends with the semicolon of a statement: not one of a text, a name or a comment."""
    plain = QUOTED.sub("", text)
    return plain.rstrip().endswith(";") and not any(opening in plain for opening in ("'", '"', "/*"))
