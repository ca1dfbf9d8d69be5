from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running

from offsetfs.storage import LogDirectory


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogDirectory]:
    """The log directory that is restored."""
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    (tmp_path / "source").mkdir()
    found = LogDirectory.open(str(tmp_path / "source"))
    yield found
    found.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LogDirectory]:
    """The log directory of the broker that the records come to."""
    (tmp_path / "cluster").mkdir()
    found = LogDirectory.open(str(tmp_path / "cluster"))
    yield found
    found.close()


@pytest.fixture
async def running(cluster: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    async with Running(cluster, FEW_PARTITIONS).until_left(nursery) as found:
        yield found
