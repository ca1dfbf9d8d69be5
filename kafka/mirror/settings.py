"""The settings of topics: described by the source, recorded in the file of the mirror, and followed here.

    DescribeConfigs ──► the topic's own settings ──► .offsetfs-mirror.json: all of them
                                                 └─► .offsetfs-topics.json: those that have an effect here

A setting that changes at the source changes here, and one that is removed there is removed here. Exceptions are
`retention.ms` and `retention.bytes`, with `keep` `cleanup.policy`, the settings of the options, and those that the user
has set in the directory. A copy is never compacted any longer than its source: it would lose records.

If the source does not return the settings of a topic, that is recorded: then missing offsets are no damage, because the
topic may be a compacted one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import ClientError, KafkaError, error_name
from offsetfs.kafka.client.metadata import TopicInfo, settings_requests
from offsetfs.kafka.mirror import timing, topics
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.kafka.mirror.topics import CLEANUP_POLICY, SettingChanges
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import id_text
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.directory import MirroredTopic, MirrorFile
from offsetfs.storage.errors import InvalidConfig

_DESCRIBE_CONFIGS = ": the user of --config needs DESCRIBE_CONFIGS of the topic"


class SettingsMirror:
    """The settings of the mirrored topics."""

    def __init__(
        self,
        directory: LogDirectory,
        client: ClusterClient,
        options: MirrorOptions,
        on_event: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._client = client
        self._options = options
        self._on_event = on_event
        self._next = -math.inf
        self._refused: dict[str, str] = {}
        """Topics whose settings the source does not return, with the reasons that were reported."""

    async def of_new(self, new: Sequence[TopicInfo]) -> dict[str, MirroredTopic]:
        """Return the records of new topics for the file of the mirror. ClientError that may pass."""
        settings, refused = await self._described(new)
        self._report(refused)
        return {
            topic.name: MirroredTopic(
                id_text(topic.id) if topic.has_id else "",
                settings.get(topic.name, {}),
                knows_settings=topic.name in settings,
            )
            for topic in new
        }

    async def follow(self, known: MirrorFile, infos: Sequence[TopicInfo]) -> MirrorFile:
        """Apply and record what has changed at the source, if it is time; return what is recorded. StorageError,
        OSError.
        """
        if trio.current_time() < self._next:
            return known
        try:
            settings, refused = await self._described(infos)
        except ClientError:  # asked again with the next refresh
            return known
        self._next = trio.current_time() + timing.SETTINGS_S
        # What is known already is not said again at each start.
        self._report({name: reason for name, reason in refused.items() if known.topics[name].knows_settings})
        current = {topic.name: known.topics[topic.name] for topic in infos}
        for name, new in settings.items():
            self._refused.pop(name, None)
            current[name] = replace(current[name], settings=new, knows_settings=True)
        for name in refused:
            current[name] = replace(current[name], knows_settings=bool(current[name].settings))
        for text in await in_thread(partial(self._apply, known, current)):
            self._on_event(text)
        return self._directory.mirror or known

    def _report(self, refused: Mapping[str, str]) -> None:
        by_reason = defaultdict[str, list[str]](list)
        for name, reason in refused.items():
            if self._refused.get(name) != reason:
                by_reason[reason].append(name)
                self._refused[name] = reason
        for reason, names in sorted(by_reason.items()):
            self._on_event(f"{topics.listed(names)}: settings are not taken over: {reason}")

    async def _described(self, infos: Sequence[TopicInfo]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        """Return the topics' own settings, and the reasons for topics whose settings the source does not return.

        ClientError that may pass.
        """
        settings, refused = dict[str, dict[str, str]](), dict[str, str]()
        for request in settings_requests(sorted({topic.name for topic in infos})):
            some, others = await self._answered(request)
            settings |= some
            refused |= others
        return settings, refused

    async def _answered(self, request: m.DescribeConfigsRequest) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
        names = {resource.resource_name for resource in request.resources}
        try:
            response = await self._client.request(request)
        except ClientError as error:
            if error.is_retriable:
                raise
            return {}, dict.fromkeys(names, str(error))
        settings, refused = dict[str, dict[str, str]](), dict[str, str]()
        for result in response.results:
            if result.resource_name not in names:
                continue
            failure = KafkaError(result.error_code, f"the settings of {result.resource_name}")
            if failure.is_retriable and result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise failure
            if result.error_code:
                remedy = _DESCRIBE_CONFIGS if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
                refused[result.resource_name] = f"{error_name(result.error_code)}{remedy}"
            else:
                settings[result.resource_name] = topics.own_settings(result)
        return settings, refused

    # --- in a thread --------------------------------------------------------------------------------------------------

    def _apply(self, known: MirrorFile, current: Mapping[str, MirroredTopic]) -> list[str]:
        """Apply the current settings, record those that changed, and return the events.

        Recorded at the end: after a kill the next start applies them again.
        """
        partitions = defaultdict[str, list[TopicPartition]](list)
        for partition in self._directory.partitions():
            partitions[partition.topic].append(partition)
        events = list[str]()
        for name, topic in current.items():
            if partitions[name]:  # else it is created with all of them
                events += self._configure(name, known.topics[name].settings, topic.settings)
        changed = {name: topic for name, topic in current.items() if topic != known.topics[name]}
        if changed:
            unknown = {name for name in changed if not known.topics[name].knows_settings}
            self.expect_gaps(changed, {name: partitions[name] for name in changed}, were_unknown=unknown)
            self._directory.set_mirror(replace(known, topics={**known.topics, **changed}))
        return events

    def _configure(self, name: str, before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
        own = self._directory.settings_of(name)
        changes: SettingChanges = {}
        kept = list[str]()
        if before != now:
            changes, kept = topics.followed_settings(before, now, own, self._options)
        given = {name: text for name, text in self._options.settings.items() if own.get(name) != text}
        events = list[str]()
        if changes or given:
            try:
                self._directory.configure(name, {**changes, **given})
            except InvalidConfig as error:  # together with settings of the directory
                changes = {name: text for name, text in changes.items() if name == CLEANUP_POLICY}
                self._directory.configure(name, {**changes, **given})
                events.append(f"{name}: settings that changed at the source are not taken over: {error.reason}")
        if changes:
            events.append(f"{name}: changed at the source, and here: {_changes_text(changes)}")
        if kept:
            events.append(f"{name}: changed at the source, but set by hand here, and not changed: {', '.join(kept)}")
        return events

    def expect_gaps(
        self,
        recorded: Mapping[str, MirroredTopic],
        partitions: Mapping[str, Iterable[TopicPartition]],
        *,
        were_unknown: Collection[str] = (),
    ) -> None:
        """Record whether missing offsets are damage: not if a topic is compacted, here or at the source, or may be.

        In a thread; at each start, because a mirror may have been killed after it had created the partitions. All
        topics with one write. `were_unknown`: topics whose settings were not known before.
        """
        offsets = dict[TopicPartition, int | None]()
        for name, topic in recorded.items():
            policies = {*topic.settings.get(CLEANUP_POLICY, "").split(",")}
            is_compacted = "compact" in policies or self._directory.config_of(name).is_compacted
            may_have_gaps = is_compacted or not topic.knows_settings
            for partition in partitions[name]:
                is_cleaned = self._directory.checkpoints.is_cleaned(partition)
                if may_have_gaps and not is_cleaned:
                    offsets[partition] = 0
                elif not may_have_gaps and is_cleaned and name in were_unknown:
                    offsets[partition] = None
        if offsets:
            self._directory.set_cleaner_offsets(offsets)


def keep_all(directory: LogDirectory, known: MirrorFile) -> None:
    """Record that nothing is deleted or compacted, in a thread. Its topics may have been mirrored without `keep`."""
    for topic in known.topics:
        if directory.config_of(topic).is_compacted:
            directory.configure(topic, {CLEANUP_POLICY: "delete"})
    if not known.keep:
        directory.set_mirror(replace(known, keep=True))


def _changes_text(changes: SettingChanges) -> str:
    texts = (f"{name} {'removed' if text is None else f'= {text}'}" for name, text in sorted(changes.items()))
    return ", ".join(texts)
