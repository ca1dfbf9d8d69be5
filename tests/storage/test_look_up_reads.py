"""What a look-up by offset reads of the log: the batch that holds it and where the next one begins, in one read."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.files import File
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.segments.offset_search import OFFSET_SIZE
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.unit

BATCHES = 12
VALUES = (bytes(9_000), b"between", b"last of its batch")


def test_a_look_up_reads_the_batch_and_the_offset_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LogDirectory.open(str(tmp_path))
    log = directory.create_partition(TopicPartition("orders", 0))
    for number in range(BATCHES):
        built = build([(None, value, (), 1000 + number) for value in VALUES])
        log.append(SealedBatch(memoryview(built), len(VALUES), sum(map(len, VALUES)), Timestamp(1000), len(built)))
    read: list[tuple[str, int]] = []
    plain = File.read

    def watched(file: File, position: int, size: int, *, nowait: bool = False) -> bytearray:
        read.append((file.path, size))
        return plain(file, position, size, nowait=nowait)

    monkeypatch.setattr(File, "read", watched)
    for offset in range(2 * len(VALUES), (BATCHES - 1) * len(VALUES)):  # what has an entry before it, and one behind
        read.clear()
        batch = log.batch_at(offset)
        assert batch is not None and batch.record(offset) is not None
        assert [size for path, size in read if path.endswith(".log")] == [batch.header.size + OFFSET_SIZE]
    read.clear()
    last = log.batch_at(BATCHES * len(VALUES) - 1)
    assert last is not None and last.base_offset == (BATCHES - 1) * len(VALUES)
    assert sum(size for path, size in read if path.endswith(".log")) <= batch_chain.PROBE_BYTES
    directory.close()
