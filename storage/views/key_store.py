"""The table of an index of keys: from the hash of a key to the latest offset, in a SQLite file.

SQLite does its own input and output, so this is the one module of the engine that reaches the disk beside
`storage.files` (docs/internals/decisions/0013-key-index-is-a-sqlite-file.md). It promises little in return:
nothing here survives a crash. No journal is kept and nothing is synced, so no second file lies beside this one, and
whoever opens a table again knows by other means that it is whole (`key_footer`).

A value is an offset, or `~offset` for what is noted beside it: SQLite's integers are signed, offsets never negative.

One process at a time has a file open; calls come one after the other, from any thread.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterable, Iterator

from offsetfs.storage import files

CACHE_KIB = 8 << 10
"""What a table keeps in memory of its file: above it pages are written and read again."""

_SETUP = (
    "PRAGMA journal_mode = OFF",  # a table that a crash tore is never opened again
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
    "PRAGMA trusted_schema = OFF",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    "BEGIN EXCLUSIVE",
    "CREATE TABLE IF NOT EXISTS keys (hash INTEGER PRIMARY KEY, offset INTEGER NOT NULL)",
    "COMMIT",
)
_PUT = "INSERT OR REPLACE INTO keys VALUES (?, ?)"
_GET = "SELECT offset FROM keys WHERE hash = ?"
_FORGET = "DELETE FROM keys WHERE CASE WHEN offset < 0 THEN ~offset ELSE offset END < ?"

_ERRNOS = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_BUSY: errno.EBUSY, sqlite3.SQLITE_NOMEM: errno.ENOMEM}


def _check_own(path: str) -> None:
    """See that a regular file of one name is there, of the directory's owner: SQLite asks for none of it."""
    with files.opened(path, create=True) as file:
        if file.stat().st_nlink > 1:
            raise OSError(errno.EINVAL, "a hard link: it may be the file of another directory", path)


class KeyStore:
    """An open table. Every call raises OSError: EBUSY where another process has it open, ENOSPC, else EIO."""

    def __init__(self, path: str) -> None:
        """Open the table at `path`, which is made when it is missing; "" makes a nameless one that goes when closed."""
        self.path = path
        if path:
            _check_own(path)
        with self._told():
            self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                for statement in _SETUP:
                    self._database.execute(statement).fetchall()
            except sqlite3.Error:
                self._database.close()
                raise

    def put(self, values: Iterable[tuple[int, int]]) -> None:
        """Set the value of each hash; those that come in rising order cost least. After an error all is lost."""
        with self._told():
            self._database.execute("BEGIN")
            self._database.executemany(_PUT, values)
            self._database.execute("COMMIT")

    def get(self, key_hash: int) -> int | None:
        """Return the value of a hash, None when it has none."""
        with self._told():
            row = self._database.execute(_GET, (key_hash,)).fetchone()
        return None if row is None else int(row[0])

    def count(self) -> int:
        """Return how many hashes have a value. Looks at all of them."""
        with self._told():
            return int(self._database.execute("SELECT count(*) FROM keys").fetchone()[0])

    def forget_below(self, offset: int) -> None:
        """Forget the values of offsets below `offset`. Looks at all of them."""
        with self._told():
            self._database.execute(_FORGET, (offset,))

    def close(self) -> None:
        """Let go of the file, with everything put into it; a second call does nothing."""
        with self._told():
            self._database.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            number = _ERRNOS.get(code & 0xFF, errno.EIO) if code is not None else errno.EIO
            raise OSError(number, f"the index of keys: {error}", self.path or "a nameless table") from error
