from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import trio
from fixtures.broker.direct import one_thread
from fixtures.broker.group_requests import FEW_PARTITIONS, Groups
from fixtures.broker.running import Running
from fixtures.security.authorized_broker import AuthorizedBroker
from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import System, simulated

from offsetfs.storage import LogDirectory, TopicPartition


@pytest.fixture
def directory(fast_disk: None, directory: LogDirectory) -> LogDirectory:
    directory.create_partitions([TopicPartition("t", 0)])
    return directory


@pytest.fixture
async def running(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    async with Running(directory, FEW_PARTITIONS).until_left(nursery) as found:
        yield found


@pytest.fixture
async def guarded(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[AuthorizedBroker]:
    """A broker with an authorizer and without ACLs."""
    async with AuthorizedBroker(directory).until_left(nursery) as found:
        yield found


@pytest.fixture
async def groups(directory: LogDirectory) -> Groups:
    return Groups(directory)


@pytest.fixture
def system() -> Iterator[System]:
    disk = SimDisk()
    disk.do("create", ROOT, "logs", True)
    disk.do("sync", ROOT)
    with one_thread(), simulated(disk) as system:
        yield system
