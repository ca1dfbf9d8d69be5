"""A log directory: the partitions in it, its lock, its checkpoints.

Follows Kafka's LogManager for one `log.dirs` entry. Partitions are opened when they are first asked for, so that ten
thousand of them cost a listing. After an unclean shutdown all of them are recovered before anything is served.

A directory that is opened for writing and not written to is left as it was: the mark of the clean shutdown goes when
the first change comes, and returns with `close`.
"""

from __future__ import annotations

import json
import os
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    CleanShutdown,
)
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.config import DEFAULTS, LogConfig
from offsetfs.storage.errors import (
    InvalidCheckpoint,
    InvalidName,
    LogFenced,
    NotALogDirectory,
    PartitionExists,
    ReadOnlyLog,
    StorageError,
    UnknownPartition,
)
from offsetfs.storage.lock import DirectoryLock
from offsetfs.storage.log import Log
from offsetfs.storage.log_loader import Opening, open_log
from offsetfs.storage.names import TopicPartition, check_topic
from offsetfs.storage.open_files import Pool
from offsetfs.storage.segment import Segment, SegmentFiles

TOPICS = ".offsetfs-topics.json"
"""Settings per topic, for directories without a broker: {"version": 0, "topics": {topic: {name: value}}}."""

METADATA_TOPIC = "__cluster_metadata"
"""The log of a KRaft controller. It is shown, never written or recovered: that is the controller's."""

OPEN_SEGMENTS_MAX = 128
"""How many sealed segments stay open unless the caller has descriptors for more: each costs three."""

LOOK_AT_STARTS_S = 1.0
_SIGNS = (RECOVERY_POINTS, HIGH_WATERMARKS, META_PROPERTIES, CLEAN_SHUTDOWN, TOPICS)

OnProgress = Callable[[int, int, TopicPartition], None]
"""Called during recovery with partitions done, partitions in all, and the one that comes next."""


class LogDirectory:
    """The partitions of one directory. Use `open`; every method may be called from any thread."""

    def __init__(
        self, path: str, *, read_only: bool, defaults: Mapping[str, str], open_segments_max: int, clock: Clock
    ) -> None:
        self.path = path
        self.clock = clock
        self.read_only = read_only
        self.failed: dict[TopicPartition, Exception] = {}
        self._defaults = LogConfig.from_properties(defaults, DEFAULTS)
        self._lock = DirectoryLock(path)
        self._mutex = threading.RLock()
        self._logs: dict[TopicPartition, Log] = {}
        self._pool: Pool[SegmentFiles] = Pool(open_segments_max)
        self._listing: tuple[int, list[TopicPartition]] = (-1, [])
        self._clean_mark: CleanShutdown | None = None
        self._unclean = False
        self._marked = False
        self._topics: dict[str, dict[str, str]] = {}
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._next_look_at_starts = 0.0
        self._starts_changed = 0
        self._cleaned: Collection[TopicPartition] = ()

    @classmethod
    def open(
        cls,
        path: str,
        *,
        read_only: bool = False,
        defaults: Mapping[str, str] = MappingProxyType({}),
        on_progress: OnProgress | None = None,
        open_segments_max: int = OPEN_SEGMENTS_MAX,
        clock: Clock = SYSTEM,
    ) -> LogDirectory:
        """Open the directory at `path`; for writing under its lock, recovering it when it was not closed cleanly.

        `defaults` are topic settings under Kafka's names. Raises `NotALogDirectory`, `LogDirectoryLocked`,
        `InvalidConfig`, OSError. With `read_only` nothing at all is written, and a broker may be running.
        """
        check_log_directory(path, read_only=read_only)
        directory = cls(
            files.real_path(path),
            read_only=read_only,
            defaults=defaults,
            open_segments_max=open_segments_max,
            clock=clock,
        )
        if not read_only:
            directory._lock.acquire()
        try:
            directory._load(on_progress)
        except BaseException:
            directory._lock.release()
            raise
        return directory

    def _load(self, on_progress: OnProgress | None) -> None:
        self._clean_mark = CleanShutdown.read(self.path)
        self._recovery_points = self._offsets(RECOVERY_POINTS)
        self._log_starts = self._offsets(LOG_STARTS)
        # A broker's settings are in its metadata, not here; but what its cleaner has cleaned is a compacted topic.
        self._cleaned = self._offsets(CLEANER_OFFSETS).keys()
        self._topics = _read_topics(self._file(TOPICS))
        self._unclean = self._clean_mark is None
        if self._unclean and not self.read_only:
            self._recover_all(on_progress)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read_offsets(self._file(name))
        except InvalidCheckpoint:
            return {}  # as Kafka: all recovery points 0, log starts from the first segment. Time, not records.

    def _recover_all(self, on_progress: OnProgress | None) -> None:
        partitions = self.partitions()
        for done, partition in enumerate(partitions):
            if on_progress is not None:
                on_progress(done, len(partitions), partition)
            try:
                self.log(partition)
            except (StorageError, OSError) as error:
                self.failed[partition] = error  # raised again by `log`; its neighbours are served

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    # --- partitions --------------------------------------------------------------------------------------------------

    def partitions(self) -> list[TopicPartition]:
        """Return all partitions, sorted. Costs a listing when the directory has changed."""
        changed = files.status(self.path).st_mtime_ns
        if changed != self._listing[0]:
            self._listing = (changed, sorted(_partitions_in(self.path)))
        return self._listing[1]

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition is there; costs one lstat."""
        if not self.read_only and partition in self._logs:
            return True
        return files.is_directory(self._file(str(partition)))

    def log(self, partition: TopicPartition) -> Log:
        """Return the log of `partition`, opening it when it is first asked for (which may wait for the disk)."""
        log = self._logs.get(partition)
        if log is not None and not log.is_gone:
            return log
        with self._mutex:
            log = self._logs.get(partition)
            if log is None or log.is_gone:
                log = self._logs[partition] = self._open_log(partition)
            return log

    def opened(self, partition: TopicPartition) -> Log | None:
        """Return the log when it is open already; never waits."""
        return self._logs.get(partition)

    def _open_log(self, partition: TopicPartition) -> Log:
        if partition in self.failed:
            raise self.failed[partition]
        if not self.has(partition):
            raise UnknownPartition(f"no partition {partition}", path=self.path)
        config = self.config_of(partition.topic)
        opening = Opening(
            config,
            self._pool,
            recovery_point=self._recovery_points.get(partition, 0),
            log_start=lambda: self._log_start(partition),
            clean=not self._unclean,
            read_only=self.read_only or partition.topic == METADATA_TOPIC,
            is_compacted=config.is_compacted or partition in self._cleaned,
            before_change=self._mark_changed,
            clock=self.clock,
        )
        return open_log(partition, self._file(str(partition)), opening)

    def _log_start(self, partition: TopicPartition) -> int:
        """Return what the checkpoint says, which a running broker writes anew every minute."""
        if self.read_only and self.clock.monotonic() >= self._next_look_at_starts:
            self._next_look_at_starts = self.clock.monotonic() + LOOK_AT_STARTS_S
            changed = _changed_ns(self._file(LOG_STARTS))
            if changed != self._starts_changed:
                self._log_starts, self._starts_changed = self._offsets(LOG_STARTS), changed
        return self._log_starts.get(partition, 0)

    def create_partition(self, partition: TopicPartition, properties: Mapping[str, str] | None = None) -> Log:
        """Make an empty partition; on disk after return. `properties` become settings of the whole topic.

        Raises `PartitionExists`, `InvalidName`, `InvalidConfig`, `ReadOnlyLog`, OSError.
        """
        with self._mutex:
            if self.read_only:
                raise ReadOnlyLog("opened for reading", path=self.path)
            check_topic(partition.topic)
            if self.has(partition):
                raise PartitionExists("the partition exists already", path=self._file(str(partition)))
            if properties:
                self._configure(partition.topic, properties)
            self._mark_changed()
            self._forget(partition)
            self._make(partition)
            return self.log(partition)

    def _forget(self, partition: TopicPartition) -> None:
        """Drop what the checkpoints say of a partition of this name that was removed: the new one begins at 0."""
        known = [offsets.pop(partition, None) for offsets in (self._recovery_points, self._log_starts)]
        if any(known):
            self.checkpoint()

    def _make(self, partition: TopicPartition) -> None:
        path = self._file(str(partition))
        files.make_directory(path)
        Segment.create(path, 0, self.config_of(partition.topic), self._pool, clock=self.clock)
        checkpoint.write_epochs(os.path.join(path, LEADER_EPOCHS), [])
        checkpoint.write_topic_id(os.path.join(path, PARTITION_METADATA), self._topic_id(partition.topic))
        files.sync_directory(path)
        files.sync_directory(self.path)
        self._listing = (-1, [])

    def _topic_id(self, topic: str) -> bytes:
        """All partitions of a topic carry one id, made for the first of them."""
        siblings = [self._file(os.path.join(str(p), PARTITION_METADATA)) for p in self.partitions() if p.topic == topic]
        known = (checkpoint.read_topic_id(path) for path in siblings)
        return next(filter(None, known), None) or uuid.uuid4().bytes

    # --- settings ----------------------------------------------------------------------------------------------------

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of `topic`: its own, over those given to `open`, over Kafka's defaults."""
        return LogConfig.from_properties(self._topics.get(topic, {}), self._defaults)

    def _configure(self, topic: str, properties: Mapping[str, str]) -> None:
        merged = {**self._topics.get(topic, {}), **properties}
        LogConfig.from_properties(merged, self._defaults)
        topics = {**self._topics, topic: merged}
        text = json.dumps({"version": 0, "topics": topics}, indent=1, sort_keys=True) + "\n"
        files.replace_file(self._file(TOPICS), text.encode())
        self._topics = topics

    # --- checkpoints and the end -------------------------------------------------------------------------------------

    def _mark_changed(self) -> None:
        """Take the mark of the clean shutdown away, on disk, before the first change."""
        with self._mutex:
            if self._marked:
                return
            if self._clean_mark is not None:
                CleanShutdown.remove(self.path)
            self._marked = True

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks of the open logs; others keep what they have."""
        if self.read_only or not self._marked:
            return
        with self._mutex:
            logs = [log for log in self._logs.values() if not log.read_only]
            self._recovery_points |= {log.partition: log.recovery_point for log in logs}
            self._log_starts |= {log.partition: log.log_start_offset for log in logs}
            watermarks = self._offsets(HIGH_WATERMARKS) | {log.partition: log.recovery_point for log in logs}
            starts = {p: o for p, o in self._log_starts.items() if not self._is_plain_start(p, o)}
            checkpoint.write_offsets(self._file(RECOVERY_POINTS), self._recovery_points)
            checkpoint.write_offsets(self._file(LOG_STARTS), starts)
            checkpoint.write_offsets(self._file(HIGH_WATERMARKS), watermarks)

    def _is_plain_start(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the first segment's name says the same; Kafka writes only what it does not say."""
        log = self._logs.get(partition)
        return log is not None and log.snapshot().first.base_offset >= offset

    def flush(self) -> None:
        """Make everything appended so far survive power loss. The first failure is raised after all were tried."""
        errors = []
        for log in list(self._logs.values()):
            try:
                log.flush()
            except (OSError, LogFenced) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Flush and close every log, write the checkpoints and the mark of a clean shutdown, release the lock.

        A log that cannot be closed leaves the mark off, so that whoever opens the directory next recovers it; the
        first such error is raised at the end.
        """
        errors: list[Exception] = list(self.failed.values())
        with self._mutex:
            try:
                for log in self._logs.values():
                    _try(log.close, errors)
                _try(self.checkpoint, errors)
                errors += [log.fenced for log in self._logs.values() if log.fenced is not None]
                if self._marked and not errors:
                    (self._clean_mark or CleanShutdown()).write(self.path)
            finally:
                self._logs.clear()
                self._pool.clear()
                self._lock.release()
        if len(errors) > len(self.failed):
            raise errors[len(self.failed)]


def check_log_directory(path: str, *, read_only: bool) -> None:
    """Raise `NotALogDirectory` unless `path` is a directory that holds a log directory, or nothing at all."""
    try:
        entries = files.names(path)
    except FileNotFoundError:
        raise NotALogDirectory("there is no such directory", path=path) from None
    except NotADirectoryError:
        raise NotALogDirectory("is not a directory", path=path) from None
    if any(name in _SIGNS for name in entries) or any(_holds_a_log(path, name) for name in entries):
        return
    if [name for name in entries if name not in (".lock", "lost+found")]:
        raise NotALogDirectory("holds neither partitions (orders-0) nor Kafka's checkpoints", path=path)
    if read_only:
        raise NotALogDirectory("is empty", path=path)


def _is_partition(name: str) -> bool:
    try:
        TopicPartition.parse(name)
    except InvalidName:
        return False
    return True


def _holds_a_log(path: str, name: str) -> bool:
    """Whether `name` is called like a partition and is one: a .log file in it, or nothing yet."""
    partition = os.path.join(path, name)
    if not _is_partition(name) or not files.is_directory(partition):
        return False
    names = files.names(partition)
    return not names or any(file.endswith(".log") for file in names)


def _partitions_in(path: str) -> list[TopicPartition]:
    """Return what parses as a partition; directories being deleted or moved (`….<uuid>-delete`) do not."""
    return [TopicPartition.parse(name) for name in files.directory_names(path) if _is_partition(name)]


def _read_topics(path: str) -> dict[str, dict[str, str]]:
    try:
        content = json.loads(files.read_file(path))
        topics: dict[str, dict[str, str]] = content["topics"]
        for topic, properties in topics.items():
            check_topic(topic)
            LogConfig.from_properties(properties, DEFAULTS)
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidCheckpoint(f"no settings of topics: {error}; mend or remove it", path=path) from error
    return topics


def _changed_ns(path: str) -> int:
    try:
        return files.status(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def _try(action: Callable[[], None], errors: list[Exception]) -> None:
    try:
        action()
    except (StorageError, OSError) as error:
        errors.append(error)
