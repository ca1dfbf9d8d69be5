"""The location of a table: the URL of its database, and its name.

postgresql://user@host:5432/database    sqlite:///file.db    sqlite:////absolute/file.db    mysql://user@host/database

The URL is one of SQLAlchemy and libpq; its password is kept apart.

order    "a.b"    sales.order    "Sales 2026"."a.b"

A name is taken as it is written, with its case: it is always quoted in statements, so that words of SQL, spaces and
capitals are no exceptions. A dot separates a schema (MySQL: a database) from the table; a part in double quotes may
have dots, and a quote of it is written twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from offsetfs.tables.databases.layout import TableError

POSTGRES, SQLITE = "postgresql", "sqlite"
_SCHEMES = {"postgres": POSTGRES, "postgresql": POSTGRES, "postgresql+psycopg": POSTGRES, "sqlite": SQLITE}
_FORMS = "postgresql://USER@HOST/DATABASE, sqlite:///FILE or mysql://USER@HOST/DATABASE"
_SECRET = re.compile(r"passw|passphrase|secret|token|_key$", re.IGNORECASE)
"""Names of parameters whose values are in no message. `sslkey` is a path."""

PROGRESS_SUFFIX = "_progress"
"""The longest suffix that is added to a name."""
_PART = re.compile(r'"(?:[^"]|"")*"|[^".][^.]*')
_BYTES_MAX = 63
"""The longest name in PostgreSQL, which truncates longer names without an error."""
_CHARACTERS_MAX = 64
"""The longest name in MySQL and MariaDB."""
_MYSQL = ("mysql", "mariadb")


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The URL of a database, its secrets apart."""

    text: str
    """The URL without its password."""
    scheme: str
    path: str
    """The name of the database; for SQLite, the path of the file."""
    password: str | None = field(default=None, repr=False)
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Other parameters of the URL that are secret, such as `sslpassword`."""

    def hidden(self, message: str) -> str:
        """Return a message of a driver without the password and other secrets."""
        secrets = {secret for secret in (self.password, *(value for _, value in self.secrets)) if secret}
        for secret in sorted({*secrets, *(quote(secret, safe="") for secret in secrets)}, key=len, reverse=True):
            message = message.replace(secret, "***")
        return message


def parse_url(text: str, password: str | None = None) -> DatabaseUrl:
    """Return the parts of a URL. `password` takes the place of the one in it. TableError, which has no password."""
    try:
        parts = urlsplit(text)
        user_info, at, host = parts.netloc.rpartition("@")
    except ValueError:
        raise TableError(f"the URL of the database cannot be read; write {_FORMS}") from None
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if not scheme or "://" not in text:
        raise TableError(
            f"the URL of the database has no scheme; write {_FORMS}; "
            "table sync takes iceberg:/WAREHOUSE and delta:/TABLE, too"
        )
    if scheme == SQLITE:
        if parts.netloc or len(parts.path) < 2 or parts.query:
            raise TableError("the file of SQLite: write sqlite:///file.db, or sqlite:////folder/file.db")
        if parts.path == "/:memory:":
            raise TableError("a database of SQLite in memory is lost at the end: write sqlite:///file.db")
        return DatabaseUrl(text, scheme, unquote(parts.path[1:]))
    if parts.fragment or "@" in parts.path + parts.query:
        # The host ended at a character of the password, whose rest would be shown as a part of the URL.
        raise TableError(
            "the URL of the database has one of / ? # @ where it has to be encoded: write %2F %3F %23 %40 in a "
            "password or name, or use --password-file"
        )
    try:
        _ = parts.port
    except ValueError:
        raise TableError(f"the URL of the database cannot be read; write {_FORMS}") from None
    user, colon, given = user_info.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)
    in_query = dict(query).get("password")
    secrets = tuple((name, value) for name, value in query if name != "password" and _SECRET.search(name))
    if in_query is not None or secrets:
        query = [(name, value) for name, value in query if not _SECRET.search(name)]
    url_password = unquote(given) if colon else in_query
    netloc = f"{user}{at}{host}"
    name = parts.scheme if scheme != POSTGRES else POSTGRES
    shown = urlunsplit((name, netloc, parts.path, urlencode(query), parts.fragment))
    return DatabaseUrl(shown, scheme, "", url_password if password is None else password, secrets)


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
        return ".".join(f"{opening}{part.replace(closing, closing * 2)}{closing}" for part in parts)


def parse_table_name(text: str, scheme: str) -> TableName:
    """Return the name of a table; TableError for a text that is not a name in the database with this scheme."""
    parts = _parts(text)
    if parts is None:
        raise TableError(
            f"{text!r} is not a name of a table: write NAME or SCHEMA.NAME, such as messages; a part that has a dot or "
            'begins with a quote goes into double quotes: "a.b"'
        )
    for part in parts:
        reason = _refusal(part, scheme)
        if reason is not None:
            raise TableError(f"{text!r} is not a name of a table: {reason}; choose another with --table")
    name, schema = parts[-1], parts[0] if len(parts) == 2 else None
    reason = _refusal_of_table(name, schema, scheme)
    if reason is not None:
        raise TableError(f"{text!r} is not a name of a table: {reason}; choose another with --table")
    return TableName(name, schema)


def _parts(text: str) -> list[str] | None:
    """Return a name, or a schema and a name, without their quotes; None if the text is something else."""
    parts, place = [], 0
    while match := _PART.match(text, place):
        part = match[0]
        parts.append(part[1:-1].replace('""', '"') if part.startswith('"') else part)
        place = match.end()
        if place == len(text):
            return parts if len(parts) <= 2 and all(parts) else None
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
