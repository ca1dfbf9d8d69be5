"""The settings of topics in a directory without a broker: `.offsetfs-topics.json`.

    {"version": 0, "topics": {"orders": {"retention.ms": "86400000"}}}          Kafka's names, Kafka's texts

Whoever changes the file holds a lock on the directory meanwhile, reads it anew and replaces it whole, so that a command
may change it while a mount has the directory open; the mount notices at its next look. What cannot be read, or
contradicts itself, changes nothing: the settings stay as they were, and `problem` says why.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping

from offsetfs.storage import files
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.errors import InvalidCheckpoint, InvalidConfig, InvalidName, StorageError
from offsetfs.storage.names import check_topic
from offsetfs.storage.settings.config import DEFAULTS, LogConfig, check_name

TOPICS = ".offsetfs-topics.json"
LOOK_INTERVAL_S = 0.01

Topics = Mapping[str, Mapping[str, str]]
Changes = Mapping[str, str | None]
"""Settings by name; None takes one away, so that the default holds again."""


class TopicSettings:
    """The settings of all topics of one directory, over those given to it. Safe to use from any thread."""

    def __init__(self, directory: str, defaults: LogConfig = DEFAULTS, clock: Clock = SYSTEM) -> None:
        """Read the file. `InvalidCheckpoint` when it holds no settings, `InvalidConfig` when one is not legal."""
        self.problem: StorageError | OSError | None = None
        """Why what is in the file now does not hold."""
        self._directory = directory
        self._path = os.path.join(directory, TOPICS)
        self._defaults = defaults
        self._clock = clock
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._seen = _identity(self._path)
        self._topics = _read(self._path)
        self._configs = self._configs_of(self._topics)

    def of(self, topic: str) -> Mapping[str, str]:
        """Return what is set for the topic itself; empty when nothing is."""
        return self._topics.get(topic, {})

    def config_of(self, topic: str) -> LogConfig:
        """Return the settings of `topic`: its own, over those given, over Kafka's defaults. The same object each time,
        until they change."""
        return self._configs.get(topic, self._defaults)

    def change(self, topic: str, changes: Changes) -> None:
        """Set and take away settings of one topic; on disk after return.

        Raises `InvalidName`, `InvalidConfig` for an unknown name, an illegal value or one that contradicts another:
        then nothing is changed.
        """
        with self._lock, files.locked_directory(self._directory):
            topics = _changed(_read(self._path), topic, changes)
            configs = self._configs_of(topics)
            _write(self._path, topics)
            self._topics, self._configs, self._seen, self.problem = topics, configs, _identity(self._path), None

    def forget(self, topic: str) -> None:
        """Take all settings of a topic away: it is no more."""
        if topic in self._topics:
            self.change(topic, dict.fromkeys(self._topics[topic]))

    @property
    def is_due(self) -> bool:
        """Whether `refresh` would look."""
        return self._clock.monotonic() >= self._next_look

    def refresh(self) -> set[str]:
        """Look whether another process changed the file; return the topics whose settings are others now.

        Costs one stat, at most every 10 ms. Never raises for what is in the file: see `problem`.
        """
        if not self.is_due:
            return set()
        with self._lock:
            self._next_look = self._clock.monotonic() + LOOK_INTERVAL_S
            identity = _identity(self._path)
            if identity == self._seen:
                return set()
            self._seen = identity
            return self._take()

    def _take(self) -> set[str]:
        before = self._topics
        try:
            topics = _read(self._path)
            self._configs, self._topics, self.problem = self._configs_of(topics), topics, None
        except (StorageError, OSError) as error:
            self.problem = error
            return set()
        return {topic for topic in before.keys() | topics.keys() if before.get(topic) != topics.get(topic)}

    def _configs_of(self, topics: Topics) -> dict[str, LogConfig]:
        """Build the settings of each topic; InvalidConfig names the topic whose settings are not legal."""
        configs = {}
        for topic, properties in topics.items():
            try:
                configs[topic] = LogConfig.from_properties(properties, self._defaults)
            except InvalidConfig as error:
                raise InvalidConfig(f"topic {topic}: {error.reason}", path=self._path) from None
        return configs


def _read(path: str) -> Topics:
    try:
        content = json.loads(files.read_file(path))
        topics: dict[str, dict[str, str]] = content["topics"]
        for topic, properties in topics.items():
            check_topic(topic)
            if not all(isinstance(value, str) for value in properties.values()):
                raise TypeError(f"a setting of {topic} that is no text")
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, InvalidName) as error:
        raise InvalidCheckpoint(f"no settings of topics: {error}; mend or remove it", path=path) from error
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
    text = json.dumps({"version": 0, "topics": topics}, indent=1, sort_keys=True) + "\n"
    files.replace_file(path, text.encode())


def _identity(path: str) -> tuple[int, int, int]:
    """Return what changes when the file is replaced: zeros when there is none."""
    try:
        status = files.status(path)
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
