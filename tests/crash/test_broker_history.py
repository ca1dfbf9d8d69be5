"""A short history of clients: one broker that is killed once. Mistakes of the broker are caught by it (mutants.py)."""

from pathlib import Path

import pytest
from row_broker_history import play_with

pytestmark = pytest.mark.crash


def test_a_broker_that_was_killed_once_keeps_what_it_answered(tmp_path: Path) -> None:
    assert play_with(0, tmp_path, kills=1) == 1
