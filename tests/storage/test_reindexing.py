"""Indexes of a segment that are lost or wrong are rebuilt from its log file, and others stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.maintenance.reindexing import reindex_segment
from offsetfs.storage.names import TopicPartition, segment_name
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.settings.config import LogConfig

pytestmark = pytest.mark.unit

CONFIG = LogConfig.from_properties({"index.interval.bytes": "100"})


def test_lost_and_wrong_indexes_are_made_anew(tmp_path: Path) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(TopicPartition("t", 0), {"index.interval.bytes": "100"})
    for number in range(20):
        builder = BatchBuilder(1 << 10)
        assert builder.append(None, b"v" * 50, (), number)
        log.append(builder.seal())
    directory.close()
    partition = tmp_path / "t-0"
    reindex_segment(str(partition), 0, CONFIG)
    index, times = (partition / segment_name(0, suffix) for suffix in (".index", ".timeindex"))
    wanted = index.read_bytes(), times.read_bytes()
    assert all(wanted)
    assert reindex_segment(str(partition), 0, CONFIG) == (False, (partition / segment_name(0, ".log")).stat().st_size)
    index.unlink()
    times.write_bytes(b"\1" * 12)
    assert reindex_segment(str(partition), 0, CONFIG)[0]
    assert (index.read_bytes(), times.read_bytes()) == wanted
