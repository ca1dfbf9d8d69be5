"""Logs of a mirror that get much are synced while more arrives."""

from __future__ import annotations

import pytest
import trio
from fixtures.broker.running import Running

from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.mirror import upkeep
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.storage import BatchBuilder, Log, LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

LARGE, SMALL = TopicPartition("orders", 0), TopicPartition("users", 0)


def append(log: Log, size: int) -> None:
    builder = BatchBuilder(1 << 20, log.config.compression)
    assert builder.append(None, bytes(size), (), 1_795_266_300_000)
    log.append(builder.seal())


async def test_a_log_is_synced_after_a_number_of_bytes_and_others_are_not(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "FLUSH_BYTES", 200_000)
    for _ in range(3):
        append(source.log(LARGE), 100_000)
    append(source.log(SMALL), 100_000)
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        nursery.start_soon(Mirror(directory, client, "source:9092", MirrorOptions(), lambda text: None).run)
        with trio.fail_after(30):
            while not (
                directory.has(LARGE)
                and directory.log(LARGE).recovery_point == 3
                and directory.has(SMALL)
                and directory.log(SMALL).next_offset == 1
            ):
                await trio.sleep(0.01)
        assert directory.log(SMALL).recovery_point == 0
        nursery.cancel_scope.cancel()
