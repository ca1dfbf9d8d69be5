"""Where the newest records begin is looked for again when the log is another one, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from fixtures.spies import spy

from offsetfs.fs.files import record_listing
from offsetfs.fs.files.record_listing import RecordListing
from offsetfs.fs.mount_context import mount_context
from offsetfs.fs.options import MountOptions
from offsetfs.fs.partitions import Partitions
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.views.ends import newest_start

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


async def test_a_listing_of_what_has_not_changed_looks_for_nothing(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(PARTITION)
    mount = mount_context(directory, MountOptions(), nursery)
    partition = Partitions(mount).of(PARTITION)
    await partition.open()
    calls: list[int] = []
    monkeypatch.setattr(record_listing, "newest_start", spy(calls, lambda view, n, end: n, newest_start))

    def append() -> None:
        builder = BatchBuilder(1 << 20)
        for _ in range(5):
            assert builder.append(b"key", b"value", (), 1000)
        log.append(builder.seal())

    def bounds(count: int | None) -> tuple[int, int]:
        return RecordListing(mount, partition, count)._find_bounds()

    append()
    assert bounds(3) == bounds(3) == (2, 5) and calls == [3]
    append()
    assert bounds(3) == bounds(3) == (7, 10) and calls == [3] * 2
    log.roll()
    assert bounds(3) == (7, 10) and calls == [3] * 3
    log.delete_records(8)
    assert bounds(3) == (8, 10) and calls == [3] * 4
    assert bounds(1) == (9, 10) and bounds(None) == (8, 10) and calls == [3, 3, 3, 3, 1]
    directory.close()
