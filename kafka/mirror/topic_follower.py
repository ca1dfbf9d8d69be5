"""The topics of the source: which are mirrored, created here, and gone at the source.

    metadata ──► chosen topics ──► recorded in the file of the mirror ──► partitions created here

A topic is in the file before its partitions are created: records of another origin are never continued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import trio

from offsetfs.common.name_patterns import suggestion
from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.errors import error_name
from offsetfs.kafka.client.metadata import ClusterMetadata, TopicInfo
from offsetfs.kafka.mirror import timing, topics
from offsetfs.kafka.mirror.groups import conflict
from offsetfs.kafka.mirror.options import MirrorError
from offsetfs.kafka.mirror.partition import MirroredPartition
from offsetfs.kafka.mirror.settings import SettingsMirror
from offsetfs.kafka.mirror.starts import PartitionStarts
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import NO_ID, id_text
from offsetfs.storage import Log, TopicPartition
from offsetfs.storage.directory import MirroredTopic, MirrorFile
from offsetfs.storage.errors import InvalidConfig, StorageError, sentence

_NOT_PERMITTED = (
    f"{ErrorCode.TOPIC_AUTHORIZATION_FAILED.name}: the user of --config needs READ and DESCRIBE of the topic"
)

T = TypeVar("T")


class TopicFollower:
    """The topics of one mirror."""

    def __init__(self, state: MirrorState, starts: PartitionStarts) -> None:
        self._state = state
        self._starts = starts
        self._settings = SettingsMirror(state.directory, state.client, state.options, state.on_event)
        self._missing_since: dict[str, float] = {}
        self._gone: set[str] = set()
        self._not_created: dict[str, str] = {}
        self._unready: dict[str, float] = {}
        """Topics that the source has, but no partitions of them at the moment, and since when."""

    @property
    def is_ready(self) -> bool:
        """Whether no topic is without its partitions at the moment."""
        return not self._unready

    async def follow(self, metadata: ClusterMetadata) -> MirrorFile:
        """Create topics and partitions that are new, and follow the settings; return what is recorded.

        ClientError, MirrorError, StorageError, OSError.
        """
        known = self._state.directory.mirror or MirrorFile(
            metadata.cluster_id or "", self._state.source, keep=self._state.options.keep
        )
        if known.cluster_id != (metadata.cluster_id or ""):
            raise MirrorError(
                f"{self._state.directory.path} mirrors the cluster {known.cluster_id} ({known.source}), and "
                f"{self._state.source} is {metadata.cluster_id}; mirror into another directory"
            )
        if reason := conflict(self._state.options, known.topics):
            raise MirrorError(reason)
        selected = topics.chosen_topics(metadata, self._state.options)
        chosen = [topic for topic in selected if self._can_mirror(topic, known)]
        self._note_unready(topic for topic in selected if topic.error and topic.name not in self._state.failures)
        new = [
            topic for topic in chosen if topic.name not in known.topics or _is_another(topic, known.topics[topic.name])
        ]
        if new or self._state.directory.mirror is None:
            known = await self._record(known, new)
        known = await self._settings.follow(known, [topic for topic in chosen if topic not in new])
        await self._add_missing([topic for topic in chosen if self._missing(topic)], known.topics)
        return known

    def check_patterns(self, metadata: ClusterMetadata) -> None:
        """Report patterns without a topic; MirrorError if no pattern has a topic, and none is waited for."""
        names = list(metadata.topics)
        known = [] if self._state.directory.mirror is None else list(self._state.directory.mirror.topics)
        missing = topics.patterns_without_topic([*names, *known], self._state.options)
        is_needed = self._state.options.once or self._state.options.needs_topic
        if (
            not known
            and topics.all_are_chosen(self._state.options)
            and not topics.chosen_topics(metadata, self._state.options)
        ):
            text = "the cluster has no topic that this user may describe"
            if is_needed:
                remedy = "create one, or check that the user of --config has READ and DESCRIBE of the topics"
                raise MirrorError(f"{text}; {remedy}")
            self._state.on_event(f"{text}; topics are mirrored as soon as they exist")
            return
        if not missing:
            return
        text = f"no topic that this user may describe matches {', '.join(map(repr, missing))}"
        near = suggestion(missing, names)
        if not self._state.partitions and not self._state.failures and is_needed:
            raise MirrorError(f"{text}; {near or 'the cluster has ' + (topics.listed(names) or 'no topic')}")
        if self._state.options.once:
            self._state.failures |= dict.fromkeys(missing, "no topic matches")
        remedy = near or "check its name, and that the user of --config has DESCRIBE of it"
        if not self._state.options.once:
            remedy = f"it is mirrored as soon as it exists{near and f'; {near}'}"
        self._state.on_event(f"{text}; {remedy}")

    def _can_mirror(self, topic: TopicInfo, known: MirrorFile) -> bool:
        failure = self._failure_of(topic, known)
        if not failure:
            if topic.error == ErrorCode.NONE:
                self._state.failures.pop(topic.name, None)
            return topic.error == ErrorCode.NONE
        if self._state.failures.get(topic.name) != failure:
            self._state.failures[topic.name] = failure
            self._state.on_event(f"{topic.name}: {failure}")
            for partition in self._state.active():
                if partition.name.topic == topic.name:
                    partition.stop(failure, is_another=True)
        return False

    def _note_unready(self, infos: Iterable[TopicInfo]) -> None:
        """Ask again for topics whose partitions the source does not name now; with `once` they fail in the end."""
        now, before = trio.current_time(), self._unready
        self._unready = {}
        for topic in infos:
            self._state.asks_again = True
            since = before.get(topic.name, now)
            if self._state.options.once and now - since > timing.PATIENCE_S:
                self._state.failures[topic.name] = (
                    f"the source answers {error_name(topic.error)}; start the mirror again"
                )
                self._state.on_event(f"{topic.name}: {self._state.failures[topic.name]}")
            else:
                self._unready[topic.name] = since

    def _failure_of(self, topic: TopicInfo, known: MirrorFile) -> str:
        if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return _NOT_PERMITTED
        if topic.error:
            return ""  # no leader, being deleted: it passes
        if not self._state.directory.partitions_of(topic.name):
            return ""
        recorded = known.topics.get(topic.name)
        path = self._state.directory.path
        if recorded is None:
            cause = "the directory has a topic of this name that is not a mirror"
            return f"{cause}; mirror into another directory, or delete it (offsetfs delete {path} {topic.name})"
        if _is_another(topic, recorded):
            cause = "deleted and created again at the source; the records here are those of the former topic"
            return f"{cause}; mirror into another directory, or delete them (offsetfs delete {path} {topic.name})"
        return ""

    async def _record(self, known: MirrorFile, new: Sequence[TopicInfo]) -> MirrorFile:
        """Add topics to the file of the mirror, with their settings."""
        added = await self._settings.of_new(new)
        changed = replace(known, source=self._state.source, topics={**known.topics, **added})
        await in_thread(partial(self._state.directory.set_mirror, changed))
        return changed

    def _missing(self, topic: TopicInfo) -> list[TopicPartition]:
        return [partition for partition in _partitions(topic) if partition not in self._state.partitions]

    async def _add_missing(self, infos: Sequence[TopicInfo], recorded: Mapping[str, MirroredTopic]) -> None:
        """Create the partitions that are not here, and open all of these topics."""
        created = [
            topic for topic in infos if await self._attempt([topic], partial(self._create, topic, recorded[topic.name]))
        ]
        if not created or not await self._attempt(created, partial(self._expect_gaps, created, recorded)):
            return
        for topic in created:
            logs = await self._attempt([topic], partial(self._logs, self._missing(topic)))
            for name, log in () if logs is None else logs.items():
                topic_id = topic.id if recorded[topic.name].topic_id or topic.has_id else NO_ID
                partition = MirroredPartition(name, topic_id, log)
                partition.restart(log.next_offset)
                self._state.partitions[name] = partition
                self._state.by_id[topic_id, name.partition] = partition
            if logs is not None:
                self._not_created.pop(topic.name, None)

    async def _attempt(self, infos: Sequence[TopicInfo], work: Callable[[], T]) -> T | None:
        """Run a function in a thread; None after an error, the failure of the topics until the next refresh."""
        try:
            return await in_thread(work)
        except (StorageError, OSError) as error:
            text = sentence(error)
            for topic in infos:
                self._state.failures[topic.name] = text
                if self._not_created.get(topic.name) != text:
                    self._state.on_event(f"{topic.name}: {text}")
                self._not_created[topic.name] = text
            return None

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _create(self, topic: TopicInfo, recorded: MirroredTopic) -> bool:
        """Create the partitions of a topic that do not exist."""
        absent = [partition for partition in _partitions(topic) if not self._state.directory.has(partition)]
        if absent:
            self._starts.set_begun({topic.name: {*recorded.begun} - {partition.partition for partition in absent}})
            settings = topics.local_settings(recorded.settings, self._state.options)
            topic_id = topic.id if topic.has_id else None
            try:
                self._state.directory.create_partitions(absent, settings, topic_id=topic_id)
            except InvalidConfig:  # settings that contradict each other together with the defaults here
                settings = topics.local_settings({}, self._state.options)
                self._state.directory.create_partitions(absent, settings, topic_id=topic_id)
        return True

    def _expect_gaps(self, infos: Sequence[TopicInfo], recorded: Mapping[str, MirroredTopic]) -> bool:
        named = {topic.name: _partitions(topic) for topic in infos}
        self._settings.expect_gaps({name: recorded[name] for name in named}, named)
        return True

    def _logs(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, Log]:
        return {name: self._state.directory.writable_log(name) for name in names}

    # --- gone ---------------------------------------------------------------------------------------------------------

    async def note_gone(self, metadata: ClusterMetadata, known: MirrorFile) -> None:
        """Stop topics that the source has lacked for a while: a broker that has just started may not know them.

        A list of all topics is without those that the user may not describe. Such a topic is a failure, also one that
        an earlier run has mirrored: otherwise a backup would end without it, and without an error.
        """
        now, mirrored = trio.current_time(), {partition.topic for partition in self._state.partitions}
        earlier = {name for name in known.topics if topics.is_name_chosen(name, self._state.options)} - mirrored
        missing = mirrored - metadata.topics.keys()
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        gone = {name for name in missing if now - self._missing_since[name] >= timing.MISSING_S}
        gone = (gone | (earlier - metadata.topics.keys())) - self._gone
        current = (await self._state.client.metadata(sorted(gone), refresh=True)).topics if gone else {}
        for topic in sorted(gone):
            error = current[topic].error
            if error not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                continue  # it has just been created again, or is not ready: asked again with the next refresh
            self._gone.add(topic)
            partitions = [partition for partition in self._state.active() if partition.name.topic == topic]
            if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._state.failures[topic] = _NOT_PERMITTED
                self._state.on_event(f"{topic}: {_NOT_PERMITTED}")
            elif topic in mirrored:
                is_short = self._state.options.once and not all(partition.is_at_stop for partition in partitions)
                end = "; not all that it had are here" if is_short else ""
                self._state.on_event(f"{topic}: deleted at the source; its records stay here{end}")
            for partition in partitions:
                partition.stop("", is_another=True)
                partition.forget_lag()
        for topic in self._gone & metadata.topics.keys() - self._state.failures.keys():
            self._gone.discard(topic)  # the same topic, which a broker had not learned of yet
            for partition in self._state.partitions.values():
                if partition.name.topic == topic and not partition.failure:
                    partition.is_stopped = partition.is_another = False


def _is_another(topic: TopicInfo, recorded: MirroredTopic) -> bool:
    """Whether a topic was created again since it was recorded."""
    return bool(recorded.topic_id) and topic.has_id and recorded.topic_id != id_text(topic.id)


def _partitions(topic: TopicInfo) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in sorted(topic.partitions)]
