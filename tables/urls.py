"""The URL of a database, as SQLAlchemy and libpq write it, and its password apart from it.

postgresql://user@host:5432/database    sqlite:///file.db    sqlite:////absolute/file.db    mysql://user@host/database
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from offsetfs.tables.errors import TableError

POSTGRES, SQLITE = "postgresql", "sqlite"
_SCHEMES = {"postgres": POSTGRES, "postgresql": POSTGRES, "postgresql+psycopg": POSTGRES, "sqlite": SQLITE}
_FORMS = "postgresql://USER@HOST/DATABASE, sqlite:///FILE or mysql://USER@HOST/DATABASE"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """Where a database is."""

    text: str
    """Without the password."""
    scheme: str
    path: str
    """Of SQLite, the file."""
    password: str | None = field(default=None, repr=False)

    def hidden(self, message: str) -> str:
        """Return a message of a driver without the password."""
        return message.replace(self.password, "***") if self.password else message


def parse_url(text: str, password: str | None = None) -> DatabaseUrl:
    """Return the parts of a URL. `password` takes the place of the one in it. TableError, which has no password."""
    try:
        parts = urlsplit(text)
        user_info, at, host = parts.netloc.rpartition("@")
        _ = parts.port
    except ValueError:
        raise TableError(f"the URL of the database cannot be read; write {_FORMS}") from None
    scheme = _SCHEMES.get(parts.scheme, parts.scheme)
    if not scheme or "://" not in text:
        raise TableError(f"the URL of the database has no scheme; write {_FORMS}")
    if scheme == SQLITE:
        if parts.netloc or len(parts.path) < 2 or parts.query:
            raise TableError("the file of SQLite: write sqlite:///file.db, or sqlite:////folder/file.db")
        return DatabaseUrl(text, scheme, unquote(parts.path[1:]))
    user, colon, given = user_info.partition(":")
    query = parse_qsl(parts.query, keep_blank_values=True)
    in_query = dict(query).get("password")
    if in_query is not None:
        query = [(name, value) for name, value in query if name != "password"]
    found = unquote(given) if colon else in_query
    netloc = f"{user}{at}{host}"
    name = parts.scheme if scheme != POSTGRES else POSTGRES
    shown = urlunsplit((name, netloc, parts.path, urlencode(query), parts.fragment))
    return DatabaseUrl(shown, scheme, "", found if password is None else password)
