"""The journal and the intent of publications from Spark: two small files of a log directory.

    .offsetfs-published.json     the journal: the latest version of each application, and its result
    .offsetfs-publishing.json    the intent: exists from the beginning of a publication to its end

    {"id": …, "application": …, "version": …, "records": …, "partitions": {
        "orders-0": {"start": 100, "next": 100, "batches": [[".offsetfs-staged-…", position, size, count], …]}}}

`start` is the log end at the beginning of the publication, `next` the log end when the intent was written. Brokers
ignore both files. Follows the idea of Delta's txnAppId and txnVersion. `publication` uses them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from offsetfs.pipeline.staging import Staged, StagedBatch
from offsetfs.storage import LogDirectory, TopicPartition, files
from offsetfs.storage.errors import StorageError

JOURNAL = ".offsetfs-published.json"
INTENT = ".offsetfs-publishing.json"
_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class Job:
    """The identity of a publication. The same application with the same or a lower version was published before."""

    id: str
    """Part of the names of staged files; differs at each attempt."""
    application: str
    version: int


@dataclass(frozen=True, slots=True)
class Published:
    """The result of a publication: offsets `[start, end)` of each partition, including records that others appended in
    between.
    """

    records: int
    partitions: Mapping[str, tuple[int, int]]
    is_repeated: bool = False
    """Whether the job had been published before, so that this call published nothing."""

    def fields(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "partitions": {name: list(offsets) for name, offsets in self.partitions.items()},
        }


class PublicationFailed(StorageError):
    """A staged file is not what its task wrote. Cure: run the job again."""


# --- the journal -----------------------------------------------------------------------------------------------------


def find_published(path: str, job: Job) -> Published | None:
    """Return the journal's entry for this version of the application; None if it is not published yet.

    Of a version below the latest one only the fact of its publication is known.
    """
    entry = _read(os.path.join(path, JOURNAL)).get(job.application)
    if not isinstance(entry, dict) or job.version > entry["version"]:
        return None
    # Spark repeats the last micro-batch after a failure and never an older one, so only its latest result is kept.
    if job.version < entry["version"]:
        return Published(0, {}, is_repeated=True)
    partitions = {name: (start, end) for name, (start, end) in entry["partitions"].items()}
    return Published(entry["records"], partitions, is_repeated=True)


def note_published(path: str, job: Job, published: Published) -> None:
    """Add the result to the journal; durable on return."""
    journal = _read(os.path.join(path, JOURNAL))
    journal[job.application] = {"version": job.version, **published.fields()}
    files.replace_file(os.path.join(path, JOURNAL), json.dumps(journal).encode())


# --- the intent ------------------------------------------------------------------------------------------------------


def intent_of(directory: LogDirectory, job: Job, staged: Iterable[Staged]) -> dict[str, Any]:
    """Return the intent to append the staged batches, in the order of splits, at the current ends of the logs."""
    by_partition: dict[TopicPartition, list[tuple[str, StagedBatch]]] = {}
    for piece in sorted(staged, key=lambda part: part.split):
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


def read_intent(path: str) -> dict[str, Any]:
    """Return the intent, {} if there is none. `PublicationFailed` for a file of another program."""
    intent = _read(os.path.join(path, INTENT))
    try:
        if intent:
            job_of(intent)
            int(intent["records"])
            for name, wanted in intent["partitions"].items():
                # The file may be damaged or planted; its names become paths.
                TopicPartition.parse(name)
                int(wanted["start"]), int(wanted["next"]), batches_of(wanted)
    except (KeyError, TypeError, ValueError, AttributeError, StorageError):
        raise PublicationFailed("is not an intent of a publication", path=os.path.join(path, INTENT)) from None
    return intent


def forget_intent(path: str) -> None:
    """Remove the intent; durable on return."""
    files.remove_file(os.path.join(path, INTENT))
    files.sync_directory(path)


def batches_of(wanted: dict[str, Any]) -> list[tuple[str, StagedBatch]]:
    """Return the batches for one partition, each as the name of the staged file and the position in it."""
    return [(name, StagedBatch(*numbers)) for name, *numbers in wanted["batches"]]


def job_of(intent: dict[str, Any]) -> Job:
    """Return the job of an intent."""
    return Job(intent["id"], intent["application"], intent["version"])


def put_down(path: str, intent: dict[str, Any]) -> None:
    """Replace the intent; durable on return."""
    files.replace_file(os.path.join(path, INTENT), json.dumps(intent).encode())


def _read(path: str) -> dict[str, Any]:
    try:
        journal = json.loads(files.read_file(path, _BYTES_MAX))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise PublicationFailed("is not JSON", path=path) from None
    if not isinstance(journal, dict):
        raise PublicationFailed("is not a JSON object", path=path)
    return journal
