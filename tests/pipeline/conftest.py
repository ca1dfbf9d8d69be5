"""One Spark session for the whole run: beginning one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of this machine with two tasks at a time."""
    from offsetfs.pipeline.session import session

    begun = session("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false"})
    begun.sparkContext.setLogLevel("OFF")
    yield begun
    begun.stop()
