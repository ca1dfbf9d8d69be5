from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from group_requests import FEW_PARTITIONS
from running_broker import Running

from offsetfs.storage import LogDirectory, TopicPartition


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    found = LogDirectory.open(str(tmp_path))
    found.create_partitions([TopicPartition("t", 0)])
    yield found
    found.close()


@pytest.fixture
async def running(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    found = Running(directory, FEW_PARTITIONS)
    nursery.start_soon(found.broker.run)
    yield found
    found.broker.stop()
    found.listener.close()
