from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from authorized_broker import AuthorizedBroker
from direct_broker import one_thread
from group_requests import FEW_PARTITIONS, Groups
from running_broker import Running
from simdisk import ROOT, SimDisk
from simsystem import System, simulated

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


@pytest.fixture
async def guarded(directory: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[AuthorizedBroker]:
    """A broker with an authorizer and without ACLs."""
    found = AuthorizedBroker(directory)
    nursery.start_soon(found.broker.run)
    yield found
    found.broker.stop()
    found.listener.close()


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
