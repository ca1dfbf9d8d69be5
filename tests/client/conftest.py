from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from fixtures.broker.group_requests import FEW_PARTITIONS
from fixtures.broker.running import Running

from offsetfs.storage import LogDirectory, TopicPartition


@pytest.fixture
def directory(fast_disk: None, directory: LogDirectory) -> LogDirectory:
    directory.create_partitions([TopicPartition("t", 0)])
    return directory


@pytest.fixture
async def running(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    async with Running(directory, FEW_PARTITIONS).until_left(nursery) as found:
        yield found
