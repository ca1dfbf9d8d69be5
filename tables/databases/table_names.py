"""The name of a table, as --table and the progress have it.

    order    "a.b"    sales.order    "Sales 2026"."a.b"

A name is taken as it is written, with its case: it is always quoted in statements, so that words of SQL, spaces and
capitals are no exceptions. A dot separates a schema (MySQL: a database) from the table; a part in double quotes may
have dots, and a quote of it is written twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from offsetfs.tables.databases.database_urls import POSTGRES, SQLITE
from offsetfs.tables.databases.errors import TableError

PROGRESS_SUFFIX = "_progress"
"""The longest suffix that is added to a name."""
_PART = re.compile(r'"(?:[^"]|"")*"|[^".][^.]*')
_BYTES_MAX = 63
"""The longest name in PostgreSQL, which truncates longer names without an error."""
_CHARACTERS_MAX = 64
"""The longest name in MySQL and MariaDB."""
_MYSQL = ("mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table, and the schema where one was given."""

    name: str
    schema: str | None = None

    @property
    def progress(self) -> TableName:
        """The table of the progress, beside it."""
        return TableName(self.name + PROGRESS_SUFFIX, self.schema)

    def __str__(self) -> str:
        """Return the name for messages, without quotes."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    def quoted(self, opening: str = '"', closing: str = '"') -> str:
        """Return the name as statements have it, with the quotes of the database: the closing one is doubled within."""
        parts = [self.name] if self.schema is None else [self.schema, self.name]
        return ".".join(f"{opening}{each.replace(closing, closing * 2)}{closing}" for each in parts)


def parse_table_name(text: str, scheme: str) -> TableName:
    """Return a name; TableError for what is none, or none of the database whose URL has this scheme."""
    parts = _parts(text)
    if parts is None:
        raise TableError(
            f"{text!r} is not a name of a table: write NAME or SCHEMA.NAME, such as messages; a part that has a dot or "
            'begins with a quote goes into double quotes: "a.b"'
        )
    for each in parts:
        reason = _refusal(each, scheme)
        if reason is not None:
            raise TableError(f"{text!r} is not a name of a table: {reason}; choose another with --table")
    name, schema = parts[-1], parts[0] if len(parts) == 2 else None
    reason = _refusal_of_table(name, schema, scheme)
    if reason is not None:
        raise TableError(f"{text!r} is not a name of a table: {reason}; choose another with --table")
    return TableName(name, schema)


def _parts(text: str) -> list[str] | None:
    """Return a name, or a schema and a name, without their quotes; None if the text is something else."""
    found, place = [], 0
    while match := _PART.match(text, place):
        part = match[0]
        found.append(part[1:-1].replace('""', '"') if part.startswith('"') else part)
        place = match.end()
        if place == len(text):
            return found if len(found) <= 2 and all(found) else None
        if text[place] != ".":
            return None
        place += 1
    return None


def _refusal(part: str, scheme: str) -> str | None:
    if not part.isprintable():
        return "it has a character that is not printable"
    if part != part.strip():
        return "it begins or ends with a space"
    if _is_mysql(scheme) and max(part) > "\uffff":
        return f"{scheme} has no character {max(part)!r} in names"
    return None


def _refusal_of_table(name: str, schema: str | None, scheme: str) -> str | None:
    if scheme == SQLITE:
        if schema is not None and schema.lower() != "main":
            return "SQLite has one schema, main"
        if name.lower().startswith("sqlite_"):
            return "SQLite keeps names that begin with sqlite_ for itself"
    if scheme == POSTGRES:
        allowed = _BYTES_MAX - len(PROGRESS_SUFFIX)
        if len(name.encode()) > allowed or len((schema or "").encode()) > _BYTES_MAX:
            return f"with PostgreSQL it has at most {allowed} bytes, its schema {_BYTES_MAX}"
    if _is_mysql(scheme):
        allowed = _CHARACTERS_MAX - len(PROGRESS_SUFFIX)
        if len(name) > allowed or len(schema or "") > _CHARACTERS_MAX:
            return f"with {scheme} it has at most {allowed} characters, its database {_CHARACTERS_MAX}"
    return None


def _is_mysql(scheme: str) -> bool:
    return scheme.partition("+")[0] in _MYSQL
