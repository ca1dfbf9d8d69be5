"""The errors of everything in this package that has to do with a database."""

from __future__ import annotations


class TableError(Exception):
    """The database or its table cannot be used; the message is one sentence with the remedy, without passwords."""


class SyncRefused(Exception):
    """A partition cannot be synchronized, for this reason; the message has the remedy."""


class UnstorableRecord(TableError):
    """The database has no value for a field of a record; the message names partition, offset and remedy."""
