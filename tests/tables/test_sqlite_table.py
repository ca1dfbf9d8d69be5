"""Tables of SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest
from table_contract import TableContract, log, synced

__all__ = ["log", "synced"]

pytestmark = pytest.mark.unit


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/messages.db"


class TestSqlite(TableContract):
    """The contract."""
