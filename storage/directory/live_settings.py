"""The topic settings of an open directory. A change takes effect in open logs at once.

    configure, or another process   ─→   topic_settings   ─→   each open log of the topic and its segments

Locks: changes are serialized, and take the locks of the logs. So a caller must hold neither a log nor the directory's
table of logs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Sequence

from offsetfs.storage.directory.inherited_settings import InheritedSettings
from offsetfs.storage.errors import InvalidConfig, LogFailed, StorageError, UnknownPartition
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.settings.topic_settings import Changes, TopicSettings

_POLICY = ("cleanup.policy", "retention.ms")


class LiveSettings:
    """The effective topic settings of one directory."""

    def __init__(
        self,
        topics: TopicSettings,
        inherited: InheritedSettings,
        open_logs: Callable[[], Sequence[Log]],
        is_cleaned: Callable[[TopicPartition], bool],
    ) -> None:
        """`inherited`: the layers below `topics`. `is_cleaned`: whether a broker has compacted a partition."""
        self.topics = topics
        self.inherited = inherited
        self._open_logs = open_logs
        self._is_cleaned = is_cleaned
        self._mutex = threading.Lock()

    def knows_policy(self, topic: str) -> bool:
        """Whether the retention policy of the topic is known."""
        return any(name in self.topics.of(topic) for name in _POLICY) or self.inherited.knows_policy(topic)

    def is_compacted(self, partition: TopicPartition) -> bool:
        """Return whether a partition is compacted: by its settings, or because a broker's cleaner has compacted it."""
        is_told = "cleanup.policy" in self._names_set(partition.topic)
        return self.topics.config_of(partition.topic).is_compacted or (not is_told and self._is_cleaned(partition))

    def _names_set(self, topic: str) -> Collection[str]:
        return {*self.inherited.names_set(topic), *self.topics.of(topic)}

    # --- changing ----------------------------------------------------------------------------------------------------

    def change(self, topic: str, changes: Changes) -> None:
        """Set and remove settings of a topic; durable and effective on return. Raises as `TopicSettings.change`."""
        with self._mutex:
            logs = [log for log in self._open_logs() if log.partition.topic == topic]
            for log in logs if "cleanup.policy" in changes else ():
                # Before the setting is on disk: after a power cut between the two, recovery would take a hole for a gap
                # of compaction.
                _sync_before_compaction(log)
            self.topics.change(topic, changes)
            self._apply(logs)

    def refresh(self) -> StorageError | OSError | None:
        """Load settings that another process changed; return the error if they are invalid, or None."""
        # Called before each append: a thread that finds the mutex busy continues with the former settings instead of
        # waiting.
        if self.topics.is_due and self._mutex.acquire(blocking=False):  # otherwise another thread is refreshing
            try:
                if self.inherited.refresh():
                    self._inherit()
                changed = self.topics.refresh()
                self._apply([log for log in self._open_logs() if log.partition.topic in changed] if changed else [])
            finally:
                self._mutex.release()
        return self.topics.problem

    def _inherit(self) -> None:
        with contextlib.suppress(InvalidConfig):  # `problem` holds the error, and the previous settings stay effective
            self.topics.inherit(self.inherited.layers.inherited())
            self._apply(self._open_logs())

    def apply(self, log: Log) -> None:
        """Apply the current settings to a log that was just opened, because they may have changed meanwhile."""
        with self._mutex:
            self._apply([log])

    def _apply(self, logs: Sequence[Log]) -> None:
        for log in logs:
            config, was_compacted = self.topics.config_of(log.partition.topic), log.is_compacted
            if log.config is config:
                continue
            log.configure(config, is_compacted=self.is_compacted(log.partition))
            if log.is_compacted and not was_compacted:
                with contextlib.suppress(OSError):  # a failed sync ends writing to the log
                    _sync_before_compaction(log)


def _sync_before_compaction(log: Log) -> None:
    """Sync a log whose topic becomes a compacted one.

    Recovery takes a gap between the segments of a compacted log for the work of compaction. So no segment may be able
    to lose its end in a power cut.
    """
    if not log.read_only:
        with contextlib.suppress(LogFailed, UnknownPartition):
            log.flush()
