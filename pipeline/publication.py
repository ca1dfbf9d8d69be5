"""Publishing what tasks have staged: every record once, whatever dies when.

    1. the journal already has this version of this application: the staged files go, the old answer is given
    2. an intent, on disk: which staged batches go where, and where each log ended
    3. the batches are appended to the logs, and synced
    4. the journal has the result, on disk; then the staged files go, the intent last

All under the lock of the log directory, so nobody else writes meanwhile. Whoever dies between 2 and 4 has left an
intent, which the next publication carries out before its own: a batch counts as appended when it lies at the offset it
was meant for, with the same bytes; the intent is put down anew without those, and what is missing goes behind whatever
others have written since. Readers see a publication grow, batch by batch; what `publish` has returned is on disk.

    .offsetfs-published.json     the latest version of each application, and its result
    .offsetfs-publishing.json    the intent
    .offsetfs-staged-…           files of tasks

Kafka steps over all of them. Follows the idea of Delta's txnAppId and txnVersion.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from offsetfs.pipeline.staging import PREFIX, Staged, StagedBatch, remove_staged
from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.batch import HEADER_SIZE, Batch, read_batch
from offsetfs.storage.records.batch_builder import SealedBatch

JOURNAL = ".offsetfs-published.json"
INTENT = ".offsetfs-publishing.json"
SWEEP_SECONDS = 7 * 24 * 3600
"""How old a staged file is when nobody can mean it any more."""
_JOURNAL_BYTES_MAX = 1 << 30
_WHAT_NOW = "the next write from Spark finishes what was begun; run this job again only by its txnAppId"


@dataclass(frozen=True, slots=True)
class Job:
    """Who publishes. What has the same application and no higher version was published before."""

    id: str
    """Told by the names of staged files; another one at each attempt."""
    application: str
    version: int


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication came to: offsets `[start, end)` of each partition, without what others wrote in between."""

    records: int
    partitions: Mapping[str, tuple[int, int]]
    is_repeated: bool = False
    """Whether it had been published before, and nothing was done."""

    def fields(self) -> dict[str, Any]:
        return {"records": self.records, "partitions": {name: list(each) for name, each in self.partitions.items()}}


class PublicationFailed(StorageError):
    """A staged file is not what its task wrote. Cure: run the job again."""


class PublicationUnfinished(StorageError):
    """Appending ended in the middle. Cure: none but room on the disk; the next write from Spark finishes it.

    A job without an application's name is not to be run again: it would be another one.
    """


def publish(path: str, job: Job, staged: Iterable[Staged]) -> Published:
    """Append what the tasks have staged, in the order of splits, once and for all; on disk after return.

    Raises `LogDirectoryLocked` while somebody else writes, and `PublicationUnfinished` where appending ends in the
    middle: a second call with the same application and version, or any other, goes on there.
    """
    directory = LogDirectory.open(path)
    try:
        finish_pending(directory)
        before = find_published(directory.path, job)
        if before is not None:
            remove_staged(directory.path, job.id)
            return before
        intent = _intent(directory, job, staged)
        _put_down(directory.path, intent)
        try:
            published = _carry_out(directory, intent)
        except (StorageError, OSError) as error:
            raise PublicationUnfinished(f"{error}; {_WHAT_NOW}", path=directory.path) from error
        _sweep(directory.path)
        return published
    finally:
        directory.close()


def withdraw(path: str, job: Job) -> None:
    """Remove what the tasks of a job have staged, unless an intent names it: then it will be published."""
    intent = _read(os.path.join(path, INTENT))
    if intent.get("id") != job.id:
        remove_staged(path, job.id)


def find_published(path: str, job: Job) -> Published | None:
    """Return what the journal says of this version of the application, None when it is yet to be published.

    Of a version below the latest one nothing but its having been published is known.
    """
    found = _read(os.path.join(path, JOURNAL)).get(job.application)
    if not isinstance(found, dict) or job.version > found["version"]:
        return None
    if job.version < found["version"]:
        return Published(0, {}, is_repeated=True)
    partitions = {name: (start, end) for name, (start, end) in found["partitions"].items()}
    return Published(found["records"], partitions, is_repeated=True)


def finish_pending(directory: LogDirectory) -> Published | None:
    """Carry out the intent that somebody left who died, if there is one.

    First it is put down anew, without what is done: others may have written since, and whoever carries it out may die
    as well.
    """
    intent = _read_intent(directory.path)
    if not intent:
        return None
    if find_published(directory.path, _job_of(intent)) is None:
        for name, wanted in intent["partitions"].items():
            _leave_out_what_is_done(directory, directory.log(TopicPartition.parse(name)), wanted)
        _put_down(directory.path, intent)
    return _carry_out(directory, intent)


def _read_intent(path: str) -> dict[str, Any]:
    """Return the intent, {} when there is none. `PublicationFailed` for anything that we did not write."""
    intent = _read(os.path.join(path, INTENT))
    try:
        if intent:
            _job_of(intent)
            int(intent["records"])
            for name, wanted in intent["partitions"].items():
                TopicPartition.parse(name)
                int(wanted["start"]), int(wanted["next"]), _batches_of(wanted)
    except (KeyError, TypeError, ValueError, AttributeError, StorageError):
        raise PublicationFailed("is no intent of a publication", path=os.path.join(path, INTENT)) from None
    return intent


def _leave_out_what_is_done(directory: LogDirectory, log: Log, wanted: dict[str, Any]) -> None:
    batches = _batches_of(wanted)
    with contextlib.closing(_Staging(directory.path)) as staging:
        done = _already_there(log, wanted["next"], batches, staging)
    wanted["next"], wanted["batches"] = log.next_offset, wanted["batches"][done:]


def _batches_of(wanted: dict[str, Any]) -> list[tuple[str, StagedBatch]]:
    return [(name, StagedBatch(*numbers)) for name, *numbers in wanted["batches"]]


def _job_of(intent: dict[str, Any]) -> Job:
    return Job(intent["id"], intent["application"], intent["version"])


def _put_down(path: str, intent: dict[str, Any]) -> None:
    files.replace_file(os.path.join(path, INTENT), json.dumps(intent).encode())


def _read(path: str) -> dict[str, Any]:
    try:
        found = json.loads(files.read_file(path, _JOURNAL_BYTES_MAX))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise PublicationFailed("is no JSON", path=path) from None
    if not isinstance(found, dict):
        raise PublicationFailed("is no JSON object", path=path)
    return found


# --- the intent ------------------------------------------------------------------------------------------------------


def _intent(directory: LogDirectory, job: Job, staged: Iterable[Staged]) -> dict[str, Any]:
    by_partition: dict[TopicPartition, list[tuple[str, StagedBatch]]] = {}
    for piece in sorted(staged, key=lambda each: each.split):
        for partition, batches in piece.batches.items():
            assert piece.path is not None
            name = os.path.basename(piece.path)
            by_partition.setdefault(partition, []).extend((name, batch) for batch in batches)
    return {
        "id": job.id,
        "application": job.application,
        "version": job.version,
        "records": sum(batch.count for batches in by_partition.values() for _, batch in batches),
        "partitions": {
            str(partition): {
                "start": directory.log(partition).next_offset,
                "next": directory.log(partition).next_offset,
                "batches": [[name, batch.position, batch.size, batch.count] for name, batch in batches],
            }
            for partition, batches in sorted(by_partition.items())
        },
    }


def _carry_out(directory: LogDirectory, intent: dict[str, Any]) -> Published:
    """Do what the intent says."""
    path, job = directory.path, _job_of(intent)
    published = find_published(path, job)
    if published is None:
        published = _append_all(directory, intent)
        journal = _read(os.path.join(path, JOURNAL))
        journal[job.application] = {"version": job.version, **published.fields()}
        files.replace_file(os.path.join(path, JOURNAL), json.dumps(journal).encode())
    remove_staged(path, job.id)
    files.remove_file(os.path.join(path, INTENT))
    files.sync_directory(path)
    return published


def _append_all(directory: LogDirectory, intent: dict[str, Any]) -> Published:
    """Append the batches of the intent, in order; on disk after return."""
    ends, logs = {}, []
    with contextlib.closing(_Staging(directory.path)) as staging:
        for name, wanted in intent["partitions"].items():
            log = directory.log(TopicPartition.parse(name))
            for file, batch in _batches_of(wanted):
                log.append(_sealed(staging.batch(file, batch), batch))
            logs.append(log)
            ends[name] = (wanted["start"], log.next_offset)
    for log in logs:
        log.flush()
    return Published(intent["records"], ends)


def _already_there(log: Log, start: int, batches: list[tuple[str, StagedBatch]], staging: _Staging) -> int:
    """Return how many of the batches are in the log already, where they were meant to be."""
    offsets, offset = [], start
    for _, batch in batches:
        offsets.append(offset)
        offset += batch.count
    for number in range(len(batches) - 1, -1, -1):
        if log.log_start_offset <= offsets[number] < log.next_offset:
            found = log.batch_at(offsets[number])
            if found is not None and _is_same(found, offsets[number], staging.batch(*batches[number])):
                return number + 1
    return 0


def _is_same(found: Batch, offset: int, staged: Batch) -> bool:
    """Whether a batch of the log is the staged one; what a log stamps into a header is left aside."""
    return (
        found.header.base_offset == offset
        and found.header.count == staged.header.count
        and found.header.base_timestamp == staged.header.base_timestamp
        and found.data[HEADER_SIZE:] == staged.data[HEADER_SIZE:]
    )


def _sealed(batch: Batch, staged: StagedBatch) -> SealedBatch:
    return SealedBatch(memoryview(bytearray(batch.data)), staged.count, 0, batch.header.max_timestamp, staged.size)


class _Staging:
    """The staged files, opened as they are asked for."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened: dict[str, files.File] = {}

    def batch(self, name: str, where: StagedBatch) -> Batch:
        """Return a staged batch, its checksum verified."""
        if name not in self._opened:
            self._opened[name] = files.open_file(os.path.join(self._path, os.path.basename(name)))
        file = self._opened[name]
        try:
            found = read_batch(file.read(where.position, where.size), path=file.path, file_position=where.position)
        except StorageError as error:
            raise PublicationFailed(error.reason, path=error.path, position=error.position) from None
        if found.header.count != where.count or found.header.size != where.size:
            raise PublicationFailed("another batch than was staged", path=file.path, position=where.position)
        return found

    def close(self) -> None:
        for file in self._opened.values():
            file.close()


def _sweep(path: str) -> None:
    """Remove staged files so old that their job is gone."""
    for name in list(_old_files(path, time.time() - SWEEP_SECONDS)):
        files.remove_file(os.path.join(path, name))


def _old_files(path: str, before: float) -> Iterator[str]:
    for name in files.names(path):
        if name.startswith(PREFIX) and files.status(os.path.join(path, name)).st_mtime < before:
            yield name
