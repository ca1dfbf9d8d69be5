"""Writes the batches of a task to one file beside the log, which the commit appends and an abort removes.

The file is in the log directory, where brokers ignore it, and on the same file system. Its name contains job, split and
attempt. It is durable when the task reports it. Batches of one partition keep the order of their records. The log does
not change before the commit (`publication`). `rows` and `jobs.lines` fill the batches.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from offsetfs.storage import BatchBuilder, BatchLimit, BatchWriter, SealedBatch, TopicPartition, files

PREFIX = ".offsetfs-staged-"
NONCE_PREFIX = ".offsetfs-nonce-"
"""The prefix of the file that a job creates to check that its executors see the directory."""
BATCH_BYTES = 1 << 20
BUILDERS_BYTES = 256 << 20
"""The memory of all open batches of a task: with very many partitions each batch is smaller."""
_BATCH_BYTES_MIN = 16 << 10


@dataclass(frozen=True, slots=True)
class TopicShape:
    """The properties of a topic that a task needs."""

    partitions: tuple[int, ...]
    limit: BatchLimit
    needs_key: bool


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """The position of a batch in the staged file, its size, and its number of records."""

    position: int
    size: int
    count: int


@dataclass(frozen=True, slots=True)
class Staged:
    """The result of one task; `path` is None if there were no records."""

    job: str
    split: int
    path: str | None
    batches: Mapping[TopicPartition, tuple[StagedBatch, ...]]

    @property
    def records(self) -> int:
        return sum(batch.count for batches in self.batches.values() for batch in batches)

    def as_json(self) -> dict[str, Any]:
        """Return it as values of JSON, for `from_json`."""
        return {
            "job": self.job,
            "split": self.split,
            "path": self.path,
            "batches": {
                str(partition): [[batch.position, batch.size, batch.count] for batch in batches]
                for partition, batches in self.batches.items()
            },
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Staged:
        batches = {
            TopicPartition.parse(name): tuple(StagedBatch(*row) for row in batches)
            for name, batches in fields["batches"].items()
        }
        return cls(fields["job"], fields["split"], fields["path"], batches)


@dataclass(frozen=True, slots=True)
class Target:
    """The log directory that tasks write to, and its topics."""

    path: str
    job: str
    topics: Mapping[str, TopicShape]
    topic: str | None = None
    """The topic of all records; None: it is in the column `topic`."""


def remove_staged(directory: str, job: str) -> None:
    """Remove the staged files of a job, including those of tasks that did not report."""
    for name in files.names(directory):
        if name.startswith(f"{PREFIX}{job}-"):
            files.remove_file(os.path.join(directory, name))


class StagingFile:
    """The staged file that a task is writing, and the open batch of each partition."""

    def __init__(self, target: Target, split: int, attempt: int) -> None:
        self.target = target
        self._split = split
        self._path = os.path.join(target.path, f"{PREFIX}{target.job}-{split}-{attempt}")
        self._file: files.File | None = None
        self._position = 0
        self._writers: dict[TopicPartition, BatchWriter] = {}
        self._batches: dict[TopicPartition, list[StagedBatch]] = {}
        self._written: Counter[TopicPartition] = Counter()

    def taken(self) -> dict[TopicPartition, int]:
        """Return the number of records that each partition has received."""
        waiting = {partition: writer.count for partition, writer in self._writers.items()}
        return {partition: self._written[partition] + count for partition, count in waiting.items()}

    def builder(self, partition: TopicPartition, shape: TopicShape) -> BatchBuilder:
        """Return the open batch of a partition."""
        return self._writer(partition, shape).builder

    def next_batch(self, partition: TopicPartition, shape: TopicShape, record_bytes: int) -> None:
        """Begin a batch with space for a record of this size. `RecordTooLarge` if no batch may be so large."""
        self._writer(partition, shape).next_batch(record_bytes)

    def flush(self, partition: TopicPartition) -> None:
        """Write the open batch of a partition, unless it is empty."""
        self._writers[partition].write()

    def _writer(self, partition: TopicPartition, shape: TopicShape) -> BatchWriter:
        writer = self._writers.get(partition)
        if writer is None:
            partitions = sum(len(topic.partitions) for topic in self.target.topics.values())
            size = min(BATCH_BYTES, max(BUILDERS_BYTES // partitions, _BATCH_BYTES_MIN))
            writer = self._writers[partition] = BatchWriter(
                lambda: shape.limit,
                size,
                lambda sealed: self._write(partition, sealed),
                os.path.join(self.target.path, str(partition)),
            )
        return writer

    def _write(self, partition: TopicPartition, sealed: SealedBatch) -> None:
        if self._file is None:
            self._file = files.create_file(self._path)
        self._file.write(self._position, sealed.data)
        self._batches.setdefault(partition, []).append(StagedBatch(self._position, sealed.size, sealed.count))
        self._position += sealed.size
        self._written[partition] += sealed.count

    def finish(self) -> Staged:
        """Write the open batches; durable on return."""
        for writer in self._writers.values():
            writer.write()
        batches = {partition: tuple(staged) for partition, staged in self._batches.items()}
        if self._file is None:
            return Staged(self.target.job, self._split, None, batches)
        self._file.sync()
        self._file.close()
        files.sync_directory(self.target.path)
        return Staged(self.target.job, self._split, self._path, batches)

    def abandon(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            files.remove_file(self._path)
