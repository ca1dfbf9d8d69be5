"""A MemoryError while a batch is sealed or appended loses no record and doubles none: it is tried again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition import log as log_module
from offsetfs.storage.records.compression.compression import Compression
from offsetfs.storage.records.format import batch_builder
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.units import NO_TIMESTAMP

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 0)


def filled(*values: bytes, codec: Compression) -> BatchBuilder:
    builder = BatchBuilder(4096, codec)
    for value in values:
        assert builder.append(None, value, (), 1_795_000_000_000)
    return builder


def failing_once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, *, is_after: bool = False) -> None:
    """Let the next call of `name` raise MemoryError, before it does its work or after it."""
    function: Callable[..., object] = getattr(owner, name)

    def fail(*args: object, **options: object) -> object:
        monkeypatch.setattr(owner, name, function)
        if is_after:
            function(*args, **options)
        raise MemoryError

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (batch_builder, "compress"),
        (batch_builder, "write_new_header"),
        (batch_builder, "seal_checksum"),
        (batch_builder, "SealedBatch"),
        (log_module, "has_producer"),
        (Segment, "open_files"),
        (Segment, "must_roll"),
        (Segment, "max_timestamp"),
        (Segment, "_index"),
    ],
)
def test_a_batch_is_sealed_and_appended_once_when_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: object, name: str, is_after: bool
) -> None:
    settings = {"compression.type": "gzip", "index.interval.bytes": "0"}
    directory = LogDirectory.open(os.fspath(tmp_path), defaults=settings)
    log = directory.create_partition(PARTITION)
    log.append(filled(b"first", codec=log.config.compression).seal())
    builder = filled(b"a" * 100, b"b" * 100, codec=log.config.compression)
    failing_once(monkeypatch, owner, name, is_after=is_after)
    try:
        log.append(builder.seal())
    except MemoryError:
        assert log.next_offset == 1
        log.append(builder.seal())
    log.append(filled(b"last", codec=log.config.compression).seal())
    log.check()
    directory.close()
    again = LogDirectory.open(os.fspath(tmp_path), read_only=True).log(PARTITION)
    records = [record for segment in again.snapshot() for batch in segment.batches() for record in batch.records()]
    assert [record.value for record in records] == [b"first", b"a" * 100, b"b" * 100, b"last"]
    assert [record.offset for record in records] == [0, 1, 2, 3]
    assert again.find_timestamp(NO_TIMESTAMP + 1) == (0, 1_795_000_000_000)


def test_what_an_append_that_lacked_memory_wrote_is_cut_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    directory = LogDirectory.open(os.fspath(tmp_path))
    log = directory.create_partition(PARTITION)
    log.append(filled(b"first", codec=log.config.compression).seal())
    size = log.snapshot().active.size
    failing_once(monkeypatch, Segment, "max_timestamp")
    with pytest.raises(MemoryError):
        log.append(filled(b"second", codec=log.config.compression).seal())
    (file,) = (tmp_path / str(PARTITION)).glob("*.log")
    assert file.stat().st_size == log.snapshot().active.size == size
    directory.close()


def test_a_batch_that_cannot_be_compressed_can_be_sealed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = filled(b"a" * 100, codec=Compression("gzip"))
    failing_once(monkeypatch, batch_builder, "compress")
    with pytest.raises(MemoryError):
        builder.seal()
    assert b"a" * 100 in bytes(builder.seal(is_compressed=False).data)
