from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio
from fixtures.broker.running import Running

from offsetfs.kafka.mirror import fetcher, timing
from offsetfs.storage import LogDirectory, TopicPartition


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again after a tenth of the usual time, but for topics and leaders only where something says so."""
    monkeypatch.setattr(timing, "REFRESH_S", 60.0)
    for module, name in (
        (fetcher, "WAIT_MS"),
        (fetcher, "PAUSE_S"),
        (timing, "REFRESH_PAUSE_S"),
        (timing, "RECHECK_S"),
        (timing, "UPKEEP_S"),
    ):
        usual = getattr(module, name)
        monkeypatch.setattr(module, name, type(usual)(usual / 10))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogDirectory]:
    """The log directory of the broker that is mirrored."""
    monkeypatch.setattr("os.fsync", lambda _fd: None)
    (tmp_path / "source").mkdir()
    found = LogDirectory.open(str(tmp_path / "source"))
    found.create_partitions([TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("users", 0)])
    yield found
    found.close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[LogDirectory]:
    """The log directory of the mirror."""
    (tmp_path / "mirror").mkdir()
    found = LogDirectory.open(str(tmp_path / "mirror"))
    yield found
    found.close()


@pytest.fixture
async def running(source: LogDirectory, nursery: trio.Nursery) -> AsyncIterator[Running]:
    async with Running(source).until_left(nursery) as found:
        yield found
