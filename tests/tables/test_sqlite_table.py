"""Tables of SQLite."""

from __future__ import annotations

import pytest
from fixtures.databases.table_contract import TableContract, log, synced

__all__ = ["log", "synced"]

pytestmark = pytest.mark.unit


class TestSqlite(TableContract):
    """The contract."""
