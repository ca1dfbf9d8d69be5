"""Several log directories served as one, as a broker does with the entries of `log.dirs`.

    log.dirs=/disk1,/disk2      /disk1/orders-0   /disk2/orders-1                        one topic on two disks
                                /disk1/users-0    /disk2/users-0.<uuid>-future           a move to /disk2 that goes on

Each directory keeps its own lock, checkpoints, settings file and clean shutdown file. A partition is served from the
directory that holds it. A move between directories (Kafka's AlterReplicaLogDirs) leaves the partition under its name
in the current directory until the copy, whose name ends in `-future`, has caught up.

A directory that cannot be opened is left out and named in `failures`; the others are served. A directory that another
process writes to is no such failure: then nothing is opened.

Follows Kafka's LogManager (`logDirFailure`, `nextLogDirs`, `loadLogs`). Kafka ends when a partition is in two
directories; here such a partition is refused for writing, and read from the first directory that has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from offsetfs.storage import files
from offsetfs.storage.cluster.metadata_log import METADATA_DIRECTORY
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.directory.directory_listing import partitions_of, sorted_partitions
from offsetfs.storage.directory.flusher import OnLogChange
from offsetfs.storage.errors import DuplicatePartition, NotALogDirectory, StorageError, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.partition.log import Damage, Log
from offsetfs.storage.settings.config import LogConfig
from offsetfs.storage.settings.topic_settings import Changes

Open = Callable[[str], LogDirectory]
"""Opens the directory at a path; raises as `LogDirectory.open`."""


class LogDirectories:
    """The open log directories of one mount. Use `open`; all methods are thread-safe."""

    def __init__(self, directories: Sequence[LogDirectory], failures: Mapping[str, Exception]) -> None:
        self.directories = tuple(directories)
        self.failures = failures
        """The errors of directories that could not be opened, or no longer respond, by path."""
        self._last: dict[LogDirectory, Sequence[TopicPartition]] = {}
        self._parts: list[Sequence[TopicPartition]] = []
        self._listing: Sequence[TopicPartition] = ()

    @classmethod
    def open(
        cls, paths: Sequence[str], open_directory: Open, left_out: Mapping[str, Exception] = MappingProxyType({})
    ) -> LogDirectories:
        """Open the directories at `paths`, in that order. `left_out`: directories that failed an earlier check, with
        the errors.

        Raises `LogDirectoryLocked`, `InvalidConfig` and similar errors for any of them, and the first error if none can
        be opened. After an error no directory is open.
        """
        opened: list[LogDirectory] = []
        failures = dict(left_out)
        try:
            for path in paths:
                try:
                    opened.append(open_directory(path))
                # As a broker takes one directory offline (KIP-112). A locked directory is no such error: its writer may
                # move partitions meanwhile.
                except (NotALogDirectory, OSError) as error:
                    failures[path] = error
            if not opened:
                raise next(iter(failures.values()))
        except BaseException:
            for directory in opened:
                directory.close()
            raise
        return cls(opened, MappingProxyType(failures))

    # --- the directories ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The paths of the open directories, as in `log.dirs`."""
        return ",".join(directory.path for directory in self.directories)

    @property
    def read_only(self) -> bool:
        return self.directories[0].read_only

    @property
    def is_brokers(self) -> bool:
        """Whether a broker has used one of the directories."""
        return any(directory.is_brokers for directory in self.directories)

    def directory_of(self, partition: TopicPartition) -> LogDirectory:
        """Return the directory that serves `partition`.

        Raises `UnknownPartition`, and `DuplicatePartition` if it is in two directories that are open for writing.
        """
        holders = [directory for directory in self.directories if directory.has(partition)]
        if not holders:
            raise UnknownPartition(f"no partition {partition}", path=self.path)
        # Only the user knows which copy is complete. A broker refuses to start in this state.
        if len(holders) > 1 and not self.read_only:
            raise DuplicatePartition(
                f"{partition} is in {holders[0].path} and in {holders[1].path}; "
                "remove one of the two, that of a disk that failed lately, or mount with -o ro",
                path=os.path.join(holders[1].path, str(partition)),
            )
        return holders[0]

    def duplicates(self) -> Iterator[tuple[TopicPartition, str, str]]:
        """Yield each partition that is in two directories, with both paths."""
        first: dict[TopicPartition, str] = {}
        for directory in self.directories:
            for partition in self._partitions_in(directory):
                if partition in first:
                    yield partition, first[partition], directory.path
                else:
                    first[partition] = directory.path

    # --- partitions --------------------------------------------------------------------------------------------------

    def partitions(self) -> Sequence[TopicPartition]:
        """Return all partitions, sorted, each once. The object is the same until a directory changes."""
        parts = [self._partitions_in(directory) for directory in self.directories]
        if len(parts) != len(self._parts) or any(new is not old for new, old in zip(parts, self._parts, strict=True)):
            self._listing = sorted_partitions({partition for part in parts for partition in part})
            self._parts = parts
        return self._listing

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic, sorted, each once."""
        return partitions_of(self.partitions(), topic)

    def _partitions_in(self, directory: LogDirectory) -> Sequence[TopicPartition]:
        """Return the partitions of a directory; if its disk no longer responds, the last known ones."""
        try:
            partitions = self._last[directory] = directory.partitions()
        except OSError as error:
            self.failures = MappingProxyType({**self.failures, directory.path: error})
            return self._last.get(directory, sorted_partitions(()))
        return partitions

    def has(self, partition: TopicPartition) -> bool:
        """Whether a directory holds the partition; costs one lstat a directory."""
        return any(directory.has(partition) for directory in self.directories)

    def log(self, partition: TopicPartition) -> Log:
        """Return the log of `partition`, as `LogDirectory.log`; raises as `directory_of`, too."""
        return self.directory_of(partition).log(partition)

    def writable_log(self, partition: TopicPartition) -> Log:
        """Return the log of `partition` for a writer, as `LogDirectory.writable_log`; raises as `directory_of`, too."""
        return self.directory_of(partition).writable_log(partition)

    @property
    def failed(self) -> dict[TopicPartition, Exception]:
        """The partitions whose recovery failed, with the cause, of all directories."""
        return {partition: cause for directory in self.directories for partition, cause in directory.failed.items()}

    def ready(self, partition: TopicPartition) -> Log | None:
        """Return the log if `log` would return it at once; never waits."""
        logs = (directory.ready(partition) for directory in self.directories)
        return next((log for log in logs if log is not None), None)

    def opened(self, partition: TopicPartition) -> Log | None:
        """Return the log when it is open already; never waits."""
        logs = (directory.opened(partition) for directory in self.directories)
        return next((log for log in logs if log is not None), None)

    def subscribe_damage(self, report: OnDamage) -> None:
        """Call `report` for damage in any directory, as `LogDirectory.subscribe_damage`."""
        for directory in self.directories:
            directory.subscribe_damage(report)

    def subscribe_changes(self, report: OnLogChange) -> None:
        """Call `report` for changes in any directory, as `LogDirectory.subscribe_changes`."""
        for directory in self.directories:
            directory.subscribe_changes(report)

    def note_damage(self, error: StorageError) -> bool:
        """Record damage in the directory that contains the path of `error`, as `LogDirectory.note_damage`."""
        return any(directory.note_damage(error) for directory in self.directories)

    def damaged_partitions(self) -> list[TopicPartition]:
        """Return the partitions whose logs are open and have known damage."""
        return [partition for directory in self.directories for partition in directory.damaged_partitions()]

    def cuts(self) -> list[Damage]:
        """Return what recovery cut from the open logs, with the files that keep it."""
        return [cut for directory in self.directories for cut in directory.cuts()]

    def future_of(self, partition: TopicPartition) -> str | None:
        """Return the path of the copy that a move of the partition fills, as `LogDirectory.future_of`."""
        paths = (directory.future_of(partition) for directory in self.directories)
        return next((path for path in paths if path is not None), None)

    def create_partition(self, partition: TopicPartition, properties: Mapping[str, str] | None = None) -> Log:
        """Create an empty partition, as `create_partitions`."""
        self.create_partitions([partition], properties)
        return self.log(partition)

    def create_partitions(
        self, partitions: Sequence[TopicPartition], properties: Mapping[str, str] | None = None
    ) -> None:
        """Create empty partitions, each in the directory with the fewest, as Kafka does; durable on return.

        A topic's settings are copied to a directory that gets its first partition. All or none in each directory.
        Raises as `LogDirectory.create_partitions`.
        """
        counts = [len(self._partitions_in(directory)) for directory in self.directories]
        chosen: list[list[TopicPartition]] = [[] for _ in self.directories]
        for partition in partitions:
            for directory in self.directories:
                directory.check_free([partition])
            least = counts.index(min(counts))
            counts[least] += 1
            chosen[least].append(partition)
        settings = {
            partition.topic: dict(self.settings_of(partition.topic)) | dict(properties or {})
            for partition in partitions
        }
        for directory, wanted in zip(self.directories, chosen, strict=True):
            for topic in sorted({partition.topic for partition in wanted}):
                if directory.settings_of(topic) != settings[topic]:
                    directory.configure(topic, settings[topic])
            if wanted:
                directory.create_partitions(wanted)

    def delete_partition(self, partition: TopicPartition) -> None:
        """Delete a partition, as `LogDirectory.delete_partition`; raises as `directory_of`, too."""
        self.directory_of(partition).delete_partition(partition)

    # --- settings ----------------------------------------------------------------------------------------------------

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of `topic` in the first directory that has it."""
        return self._with_topic(topic).config_of(topic)

    def settings_of(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings, in the first directory that has it."""
        return self._with_topic(topic).settings_of(topic)

    def explicit_settings_of(self, topic: str) -> Mapping[str, str]:
        """Return what is set for the topic, as `LogDirectory.explicit_settings_of`."""
        return self._with_topic(topic).explicit_settings_of(topic)

    def _with_topic(self, topic: str) -> LogDirectory:
        having = (directory for directory in self.directories if partitions_of(self._partitions_in(directory), topic))
        return next(having, self.directories[0])

    def configure(self, topic: str, changes: Changes) -> None:
        """Set topic settings in every directory, as `LogDirectory.configure`; an illegal value changes none of them."""
        for directory in self.directories:
            directory.configure(topic, changes)

    @property
    def setting_problems(self) -> list[str]:
        """Problems of the metadata log and of the settings in it; see `LogDirectory`."""
        return list(dict.fromkeys(said for directory in self.directories for said in directory.setting_problems))

    def refresh_config(self) -> StorageError | OSError | None:
        """Load settings that another process changed, as `LogDirectory.refresh_config`; return the first problem, or
        None.
        """
        problems = [directory.refresh_config() for directory in self.directories]
        return next((problem for problem in problems if problem is not None), None)

    # --- the end -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Sync all appended records. The first error is raised after all directories were tried."""
        self._each(LogDirectory.flush)

    def close(self) -> None:
        """Close every directory, as `LogDirectory.close`. The first failure is raised after all were tried."""
        self._each(LogDirectory.close)

    def _each(self, work: Callable[[LogDirectory], None]) -> None:
        errors: list[Exception] = []
        for directory in self.directories:
            try:
                work(directory)
            except (StorageError, OSError) as error:
                errors.append(error)
        if errors:
            raise errors[0]


AnyLogDirectory = LogDirectory | LogDirectories
"""One log directory or several: both find partitions by name."""


def split_paths(text: str) -> list[str]:
    """Return the paths in `text`, which has the form of `log.dirs`: separated by commas, without surrounding blanks.

    A directory whose own name contains a comma is one path. Several paths are made absolute, without duplicates.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) < 2 or files.is_directory(files.real_path(text)):
        return [text]
    return list(dict.fromkeys(files.real_path(part) for part in parts))


def metadata_directory_among(paths: Sequence[str]) -> str | None:
    """Return the one of `paths` that holds the metadata log of a KRaft broker, or None."""
    return next((path for path in paths if files.is_directory(os.path.join(path, METADATA_DIRECTORY))), None)


def left_out_message(path: str, reason: object) -> str:
    """Return the message for a directory that is not served."""
    said = str(reason)
    return f"{said if path in said else f'{path}: {said}'}; its partitions are left out"
