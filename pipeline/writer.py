"""The batch writer and the stream writer: tasks stage, the driver publishes.

Spark makes a writer in one process, lets it write in others and commit in a third, so a writer is a plain value. The
n-th micro-batch of a stream is version n of its application: Spark commits the last one again after a crash, and the
journal knows it (`publication`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from offsetfs.pipeline.journal import Job
from offsetfs.pipeline.publication import publish, withdraw
from offsetfs.pipeline.read_options import OptionError
from offsetfs.pipeline.rows import stage
from offsetfs.pipeline.staging import Staged, Target
from offsetfs.pipeline.task_process import settle
from offsetfs.pipeline.write_options import WriteOptions, check_columns, topic_shapes


@dataclass
class Written(WriterCommitMessage):
    """The message of a task to the driver."""

    staged: Staged


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SparkBatchWriter:
    """Return the writer of a batch query. `OptionError`, `LogDirectoryLocked`."""
    if overwrite:
        raise OptionError("mode overwrite is not supported, because logs are only appended to; use mode append")
    wanted = WriteOptions.parse(options)
    return SparkBatchWriter(_target(wanted, schema), wanted)


def stream_writer(options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """Return the writer of a stream. `OptionError`, `LogDirectoryLocked`."""
    wanted = WriteOptions.parse(options, is_stream=True)
    assert wanted.application is not None
    return StreamWriter(_target(wanted, schema), wanted.application)


def _target(options: WriteOptions, schema: StructType) -> Target:
    check_columns(schema, options)
    return Target(options.path, uuid.uuid4().hex, topic_shapes(options), options.topic)


class _StagedWriter:
    """The part of both writers that does not differ: tasks stage, the driver publishes a job or withdraws it."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        settle()
        return Written(stage(iterator, self._target, context.partitionId(), context.taskAttemptId()))

    def _publish(self, job: Job, messages: list[WriterCommitMessage | None]) -> None:
        staged = _staged(messages)
        publish(self._target.path, _as_staged(job, staged), staged)

    def _withdraw(self, job: Job, messages: list[WriterCommitMessage | None]) -> None:
        withdraw(self._target.path, _as_staged(job, _staged(messages)))


class SparkBatchWriter(_StagedWriter, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, target: Target, options: WriteOptions) -> None:
        super().__init__(target)
        # Without a name of its own a job is not to be known again.
        self._job = Job(target.job, options.application or f"job {target.job}", options.version or 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._publish(self._job, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._withdraw(self._job, messages)


class StreamWriter(_StagedWriter, DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, target: Target, application: str) -> None:
        super().__init__(target)
        self._application = application

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._publish(self._job_of(batchId), messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._withdraw(self._job_of(batchId), messages)

    def _job_of(self, batch: int) -> Job:
        return Job(self._target.job, self._application, batch)


def _staged(messages: list[WriterCommitMessage | None]) -> list[Staged]:
    return [message.staged for message in messages if isinstance(message, Written)]


def _as_staged(job: Job, staged: list[Staged]) -> Job:
    """Return the job with the id that its tasks used: Spark creates the writer of a stream again for each commit."""
    return replace(job, id=staged[0].job) if staged else job
