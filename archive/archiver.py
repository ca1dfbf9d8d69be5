"""Archives a log directory: uploads what an archive lacks, and publishes a manifest for each partition.

    for each partition, several at a time
        read the newest manifest, and the log as a reader sees it
        upload parts and side objects that are not there     keys have the SHA-256 of the content
        create the manifest with the next number             only if no other archiver has created it: else once more;
                                                             every few hours with what is there

Nothing that readers see changes before the last step, and no object is replaced or deleted. An archiver that is killed
leaves objects that no manifest names; the next one finds them by their keys and does not upload them again.

A partition is archived by one log directory; partitions of other directories are left out (`ownership`).

The directory is only read, beside whatever writes to it. A segment counts as unchanged while its log file has the
inode, size and times of the last run. Of the segment that grows, the bytes after the last run are uploaded; its last
part is compared first, because a log may have been truncated and written again. While a process runs, a partition that
has not changed costs no request.

Segments that retention has removed from the source stay in the archive. If retention was faster than the archiver, the
offsets that no run has seen are missing between them; the run reports that.
"""

from __future__ import annotations

import base64
import errno
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from offsetfs.archive import marker, segment_cut
from offsetfs.archive.archived_objects import UNPUBLISHED_S_MAX, ArchivedObjects
from offsetfs.archive.manifest import ArchivedSegment, PartitionManifest
from offsetfs.archive.numbered_documents import NumberedDocuments, running_s
from offsetfs.archive.object_store import ObjectStore
from offsetfs.archive.ownership import Replica
from offsetfs.archive.segment_upload import ObjectSizes, SegmentUpload
from offsetfs.storage import METADATA_TOPIC, AnyLogDirectory, Log, LogConfig, LogDirectory, LogState, TopicPartition
from offsetfs.storage.directory import log_directory_ids
from offsetfs.storage.errors import InvalidConfig, StorageError

PARTITIONS_AT_ONCE = 8
_TRIES_MAX = 5
"""The tries for a partition: another archiver may publish first, and retention may remove a segment meanwhile."""

_STATE_S = 6 * 3600.0
"""After this time a state with the segments that are there is published: an expiry deletes objects without a state."""

_OTHERS_S = 3600.0
"""The pause before a partition that another directory archives is looked at again."""

DEFAULT_SIZES = ObjectSizes()

OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class ArchiveRun:
    """The result of one run. `failed`: the partitions whose archive is as it was, with the reason."""

    partitions: int = 0
    published: int = 0
    objects: int = 0
    bytes: int = 0
    failed: dict[TopicPartition, Exception] = field(default_factory=dict)
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The offsets [first, end) of a partition that the source deleted before a run has archived them."""
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    """The first offset in the source of each partition that it archives."""
    others: dict[TopicPartition, str] = field(default_factory=dict)
    """The partitions that another log directory archives, and its id. They are left as they are."""
    only_remote: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The offsets [first, end) of a partition that are only in the remote storage of its broker, and in no archive."""


class Archiver:
    """Archives one log directory, or several that are served as one, below a URL. One run at a time."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        store: ObjectStore,
        *,
        takes: Callable[[str], bool] = lambda topic: True,
        checks_all: bool = False,
        takes_over: bool = False,
        sizes: ObjectSizes = DEFAULT_SIZES,
        on_progress: OnProgress = lambda done, total: None,
    ) -> None:
        """`takes` says which topics are archived. With `checks_all` unchanged segments are read and compared too.
        With `takes_over` this directory takes over the partitions that other directories have archived.

        `on_progress` is called in any thread with the bytes of log files that are done in a run, and those of all.
        """
        self.store = store
        self._directory = directory
        self._takes = takes
        self._checks_all = checks_all
        self._takes_over = takes_over
        self._sizes = sizes
        self._clock = directory.directories[0].clock
        self._on_progress = on_progress
        self._objects = ArchivedObjects(store)
        self._newest: dict[TopicPartition, tuple[int, PartitionManifest]] = {}
        self._others: dict[TopicPartition, tuple[float, str]] = {}
        self._topics: dict[str, dict[str, object]] = {}  # as they were published
        self._announced: set[str] = set()  # those that are there, from any directory
        self._ids: dict[str, tuple[str, ...]] = {}
        self._is_marked = False
        self._counting = threading.Lock()
        self._cutting = threading.Lock()  # a cut has several parts in memory, so one at a time
        self._done = self._total = 0

    def run(self, is_stopping: Callable[[], bool] = lambda: False) -> ArchiveRun:
        """Archive each partition once. Ends after the partitions in work when `is_stopping` returns True.

        What is published is durable and visible on return. Errors of one partition are in the result; those of the
        archive as a whole are raised: OSError.
        """
        if not self._is_marked:
            marker.put(self.store)
            self._is_marked = True
        done, before = ArchiveRun(), self._objects.uploaded
        partitions = [
            partition
            for partition in self._directory.partitions()
            if partition.topic != METADATA_TOPIC and self._takes(partition.topic)
        ]
        self._done, self._total = 0, sum(map(self._size_of, partitions))
        self._directory.refresh_config()
        self._publish_topics(partitions, replaces=False)
        with ThreadPoolExecutor(PARTITIONS_AT_ONCE, "archive") as threads:

            def archive(partition: TopicPartition) -> None:
                if is_stopping():
                    return
                try:
                    self._archive(partition, done)
                except (OSError, StorageError) as error:
                    # What was published, and whether readers see it, is not known: the next run reads it again.
                    self._newest.pop(partition, None)
                    with self._counting:
                        done.failed[partition] = error

            for _ in threads.map(archive, partitions):
                pass
        self._publish_topics([partition for partition in partitions if partition in done.starts], replaces=True)
        after = self._objects.uploaded
        done.objects, done.bytes = after[0] - before[0], after[1] - before[1]
        return done

    def directory_ids(self) -> frozenset[str]:
        """Return the ids of the log directories. `InvalidCheckpoint` for a damaged `meta.properties`."""
        return frozenset(name for directory in self._directory.directories for name in self._ids_of(directory))

    def _ids_of(self, directory: LogDirectory) -> tuple[str, ...]:
        if directory.path not in self._ids:
            self._ids[directory.path] = log_directory_ids(directory.path)
        return self._ids[directory.path]

    def close(self) -> None:
        """End the threads of uploads. A second call does nothing."""
        self._objects.close()

    def _size_of(self, partition: TopicPartition) -> int:
        try:
            return self._directory.directory_of(partition).size_of(partition)
        except (OSError, StorageError):
            return 0  # it was deleted

    def _count(self, count: int) -> None:
        with self._counting:
            self._done += count
            done, total = self._done, max(self._done, self._total)
        self._on_progress(done, total)

    # --- topics ------------------------------------------------------------------------------------------------------

    def _publish_topics(self, partitions: Sequence[TopicPartition], *, replaces: bool) -> None:
        """Publish ids and settings of the topics, beside those that are in the archive.

        Those that are there are replaced with `replaces` only: once it is known that this directory archives them.
        """
        firsts = {partition.topic: partition for partition in reversed(partitions)}
        own = {topic: self._topic(first) for topic, first in sorted(firsts.items())}
        if all(
            self._topics.get(topic) == partition if replaces else topic in self._announced
            for topic, partition in own.items()
        ):
            return
        documents = NumberedDocuments(self.store, "")
        for _ in range(_TRIES_MAX):
            newest = documents.newest()
            known = {} if newest is None else dict(newest.content.get("topics", {}))
            wanted = {**known, **own} if replaces else {**own, **known}
            content = {"kind": "directory", "topics": wanted, "time_ms": self._clock.now_ms()}
            if newest is not None and wanted == known:
                documents.repair_copy(newest)
            elif not documents.publish(1 if newest is None else newest.number + 1, content):
                continue
            self._announced.update(own)
            if replaces:
                self._topics.update(own)
            return
        raise _outrun(self.store.url)

    def _topic(self, partition: TopicPartition) -> dict[str, object]:
        settings = self._directory.explicit_settings_of(partition.topic)
        return {"topic_id": self._topic_id(partition), "settings": dict(settings)}

    def _topic_id(self, partition: TopicPartition) -> str:
        topic_id = self._directory.directory_of(partition).topic_id(partition)
        return "" if topic_id is None else base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()

    # --- one partition -----------------------------------------------------------------------------------------------

    def _archive(self, partition: TopicPartition, run: ArchiveRun) -> None:
        """Archive the partition as it is now; in several states if that takes hours."""
        left = self._others.get(partition)
        if left is not None and running_s() < left[0] + _OTHERS_S:
            with self._counting:
                run.others[partition] = left[1]
            return
        documents = NumberedDocuments(self.store, str(partition))
        known = self._newest.get(partition)
        number, previous = self._read(documents, partition, None) if known is None else known
        tries, is_counted = 0, False
        while tries < _TRIES_MAX:
            begun_s = running_s()
            if previous is not None and not self._is_ours(partition, previous):
                self._others[partition] = begun_s, previous.directory
                with self._counting:
                    run.others[partition] = previous.directory
                return
            try:
                start, manifest, is_complete = self._manifest(partition, previous, begun_s + _STATE_S)
            except OSError as error:
                # Retention or compaction removed a segment meanwhile.
                tries += 1
                if error.errno not in (errno.ESTALE, errno.ENOENT) or tries == _TRIES_MAX:
                    raise
                continue
            is_same = previous is not None and _is_same(previous, manifest)
            if running_s() - begun_s > UNPUBLISHED_S_MAX:
                # An expiry may have deleted what no manifest names for so long.
                tries += 1
                reason = f"took more than {UNPUBLISHED_S_MAX / 3600:.0f} hours; run the command again"
                if tries == _TRIES_MAX:
                    raise OSError(errno.ETIMEDOUT, reason, f"{self.store.url}/{partition}")
                continue
            if not is_same and not documents.publish(number + 1, manifest.encoded()):
                tries += 1
                number, previous = self._read(documents, partition, number)
                continue
            lost = None if previous is None or is_same else _lost(previous, manifest, start)
            if not is_same:
                number, previous = number + 1, manifest
            self._newest[partition] = number, previous or manifest
            with self._counting:
                run.partitions += is_complete
                run.starts[partition] = start
                run.published += not is_same and not is_counted
                if lost is not None:
                    run.lost[partition] = lost
                if manifest.only_remote is not None:
                    run.only_remote[partition] = manifest.only_remote
            is_counted = is_counted or not is_same
            if is_complete:
                return
            tries += is_same
        raise _outrun(f"{self.store.url}/{partition}")

    def _read(
        self, documents: NumberedDocuments, partition: TopicPartition, known: int | None
    ) -> tuple[int, PartitionManifest | None]:
        """Return the newest state and its number, 0 and None if there is none; `known`: a number that exists."""
        newest = documents.newest(known)
        if newest is None:
            return 0, None
        documents.repair_copy(newest)
        return newest.number, PartitionManifest.decoded(newest.content, f"{self.store.url}/{partition}", partition)

    def _is_ours(self, partition: TopicPartition, previous: PartitionManifest) -> bool:
        """Whether this directory continues a state. OSError EEXIST, ESTALE if it must not, and that is an error."""
        ids = self.directory_ids()
        if previous.directory in ids:
            return True
        with self._directory.directory_of(partition).borrowed(partition) as log:
            log.refresh(is_forced=True)
            url, topic_id = f"{self.store.url}/{partition}", self._topic_id(partition)
            replica = Replica(url, topic_id, log)
            if self._takes_over:
                if topic_id == previous.topic_id and previous.directory:
                    replica.check_continues(previous, self.store)
                return True
            if replica.is_owner_of(previous):
                return True
            replica.check_silence(previous, self._clock.now_ms())
            return False

    def _manifest(
        self, partition: TopicPartition, previous: PartitionManifest | None, until_s: float
    ) -> tuple[int, PartitionManifest, bool]:
        """Upload, and return the first offset of the source, the next state, and whether it has all of the log.

        Segments that are left at `until_s` are for the state after it.
        """
        with self._directory.directory_of(partition).borrowed(partition) as log:
            log.refresh(is_forced=True)
            topic_id = self._topic_id(partition)
            if previous is not None and previous.topic_id != topic_id:
                previous = None  # the topic was deleted and created again
            self._objects.begin(str(partition), {} if previous is None else previous.objects())
            state = log.state
            sizes = self._sizes if previous is None else replace(self._sizes, block_bytes=previous.block_bytes)
            directory, *_ = self._ids_of(self._directory.directory_of(partition))
            is_taken_over = previous is not None and previous.directory not in ("", *self.directory_ids())
            checks_all = self._checks_all or is_taken_over  # files of another directory say nothing about those here
            older = []
            if previous is not None:
                older = self._older(partition, state, previous, is_taken_over=is_taken_over)
            segments = self._upload(partition, state, previous, sizes, until_s, checks_all=checks_all)
            is_complete = len(segments) == len(state.segments)
            first = segments[0].base_offset
            log_start = previous.log_start if previous is not None and older else state.log_start_offset
            manifest = PartitionManifest(
                partition=partition,
                time_ms=self._clock.now_ms(),
                topic_id=topic_id,
                log_start=log_start,
                end=segments[-1].end,
                segments=(*older, *segments),
                leader_epochs=_epochs(log, previous if older else None, segments[-1].end),
                settings=dict(self._directory.explicit_settings_of(partition.topic)),
                is_policy_known=_is_policy_known(self._directory.directory_of(partition), partition.topic),
                block_bytes=sizes.block_bytes,
                directory=directory,
                only_remote=_only_remote(log, log_start),
            )
            return first, manifest, is_complete

    def _older(
        self, partition: TopicPartition, state: LogState, previous: PartitionManifest, *, is_taken_over: bool
    ) -> list[ArchivedSegment]:
        """Return the archived segments before the first one of the source: retention has removed them there.

        A replica that takes over may begin inside of one, of which the beginning stays.
        """
        first = state.segments.first
        older = [segment for segment in previous.segments if _is_before(segment, first.base_offset)]
        for segment in previous.segments if is_taken_over else ():
            if segment.base_offset < first.base_offset < segment.end:
                with self._cutting:
                    beginning = segment_cut.cut(
                        self._objects,
                        str(partition),
                        segment,
                        first.base_offset,
                        block_bytes=previous.block_bytes,
                        interval_bytes=first.config.index_interval_bytes,
                    )
                older += [] if beginning is None else [beginning]
        return older

    def _upload(
        self,
        partition: TopicPartition,
        state: LogState,
        previous: PartitionManifest | None,
        sizes: ObjectSizes,
        until_s: float,
        *,
        checks_all: bool,
    ) -> list[ArchivedSegment]:
        known = {} if previous is None else {segment.base_offset: segment for segment in previous.segments}
        segments = list(state.segments)
        ends = [*(segment.base_offset for segment in segments[1:]), state.next_offset]
        done = []
        for segment, end in zip(segments, ends, strict=True):
            is_sealed = segment is not segments[-1]
            upload = SegmentUpload(
                self._objects, str(partition), segment, end, is_sealed=is_sealed, sizes=sizes, on_bytes=self._count
            )
            done.append(upload.run(known.get(segment.base_offset), checks_all=checks_all))
            if running_s() > until_s and done[-1] != known.get(segment.base_offset):
                break
        return done


def _is_same(previous: PartitionManifest, manifest: PartitionManifest) -> bool:
    def compared(manifest: PartitionManifest) -> tuple[object, ...]:
        settings = dict(manifest.settings), manifest.is_policy_known
        is_partial = manifest.only_remote is not None  # the range itself moves with the retention in remote storage
        return (
            manifest.segments,
            manifest.log_start,
            manifest.end,
            manifest.leader_epochs,
            settings,
            manifest.topic_id,
            is_partial,
        )

    return compared(previous) == compared(manifest) and previous.directory in ("", manifest.directory)


def _is_policy_known(directory: LogDirectory, topic: str) -> bool:
    """Whether the topic's own settings say what retention keeps, and not what it inherits from a broker."""
    if not directory.knows_policy(topic):
        return False
    try:
        own = LogConfig.from_properties(dict(directory.explicit_settings_of(topic)))
    except InvalidConfig:  # without what it inherits
        return False
    return _policy(own) == _policy(directory.config_of(topic))


def _policy(config: LogConfig) -> tuple[object, ...]:
    return config.is_deleted, config.retention_ms, config.retention_bytes


def _is_before(segment: ArchivedSegment, offset: int) -> bool:
    return segment.base_offset < offset and segment.end <= offset


def _lost(previous: PartitionManifest, manifest: PartitionManifest, start: int) -> tuple[int, int] | None:
    """Return the offsets before `start` that the source deleted since the previous state, before they were archived."""
    archived = max(
        (segment.end for segment in manifest.segments if _is_before(segment, start)), default=previous.log_start
    )
    return (archived, start) if archived < start and previous.end <= start else None


def _only_remote(log: Log, log_start: int) -> tuple[int, int] | None:
    """Return the offsets before `log_start`, where the archive begins, that only remote storage has."""
    start = log.remote_start_offset
    return None if start is None or start >= log_start else (start, log_start)


def _epochs(log: Log, previous: PartitionManifest | None, end: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs of the log, after those of the segments that only the archive has."""
    own = [(epoch, start) for epoch, start in log.epochs.entries if start < end]
    older = [] if previous is None else previous.leader_epochs
    first = own[0] if own else (2**31, end)
    return (*(entry for entry in older if entry[0] < first[0] and entry[1] < first[1]), *own)


def _outrun(url: str) -> OSError:
    return OSError(errno.EAGAIN, f"other archivers published first {_TRIES_MAX} times; run the command again", url)
