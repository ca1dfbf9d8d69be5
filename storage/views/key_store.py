"""The table of a key index in a SQLite file: from the hash of a key to its latest offset.

SQLite does its own I/O, so this is the only module of the engine, beside `storage.files`, that accesses the disk
(docs/internals/decisions/0013-key-index-is-a-sqlite-file.md). Nothing here survives a crash: there is no
journal and no sync, so no second file is created. `key_footer` detects whether a table is complete.

A value is an offset, or `~offset` to store a flag with it: SQLite's integers are signed, and offsets never negative.

One process at a time opens a file; calls are serialized, from any thread.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterable, Iterator

from offsetfs.storage import files

CACHE_KIB = 8 << 10
"""The size of SQLite's page cache for a table."""

_SETUP = (
    "PRAGMA journal_mode = OFF",  # a table that was torn by a crash is never opened again
    # A look-up must not wait for the disk; after a crash the footer is missing and the table is rebuilt (decision 13).
    "PRAGMA synchronous = OFF",
    # One process at a time. The lock is taken once, and not for each statement.
    "PRAGMA locking_mode = EXCLUSIVE",
    # The file may have been planted: functions in its schema must not run.
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
    """Check that the file is a regular one, with one name, of the directory's owner. SQLite does not check that."""
    # SQLite follows links: a hard link to a database of another program once got a table of ours.
    with files.open_file(path, create=True) as file:
        if file.stat().st_nlink > 1:
            raise OSError(errno.EINVAL, "a hard link: it may be the file of another directory", path)


class KeyStore:
    """An open table. Every call raises OSError: EBUSY if another process has it open, ENOSPC, else EIO."""

    def __init__(self, path: str) -> None:
        """Open or create the table at `path`; "" creates a temporary one without a name."""
        self.path = path
        if path:
            _check_own(path)
        with self._as_os_error():
            # timeout=0: another mount that holds the file keeps it for hours, so waiting is useless.
            self._database = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                for statement in _SETUP:
                    self._database.execute(statement).fetchall()
            except sqlite3.Error:
                self._database.close()
                raise

    def put(self, values: Iterable[tuple[int, int]]) -> None:
        """Set the value of each hash; rising order is fastest. After an error all values are lost."""
        with self._as_os_error():
            self._database.execute("BEGIN")
            self._database.executemany(_PUT, values)
            self._database.execute("COMMIT")

    def get(self, key_hash: int) -> int | None:
        """Return the value of a hash, or None."""
        with self._as_os_error():
            row = self._database.execute(_GET, (key_hash,)).fetchone()
        return None if row is None else int(row[0])

    def count(self) -> int:
        """Return the number of values. Scans the table."""
        with self._as_os_error():
            return int(self._database.execute("SELECT count(*) FROM keys").fetchone()[0])

    def forget_below(self, offset: int) -> None:
        """Delete the values of offsets below `offset`. Scans the table."""
        with self._as_os_error():
            self._database.execute(_FORGET, (offset,))

    def close(self) -> None:
        """Close the file, with all values written; a second call does nothing."""
        with self._as_os_error():
            self._database.close()

    @contextlib.contextmanager
    def _as_os_error(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            # The low byte is SQLite's primary code; the extended codes only name the failed system call.
            number = _ERRNOS.get(code & 0xFF, errno.EIO) if code is not None else errno.EIO
            raise OSError(number, f"the index of keys: {error}", self.path or "a nameless table") from error
