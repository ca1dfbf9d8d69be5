"""Deletes from an archive what retention allows, and never what a manifest that stays names.

    1  newest manifest of each partition: segments that retention.ms or retention.bytes of the topic, or its log start,
       no longer keep are left out of the next one
    2  the copy for readers is that of the newest manifest
    3  numbered manifests older than `keep_states_ms` are deleted from the lowest number on, except the newest one
    4  the manifests are listed again: those that are there stay, whatever the store has answered
    5  objects that none of them names are deleted if they are older than `GRACE_MS`
    6  so is what killed writers have not finished, in a store where that stays (`ObjectStore.unfinished`)

Each state that stays is read once, because what it names must stay: a state for each run that found something new. If
one cannot be read, or a deletion is refused, the steps that follow are left out for this partition.

An expiry that is killed continues with the next run: step 4 begins with a new listing. An archiver uploads before it
publishes; its new objects are younger than the grace, and those that it takes over are named by the manifest that it
has read. The age of objects is that by the clock of the store (`store_time_ms`).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from offsetfs.archive.archived_objects import GRACE_MS, store_time_ms
from offsetfs.archive.manifest import ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import Numbered, NumberedDocuments
from offsetfs.archive.object_store import ObjectInfo, ObjectStore
from offsetfs.storage import LogConfig, TopicPartition
from offsetfs.storage.errors import StorageError

KEEP_STATES_MS_MIN = 24 * 3_600_000
"""The shortest time for which earlier states stay: a reader that runs uses one of them until it looks for the next."""


@dataclass(slots=True)
class Expired:
    """The result of an expiry: deleted objects, and offsets that are no longer in the newest states."""

    objects: int = 0
    bytes: int = 0
    segments: int = 0
    failed: dict[TopicPartition, Exception] = field(default_factory=dict)
    """The partitions that were not expired, or not completely, with the reason. Nothing that a state names is lost."""


def expire(
    store: ObjectStore,
    *,
    keep_states_ms: int,
    takes: Callable[[str], bool] = lambda topic: True,
    starts: Mapping[TopicPartition, int] = MappingProxyType({}),
    without: Container[TopicPartition] = (),
    now_ms: int | None = None,
    grace_ms: int = GRACE_MS,
    is_stopping: Callable[[], bool] = lambda: False,
    directories: Container[str] | None = None,
) -> Expired:
    """Apply retention to the partitions of an archive. What was deleted is gone on return, also of an error.

    `keep_states_ms`: how long earlier states can be restored, at least `KEEP_STATES_MS_MIN`. `takes` says which topics
    are expired. `starts`: the first offsets of the source; what the source has stays, because the next run would upload
    it again. `directories`: names of log directories; partitions that none of them archives stay as they are; None: all
    are expired. Of an early state, which names no directory, `starts` decides. `without`: partitions that are left as
    they are. Ends after the partition in work when `is_stopping` returns True. `now_ms`: None for the store's time.

    Errors of one partition are in the result; those of the archive as a whole are raised: OSError, EINVAL for
    `keep_states_ms`.
    """
    if keep_states_ms < KEEP_STATES_MS_MIN:
        raise OSError(errno.EINVAL, "states are kept for a day at least, because running readers use them", store.url)
    now = store_time_ms(store) if now_ms is None else now_ms
    done = Expired()
    for name in list(store.children()):
        partition = TopicPartition.parse_or_none(name)
        if partition is None:
            continue
        if is_stopping():
            break
        if partition in without or not takes(partition.topic):
            continue
        try:
            newest = _Newest.of(store, partition)
            if newest is None:
                continue
            owner = newest.manifest.directory
            if directories is None or owner in directories or (not owner and partition in starts):
                _expire_partition(store, newest, done, now, keep_states_ms, grace_ms, starts.get(partition))
        except (OSError, StorageError) as error:
            done.failed[partition] = error
    if store.unfinished is not None:
        _delete_old(store, store.objects(store.unfinished), done, now - grace_ms)
    return done


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest state of a partition."""

    documents: NumberedDocuments
    document: Numbered
    manifest: PartitionManifest

    @classmethod
    def of(cls, store: ObjectStore, partition: TopicPartition) -> _Newest | None:
        documents = NumberedDocuments(store, str(partition))
        document = documents.newest()
        if document is None:
            return None
        return cls(
            documents, document, PartitionManifest.decoded(document.content, f"{store.url}/{partition}", partition)
        )


def _expire_partition(
    store: ObjectStore,
    state: _Newest,
    done: Expired,
    now: int,
    keep_states_ms: int,
    grace_ms: int,
    start: int | None,
) -> None:
    documents, newest, manifest = state.documents, state.document, state.manifest
    partition = manifest.partition
    url = f"{store.url}/{partition}"
    documents.repair_copy(newest)  # readers use what it names
    kept = _retained(manifest, now, start)
    if len(kept) < len(manifest.segments):
        shorter = replace(manifest, segments=kept, log_start=max(manifest.log_start, kept[0].base_offset), time_ms=now)
        if not documents.publish(newest.number + 1, shorter.encoded()):
            return  # an archiver has published meanwhile: the next run decides
        done.segments += len(manifest.segments) - len(kept)
    states = documents.listed()
    for number, following in zip(states, list(states)[1:], strict=False):
        # A state was the newest one until the next one was written.
        ended_ms = states[following]
        if number >= newest.number or ended_ms is None or ended_ms >= now - keep_states_ms:
            break
        documents.delete(number)
        done.objects += 1
    named: set[str] = set()
    for number in documents.numbers():
        document = documents.at(number)
        if document is not None:
            named |= PartitionManifest.decoded(document.content, url, partition).objects().keys()
    # Listed after the states were: an object of a state that is published meanwhile is young, or named already.
    listed = [stored for stored in store.objects(f"{partition}/segments") if stored.key not in named]
    _delete_old(store, listed, done, now - grace_ms)


def _delete_old(store: ObjectStore, objects: list[ObjectInfo], done: Expired, before_ms: int) -> None:
    old = [stored for stored in objects if stored.modified_ms is not None and stored.modified_ms < before_ms]
    store.delete([stored.key for stored in old])
    done.objects += len(old)
    done.bytes += sum(stored.size for stored in old)


def _retained(manifest: PartitionManifest, now: int, start: int | None) -> tuple[ArchivedSegment, ...]:
    """Return the segments that retention keeps; the last one always stays. Follows UnifiedLog.deleteOldSegments."""
    if not manifest.is_policy_known:
        return manifest.segments
    config = LogConfig.from_properties(dict(manifest.settings))
    segments = [segment for segment in manifest.segments if start is None or segment.base_offset < start]
    others = manifest.segments[len(segments) :]
    if not config.is_deleted:
        return manifest.segments
    if not others:
        segments, others = segments[:-1], manifest.segments[-1:]
    while segments and segments[0].end <= manifest.log_start:
        segments.pop(0)
    if config.retention_ms >= 0:
        while segments and now - _time_of(segments[0]) > config.retention_ms:
            segments.pop(0)
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in (*segments, *others)) - config.retention_bytes
        while segments and excess >= segments[0].size:
            excess -= segments.pop(0).size
    return (*segments, *others)


def _time_of(segment: ArchivedSegment) -> int:
    return segment.max_time_ms if segment.max_time_ms >= 0 else segment.modified_ms
