"""Archives a log directory: uploads what an archive lacks, and publishes a manifest for each partition.

    for each partition, several at a time
        read the newest manifest, and the log as a reader sees it
        upload parts and side objects that are not there     keys have the SHA-256 of the content
        create the manifest with the next number             only if no other archiver has created it: else once more

Nothing that readers see changes before the last step, and no object is replaced or deleted. An archiver that is killed
leaves objects that no manifest names; the next one finds them by their keys and does not upload them again.

The directory is only read, beside whatever writes to it. A segment counts as unchanged while its log file has the
inode, size and times of the last run. Of the segment that grows, the bytes after the last run are uploaded; its last
part is compared first, because a log may have been truncated and written again.

Segments that retention has removed from the source stay in the archive.
"""

from __future__ import annotations

import base64
import errno
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from offsetfs.archive import numbered_documents
from offsetfs.archive.archived_objects import ArchivedObjects
from offsetfs.archive.manifest import ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import MARKER, Numbered, NumberedDocuments
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.segment_upload import SegmentUpload
from offsetfs.storage import METADATA_TOPIC, AnyLogDirectory, Log, TopicPartition
from offsetfs.storage.errors import StorageError

PARTITIONS_AT_ONCE = 8
_TRIES_MAX = 5
"""How often a partition is tried: another archiver may publish first, and retention may remove a segment meanwhile."""

OnUpload = Callable[[int], None]


@dataclass(slots=True)
class ArchiveRun:
    """What one run did. `failed`: the partitions whose archive is as it was, with the reason."""

    partitions: int = 0
    published: int = 0
    objects: int = 0
    bytes: int = 0
    failed: dict[TopicPartition, Exception] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    """The first offset of each partition in the source."""


class Archiver:
    """Archives one log directory, or several that are served as one, below a URL. One run at a time."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        store: ObjectStore,
        *,
        takes: Callable[[str], bool] = lambda topic: True,
        checks_all: bool = False,
        on_upload: OnUpload = lambda count: None,
    ) -> None:
        """`takes` says which topics are archived. With `checks_all` unchanged segments are read and compared too.

        `on_upload` is called in any thread with the bytes of each upload.
        """
        self.store = store
        self._directory = directory
        self._takes = takes
        self._checks_all = checks_all
        self._clock = directory.directories[0].clock
        self._objects = ArchivedObjects(store, on_upload)
        self._newest: dict[TopicPartition, Numbered] = {}
        self._counting = threading.Lock()

    def prepare(self) -> None:
        """Mark the place as an archive. OSError ENOTEMPTY if something else is there, and the errors of the store."""
        data = self.store.read_if_present(MARKER)
        if data is not None:
            numbered_documents.decoded(data, f"{self.store.url}/{MARKER}")
            return
        found = next(iter(self.store.children()), None)
        if found is not None:
            reason = f"is no archive, and holds {found!r}; give an empty prefix, or the URL of an archive"
            raise OSError(errno.ENOTEMPTY, reason, self.store.url)
        # Of two archivers that begin at the same moment one creates it, and both find it.
        self.store.create(MARKER, numbered_documents.encoded({"kind": "archive"}))

    def run(self, is_stopping: Callable[[], bool] = lambda: False) -> ArchiveRun:
        """Archive each partition once. Ends after the partitions in work when `is_stopping` returns True.

        What is published is durable and visible on return. Errors of one partition are in the result; those of the
        archive as a whole are raised: OSError.
        """
        self.prepare()
        self._objects.forget()
        done = ArchiveRun()
        before = self._objects.uploaded
        partitions = [
            each for each in self._directory.partitions() if each.topic != METADATA_TOPIC and self._takes(each.topic)
        ]
        self._publish_topics({each.topic for each in partitions})
        with ThreadPoolExecutor(PARTITIONS_AT_ONCE, "archive") as threads:

            def archive(partition: TopicPartition) -> None:
                if is_stopping():
                    return
                try:
                    start, is_published = self._archive(partition)
                except (OSError, StorageError) as error:
                    with self._counting:
                        done.failed[partition] = error
                else:
                    with self._counting:
                        done.partitions += 1
                        done.starts[partition] = start
                        done.published += is_published

            for _ in threads.map(archive, partitions):
                pass
        after = self._objects.uploaded
        done.objects, done.bytes = after[0] - before[0], after[1] - before[1]
        return done

    def close(self) -> None:
        """End the threads of uploads. A second call does nothing."""
        self._objects.close()

    # --- topics ------------------------------------------------------------------------------------------------------

    def _publish_topics(self, topics: Collection[str]) -> None:
        documents = NumberedDocuments(self.store, "")
        for _ in range(_TRIES_MAX):
            newest = documents.newest()
            known = {} if newest is None else dict(newest.content.get("topics", {}))
            wanted = {**known, **{topic: self._topic(topic) for topic in sorted(topics)}}
            if newest is not None and wanted == known:
                documents.repair_copy(newest)
                return
            content = {"kind": "directory", "topics": wanted, "time_ms": self._clock.now_ms()}
            if documents.publish(1 if newest is None else newest.number + 1, content):
                return
        raise _lost(self.store.url)

    def _topic(self, topic: str) -> dict[str, object]:
        first = next(each for each in self._directory.partitions() if each.topic == topic)
        return {"topic_id": self._topic_id(first), "settings": dict(self._directory.settings_of(topic))}

    def _topic_id(self, partition: TopicPartition) -> str:
        found = self._directory.directory_of(partition).topic_id(partition)
        return "" if found is None else base64.urlsafe_b64encode(found).rstrip(b"=").decode()

    # --- one partition -----------------------------------------------------------------------------------------------

    def _archive(self, partition: TopicPartition) -> tuple[int, bool]:
        """Archive the partition as it is now; return its first offset, and whether the newest manifest was another."""
        documents = NumberedDocuments(self.store, str(partition))
        for attempt in range(_TRIES_MAX):
            newest = documents.newest(known=self._newest.get(partition))
            previous = None
            if newest is not None:
                previous = PartitionManifest.decoded(newest.content, f"{self.store.url}/{partition}")
                self._newest[partition] = newest
            try:
                start, manifest = self._manifest(partition, previous)
            except OSError as error:
                # Retention or compaction removed a segment meanwhile.
                if error.errno not in (errno.ESTALE, errno.ENOENT) or attempt == _TRIES_MAX - 1:
                    raise
                continue
            if newest is not None and previous is not None and _is_same(previous, manifest):
                documents.repair_copy(newest)
                return start, False
            if documents.publish(1 if newest is None else newest.number + 1, manifest.encoded()):
                self._newest.pop(partition, None)
                return start, True
        raise _lost(f"{self.store.url}/{partition}")

    def _manifest(self, partition: TopicPartition, previous: PartitionManifest | None) -> tuple[int, PartitionManifest]:
        with self._directory.directory_of(partition).borrowed(partition) as log:
            log.refresh(is_forced=True)
            state = log.state
            topic_id = self._topic_id(partition)
            if previous is not None and previous.topic_id != topic_id:
                previous = None  # the topic was deleted and created again
            known = {} if previous is None else {each.base_offset: each for each in previous.segments}
            segments = self._upload(partition, log, known)
            kept = [] if previous is None else _kept(previous.segments, segments)
            is_kept = previous is not None and bool(kept)
            return segments[0].base_offset, PartitionManifest(
                partition=partition,
                time_ms=self._clock.now_ms(),
                topic_id=topic_id,
                log_start=previous.log_start if previous is not None and is_kept else state.log_start_offset,
                end=segments[-1].end,
                segments=(*kept, *segments),
                leader_epochs=_epochs(log, previous if is_kept else None, segments[-1].end),
                settings=dict(self._directory.settings_of(partition.topic)),
            )

    def _upload(
        self, partition: TopicPartition, log: Log, known: Mapping[int, ArchivedSegment]
    ) -> list[ArchivedSegment]:
        state = log.state
        segments = list(state.segments)
        ends = [*(each.base_offset for each in segments[1:]), state.next_offset]
        done = []
        for segment, end in zip(segments, ends, strict=True):
            upload = SegmentUpload(self._objects, str(partition), segment, end, is_sealed=segment is not segments[-1])
            done.append(upload.run(known.get(segment.base_offset), checks_all=self._checks_all))
        return done


def _is_same(previous: PartitionManifest, manifest: PartitionManifest) -> bool:
    def compared(each: PartitionManifest) -> tuple[object, ...]:
        return each.segments, each.log_start, each.end, each.leader_epochs, dict(each.settings), each.topic_id

    return compared(previous) == compared(manifest)


def _kept(archived: Sequence[ArchivedSegment], source: Sequence[ArchivedSegment]) -> list[ArchivedSegment]:
    """Return the archived segments before those of the source: retention has removed them there."""
    first = source[0].base_offset
    kept = [each for each in archived if each.base_offset < first and each.end <= first]
    # Only segments that continue without a gap: what a truncation removed, and was written again, is not one log.
    while kept and kept[-1].end != first:
        kept.pop()
    return kept


def _epochs(log: Log, previous: PartitionManifest | None, end: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of the log, after those of the segments that only the archive has."""
    own = [(epoch, start) for epoch, start in log.epochs.entries if start < end]
    older = [] if previous is None else previous.leader_epochs
    first = own[0] if own else (2**31, end)
    return (*(each for each in older if each[0] < first[0] and each[1] < first[1]), *own)


def _lost(url: str) -> OSError:
    return OSError(errno.EAGAIN, f"other archivers published first {_TRIES_MAX} times; run the command again", url)
