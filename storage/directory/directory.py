"""A log directory: its partitions, its lock, their settings and checkpoints.

Follows Kafka's LogManager for one entry of `log.dirs`. Logs are opened on first use, so that opening a directory with
ten thousand partitions costs one listing. After an unclean shutdown all logs are recovered before any is served.

A directory that is opened for writing but not changed stays as it was: the clean shutdown file is removed before the
first change, and `close` writes it again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsetfs.storage import checkpoint, files
from offsetfs.storage.checkpoint import META_PROPERTIES
from offsetfs.storage.clock import SYSTEM, CautiousClock, Clock
from offsetfs.storage.cluster import metadata_log
from offsetfs.storage.directory import partition_directories, unfinished_files
from offsetfs.storage.directory.directory_checkpoints import CleanShutdownMarker, DirectoryCheckpoints
from offsetfs.storage.directory.directory_listing import (
    FUTURE,
    check_log_directory,
    log_bytes_in,
    partitions_in,
    partitions_of,
    sorted_partitions,
)
from offsetfs.storage.directory.flusher import Flusher, LogChange, OnLogChange
from offsetfs.storage.directory.inherited_settings import NO_BROKER, BrokerContext, InheritedSettings
from offsetfs.storage.directory.live_settings import LiveSettings
from offsetfs.storage.directory.mirror_file import MirrorFile
from offsetfs.storage.directory.open_logs import OpenLogs
from offsetfs.storage.directory.pending_recoveries import PendingRecoveries
from offsetfs.storage.errors import (
    InvalidCheckpoint,
    LogFailed,
    PartitionExists,
    ReadOnlyLog,
    StorageError,
    UnknownPartition,
)
from offsetfs.storage.lock import DirectoryLock
from offsetfs.storage.names import METADATA_TOPIC, TopicPartition, parse_segment_name
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.partition.log import Damage, Log
from offsetfs.storage.partition.log_parts import LogContext
from offsetfs.storage.partition.log_state import remote_note
from offsetfs.storage.partition.unsynced import Unsynced
from offsetfs.storage.recovery.log_loader import OpenOptions, open_log
from offsetfs.storage.recovery.recover_all import OnRecovery, bytes_to_verify, recover_all
from offsetfs.storage.recovery.recovery import OnBytes
from offsetfs.storage.segments.deletions import Deletions
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import FULL
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.settings.directory_config import DIRECTORY_DEFAULTS, DirectoryConfig
from offsetfs.storage.settings.topic_settings import Changes, TopicSettings

if TYPE_CHECKING:
    from offsetfs.storage.security.security_store import SecurityStore


@dataclasses.dataclass(frozen=True, slots=True)
class DirectoryAccess:
    """How a process uses a directory, beside reading or writing."""

    open_segments_max: int = 128
    """The number of sealed segments that stay open. Each uses three descriptors."""
    shows_log_end: bool = False
    """Whether a reader is shown the records above the high watermark."""
    flushes: bool = True
    """Whether logs are synced by `flush.messages` and `flush.ms` (`flusher`); otherwise that is left to the caller."""
    topics: frozenset[str] | None = None
    """The topics that a reader is shown; None: all."""


DEFAULT_ACCESS = DirectoryAccess()

_UNKNOWN: tuple[int, Sequence[TopicPartition]] = -1, sorted_partitions(())
"""The listing of a directory that must be listed again: its modification time, and its partitions."""


class LogDirectory(OpenLogs):
    """The partitions of one directory. Use `open`; all methods are thread-safe."""

    def __init__(
        self,
        path: str,
        *,
        read_only: bool,
        defaults: Mapping[str, str],
        clock: Clock,
        config: DirectoryConfig,
        broker: BrokerContext,
        access: DirectoryAccess,
    ) -> None:
        super().__init__()
        self.path = path
        self.clock = clock
        self.cautious_clock = CautiousClock(clock)
        """The clock for retention and compaction. It does not trust a sudden jump ahead."""
        self.read_only = read_only
        self.is_closed = False
        """Whether a directory that was open for writing was closed. Then it is read-only."""
        self._closing = threading.RLock()  # a signal handler may close, too
        self._pending = PendingRecoveries(clock, self._recover, lambda: files.free_bytes(path))
        self._failed_creations: dict[
            TopicPartition, OSError
        ] = {}  # partitions whose creation failed and could not be undone
        self.deletions = Deletions(clock)
        """Files and directories that were renamed for removal; `run_due` removes them after their delay."""
        self._lock = DirectoryLock(path)
        self.closing: list[Callable[[], None]] = []
        """Called when the directory is closed, before its logs, to close objects that use the logs."""
        self._damage_subscribers: list[OnDamage] = []
        self._change_subscribers: list[OnLogChange] = []
        # One pool for all partitions, so that the limit of open files bounds speed and not the number of partitions.
        self._pool: FilePool[SegmentFiles] = FilePool(access.open_segments_max, finds_held=True)
        self._listing: tuple[int, Sequence[TopicPartition]] = _UNKNOWN
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self.metadata = metadata_log.open_beside(path, broker.metadata_directory, clock)
        """The metadata log of the cluster; None if none lies beside the data and none was given."""
        self.inherited = InheritedSettings(self.metadata, metadata_log.node_id(path), broker=broker, given=defaults)
        self.config = DirectoryConfig.from_properties(self.inherited.layers.directory, config)
        self._is_bounded = read_only and not access.shows_log_end
        self._topics_shown = access.topics
        self._flusher: Flusher | None = None
        if access.flushes and not read_only:
            self._flusher = Flusher(clock, self.opened, self.config.log_flush_scheduler_interval_ms)
            self.subscribe_changes(self._flusher.changed)

    @classmethod
    def open(
        cls,
        path: str,
        *,
        read_only: bool = False,
        defaults: Mapping[str, str] = MappingProxyType({}),
        on_progress: OnRecovery | None = None,
        clock: Clock = SYSTEM,
        config: DirectoryConfig = DIRECTORY_DEFAULTS,
        broker: BrokerContext = NO_BROKER,
        access: DirectoryAccess = DEFAULT_ACCESS,
    ) -> LogDirectory:
        """Open the directory at `path`. For writing, take its lock, and recover its logs if it was not closed cleanly.

        `defaults` are topic settings under Kafka's names, `config` the settings of the whole directory. See
        `inherited_settings` for their order, and for the settings of `broker` and of the metadata log.

        With `read_only` nothing is written, and a broker may be running. Then partitions that have several replicas,
        according to the metadata log, end at the high watermark unless `access.shows_log_end` is set.

        Raises `NotALogDirectory`, `LogDirectoryLocked`, `InvalidConfig`, OSError.
        """
        check_log_directory(path, read_only=read_only)
        directory = cls(
            files.real_path(path),
            read_only=read_only,
            defaults=defaults,
            clock=clock,
            config=config,
            broker=broker,
            access=access,
        )
        if not read_only:
            # The lock comes before the first look at the files: what a running writer has half done must not be taken
            # for a crash.
            directory._lock.acquire()
        try:
            directory._load(on_progress)
        except BaseException:
            directory._lock.release()
            raise
        return directory

    @functools.cached_property
    def security(self) -> SecurityStore:
        """SCRAM credentials and ACLs, read with the first access; `InvalidSecurityFile`, OSError."""
        # Imported here, because only brokers have clients that log in.
        from offsetfs.storage.security.security_store import SecurityStore

        return SecurityStore(self.path, self.metadata, read_only=self.read_only)

    @property
    def directories(self) -> tuple[LogDirectory]:
        """Return this directory alone. Objects over several directories also work with a single one."""
        return (self,)

    def directory_of(self, partition: TopicPartition) -> LogDirectory:
        """Return this directory; `UnknownPartition` if it does not have the partition."""
        if not self.has(partition):
            raise UnknownPartition(f"no partition {partition}", path=self.path)
        return self

    def _load(self, on_progress: OnRecovery | None) -> None:
        self._mirror: MirrorFile | None = self._read_mirror()
        self._mark = CleanShutdownMarker(self.path)
        self.checkpoints = DirectoryCheckpoints(self.path, read_only=self.read_only, clock=self.clock)
        self.settings = LiveSettings(
            TopicSettings(self.path, clock=self.clock, inherited=self.inherited.layers.inherited()),
            self.inherited,
            self.open_logs,
            self.checkpoints.is_cleaned,
        )
        # At EMFILE any open of this process may close idle files of this directory.
        files.reclaim_with(self.close_idle_files)
        self.is_brokers = self.metadata is not None or files.exists(self._file(META_PROPERTIES))
        """Whether a broker has used the directory: it has `meta.properties`, or a cluster's metadata log."""
        if self.read_only:
            return
        files.trust(self.path)
        files.sync_directory(
            self.path
        )  # a process that crashed before its sync never reported a new name as durable; this one may
        # The queue of removals does not survive the process, as in Kafka (LogManager.addLogToBeDeleted at startup).
        for leftover in partition_directories.deleted_directories(self.path):
            self._remove_later(leftover, self.inherited.layers.inherited().defaults.file_delete_delay_ms)
        # Before a thread of this process writes files of the same names.
        remove_unfinished = unfinished_files.removal(self.path)
        if self._mark.was_present:
            self._mark.on_first_change = remove_unfinished
        else:
            remove_unfinished()
        # All logs before the first is served: recovering one removes the mark, and the others would then look cleanly
        # closed.
        if not self._mark.was_present:
            self._recover_all(on_progress)

    def _read_mirror(self) -> MirrorFile | None:
        try:
            return MirrorFile.read(self.path)
        except InvalidCheckpoint:
            if self.read_only:
                return None
            raise  # an append to a mirrored topic would take the offsets of the next records of the source

    @property
    def mirror(self) -> MirrorFile | None:
        """The file of a mirror; None if the directory is not a mirror of a cluster, or the file cannot be read."""
        return self._mirror

    def mirrors(self, topic: str) -> bool:
        """Whether the records of a topic are those of a cluster, so that no others can be appended."""
        return self._mirror is not None and topic in self._mirror.topics

    def set_mirror(self, mirror: MirrorFile) -> None:
        """Record what the directory mirrors; durable on return. For logs that are not open yet. `ReadOnlyLog`, OSError.

        A topic must be in it before its partitions are created: records of another origin must never be continued.
        """
        self._check_writable()
        self._mark.before_change()
        mirror.write(self.path)
        self._mirror = mirror

    def _recover_all(self, on_progress: OnRecovery | None) -> None:
        """Recover all logs in parallel. A partition that cannot be recovered is served read-only."""
        threads = self.config.num_recovery_threads_per_data_dir
        sizes = {partition: self._bytes_to_verify(partition) for partition in self.partitions()}
        failed = recover_all(sizes, self._recover, threads=threads, on_progress=on_progress)
        for partition, cause in failed.items():
            self._pending.add(partition, cause)
        with contextlib.suppress(OSError):  # a full disk: without the checkpoint the next recovery repeats the work
            self.checkpoint()

    def _recover(self, partition: TopicPartition, on_bytes: OnBytes = lambda count: None) -> None:
        self._put(open_log(partition, self._file(str(partition)), self._open_options(partition, on_bytes)))

    def _bytes_to_verify(self, partition: TopicPartition) -> int:
        if partition.topic == METADATA_TOPIC:
            return 0
        return bytes_to_verify(self._file(str(partition)), self.checkpoints.recovery_point(partition))

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    # --- partitions --------------------------------------------------------------------------------------------------

    def partitions(self) -> Sequence[TopicPartition]:
        """Return all partitions, sorted. Costs a listing if the directory has changed."""
        # A listing of ten thousand partitions takes milliseconds, and the mount asks at every look-up of a name.
        changed = files.status(self.path).st_mtime_ns
        if changed != self._listing[0]:
            partitions = sorted_partitions(filter(self._is_shown, partitions_in(self.path)))
            # Where this process alone changes partitions, the object is the same until they change: checkpoints change
            # the directory as well. Another process may delete a partition and create it again between two calls.
            self._listing = (
                changed,
                self._listing[1] if partitions == self._listing[1] and not self.read_only else partitions,
            )
        return self._listing[1]

    def _is_shown(self, partition: TopicPartition) -> bool:
        return self._topics_shown is None or partition.topic in self._topics_shown

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, sorted; costs a search in `partitions`."""
        return partitions_of(self.partitions(), topic)

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition exists; costs one lstat."""
        if not self.read_only and self.opened(partition) is not None:
            return True
        return self._is_shown(partition) and files.is_directory(self._file(str(partition)))

    def future_of(self, partition: TopicPartition) -> str | None:
        """Return the path of the copy that a move of the partition to this directory fills, or None.

        Kafka names it `<partition>.<uuid>-future` (KIP-113). Costs a listing of the directory.
        """
        matches = (FUTURE.match(name) for name in files.directory_names(self.path))
        return next((self._file(name[0]) for name in matches if name and name["partition"] == str(partition)), None)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        """Return the 16 bytes of the topic id in the partition's `partition.metadata`; None without such a file."""
        topic_id = self._topic_ids.get(partition)
        if topic_id is None:
            path = os.path.join(self._file(str(partition)), checkpoint.PARTITION_METADATA)
            topic_id = checkpoint.read_topic_id(path)
            if topic_id is not None and not self.read_only:  # another process may create the partition again
                self._topic_ids[partition] = topic_id
        return topic_id

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the latest leader epoch of a partition, without opening its log; -1 if unknown."""
        log = self.opened(partition)
        if log is not None and not log.is_gone:
            return log.leader_epoch
        try:
            epochs = checkpoint.read_epochs(os.path.join(self._file(str(partition)), checkpoint.LEADER_EPOCHS))
        except InvalidCheckpoint:  # opening the log reports it
            return -1
        return epochs[-1][0] if epochs else -1

    def size_of(self, partition: TopicPartition) -> int:
        """Return the bytes in all `.log` files of a partition, without opening its log. OSError if it is gone."""
        log = self.opened(partition)
        if log is not None and not log.is_gone and not self.read_only:
            return log.size_bytes
        return log_bytes_in(self._file(str(partition)))

    def space(self) -> tuple[int, int]:
        """Return the size and the free bytes of the file system of the directory."""
        return files.total_bytes(self.path), files.free_bytes(self.path)

    def writable_log(self, partition: TopicPartition) -> Log:
        """Return the log for a writer. If its recovery failed before, it is recovered now, which may take long.

        Raises as `log`, and the error that prevents recovery: ENOSPC or another OSError, or `UnrecoveredLog`.
        """
        if partition in self._pending.causes:
            self._pending.try_again(partition)
        log = self.log(partition)
        if log.unrecovered is not None:
            raise log.refusal()
        return log

    @property
    def failed(self) -> Mapping[TopicPartition, Exception]:
        """The partitions that could not be recovered, each with the cause; `log` returns them read-only."""
        return dict(self._pending.causes)  # a copy, because another thread may recover one

    @property
    def pending_recoveries(self) -> PendingRecoveries:
        """The partitions that could not be recovered, with the times of the next attempts."""
        return self._pending

    def _open_log(self, partition: TopicPartition) -> Log:
        failure = self._failed_creations.get(partition)
        if failure is not None:
            raise OSError(failure.errno, "the partition could not be created", self._file(str(partition)))
        if not self.has(partition):
            raise UnknownPartition(f"no partition {partition}", path=self.path)
        options = self._open_options(partition)
        if partition not in self._pending.causes:
            try:
                return open_log(partition, self._file(str(partition)), options)
            except OSError as error:
                # A recovery needs free space for what it keeps. Without it the partition is readable, and recovered
                # later; an error that was stored for good kept a mount unreadable after space had been freed.
                if self.read_only or error.errno not in FULL:
                    raise
                self._pending.add(partition, error)
        return self._open_unrecovered(partition, options)

    def _open_unrecovered(self, partition: TopicPartition, options: OpenOptions) -> Log:
        cause = self._pending.causes[partition]
        try:
            options = dataclasses.replace(options, read_only=True, unrecovered=cause)
            return open_log(partition, self._file(str(partition)), options)
        except (StorageError, OSError) as error:
            raise (cause if isinstance(cause, StorageError) else error) from None

    def _open_options(self, partition: TopicPartition, on_bytes: OnBytes = lambda count: None) -> OpenOptions:
        config = self.config_of(partition.topic)
        return OpenOptions(
            config,
            self._pool,
            recovery_point=self.checkpoints.recovery_point(partition),
            has_recovery_point=self.checkpoints.has_recovery_point(partition),
            log_start=lambda: self.checkpoints.log_start(partition),
            remote_start=functools.partial(self._remote_start, partition),
            high_watermark=lambda: self._high_watermark(partition),
            clean=self._mark.was_present,
            read_only=self.read_only or self._is_ending or partition.topic == METADATA_TOPIC,
            is_compacted=self.settings.is_compacted(partition),
            # A broker writes no recovery point before its first gap of compaction, so in its logs a gap proves no loss.
            is_brokers=self.is_brokers
            or not self.settings.topics.is_known(partition.topic)
            or self.mirrors(partition.topic),  # gaps are those of the source
            on_bytes=on_bytes,
            context=self._context_of(partition),
        )

    def _remote_start(self, partition: TopicPartition, first_offset: int) -> int | None:
        """Return where a log begins that its broker keeps in remote storage, too; else None. See `LogParts`."""
        is_tiered, start = self.inherited.is_tiered(partition.topic), self.checkpoints.log_start_entry(partition)
        if is_tiered:
            return min(start or 0, first_offset)
        # Without the settings: a broker writes a start below the first segment for such logs alone.
        return start if is_tiered is None and start is not None and start < first_offset else None

    def remote_note(self, partition: TopicPartition) -> str | None:
        """Return a sentence on the records that are only in remote storage, without opening the log; None if there are
        none. OSError if the partition is gone.
        """
        parsed = map(parse_segment_name, files.names(self._file(str(partition))))
        first = min((parts[0] for parts in parsed if parts is not None and parts[1] == ".log"), default=0)
        return remote_note(self._remote_start(partition, first), first)

    def _high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the checkpointed high watermark of a partition with followers; None for partitions that end at the log
        end.
        """
        # A former leader truncates records above the high watermark (KIP-101), so consumers see none of them.
        if not self._is_bounded or self.metadata is None or partition.topic == METADATA_TOPIC:
            return None
        replicas = self.metadata.refresh().replica_count(partition)
        return None if replicas is None or replicas <= 1 else self.checkpoints.high_watermark(partition)

    def _context_of(self, partition: TopicPartition) -> LogContext:
        return LogContext(
            clock=self.clock,
            deletions=self.deletions,
            before_change=self._mark.before_change,
            on_damage=self._note_damage,
            on_append=functools.partial(self._publish, partition, LogChange.APPENDED),
            on_roll=functools.partial(self._publish, partition, LogChange.ROLLED),
            save_log_start=lambda offset: self.checkpoints.raise_log_starts({partition: offset}),
            save_recovery_point=functools.partial(self.checkpoints.raise_recovery_point, partition),
            cut_checkpoints=functools.partial(self.checkpoints.cut, partition),
            restart_checkpoints=functools.partial(self.checkpoints.restart, partition),
            mirrored_from=self._mirror.source if self._mirror is not None and self.mirrors(partition.topic) else "",
        )

    def _note_damage(self, error: StorageError) -> None:
        for report in self._damage_subscribers:
            report(error)

    def subscribe_damage(self, report: OnDamage) -> None:
        """Call `report` with each damaged position that a reader finds, once for each; from any thread."""
        self._damage_subscribers.append(report)

    def subscribe_changes(self, report: OnLogChange) -> None:
        """Call `report` after each append, roll, creation and deletion of a partition by this process."""
        self._change_subscribers.append(report)

    def _publish(self, partition: TopicPartition, change: LogChange) -> None:
        for report in self._change_subscribers:
            report(partition, change)

    def note_damage(self, error: StorageError) -> bool:
        """Record damage that a reader found, in the log that contains its path; return whether the position is new.

        Thread-safe; never waits.
        """
        path = os.path.dirname(error.path or "")
        partition = TopicPartition.parse_or_none(os.path.basename(path))
        log = None if partition is None else self.opened(partition)
        return log is not None and log.path == path and log.note_damage(error)

    def damaged_partitions(self) -> list[TopicPartition]:
        """Return the partitions whose logs are open and have known damage."""
        return [log.partition for log in self.open_logs() if log.damage]

    def cuts(self) -> list[Damage]:
        """Return what recovery cut from the open logs, with the files that keep it."""
        return [damage for log in self.open_logs() for damage in log.damage if damage.kept]

    def create_partition(self, partition: TopicPartition, properties: Mapping[str, str] | None = None) -> Log:
        """Create an empty partition; durable on return. `properties` become settings of the whole topic.

        Raises `PartitionExists`, `InvalidName`, `InvalidConfig`, `ReadOnlyLog`, OSError.
        """
        self.create_partitions([partition], properties)
        return self.log(partition)

    def create_partitions(
        self,
        partitions: Sequence[TopicPartition],
        properties: Mapping[str, str] | None = None,
        *,
        topic_id: bytes | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create empty partitions, all or none; durable on return. `properties` become settings of their topics.

        `topic_id`: that of a topic without partitions; otherwise, and by default, a random one. `is_stopped`: whether
        to give up, with ECANCELED; asked before each partition, in several threads.

        A partition costs little more than its files, because the syncs run in parallel. A crash may leave some of the
        partitions, each of them complete. Raises as `create_partition`.
        """
        self._check_writable()
        self.check_free(partitions)
        for topic in sorted({partition.topic for partition in partitions}) if properties else ():
            self.configure(topic, properties or {})
        with self._mutex:
            self._check_writable()  # again: `close` may have held the table
            self.check_free(partitions)
            self._mark.before_change()
            # Entries of a deleted partition with the same name would give the new log a start or a recovery point of
            # the old one.
            self.checkpoints.forget(set(partitions))
            others = self.partitions()
            self._listing = _UNKNOWN
            for partition in partitions:  # a reader may have stored the id of a deleted partition after it was deleted
                self._topic_ids.pop(partition, None)
            try:
                partition_directories.create(self.path, partitions, others, topic_id, is_stopped)
            except OSError as error:
                # A partition that could not be removed may or may not be on disk, so it accepts no records.
                self._failed_creations |= dict.fromkeys(
                    partition_directories.remove_failed(self.path, partitions), error
                )
                raise
            # A recovery point of 0 on disk says that gaps in this log are losses until compaction has raised it.
            self.checkpoints.begin(partitions)
        for partition in partitions:
            self._publish(partition, LogChange.CREATED)

    def check_free(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise `PartitionExists` if one of the partitions exists."""
        for partition in partitions:
            if self.has(partition):
                raise PartitionExists("the partition exists already", path=self._file(str(partition)))

    def delete_partition(self, partition: TopicPartition) -> None:
        """Delete a partition. Its name can be reused at once; its files are removed after `file.delete.delay.ms`.

        The rename is durable on return. Readers of its log can read on until the files are removed. Deleting the last
        partition of a topic removes the topic's settings. Raises `UnknownPartition`, `ReadOnlyLog`, OSError.
        """
        if self.read_only or partition.topic == METADATA_TOPIC:
            raise self._refusal()
        with self._held(partition) as log:
            self._check_writable()  # again: `close` may have held the table
            if not self.has(partition):
                raise UnknownPartition(f"no partition {partition}", path=self.path)
            self._mark.before_change()
            # Read before the topic's settings are removed with its last partition.
            delay_ms = self.config_of(partition.topic).file_delete_delay_ms
            renamed = partition_directories.rename_partition(self.path, partition, log)
            self._forget(partition)
            self._pending.forget(partition)
            self._failed_creations.pop(partition, None)
            self._topic_ids.pop(partition, None)
            self._listing = _UNKNOWN
            files.sync_directory(self.path)  # remove no file while a power cut could still bring the old name back
            self._remove_later(renamed, delay_ms, log)
            self.checkpoints.forget({partition})
            if not self.partitions_of(partition.topic):
                self.settings.topics.forget(partition.topic)
        self._publish(partition, LogChange.DELETED)

    def _remove_later(self, path: str, delay_ms: int, log: Log | None = None) -> None:
        def remove() -> None:
            partition_directories.remove_tree(path)
            if log is not None:
                partition_directories.close_log(log)

        self.deletions.add(remove, delay_ms)

    # --- renaming a topic: see `coordinators/topic_rename` ---------------------------------------------------------

    def copy_checkpoints(self, names: Mapping[TopicPartition, TopicPartition]) -> None:
        """Give the entries of partitions in the checkpoints to others as well; durable on return."""
        self._check_writable()
        self._mark.before_change()
        self.checkpoints.copy(names)

    def rename_partitions(self, names: Mapping[TopicPartition, TopicPartition]) -> None:
        """Rename the directories of partitions whose logs are not open; durable on return. `ReadOnlyLog`, OSError."""
        with self._mutex:
            self._check_writable()
            self._mark.before_change()
            for partition, new_name in names.items():
                assert self.opened(partition) is None, "the log is open"
                self._topic_ids.pop(partition, None)
                files.rename(self._file(str(partition)), self._file(str(new_name)))
            self._listing = _UNKNOWN
            files.sync_directory(self.path)

    def forget_topic(self, partitions: Collection[TopicPartition]) -> None:
        """Remove what the checkpoints and the settings have of partitions that are gone; durable on return."""
        self._check_writable()
        self._mark.before_change()
        self.checkpoints.forget(partitions)
        for topic in sorted({partition.topic for partition in partitions}):
            self.settings.topics.forget(topic)

    # --- settings ----------------------------------------------------------------------------------------------------

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of `topic`: its own, over those it inherits (`inherited_settings`)."""
        return self.settings.topics.config_of(topic)

    def settings_of(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings; empty if it has none."""
        return self.settings.topics.of(topic)

    def explicit_settings_of(self, topic: str) -> Mapping[str, str]:
        """Return what is set for the topic: in the metadata log of its broker, and over that here (`settings_of`)."""
        return {**self.inherited.layers.cluster.get(topic, {}), **self.settings_of(topic)}

    @property
    def setting_problems(self) -> list[str]:
        """Problems of the metadata log and of the settings in it. Such settings are ignored."""
        unread = None if self.metadata is None else self.metadata.problem
        return [*([] if unread is None else [str(unread)]), *self.inherited.layers.problems]

    def knows_policy(self, topic: str) -> bool:
        """Whether the retention policy of the topic is known.

        A broker's settings are in its metadata log; those in a damaged file are unknown. If the policy is unknown, only
        segments below the log start may be removed.
        """
        return self.settings.topics.is_known(topic) and (not self.is_brokers or self.settings.knows_policy(topic))

    def configure(self, topic: str, changes: Changes) -> None:
        """Change topic settings by Kafka's names; None removes one. Durable and effective on return.

        Raises `InvalidConfig` for an unknown name, an illegal value, or a contradiction between settings; then nothing
        is changed. `InvalidName`, `ReadOnlyLog`, OSError.
        """
        self._check_writable()
        self.settings.change(topic, changes)

    def refresh_config(self) -> StorageError | OSError | None:
        """Load settings that another process changed; return the error if they are invalid, or None.

        Costs one stat, at most every 10 ms. Call it before an append and before each background task.
        """
        return self.settings.refresh()

    # --- checkpoints and the end -------------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write recovery points, log starts and high watermarks of the open logs.

        Entries of other logs stay as they are.
        """
        if not self.read_only and self._mark.is_changed:
            self._save(self.checkpoints.save)

    def raise_log_starts(self, starts: Mapping[TopicPartition, int]) -> None:
        """Raise log starts. They are effective on return and survive a crash; the files stay.

        Records below the new starts are synced first. One write of the checkpoint for all logs; if it fails nothing
        changes.
        """
        logs = {partition: self.opened(partition) or self.log(partition) for partition in starts}
        for partition, start in starts.items():
            if start > logs[partition].recovery_point:
                logs[partition].flush()
        self._mark.before_change()
        self.checkpoints.raise_log_starts(starts)
        for partition, start in starts.items():
            with contextlib.suppress(OSError):  # of the leader epochs: it ends writing to that log only
                logs[partition].raise_log_start(start)

    def cleaner_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset where the next compaction of the partition begins; None means at the beginning.

        A checkpoint beyond the log end or below the log start is ignored. That costs a compaction of the whole log.
        """
        offset, log = self.checkpoints.cleaner_offset(partition), self.opened(partition)
        # As Kafka's LogCleanerManager.cleanableOffsets: a truncation or a restored checkpoint may have left a wrong
        # entry.
        if offset is None or (log is not None and not log.log_start_offset <= offset <= log.next_offset):
            return None
        return offset

    def may_lack_offsets(self, partition: TopicPartition) -> bool:
        """Whether compaction may have removed offsets from the middle of a log: by its settings, or the checkpoint of
        the cleaner.

        In other logs they were lost: nothing else removes records there.
        """
        return self.settings.is_compacted(partition) or self.checkpoints.is_cleaned(partition)

    def set_cleaner_offset(self, partition: TopicPartition, offset: int | None) -> None:
        """Record how far the partition was compacted; durable on return. None means compact all of it the next time."""
        self.set_cleaner_offsets({partition: offset})

    def set_cleaner_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Record how far partitions were compacted, as `set_cleaner_offset`, with one write. `ReadOnlyLog`, OSError."""
        self._check_writable()
        self._mark.before_change()
        self.checkpoints.set_cleaner_offsets(offsets)

    def close_idle_files(self) -> bool:
        """Close files that can be reopened on demand; return whether there were any. Never waits.

        Called when the process is at its limit of open files. That limit bounds speed, not the number of partitions.
        """
        # All logs, not only until one is found: the caller may need several descriptors, and each round costs a pass
        # over all logs.
        closed = [log.rest() for log in self.open_logs()]
        return self._pool.evict_all() or any(closed)

    def unsynced(self) -> Unsynced:
        """Return what all logs have that is not yet on disk, by the account that decides when they are synced.

        From any thread; never waits. A log that is not open has nothing.
        """
        return sum((log.unsynced.total for log in self.open_logs()), Unsynced())

    def flush(self) -> None:
        """Sync all appended records. The first error is raised after all logs were tried."""
        errors = []
        for log in self.open_logs():
            try:
                log.flush()
            except (OSError, LogFailed) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _check_writable(self) -> None:
        if self.read_only:
            raise self._refusal()

    def _refusal(self) -> ReadOnlyLog:
        return ReadOnlyLog("closed" if self.is_closed else "opened for reading", path=self.path)

    def close(self) -> None:
        """Flush and close every log, write the checkpoints and the clean shutdown file, and release the lock.

        Waits for running appends and recoveries; later changes raise `ReadOnlyLog`. Afterwards the directory and its
        logs are read-only, because another process may have the lock. A second call only waits for the first.

        If a log cannot be closed, the clean shutdown file is not written, so that the next opening recovers the
        directory. The first such error is raised at the end.
        """
        with self._closing:
            if self._is_ending:  # the clean shutdown file may be another writer's by now
                return
            with self._mutex:
                self._is_ending = True
            try:
                if self._flusher is not None:
                    self._flusher.close()
                self._pending.end()
                # Without the lock of the table, which a log that changes may wait for.
                for log in self.open_logs():
                    log.end_changes()
            finally:  # also after a KeyboardInterrupt
                self._close_all()

    def _close_all(self) -> None:
        """Close logs, checkpoints and lock, when nothing changes them any more."""
        errors: list[Exception] = [*self.failed.values(), *self._failed_creations.values()]
        known = len(errors)
        with self._mutex:
            try:
                # Key indexes and views use the logs, so they are closed first.
                for close in self.closing:
                    _try(close, errors)
                errors += self._close_logs()
                _try(self.checkpoint, errors)
                if self._mark.is_changed:  # else the pending removals are of an earlier process: nothing was changed
                    _try(self.deletions.run_all, errors)
                errors += [log.failure for log in self.open_logs() if log.failure is not None]
                # Last of all: the file says that every log is complete on disk, so the next opening recovers nothing.
                if self._mark.is_changed and not errors:
                    self._mark.restore()
            finally:
                self.is_closed = not self.read_only
                self.read_only = True
                for log in self.open_logs():
                    log.end_writing()
                self._logs.clear()
                self._pool.clear()
                self._lock.release()
        if len(errors) > known:
            raise errors[known]


def _try(action: Callable[[], object], errors: list[Exception]) -> None:
    try:
        action()
    except (StorageError, OSError) as error:
        errors.append(error)
