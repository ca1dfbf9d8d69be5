"""The settings of topics in a directory without a broker: `.offsetfs-topics.json`.

    {"version": 0, "topics": {"orders": {"retention.ms": "86400000"}}}          Kafka's names, Kafka's texts

A writer of the file holds a lock on the directory, reads the file again, and replaces it atomically. So a command may
change it while a mount has the directory open; the mount notices it at its next check. An unreadable or contradictory
file changes nothing: the previous settings stay effective, and `problem` has the reason.

If the file cannot be read when the directory is opened, or the settings of a topic are illegal, the defaults are used
and the settings count as unknown (`is_known`): retention must not remove records by them. `set_aside` repairs the file.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.errors import InvalidCheckpoint, InvalidConfig, InvalidName, StorageError
from offsetfs.storage.names import check_topic
from offsetfs.storage.settings.config import DEFAULTS, LogConfig, check_name

TOPICS = ".offsetfs-topics.json"
LOOK_INTERVAL_S = 0.01

Topics = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class InheritedConfig:
    """The settings below those of the file: the defaults of all topics, and over them those of single topics."""

    defaults: LogConfig = DEFAULTS
    topics: Topics = field(default_factory=dict)


Changes = Mapping[str, str | None]
"""Settings by name; None removes one, so that the default is used again."""


class TopicSettings:
    """The settings of all topics of one directory. Thread-safe."""

    def __init__(
        self,
        directory: str,
        defaults: LogConfig = DEFAULTS,
        clock: Clock = SYSTEM,
        inherited: InheritedConfig | None = None,
    ) -> None:
        """Read the file. `inherited` replaces `defaults` if there are settings of single topics."""
        self.problem: StorageError | OSError | None = None
        """Why the file as it is now is not effective."""
        self._directory = directory
        self._path = os.path.join(directory, TOPICS)
        self._inherited = inherited or InheritedConfig(defaults)
        self._clock = clock
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._seen = _identity(self._path)
        self._topics, self._configs = self._loaded()

    def _loaded(self) -> tuple[Topics, dict[str, LogConfig]]:
        """Return the readable content of the file; the rest becomes the problem."""
        try:
            topics = _read(self._path)
        except (StorageError, OSError) as error:
            self.problem = error
            # A damaged file once stopped every command of the directory; now only retention and compaction leave its
            # topics alone.
            return {}, self._sorted_out({})[0]
        configs, illegal = self._sorted_out(topics)
        self.problem = next(iter(illegal.values()), None)
        return topics, configs

    def is_known(self, topic: str) -> bool:
        """Whether the settings of the topic could be read."""
        return self.problem is None or (topic in self._topics and topic in self._configs)

    def of(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings; empty if it has none."""
        return self._topics.get(topic, {})

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of `topic`: its own, over those it inherits. The same object until they change."""
        return self._configs.get(topic, self._inherited.defaults)

    def inherit(self, inherited: InheritedConfig) -> None:
        """Replace the settings below the file. `InvalidConfig` if those in the file contradict them."""
        with self._lock:
            before = self._inherited
            if inherited.defaults == before.defaults:
                inherited = replace(inherited, defaults=before.defaults)
            self._inherited = inherited
            try:
                configs = self._legal(self._topics)
            except InvalidConfig as error:
                self._inherited, self.problem = before, error
                raise
            # Unchanged settings stay the same object, because logs compare settings by identity.
            old = self._configs
            self._configs = {topic: old[topic] if old.get(topic) == new else new for topic, new in configs.items()}

    def change(self, topic: str, changes: Changes) -> None:
        """Set and remove settings of one topic; durable on return.

        Raises `InvalidName`, or `InvalidConfig` for an unknown name, an illegal value or a contradiction: then nothing
        changes.
        """
        # The lock on the directory, because `offsetfs config` in another process may change the same file.
        with self._lock, files.locked_directory(self._directory):
            topics = _changed(_read(self._path), topic, changes)
            configs, illegal = self._sorted_out(topics)
            if topic in illegal:
                raise illegal[topic]
            _write(self._path, topics)
            self._topics, self._configs, self._seen = topics, configs, _identity(self._path)
            self.problem = next(iter(illegal.values()), None)

    def forget(self, topic: str) -> None:
        """Remove all settings of a deleted topic."""
        if topic in self._topics:
            self.change(topic, dict.fromkeys(self._topics[topic]))

    @property
    def is_due(self) -> bool:
        """Whether `refresh` would check the file."""
        return self._clock.monotonic() >= self._next_look

    def refresh(self) -> set[str]:
        """Check whether another process changed the file; return the topics whose settings changed.

        Costs one stat, at most every 10 ms. Never raises because of the content of the file: see `problem`.
        """
        if not self.is_due:
            return set()
        with self._lock:
            self._next_look = self._clock.monotonic() + LOOK_INTERVAL_S
            identity = _identity(self._path)
            # Inode, time and size: the file is always replaced and never written in place.
            if identity == self._seen:
                return set()
            self._seen = identity
            return self._take()

    def _take(self) -> set[str]:
        before = self._topics
        try:
            topics = _read(self._path)
            self._configs, self._topics, self.problem = self._legal(topics), topics, None
        except (StorageError, OSError) as error:
            self.problem = error
            return set()
        return {topic for topic in before.keys() | topics.keys() if before.get(topic) != topics.get(topic)}

    def _legal(self, topics: Topics) -> dict[str, LogConfig]:
        """Return the settings of the topics; InvalidConfig names the first topic with illegal settings."""
        configs, illegal = self._sorted_out(topics)
        for error in illegal.values():
            raise error
        return configs

    def _sorted_out(self, topics: Topics) -> tuple[dict[str, LogConfig], dict[str, InvalidConfig]]:
        """Return the legal settings of the topics, and an error for each topic with illegal ones."""
        configs, illegal = {}, {}
        inherited = self._inherited
        for topic in topics.keys() | inherited.topics.keys():
            properties = {**inherited.topics.get(topic, {}), **topics.get(topic, {})}
            try:
                configs[topic] = LogConfig.from_properties(properties, inherited.defaults)
            except InvalidConfig as error:
                illegal[topic] = InvalidConfig(f"topic {topic}: {error.reason}", path=self._path)
        return configs, illegal


def set_aside(directory: str) -> str | None:
    """Copy a damaged settings file to another name, and keep only the legal settings in the file.

    Returns the path of the durable copy; None if the file is valid.
    """
    path = os.path.join(directory, TOPICS)
    with files.locked_directory(directory):
        settings = TopicSettings(directory)
        if settings.problem is None:
            return None
        copy = next(name for name in _damaged_names(path) if not files.exists(name))
        sound = {topic: settings.of(topic) for topic in settings._topics if topic in settings._configs}
        if sound:
            files.replace_file(copy, files.read_file(path))
            _write(path, sound)
        else:
            files.rename(path, copy)
            files.sync_directory(directory)
    return copy


def _damaged_names(path: str) -> Iterator[str]:
    yield f"{path}.damaged"
    for number in itertools.count(2):
        yield f"{path}.damaged-{number}"


def _read(path: str) -> Topics:
    try:
        content = json.loads(files.read_file(path))
        topics: dict[str, dict[str, str]] = content["topics"]
        for topic, properties in topics.items():
            check_topic(topic)
            if not all(isinstance(value, str) for value in properties.values()):
                raise TypeError(f"a setting of {topic} that is not text")
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidName) as error:
        reason = f"no settings of topics: {error}; mend it, or set it aside with `offsetfs repair --yes`"
        raise InvalidCheckpoint(reason, path=path) from error
    return topics


def _changed(topics: Topics, topic: str, changes: Changes) -> Topics:
    check_topic(topic)
    for name in changes:
        check_name(name)
    merged = {**topics.get(topic, {}), **changes}
    kept = {name: value for name, value in merged.items() if value is not None}
    others = {name: properties for name, properties in topics.items() if name != topic}
    return {**others, topic: kept} if kept else others


def _write(path: str, topics: Topics) -> None:
    """Replace the file durably; remove it if no topic has settings."""
    if not topics:
        if files.exists(path):
            files.remove_file(path)
            files.sync_directory(os.path.dirname(path))
        return
    text = json.dumps({"version": 0, "topics": topics}, indent=1, sort_keys=True) + "\n"
    files.replace_file(path, text.encode())


def _identity(path: str) -> tuple[int, int, int]:
    """Return a value that changes when the file is replaced; zeros if there is none."""
    try:
        status = files.status(path)
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
