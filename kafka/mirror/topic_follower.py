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
        chosen = [each for each in selected if self._can_mirror(each, known)]
        self._note_unready(each for each in selected if each.error and each.name not in self._state.failures)
        new = [each for each in chosen if each.name not in known.topics or _is_another(each, known.topics[each.name])]
        if new or self._state.directory.mirror is None:
            known = await self._record(known, new)
        known = await self._settings.follow(known, [each for each in chosen if each not in new])
        await self._add_missing([each for each in chosen if self._missing(each)], known.topics)
        return known

    def check_patterns(self, metadata: ClusterMetadata) -> None:
        """Report patterns without a topic; MirrorError if this is true of all, and no topic is waited for."""
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
        if not self._state.partitions and not self._state.failures and is_needed:
            raise MirrorError(f"{text}; the cluster has {topics.listed(names) or 'no topic'}")
        if self._state.options.once:
            self._state.failures |= dict.fromkeys(missing, "no topic matches")
        remedy = "check its name, and that the user of --config has DESCRIBE of it"
        self._state.on_event(f"{text}; {remedy if self._state.options.once else 'it is mirrored as soon as it exists'}")

    def _can_mirror(self, topic: TopicInfo, known: MirrorFile) -> bool:
        failure = self._failure_of(topic, known)
        if not failure:
            if topic.error == ErrorCode.NONE:
                self._state.failures.pop(topic.name, None)
            return topic.error == ErrorCode.NONE
        if self._state.failures.get(topic.name) != failure:
            self._state.failures[topic.name] = failure
            self._state.on_event(f"{topic.name}: {failure}")
            for each in self._state.active():
                if each.name.topic == topic.name:
                    each.stop(failure, is_another=True)
        return False

    def _note_unready(self, found: Iterable[TopicInfo]) -> None:
        """Ask again for topics whose partitions the source does not name now; with `once` they fail in the end."""
        now, before = trio.current_time(), self._unready
        self._unready = {}
        for each in found:
            self._state.asks_again = True
            since = before.get(each.name, now)
            if self._state.options.once and now - since > timing.PATIENCE_S:
                self._state.failures[each.name] = f"the source answers {error_name(each.error)}; start the mirror again"
                self._state.on_event(f"{each.name}: {self._state.failures[each.name]}")
            else:
                self._unready[each.name] = since

    def _failure_of(self, topic: TopicInfo, known: MirrorFile) -> str:
        if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return _NOT_PERMITTED
        if topic.error:
            return ""  # no leader, being deleted: it passes
        if not self._state.directory.partitions_of(topic.name):
            return ""
        found = known.topics.get(topic.name)
        path = self._state.directory.path
        if found is None:
            cause = "the directory has a topic of this name that is not a mirror"
            return f"{cause}; mirror into another directory, or delete it (offsetfs delete {path} {topic.name})"
        if _is_another(topic, found):
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
        return [each for each in _partitions(topic) if each not in self._state.partitions]

    async def _add_missing(self, found: Sequence[TopicInfo], recorded: Mapping[str, MirroredTopic]) -> None:
        """Create the partitions that are not here, and open all of these topics."""
        created = [
            each for each in found if await self._attempt([each], partial(self._create, each, recorded[each.name]))
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

    async def _attempt(self, found: Sequence[TopicInfo], work: Callable[[], T]) -> T | None:
        """Do work in a thread; None after an error, which is that of the topics. The next refresh repeats it."""
        try:
            return await in_thread(work)
        except (StorageError, OSError) as error:
            text = sentence(error)
            for each in found:
                self._state.failures[each.name] = text
                if self._not_created.get(each.name) != text:
                    self._state.on_event(f"{each.name}: {text}")
                self._not_created[each.name] = text
            return None

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _create(self, topic: TopicInfo, recorded: MirroredTopic) -> bool:
        """Create the partitions of a topic that do not exist."""
        absent = [each for each in _partitions(topic) if not self._state.directory.has(each)]
        if absent:
            self._starts.set_begun({topic.name: {*recorded.begun} - {each.partition for each in absent}})
            settings = topics.local_settings(recorded.settings, self._state.options)
            topic_id = topic.id if topic.has_id else None
            try:
                self._state.directory.create_partitions(absent, settings, topic_id=topic_id)
            except InvalidConfig:  # settings that contradict each other together with the defaults here
                settings = topics.local_settings({}, self._state.options)
                self._state.directory.create_partitions(absent, settings, topic_id=topic_id)
        return True

    def _expect_gaps(self, found: Sequence[TopicInfo], recorded: Mapping[str, MirroredTopic]) -> bool:
        named = {each.name: _partitions(each) for each in found}
        self._settings.expect_gaps({name: recorded[name] for name in named}, named)
        return True

    def _logs(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, Log]:
        return {each: self._state.directory.writable_log(each) for each in names}

    # --- gone ---------------------------------------------------------------------------------------------------------

    async def note_gone(self, metadata: ClusterMetadata, known: MirrorFile) -> None:
        """Stop topics that the source has had no more for a while: a broker that has just started may know of none.

        A list of all topics is without those that the user may not describe. Such a topic is a failure, also one that
        an earlier run has mirrored: otherwise a backup would end without it, and without an error.
        """
        now, mirrored = trio.current_time(), {each.topic for each in self._state.partitions}
        earlier = {name for name in known.topics if topics.is_name_chosen(name, self._state.options)} - mirrored
        missing = mirrored - metadata.topics.keys()
        self._missing_since = {each: self._missing_since.get(each, now) for each in missing}
        gone = {each for each in missing if now - self._missing_since[each] >= timing.MISSING_S}
        gone = (gone | (earlier - metadata.topics.keys())) - self._gone
        found = (await self._state.client.metadata(sorted(gone), refresh=True)).topics if gone else {}
        for topic in sorted(gone):
            error = found[topic].error
            if error not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                continue  # it has just been created again, or is not ready: asked again with the next refresh
            self._gone.add(topic)
            if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                self._state.failures[topic] = _NOT_PERMITTED
                self._state.on_event(f"{topic}: {_NOT_PERMITTED}")
            elif topic in mirrored:
                self._state.on_event(f"{topic}: deleted at the source; its records stay here")
            for each in self._state.active():
                if each.name.topic == topic:
                    each.stop("", is_another=True)
                    each.forget_lag()
        for topic in self._gone & metadata.topics.keys() - self._state.failures.keys():
            self._gone.discard(topic)  # the same topic, which a broker had not learned of yet
            for each in self._state.partitions.values():
                if each.name.topic == topic and not each.failure:
                    each.is_stopped = each.is_another = False


def _is_another(topic: TopicInfo, recorded: MirroredTopic) -> bool:
    """Whether a topic was created again since it was recorded."""
    return bool(recorded.topic_id) and topic.has_id and recorded.topic_id != id_text(topic.id)


def _partitions(topic: TopicInfo) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for number in sorted(topic.partitions)]
