"""Opens the database of a URL. A driver is imported when its database is asked for."""

from __future__ import annotations

from offsetfs.tables.databases.database import Database
from offsetfs.tables.databases.database_urls import POSTGRES, SQLITE, DatabaseUrl


def open_database(url: DatabaseUrl, *, may_create: bool, remedy: str = "--create creates it") -> Database:
    """Connect. A missing file of SQLite is created with `may_create`; otherwise the TableError ends with `remedy`."""
    if url.scheme == SQLITE:
        from offsetfs.tables.databases.sqlite import SqliteDatabase

        return SqliteDatabase(url, may_create=may_create, remedy=remedy)
    if url.scheme == POSTGRES:
        from offsetfs.tables.databases.postgres import PostgresDatabase

        return PostgresDatabase(url)
    from offsetfs.tables.databases.sqlalchemy_database import SqlalchemyDatabase

    return SqlalchemyDatabase(url)
