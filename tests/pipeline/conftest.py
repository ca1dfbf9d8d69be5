"""One Spark session for the whole run: beginning one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

JARS = Path(__file__).parents[2] / ".cache" / "spark-jars" / "libs"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of this machine with two tasks at a time."""
    from offsetfs.pipeline.session import session

    jars = ",".join(str(path) for path in sorted(JARS.glob("*.jar")))
    conf = {"spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false", "spark.jars": jars}
    begun = session("local[2]", conf)
    begun.sparkContext.setLogLevel("OFF")
    yield begun
    begun.stop()
