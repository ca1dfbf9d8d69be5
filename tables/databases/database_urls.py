"""The URL of a database, as SQLAlchemy and libpq write it, and its password apart from it.

postgresql://user@host:5432/database    sqlite:///file.db    sqlite:////absolute/file.db    mysql://user@host/database
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from offsetfs.tables.databases.errors import TableError

POSTGRES, SQLITE = "postgresql", "sqlite"
_SCHEMES = {"postgres": POSTGRES, "postgresql": POSTGRES, "postgresql+psycopg": POSTGRES, "sqlite": SQLITE}
_FORMS = "postgresql://USER@HOST/DATABASE, sqlite:///FILE or mysql://USER@HOST/DATABASE"
_SECRET = re.compile(r"passw|passphrase|secret|token|_key$", re.IGNORECASE)
"""Names of parameters whose values are in no message. `sslkey` is a path."""


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
        found = {each for each in (self.password, *(value for _, value in self.secrets)) if each}
        for each in sorted({*found, *(quote(each, safe="") for each in found)}, key=len, reverse=True):
            message = message.replace(each, "***")
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
        raise TableError(f"the URL of the database has no scheme; write {_FORMS}")
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
    found = unquote(given) if colon else in_query
    netloc = f"{user}{at}{host}"
    name = parts.scheme if scheme != POSTGRES else POSTGRES
    shown = urlunsplit((name, netloc, parts.path, urlencode(query), parts.fragment))
    return DatabaseUrl(shown, scheme, "", found if password is None else password, secrets)
