"""What tests of tables share."""

from pathlib import Path

import pytest


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an SQLite database; files with a server replace it."""
    return f"sqlite:///{tmp_path}/messages.db"
