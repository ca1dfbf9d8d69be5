"""Mirrors the chosen topics of a cluster into a log directory, until cancelled or, with `once`, up to their ends.

    metadata ──► topics, partitions, leaders ──► check what is here ──► a fetcher for each broker
        ▲                                                                     │
        └──────────── a leader has moved, a topic is new or gone ◄────────────┘

A partition is checked whenever its leader or its leader epoch changes: records that the source has lost in an unclean
election are cut here, too. What cannot pass by itself stops one partition; the others go on.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import trio

from offsetfs.client.cluster import ClusterClient
from offsetfs.client.errors import ClientError, NoBrokerAnswers, error_name
from offsetfs.client.metadata import ClusterMetadata, TopicInfo
from offsetfs.mirror import last_records, positions, topics
from offsetfs.mirror.fetcher import NodeFetcher, is_passing
from offsetfs.mirror.groups import GroupMirror, conflict
from offsetfs.mirror.last_records import Comparison
from offsetfs.mirror.options import EARLIEST, FETCH_BYTES_MAX, FLIGHT_BYTES_MAX, LATEST, MirrorOptions, OnGap
from offsetfs.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.mirror.positions import OffsetQuery, SourceOffset
from offsetfs.protocol.error_codes import ErrorCode
from offsetfs.protocol.message import NO_ID, id_text
from offsetfs.runtime.rate_limit import RateLimit
from offsetfs.runtime.threads import in_thread
from offsetfs.storage import Log, LogDirectory, TopicPartition
from offsetfs.storage.directory import MirroredTopic, MirrorFile
from offsetfs.storage.errors import InvalidConfig, StorageError, sentence

_log = logging.getLogger(__name__)

REFRESH_S = 10.0
"""How often topics, partitions and leaders are asked for when nothing has failed."""

SETTINGS_S = 300.0
"""How often the settings of topics are asked for, after the start."""

REFRESH_PAUSE_S = 0.1
RECHECK_S = 0.2
UPKEEP_S = 1.0
FLUSH_S = 10.0
FLUSH_BYTES = 64 << 20
"""A log is written to the disk after so many bytes, too: while more is received, and not all of it at the end."""

MISSING_S = 5.0
"""For how long the metadata has to be without a topic until it counts as deleted."""

SILENT_S = 15.0
"""For how long a broker may not answer, or a partition may have no leader, before it is reported.

A cluster names another leader for a broker that was killed after some ten seconds (broker.session.timeout.ms).
"""

PATIENCE_S = 60.0
"""With `once`: how long the source may not answer, or a partition may have no leader."""

NAMES_SHOWN = 10
"""How many topics of the cluster an error message names."""

OnEvent = Callable[[str], None]
"""Called with one sentence for each event that the user sees."""


class MirrorError(Exception):
    """The directory cannot be a mirror of the cluster. The message has the remedy."""


@dataclass(slots=True)
class _SilentBroker:
    """A broker that does not answer; of the node id UNKNOWN: partitions without a leader."""

    since: float
    error: ClientError
    is_reported: bool = False


class Mirror:
    """A log directory that follows a cluster. `run` it once."""

    def __init__(
        self, directory: LogDirectory, client: ClusterClient, source: str, options: MirrorOptions, on_event: OnEvent
    ) -> None:
        self.rate = RateLimit(options.bytes_per_s)
        self.partitions: dict[TopicPartition, MirroredPartition] = {}
        self.failures: dict[str, str] = {}
        """Topics that are not mirrored, with the reason."""
        self._directory = directory
        self._client = client
        self.source = source
        self._options = options
        self._on_event = on_event
        self._by_id: dict[tuple[bytes, int], MirroredPartition] = {}
        self._missing_since: dict[str, float] = {}
        self._gone: set[str] = set()
        self._fetchers: dict[int, NodeFetcher] = {}
        self._silent: dict[int, _SilentBroker] = {}
        self._next_settings = -math.inf
        self._not_created: dict[str, str] = {}
        self._unready: dict[str, float] = {}
        """Topics that the source has, but no partitions of them at the moment, and since when."""
        self._nursery: trio.Nursery | None = None
        self._wake = trio.Event()
        self._has_much = trio.Event()
        self._asks_again = False
        self._failing_since: float | None = None
        self._local_failure = ""
        self._is_begun = False
        self._groups: GroupMirror | None = None
        if options.groups:
            self._groups = GroupMirror(directory, client, options, self._ends, on_event)

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            name: each.log.next_offset
            for name, each in self.partitions.items()
            if each.leader != UNKNOWN and not each.is_another
        }

    # --- begin and run ------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Record `keep`, and set the topics to keep all records; before the background tasks of the directory run.

        MirrorError without `keep` for a directory that was mirrored with it; StorageError, OSError.
        """
        known = self._directory.mirror
        if known is not None and known.keep and not self._options.keep:
            raise MirrorError(
                f"{self._directory.path} was mirrored with --keep, and would lose what the cluster deletes or "
                "compacts; give --keep (of a mount: -o keep), or mirror into another directory"
            )
        if known is not None and self._options.keep:
            await in_thread(partial(_keep_all, self._directory, known))

    async def begin(self) -> None:
        """Create the topics that are chosen, if the source answers and has any. ClientError, MirrorError, OSError."""
        await self.prepare()
        await self._refresh()
        self._check_patterns(await self._client.metadata())
        self._is_begun = True

    def _check_patterns(self, metadata: ClusterMetadata) -> None:
        """Report patterns without a topic; MirrorError if this is true of all, and no topic is waited for."""
        names = list(metadata.topics)
        known = [] if self._directory.mirror is None else list(self._directory.mirror.topics)
        missing = topics.patterns_without_topic([*names, *known], self._options)
        if not missing:
            return
        text = f"no topic that this user may describe matches {', '.join(map(repr, missing))}"
        if not self.partitions and not self.failures and (self._options.once or self._options.needs_topic):
            listed = ", ".join(sorted(names)[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
            raise MirrorError(f"{text}; the cluster has {listed or 'no topic'}")
        if self._options.once:
            self.failures |= dict.fromkeys(missing, "no topic matches")
        remedy = "check its name, and that the user of --config has DESCRIBE of it"
        self._on_event(f"{text}; {remedy if self._options.once else 'it is mirrored as soon as it exists'}")

    async def run(self) -> None:
        """Mirror until cancelled; with `once` until all partitions are complete. ClientError, MirrorError, OSError.

        Without `begin` before it, a source that does not answer is tried again.
        """
        if not self._is_begun:
            await self.prepare()
            await self._try_refresh()
            self._is_begun = True
        failures = list[Exception]()
        groups = self._groups
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._keep_up)
            nursery.start_soon(self._flush_large)
            if groups is not None and not self._options.once:
                nursery.start_soon(groups.run)
            try:
                await self._follow()
            except (ClientError, MirrorError, StorageError, OSError) as error:  # raised below: not in a group
                failures.append(error)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if groups is not None and self._options.once:
            await groups.sync()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do with `once`."""
        is_ready = self._options.once and not self._unready
        return is_ready and all(each.is_complete for each in self.partitions.values())

    @property
    def has_failed(self) -> bool:
        """Whether a topic or a partition could not be mirrored."""
        has_failed = self._groups is not None and bool(self._groups.failures)
        return has_failed or bool(self.failures) or any(each.failure for each in self.partitions.values())

    async def _follow(self) -> None:
        next_refresh = trio.current_time() + REFRESH_S
        while not self.is_complete:
            self._wake = trio.Event()
            self._start_fetchers()
            await self._attend()
            self._attend_silent()
            self._attend_failing()
            if self.is_complete:
                break
            now = trio.current_time()
            if self._asks_again or now >= next_refresh:
                self._asks_again = False
                await self._try_refresh()
                next_refresh = trio.current_time() + REFRESH_S
                await trio.sleep(REFRESH_PAUSE_S)
                continue
            is_waiting = any(not each.is_checked or each.is_out_of_range for each in self._active())
            with trio.move_on_after(RECHECK_S if is_waiting else next_refresh - now):
                await self._wake.wait()

    def _active(self) -> list[MirroredPartition]:
        return [each for each in self.partitions.values() if not each.is_stopped]

    def _start_fetchers(self) -> None:
        assert self._nursery is not None
        for node in {each.node for each in self._active()} - {UNKNOWN} - self._fetchers.keys():
            self._fetchers[node] = NodeFetcher(node, self._client, self)
            self._nursery.start_soon(self._fetchers[node].run)
        for each in self._fetchers.values():
            each.wake()

    async def _attend(self) -> None:
        """Check partitions whose leader is new, and find a position for those that are out of range."""
        try:
            await self._check([each for each in self._active() if not each.is_checked and each.leader != UNKNOWN])
            await self._find_range([each for each in self._active() if each.is_out_of_range])
            await self._confirm_ends([each for each in self._active() if each.empty_at != UNKNOWN])
        except ClientError as error:
            self._note_failing(error)
        for each in self._fetchers.values():
            each.wake()

    def _attend_silent(self) -> None:
        """Report brokers that do not answer. With `once` their partitions stop in the end; the others go on."""
        now = trio.current_time()
        for node, silent in list(self._silent.items()):
            waiting = [each for each in self._active() if each.named_leader == node and not each.is_complete]
            has_ended = self._options.once and node != UNKNOWN and now - silent.since > PATIENCE_S
            if not waiting:
                del self._silent[node]
                if silent.is_reported:
                    self._on_event("the partitions that waited have another leader, or are complete")
            elif has_ended or not silent.error.is_retriable:
                del self._silent[node]
                for each in waiting:
                    each.stop(f"{silent.error}; start the mirror again when broker {node} answers")
                    self.changed(each)
            elif not silent.is_reported and now - silent.since >= SILENT_S:
                silent.is_reported = True
                shown = ", ".join(str(each.name) for each in waiting[:NAMES_SHOWN])
                more = ", …" if len(waiting) > NAMES_SHOWN else ""
                self._on_event(f"{silent.error}; these partitions wait, and the others go on: {shown}{more}")

    def _attend_failing(self) -> None:
        """Report errors of partitions that do not pass soon. With `once` the partitions stop in the end."""
        now = trio.current_time()
        for each in [each for each in self._active() if each.passing_error and not each.is_complete]:
            if self._options.once and now - each.failing_since > PATIENCE_S:
                each.stop(f"{each.passing_error}; see the log of the broker, and start the mirror again")
                self.changed(each)
            elif not each.is_error_reported and now - each.failing_since >= SILENT_S:
                each.is_error_reported = True
                self.report(each, f"{each.passing_error}; trying again")

    def waiting_for(self, partition: MirroredPartition) -> str:
        """Return what a partition has been waiting for since it was reported; "" if it waits for nothing."""
        if partition.is_error_reported:
            return partition.passing_error
        silent = self._silent.get(partition.named_leader)
        is_waiting = silent is not None and silent.is_reported and not partition.is_stopped
        return str(silent.error) if silent is not None and is_waiting else ""

    # --- for the fetchers ---------------------------------------------------------------------------------------------

    def partitions_of(self, node: int) -> list[MirroredPartition]:
        return [each for each in self.partitions.values() if each.node == node and not each.is_stopped]

    def by_name(self, topic: str, topic_id: bytes, number: int) -> MirroredPartition | None:
        if topic:
            return self.partitions.get(TopicPartition(topic, number))
        return self._by_id.get((bytes(topic_id), number))

    def bytes_max(self) -> int:
        return min(FETCH_BYTES_MAX, max(FLIGHT_BYTES_MAX // 2 // max(len(self._fetchers), 1), 1 << 20))

    def node_failed(self, node: int, error: ClientError) -> None:
        silent = self._silent.setdefault(node, _SilentBroker(trio.current_time(), error))
        silent.error = error
        self.metadata_is_old()

    def node_answered(self, node: int) -> None:
        silent = self._silent.pop(node, None)
        if silent is not None and silent.is_reported:
            self._on_event(f"broker {node} answers again")

    def metadata_is_old(self) -> None:
        self._asks_again = True
        self._wake.set()

    def appended(self, partition: MirroredPartition, count: int) -> None:
        partition.appended_bytes += count
        partition.unflushed_bytes += count
        if partition.unflushed_bytes >= FLUSH_BYTES:
            self._has_much.set()

    def changed(self, partition: MirroredPartition) -> None:
        if partition.is_stopped and partition.failure:
            self.report(partition, partition.failure)
        self._wake.set()

    def report(self, partition: MirroredPartition, text: str) -> None:
        self._on_event(f"{partition.name}: {text}")

    # --- topics and leaders -------------------------------------------------------------------------------------------

    async def _try_refresh(self) -> None:
        try:
            await self._refresh()
        except ClientError as error:
            if not error.is_retriable:
                raise
            self._note_failing(error)
        except (StorageError, OSError) as error:  # such as a full disk: partitions that are here need no refresh
            if self._options.once or not self._is_begun:
                raise
            self._note_local_failure(sentence(error))
        else:
            if self._failing_since is not None:
                self._on_event("the source answers again")
            self._failing_since, self._local_failure = None, ""

    def _note_local_failure(self, text: str) -> None:
        if self._local_failure != text:
            self._on_event(f"topics and leaders are not followed: {text}; trying again")
        self._local_failure = text

    def _note_failing(self, error: ClientError) -> None:
        now = trio.current_time()
        if self._failing_since is None:
            self._failing_since = now
            self._on_event(f"{error}; trying again")
        elif self._options.once and now - self._failing_since > PATIENCE_S:
            raise error
        self._asks_again = True

    async def _refresh(self) -> None:
        metadata = await self._client.metadata(None, refresh=True)
        known = self._directory.mirror or MirrorFile(metadata.cluster_id or "", self.source, keep=self._options.keep)
        if known.cluster_id != (metadata.cluster_id or ""):
            raise MirrorError(
                f"{self._directory.path} mirrors the cluster {known.cluster_id} ({known.source}), and {self.source} "
                f"is {metadata.cluster_id}; mirror into another directory"
            )
        if reason := conflict(self._options, known.topics):
            raise MirrorError(reason)
        selected = topics.chosen_topics(metadata, self._options)
        chosen = [each for each in selected if self._can_mirror(each, known)]
        self._note_unready(each for each in selected if each.error and each.name not in self.failures)
        new = [each for each in chosen if each.name not in known.topics or _is_another(each, known.topics[each.name])]
        if new or self._directory.mirror is None:
            known = await self._record(known, new)
        if trio.current_time() >= self._next_settings:
            known = await self._renew_settings(known, [each for each in chosen if each not in new])
            self._next_settings = trio.current_time() + SETTINGS_S
        for each in chosen:
            await self._add_missing(each, known.topics[each.name])
        await self._begin([each for each in self._active() if each.leader == UNKNOWN], metadata)
        self._follow_leaders(metadata)
        self._note_gone(metadata)

    def _can_mirror(self, topic: TopicInfo, known: MirrorFile) -> bool:
        failure = self._failure_of(topic, known)
        if not failure:
            if topic.error == ErrorCode.NONE:
                self.failures.pop(topic.name, None)
            return topic.error == ErrorCode.NONE
        if self.failures.get(topic.name) != failure:
            self.failures[topic.name] = failure
            self._on_event(f"{topic.name}: {failure}")
            for each in self._active():
                if each.name.topic == topic.name:
                    each.stop(failure, is_another=True)
        return False

    def _note_unready(self, found: Iterable[TopicInfo]) -> None:
        """Ask again for topics whose partitions the source does not name now; with `once` they fail in the end."""
        now, before = trio.current_time(), self._unready
        self._unready = {}
        for each in found:
            self._asks_again = True
            since = before.get(each.name, now)
            if self._options.once and now - since > PATIENCE_S:
                self.failures[each.name] = f"the source answers {error_name(each.error)}; start the mirror again"
                self._on_event(f"{each.name}: {self.failures[each.name]}")
            else:
                self._unready[each.name] = since

    def _failure_of(self, topic: TopicInfo, known: MirrorFile) -> str:
        if topic.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return f"{error_name(topic.error)}: the user of --config needs READ and DESCRIBE of the topic"
        if topic.error:
            return ""  # no leader, being deleted: it passes
        if not any(each.topic == topic.name for each in self._directory.partitions()):
            return ""
        found = known.topics.get(topic.name)
        path = self._directory.path
        if found is None:
            cause = "the directory has a topic of this name that is no mirror"
            return f"{cause}; mirror into another directory, or delete it (offsetfs delete {path} {topic.name})"
        if _is_another(topic, found):
            cause = "deleted and created again at the source; the records here are those of the former topic"
            return f"{cause}; mirror into another directory, or delete them (offsetfs delete {path} {topic.name})"
        return ""

    async def _record(self, known: MirrorFile, new: Sequence[TopicInfo]) -> MirrorFile:
        """Add topics to the file of the mirror, with their settings."""
        refused = set[str]()
        settings = await self._settings_of(new, refused)
        for each in sorted(refused):
            self._on_event(each)
        added = {
            each.name: MirroredTopic(id_text(each.id) if each.has_id else "", settings.get(each.name, {}))
            for each in new
        }
        changed = replace(known, source=self.source, topics={**known.topics, **added})
        await in_thread(partial(self._directory.set_mirror, changed))
        return changed

    async def _renew_settings(self, known: MirrorFile, found: Sequence[TopicInfo]) -> MirrorFile:
        """Record settings that have changed at the source; of these `cleanup.policy` has an effect here, too.

        A copy that was compacted any longer than its source would lose records.
        """
        try:
            settings = await self._settings_of(found, set())  # what is refused was reported when the topic was new
        except ClientError:  # asked again later
            return known
        changed = {
            name: replace(known.topics[name], settings=new)
            for name, new in settings.items()
            if new != known.topics[name].settings
        }
        if not changed:
            return known
        await in_thread(partial(self._change_policies, known, changed))
        assert self._directory.mirror is not None
        return self._directory.mirror

    def _change_policies(self, known: MirrorFile, changed: Mapping[str, MirroredTopic]) -> None:
        """Apply changed policies and record the settings, in a thread; a kill in between repeats it."""
        for name, topic in changed.items():
            before, now = (each.settings.get(_POLICY) for each in (known.topics[name], topic))
            if before != now and not self._options.keep:
                try:
                    self._directory.configure(name, {_POLICY: now})
                except InvalidConfig:  # a value of a later version of Kafka
                    self._directory.configure(name, {_POLICY: None})
            self._expect_gaps(name, topic, [each for each in self._directory.partitions() if each.topic == name])
        self._directory.set_mirror(replace(known, topics={**known.topics, **changed}))

    async def _settings_of(self, found: Sequence[TopicInfo], refused: set[str]) -> dict[str, dict[str, str]]:
        """Return the topics' own settings, of those whose settings the source returns; the others are in `refused`."""
        if not found:
            return {}
        names = {each.name for each in found}
        try:
            response = await self._client.request(topics.settings_request(names))
        except ClientError as error:
            if error.is_retriable:
                raise
            refused.add(f"settings of topics are not taken over: {error}")
            return {}
        settings = dict[str, dict[str, str]]()
        for each in response.results:
            if each.error_code:
                remedy = _DESCRIBE_CONFIGS if each.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
                refused.add(f"{each.resource_name}: settings are not taken over: {error_name(each.error_code)}{remedy}")
            elif each.resource_name in names:
                settings[each.resource_name] = topics.own_settings(each)
        return settings

    async def _add_missing(self, topic: TopicInfo, recorded: MirroredTopic) -> None:
        """Create the partitions that are not here, and open all of a topic."""
        names = [TopicPartition(topic.name, number) for number in sorted(topic.partitions)]
        missing = [each for each in names if each not in self.partitions]
        if not missing:
            return
        try:
            logs = await in_thread(partial(self._logs, topic, recorded, names, missing))
        except (StorageError, OSError) as error:
            text = self.failures[topic.name] = sentence(error)
            if self._not_created.get(topic.name) != text:
                self._on_event(f"{topic.name}: {text}")
            self._not_created[topic.name] = text
            return
        self._not_created.pop(topic.name, None)
        for name, log in logs.items():
            found = MirroredPartition(name, topic.id if recorded.topic_id or topic.has_id else NO_ID, log)
            found.restart(log.next_offset)
            self.partitions[name] = found
            self._by_id[found.topic_id, name.partition] = found

    def _logs(
        self,
        topic: TopicInfo,
        recorded: MirroredTopic,
        names: Iterable[TopicPartition],
        missing: Iterable[TopicPartition],
    ) -> dict[TopicPartition, Log]:
        """Return the logs of partitions, in a thread; those that do not exist are created."""
        absent = [each for each in names if not self._directory.has(each)]
        if absent:
            self._set_begun({topic.name: {*recorded.begun} - {each.partition for each in absent}})
            settings = topics.local_settings(recorded.settings, self._options)
            topic_id = topic.id if topic.has_id else None
            try:
                self._directory.create_partitions(absent, settings, topic_id=topic_id)
            except InvalidConfig:  # settings that contradict each other together with the defaults here
                self._directory.create_partitions(absent, topics.local_settings({}, self._options), topic_id=topic_id)
        self._expect_gaps(topic.name, recorded, names)
        return {each: self._directory.writable_log(each) for each in missing}

    def _expect_gaps(self, topic: str, recorded: MirroredTopic, names: Iterable[TopicPartition]) -> None:
        """Record that a topic is compacted, here or at the source: missing offsets are no damage. In a thread.

        At each start, because a mirror may have been killed after it had created the partitions.
        """
        policies = {*recorded.settings.get(_POLICY, "").split(",")}
        if "compact" in policies or self._directory.config_of(topic).is_compacted:
            for each in names:
                if not self._directory.is_cleaned(each):
                    self._directory.set_cleaner_offset(each, 0)

    def _has_begun(self, name: TopicPartition) -> bool:
        """Whether the first offset of a partition is decided, so that it goes on where its log ends."""
        found = self.partitions[name]
        return bool(found.end or found.log.size_bytes) or name.partition in self._begun(name.topic)

    def _begun(self, topic: str) -> Collection[int]:
        known = self._directory.mirror
        return () if known is None or topic not in known.topics else known.topics[topic].begun

    def _set_begun(self, begun: Mapping[str, Collection[int]]) -> None:
        """Record which partitions of topics have begun, in a thread; durable on return. StorageError, OSError."""
        known = self._directory.mirror
        assert known is not None  # `_record` wrote it
        changed = {
            name: replace(known.topics[name], begun=frozenset(numbers))
            for name, numbers in begun.items()
            if {*known.topics[name].begun} != {*numbers}
        }
        if changed:
            self._directory.set_mirror(replace(known, topics={**known.topics, **changed}))

    async def _begin(self, new: Sequence[MirroredPartition], metadata: ClusterMetadata) -> None:
        """Set where new partitions begin and, with `once`, where they end."""
        asked = list[OffsetQuery]()
        for each in new:
            topic = metadata.topics.get(each.name.topic)  # it may be gone before it has begun
            info = None if topic is None else topic.partitions.get(each.name.partition)
            if info is not None and info.leader != UNKNOWN:
                asked.append(OffsetQuery(each.name, info.leader, info.leader_epoch, self._options.start))
        empty = [each for each in asked if not self._has_begun(each.name)]
        starts = await positions.offsets_at(self._client, empty, self.node_failed)
        ends: positions.Answers = {}
        if self._options.once:
            ends = await positions.offsets_at(self._client, [_at(each, LATEST) for each in asked], self.node_failed)
        begun = {each.name.topic: {*self._begun(each.name.topic)} for each in new}
        for one in asked:
            found = self.partitions[one.name]
            if one in empty and not self._is_answered(found, starts.get(one.name)):
                continue
            if self._options.once and not self._is_answered(found, ends.get(one.name)):
                continue
            if one in empty and starts[one.name].offset > 0 and not await self._empty(found, starts[one.name].offset):
                continue
            if self._options.once:
                found.stop_at = ends[one.name].offset
            found.leader, found.leader_epoch = one.leader, one.leader_epoch
            begun[one.name.topic].add(one.name.partition)
        if begun:  # before their first records are here
            await in_thread(partial(self._set_begun, begun))

    def _is_answered(self, partition: MirroredPartition, answer: SourceOffset | None) -> bool:
        if answer is None:
            self._asks_again = True
            return False
        if is_passing(answer.error):
            self._note_error(partition, f"ListOffsets: {error_name(answer.error)}")
            return False
        if answer.error:
            partition.stop(f"ListOffsets: {error_name(answer.error)}")
            self.changed(partition)
            return False
        return True

    def _note_error(self, partition: MirroredPartition, text: str) -> None:
        partition.note_error(text, trio.current_time())
        self._asks_again = True

    def _follow_leaders(self, metadata: ClusterMetadata) -> None:
        now = trio.current_time()
        for each in self._active():
            topic = metadata.topics.get(each.name.topic)
            info = None if topic is None else topic.partitions.get(each.name.partition)
            if info is None or info.leader_epoch >= each.leader_epoch or each.topic_id == NO_ID:
                each.named_leader = UNKNOWN if info is None else info.leader
            if info is None or info.leader == UNKNOWN:
                self._note_leaderless(each, now)
                continue
            each.leaderless_since = math.inf
            if each.leader == UNKNOWN:
                continue  # not begun
            if UNKNOWN < info.leader_epoch < each.leader_epoch and each.topic_id != NO_ID:
                self._asks_again = True  # of a broker that has not heard of the last election; as Kafka's clients
                continue
            if (info.leader, info.leader_epoch) != (each.leader, each.leader_epoch):
                each.leader, each.leader_epoch = info.leader, info.leader_epoch
                each.read_replica, each.is_checked = UNKNOWN, False

    def _note_leaderless(self, partition: MirroredPartition, now: float) -> None:
        self._asks_again = True
        self.node_failed(UNKNOWN, _NO_LEADER)
        if not self._options.once:
            return
        if math.isinf(partition.leaderless_since):
            partition.leaderless_since = now
        elif now - partition.leaderless_since > PATIENCE_S:
            partition.stop("the source has no leader for the partition")
            self.changed(partition)

    def _note_gone(self, metadata: ClusterMetadata) -> None:
        """Stop topics that the source has had no more for a while: a broker that has just started may know of none."""
        now, missing = trio.current_time(), {each.topic for each in self.partitions} - metadata.topics.keys()
        self._missing_since = {each: self._missing_since.get(each, now) for each in missing}
        for topic in sorted(missing - self._gone):
            if now - self._missing_since[topic] < MISSING_S:
                continue
            self._gone.add(topic)
            self._on_event(f"{topic}: deleted at the source; its records stay here")
            for each in self._active():
                if each.name.topic == topic:
                    each.stop("", is_another=True)
                    each.forget_lag()
        for topic in self._gone & metadata.topics.keys() - self.failures.keys():
            self._gone.discard(topic)  # the same topic, which a broker had not learned of yet
            for each in self.partitions.values():
                if each.name.topic == topic and not each.failure:
                    each.is_stopped = each.is_another = False

    # --- comparison with the source -----------------------------------------------------------------------------------

    async def _check(self, unchecked: Sequence[MirroredPartition]) -> None:
        """Cut what the leader does not have, of partitions that nothing is appended to meanwhile."""
        if not unchecked:
            return
        for each in unchecked:
            each.generation += 1
        for fetcher in self._fetchers.values():
            async with fetcher.appending:
                pass
        asked = list[OffsetQuery]()
        for each in unchecked:
            each.restart(max(each.log.next_offset, each.end if self._options.keep else 0))
            if each.position_epoch != UNKNOWN:
                asked.append(OffsetQuery(each.name, each.leader, each.leader_epoch, each.position_epoch))
        answers = await positions.ends_of_epochs(self._client, asked, self.node_failed)
        differing = {one.name for one in asked if not await self._is_prefix(one, answers.get(one.name))}
        await self._compare_ends([each for each in unchecked if each.name not in differing])

    async def _compare_ends(self, found: Sequence[MirroredPartition]) -> None:
        """Stop partitions whose last records are others than those of the source; the rest are checked."""
        compared = await last_records.compare(self._client, found, self.node_failed)
        for each, result in compared.items():
            if isinstance(result, int):
                each.stop(
                    f"the record at offset {result} is another one at the source: it is another log, or was restored "
                    f"from a backup; mirror into another directory, or delete the topic here "
                    f"(offsetfs delete {self._directory.path} {each.name.topic})",
                    is_another=True,
                )
                self.changed(each)
            elif result is Comparison.NO_ANSWER:
                self._asks_again = True
            else:
                each.is_checked = True

    async def _is_prefix(self, asked: OffsetQuery, answer: SourceOffset | None) -> bool:
        """Cut what the source lost in an election; return whether the leader epochs of log and leader now agree."""
        found = self.partitions[asked.name]
        if answer is None:
            self._asks_again = True
            return False
        if is_passing(answer.error):
            self._note_error(found, f"OffsetForLeaderEpoch: {error_name(answer.error)}")
            return False
        if answer.error == ErrorCode.UNSUPPORTED_VERSION:
            return True
        if answer.error:
            found.stop(f"OffsetForLeaderEpoch: {error_name(answer.error)}")
            self.changed(found)
            return False
        if answer.offset < 0:
            if UNKNOWN < found.leader_epoch < asked.value:
                found.stop(
                    f"the source does not know the leader epoch {asked.value} of the last record here: it is another "
                    f"log; mirror into another directory, or delete the topic here (offsetfs delete "
                    f"{self._directory.path} {found.name.topic})",
                    is_another=True,
                )
                self.changed(found)
                return False
            return True
        cut = answer.offset
        if answer.epoch < asked.value:
            local = found.log.end_of_epoch(answer.epoch)
            cut = min(cut, cut if local is None else local[1])
        if cut >= found.log.next_offset:
            return True
        if asked.value == asked.leader_epoch:  # no election since the last record here, which could have lost some
            self._stop_before_end(found, cut)
            return False
        await self._truncate(found, cut)
        # Further back the logs may differ, too: then the epoch that is the last one now is compared.
        is_compared = answer.epoch >= asked.value or found.position_epoch in (UNKNOWN, answer.epoch)
        return is_compared and not found.is_stopped

    def _stop_before_end(self, found: MirroredPartition, end: int) -> None:
        path = self._directory.path
        found.stop(
            f"the source ends at offset {end}, before the end here, {found.end}: it lost records, or is another log; "
            f"cut them here (offsetfs truncate {path} {found.name} {end}), or mirror into another directory",
            is_another=True,
        )
        self.changed(found)

    async def _truncate(self, found: MirroredPartition, offset: int) -> None:
        end = found.log.next_offset
        try:
            offset = await in_thread(partial(_cut, found.log, offset))
        except (StorageError, OSError) as error:
            found.stop(sentence(error))
            self.changed(found)
            return
        found.restart(found.log.next_offset)
        self.report(found, f"the source lost the records from {offset} to {end - 1}; they are cut here, too")

    async def _find_range(self, outside: Sequence[MirroredPartition]) -> None:
        """Find out what the source has, for partitions whose next record it does not have."""
        asked = [OffsetQuery(each.name, each.leader, each.leader_epoch, EARLIEST) for each in outside]
        if not asked:
            return
        starts = await positions.offsets_at(self._client, asked, self.node_failed)
        ends = await positions.offsets_at(self._client, [_at(each, LATEST) for each in asked], self.node_failed)
        for each in outside:
            start, end = starts.get(each.name), ends.get(each.name)
            if not self._is_answered(each, start) or not self._is_answered(each, end):
                continue
            assert start is not None and end is not None
            each.is_out_of_range = False
            if each.end < start.offset:
                await self._cross_gap(each, start.offset)
            elif each.end > end.offset:
                self._stop_before_end(each, end.offset)
            else:
                each.wait_until = trio.current_time() + RECHECK_S

    async def _confirm_ends(self, empty: Sequence[MirroredPartition]) -> None:
        """Complete partitions, with `once`, whose last offsets at the source are without records.

        An empty response does not prove it: the source may not have read them from its remote storage yet.
        """
        asked = [OffsetQuery(each.name, each.leader, each.leader_epoch, LATEST) for each in empty]
        starts = await positions.local_starts(self._client, asked, self.node_failed)
        for each in empty:
            at, answer = each.empty_at, starts.get(each.name)
            each.empty_at = UNKNOWN  # the next response says it again
            if answer is None or is_passing(answer.error):
                self._asks_again = True
            elif at != each.end:
                continue
            elif answer.offset <= at:  # also a broker that does not know the question
                each.end = max(each.end, int(each.stop_at))
            else:
                self._wait_for_remote(each)

    def _wait_for_remote(self, found: MirroredPartition) -> None:
        now = trio.current_time()
        found.empty_since = min(found.empty_since, now)
        if now - found.empty_since > PATIENCE_S:
            found.stop(
                f"the source has sent no records from offset {found.end} on for {PATIENCE_S:.0f} seconds, which are in "
                "its remote storage; see the log of the broker, and start the mirror again"
            )
            self.changed(found)

    async def _cross_gap(self, found: MirroredPartition, start: int) -> None:
        gap = f"the source has deleted the records from {found.end} to {start - 1}"
        if self._options.on_gap is OnGap.FAIL and found.log.size_bytes:
            found.stop(f"{gap} before they were mirrored; --on-gap=skip goes on behind them")
            self.changed(found)
            return
        if self._options.keep and found.log.size_bytes:
            found.restart(start)
        elif not await self._empty(found, start):
            return
        if self._is_begun:
            self.report(found, f"{gap}; it goes on behind them")

    async def _empty(self, found: MirroredPartition, start: int) -> bool:
        """Let a partition begin at `start`, without records; return whether it could. Otherwise it is stopped."""
        try:
            await in_thread(partial(found.log.truncate_fully, start))
        except (StorageError, OSError) as error:
            found.stop(sentence(error))
            self.changed(found)
            return False
        found.restart(found.log.next_offset)
        return True

    # --- upkeep -------------------------------------------------------------------------------------------------------

    async def _keep_up(self) -> None:
        """Follow the log starts of the source, and write records to the disk."""
        next_flush = trio.current_time() + FLUSH_S
        while True:
            await trio.sleep(UPKEEP_S)
            with trio.CancelScope(shield=True):
                if not self._options.keep:
                    await self.follow_log_starts()
                if trio.current_time() >= next_flush:
                    await in_thread(partial(_flush, [each.log for each in self._active()]))
                    next_flush = trio.current_time() + FLUSH_S

    async def _flush_large(self) -> None:
        """Write logs to the disk that have got much, while others are appended to."""
        while True:
            await self._has_much.wait()
            self._has_much = trio.Event()
            large = [each for each in self._active() if each.unflushed_bytes >= FLUSH_BYTES]
            for each in large:
                each.unflushed_bytes = 0
            with trio.CancelScope(shield=True):
                await in_thread(partial(_flush, [each.log for each in large]))

    async def follow_log_starts(self) -> None:
        """Raise the log starts here to those of the source."""
        starts = {
            each.name: min(each.source_start, each.log.next_offset)
            for each in self._active()
            if each.log.log_start_offset < min(each.source_start, each.log.next_offset)
        }
        if starts:
            try:
                await in_thread(partial(self._directory.raise_log_starts, starts))
            except (StorageError, OSError) as error:
                _log.error("log starts cannot be raised: %s", sentence(error))


def _keep_all(directory: LogDirectory, known: MirrorFile) -> None:
    """Record that nothing is deleted or compacted, in a thread. Its topics may have been mirrored without `keep`."""
    for topic in known.topics:
        if directory.config_of(topic).is_compacted:
            directory.configure(topic, {_POLICY: "delete"})
    if not known.keep:
        directory.set_mirror(replace(known, keep=True))


_POLICY = "cleanup.policy"

_NO_LEADER = NoBrokerAnswers("the source has no leader for some partitions")

_DESCRIBE_CONFIGS = ": the user of --config needs DESCRIBE_CONFIGS of the topic"


def _is_another(topic: TopicInfo, recorded: MirroredTopic) -> bool:
    """Whether a topic was created again since it was recorded."""
    return bool(recorded.topic_id) and topic.has_id and recorded.topic_id != id_text(topic.id)


def _at(asked: OffsetQuery, time: int) -> OffsetQuery:
    return OffsetQuery(asked.name, asked.leader, asked.leader_epoch, time)


def _cut(log: Log, offset: int) -> int:
    """Cut a log at `offset`, or at the beginning of the batch that contains it; return where, in a thread."""
    if log.log_start_offset <= offset < log.next_offset:
        batch = log.batch_at(offset)
        if batch is not None and batch.base_offset < offset:
            offset = max(batch.base_offset, log.log_start_offset)
    log.truncate_to(offset)
    return offset


def _flush(logs: Iterable[Log]) -> None:
    for each in logs:
        if each.recovery_point < each.next_offset:
            try:
                each.flush()
            except (StorageError, OSError) as error:
                _log.error("%s", sentence(error))
