"""Publishes the batches that tasks have staged: each record once, whichever process crashes when.

    1. the journal already has this version of this application: the staged files are removed; returns the old result
    2. the intent is written and synced: which staged batches go where, and where each log ended
    3. the batches are appended to the logs, and synced
    4. the result is added to the journal, durably; then the staged files are removed, and the intent last

All of it happens under the lock of the log directory, so no other process writes meanwhile. A process that crashes
between 2 and 4 leaves an intent, which the next publication completes before its own. A batch counts as appended if the
log has it at the intended offset with the same bytes. The intent is rewritten without those batches, and the missing
ones are appended after the records that others have written since. Readers see a publication grow batch by batch; it is
durable when `publish` returns.

`journal` describes journal and intent, `staging` the files of tasks.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from offsetfs.pipeline.journal import (
    INTENT,
    Job,
    PublicationFailed,
    Published,
    batches_of,
    find_published,
    forget_intent,
    intent_of,
    job_of,
    note_published,
    put_down,
    read_intent,
)
from offsetfs.pipeline.staging import NONCE_PREFIX, PREFIX, Staged, StagedBatch, remove_staged
from offsetfs.storage import Batch, BatchBuilder, Log, LogDirectory, SealedBatch, TopicPartition, files, read_batch
from offsetfs.storage.errors import LogDirectoryLocked, StorageError

SWEEP_SECONDS = 7 * 24 * 3600
"""The age at which no job refers to a staged file any more."""
WAIT_SECONDS = 120.0
"""The time that a publication waits for another publication to end."""
GRACE_SECONDS = 2.0
"""The time that a publication may hold the directory before its intent exists, and after its removal."""
THREADS_MAX = 4
"""The number of partitions that are processed in parallel. More threads would only wait for the disk."""
_WHAT_NOW = "the next write from Spark finishes what was begun; run this job again only by its txnAppId"

_Wanted = TypeVar("_Wanted")
_Done = TypeVar("_Done")


class PublicationUnfinished(StorageError):
    """Appending failed in the middle. Cure: free disk space; the next write from Spark completes it.

    Do not run a job without an application name again: it would be another publication.
    """


def publish(path: str, job: Job, staged: Iterable[Staged]) -> Published:
    """Append the staged batches, in the order of splits, exactly once; durable on return.

    Raises `LogDirectoryLocked` while another process writes, `PublicationFailed` for a damaged staged file (then
    nothing is in the log), and `PublicationUnfinished` if appending fails in the middle: the next call, with this or
    another application, continues there.
    """
    directory = open_when_published(path)
    try:
        # The intent of a process that died comes first: its records were accepted before ours.
        finish_pending(directory)
        before = find_published(directory.path, job)
        if before is not None:
            remove_staged(directory.path, job.id)
            return before
        intent = intent_of(directory, job, staged)
        # Before the intent is written: from then on every batch must be appended, so a damaged staged file would block
        # all later publications.
        _check(directory, intent)
        put_down(directory.path, intent)
        try:
            published = _carry_out(directory, intent)
        except (StorageError, OSError) as error:
            raise PublicationUnfinished(f"{error}; {_WHAT_NOW}", path=directory.path) from error
        _sweep(directory.path)
        return published
    finally:
        directory.close()


def open_when_published(path: str) -> LogDirectory:
    """Open the log directory for writing; if another publication is running there, wait for its end.

    Raises as `LogDirectory.open`: `LogDirectoryLocked` after `GRACE_SECONDS` if another process holds the directory,
    and after `WAIT_SECONDS` in any case.
    """
    begun = time.monotonic()
    while True:
        try:
            return LogDirectory.open(path)
        except LogDirectoryLocked:
            waited = time.monotonic() - begun
            # A mount holds the directory for days; another publication ends within seconds or minutes.
            is_publication = files.exists(os.path.join(path, INTENT))
            if waited > (WAIT_SECONDS if is_publication else GRACE_SECONDS):
                raise
        time.sleep(0.02)


def withdraw(path: str, job: Job) -> None:
    """Remove the staged files of a job, unless an intent names the job: then it will be published."""
    if read_intent(path).get("id") != job.id:
        remove_staged(path, job.id)


def finish_pending(directory: LogDirectory) -> Published | None:
    """Complete the intent of a process that crashed, if there is one.

    First the intent is rewritten without the completed batches, because others may have written since, and this process
    may crash as well.
    """
    intent = read_intent(directory.path)
    if not intent:
        return None
    if find_published(directory.path, job_of(intent)) is None:
        for name, wanted in intent["partitions"].items():
            _leave_out_what_is_done(directory, directory.log(TopicPartition.parse(name)), wanted)
        put_down(directory.path, intent)
    return _carry_out(directory, intent)


def _leave_out_what_is_done(directory: LogDirectory, log: Log, wanted: dict[str, Any]) -> None:
    batches = batches_of(wanted)
    with contextlib.closing(_Staging(directory.path)) as staging:
        done = _already_there(log, wanted["next"], batches, staging)
    wanted["next"], wanted["batches"] = log.next_offset, wanted["batches"][done:]


def _carry_out(directory: LogDirectory, intent: dict[str, Any]) -> Published:
    """Complete an intent."""
    path, job = directory.path, job_of(intent)
    published = find_published(path, job)
    if published is None:
        published = _append_all(directory, intent)
        note_published(path, job, published)
    remove_staged(path, job.id)
    forget_intent(path)
    return published


def _check(directory: LogDirectory, intent: dict[str, Any]) -> None:
    """Raise `PublicationFailed` for a damaged staged batch, because an intent must be completed once it is written."""
    list(_side_by_side(lambda wanted: _check_batches(directory.path, wanted), intent["partitions"].values()))


def _check_batches(path: str, wanted: dict[str, Any]) -> None:
    with contextlib.closing(_Staging(path)) as staging:
        for file, batch in batches_of(wanted):
            staging.batch(file, batch)


def _append_all(directory: LogDirectory, intent: dict[str, Any]) -> Published:
    """Append the batches of the intent, those of a partition in order; on disk after return."""
    logs = {name: directory.log(TopicPartition.parse(name)) for name in intent["partitions"]}
    spans = _side_by_side(lambda name: _append(directory.path, logs[name], intent["partitions"][name]), logs)
    return Published(intent["records"], dict(zip(logs, spans, strict=True)))


def _append(path: str, log: Log, wanted: dict[str, Any]) -> tuple[int, int]:
    """Append the batches of one partition; return where they begin and end. On disk after return."""
    with contextlib.closing(_Staging(path)) as staging:
        for file, batch in batches_of(wanted):
            log.append(_sealed(staging.batch(file, batch), batch))
    log.flush()
    return wanted["start"], log.next_offset


def _side_by_side(work: Callable[[_Wanted], _Done], wanted: Iterable[_Wanted]) -> Iterator[_Done]:
    """Yield the results of `work` in order; runs it in threads, so that one partition is copied while another waits for
    the disk.
    """
    with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), THREADS_MAX)) as pool:
        yield from pool.map(work, wanted)


def _already_there(log: Log, start: int, batches: list[tuple[str, StagedBatch]], staging: _Staging) -> int:
    """Return how many of the batches are in the log already, at the intended offsets."""
    offsets, offset = [], start
    for _, batch in batches:
        offsets.append(offset)
        offset += batch.count
    # From the end: the batches were appended in order, so the last one that is there decides.
    for number in range(len(batches) - 1, -1, -1):
        if log.log_start_offset <= offsets[number] < log.next_offset:
            present = log.batch_at(offsets[number])
            if present is not None and _is_same(present, offsets[number], staging.batch(*batches[number])):
                return number + 1
    return 0


def _is_same(present: Batch, offset: int, staged: Batch) -> bool:
    """Whether a batch of the log is the staged one, apart from the header fields that the log stamps."""
    return (
        # Offset, count, time and bytes. Leader epoch and append time are not compared, because the log stamps them.
        present.header.base_offset == offset
        and present.header.count == staged.header.count
        and present.header.base_timestamp == staged.header.base_timestamp
        and present.data[BatchBuilder.OVERHEAD_BYTES :] == staged.data[BatchBuilder.OVERHEAD_BYTES :]
    )


def _sealed(batch: Batch, staged: StagedBatch) -> SealedBatch:
    return SealedBatch(batch.data, staged.count, 0, batch.header.max_timestamp, staged.size)


class _Staging:
    """The staged files, opened on demand."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: dict[str, files.File] = {}
        self._buffer = bytearray()

    def batch(self, name: str, where: StagedBatch) -> Batch:
        """Return a staged batch, its checksum verified. It is the caller's until the next one is asked for."""
        if name not in self._opened:
            # The base name only: a planted intent must not lead to a file outside of the directory.
            self._opened[name] = files.open_file(os.path.join(self._path, os.path.basename(name)))
        file = self._opened[name]
        if len(self._buffer) < where.size:
            self._buffer = bytearray(where.size)
        data = memoryview(self._buffer)[: where.size]
        try:
            count = file.read_into(data, where.position)
            batch = read_batch(data[:count], path=file.path, file_position=where.position)
        except StorageError as error:
            raise PublicationFailed(error.reason, path=error.path, position=error.position) from None
        if batch.header.count != where.count or batch.header.size != where.size:
            raise PublicationFailed("another batch than was staged", path=file.path, position=where.position)
        return batch

    def close(self) -> None:
        for file in self._opened.values():
            file.close()


def _sweep(path: str) -> None:
    """Remove staged files, and files of checks, that are so old that no job refers to them."""
    for name in list(_old_files(path, time.time() - SWEEP_SECONDS)):
        files.remove_file(os.path.join(path, name))


def _old_files(path: str, before: float) -> Iterator[str]:
    for name in files.names(path):
        if name.startswith((PREFIX, NONCE_PREFIX)) and files.status(os.path.join(path, name)).st_mtime < before:
            yield name
