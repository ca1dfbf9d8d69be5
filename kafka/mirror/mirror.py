"""Mirrors the chosen topics of a cluster into a log directory, until cancelled or, with `once`, up to their ends.

    metadata ──► topics, partitions, leaders ──► check what is here ──► a fetcher for each broker
        ▲                                                                     │
        └──────────── a leader has moved, a topic is new or gone ◄────────────┘

What cannot pass by itself stops one partition; the others go on. The parts, which share `state.MirrorState`:

    topic_follower  topics: chosen, recorded, created, gone; settings: their settings
    starts          where partitions begin
    leaders         which broker is asked, and what happens while it does not answer
    log_checks      whether a log here is that of the source
    fetcher         records
    upkeep          log starts, flushes
    groups          committed offsets
"""

from __future__ import annotations

from functools import partial

import trio

from offsetfs.common.rate_limit import RateLimit
from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import ClientError
from offsetfs.kafka.mirror import timing
from offsetfs.kafka.mirror.fetcher import NodeFetcher
from offsetfs.kafka.mirror.groups import GroupMirror
from offsetfs.kafka.mirror.leaders import Leaders
from offsetfs.kafka.mirror.log_checks import LogChecks
from offsetfs.kafka.mirror.options import FETCH_BYTES_MAX, FLIGHT_BYTES_MAX, MirrorError, MirrorOptions
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.settings import keep_all
from offsetfs.kafka.mirror.starts import PartitionStarts
from offsetfs.kafka.mirror.state import MirrorState, OnEvent
from offsetfs.kafka.mirror.topic_follower import TopicFollower
from offsetfs.kafka.mirror.upkeep import Upkeep
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.errors import StorageError, sentence


class Mirror:
    """A log directory that follows a cluster. `run` it once."""

    def __init__(
        self, directory: LogDirectory, client: ClusterClient, source: str, options: MirrorOptions, on_event: OnEvent
    ) -> None:
        self.rate = RateLimit(options.bytes_per_s)
        self._state = state = MirrorState(directory, client, source, options, on_event)
        self._leaders = Leaders(state)
        self._checks = LogChecks(state, self._leaders.node_failed)
        self._starts = PartitionStarts(state, self._checks.empty, self._leaders.node_failed)
        self._topics = TopicFollower(state, self._starts)
        self._upkeep = Upkeep(state)
        self._fetchers: dict[int, NodeFetcher] = {}
        self._nursery: trio.Nursery | None = None
        self._is_answered = False
        """Whether the source has said once which topics it has."""
        self._failing_since: float | None = None
        self._local_failure = ""
        self._groups: GroupMirror | None = None
        if options.groups:
            self._groups = GroupMirror(directory, client, options, self._ends, on_event)

    @property
    def source(self) -> str:
        """The addresses of brokers, as the user gave them."""
        return self._state.source

    @property
    def partitions(self) -> dict[TopicPartition, MirroredPartition]:
        """All partitions, also those that are stopped."""
        return self._state.partitions

    @property
    def failures(self) -> dict[str, str]:
        """Topics that are not mirrored, with the reason."""
        return self._state.failures

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            name: each.log.next_offset
            for name, each in self._state.partitions.items()
            if each.leader != UNKNOWN and not each.is_another
        }

    # --- begin and run ------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Record `keep`, and set the topics to keep all records; before the background tasks of the directory run.

        MirrorError without `keep` for a directory that was mirrored with it; StorageError, OSError.
        """
        known = self._state.directory.mirror
        if known is not None and known.keep and not self._state.options.keep:
            raise MirrorError(
                f"{self._state.directory.path} was mirrored with --keep, and would lose what the cluster deletes or "
                "compacts; give --keep (of a mount: -o keep), or mirror into another directory"
            )
        if known is not None and self._state.options.keep:
            await in_thread(partial(keep_all, self._state.directory, known))

    async def begin(self) -> None:
        """Create the topics that are chosen, if the source answers and has any. ClientError, MirrorError, OSError."""
        await self.prepare()
        await self._refresh()
        self._topics.check_patterns(await self._state.client.metadata())
        self._state.is_begun = True

    async def run(self) -> None:
        """Mirror until cancelled; with `once` until all partitions are complete. ClientError, MirrorError, OSError.

        Without `begin` before it, a source that does not answer is tried again.
        """
        if not self._state.is_begun:
            await self.prepare()
            await self._try_refresh()
            self._state.is_begun = True
        failures = list[Exception]()
        groups = self._groups
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._upkeep.run)
            nursery.start_soon(self._upkeep.flush_large)
            if groups is not None and not self._state.options.once:
                nursery.start_soon(groups.run)
            try:
                await self._follow()
            except (ClientError, MirrorError, StorageError, OSError) as error:  # raised below: not in a group
                failures.append(error)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if groups is not None and self._state.options.once:
            await groups.sync()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do with `once`."""
        is_ready = self._state.options.once and self._is_answered and self._topics.is_ready
        return is_ready and all(each.is_complete for each in self._state.partitions.values())

    @property
    def has_failed(self) -> bool:
        """Whether a topic or a partition could not be mirrored."""
        has_failed = self._groups is not None and bool(self._groups.failures)
        return has_failed or bool(self._state.failures) or any(each.failure for each in self._state.partitions.values())

    async def _follow(self) -> None:
        next_refresh = trio.current_time() + timing.REFRESH_S
        while not self.is_complete:
            self._state.wake = trio.Event()
            self._start_fetchers()
            await self._attend()
            self._leaders.attend_silent()
            self._leaders.attend_failing()
            if self.is_complete:
                break
            now = trio.current_time()
            if self._state.asks_again or now >= next_refresh:
                self._state.asks_again = False
                await self._try_refresh()
                next_refresh = trio.current_time() + timing.REFRESH_S
                await trio.sleep(timing.REFRESH_PAUSE_S)
                continue
            is_waiting = any(
                not each.is_checked or each.is_out_of_range or (each.is_at_stop and not each.is_confirmed)
                for each in self._state.active()
            )
            with trio.move_on_after(timing.RECHECK_S if is_waiting else next_refresh - now):
                await self._state.wake.wait()

    def _start_fetchers(self) -> None:
        assert self._nursery is not None
        for node in {each.node for each in self._state.active()} - {UNKNOWN} - self._fetchers.keys():
            self._fetchers[node] = NodeFetcher(node, self._state.client, self)
            self._nursery.start_soon(self._fetchers[node].run)
        for each in self._fetchers.values():
            each.wake()

    async def _attend(self) -> None:
        try:
            await self._checks.run(self._fetchers.values())
        except ClientError as error:
            self._note_failing(error)
        for each in self._fetchers.values():
            each.wake()

    def waiting_for(self, partition: MirroredPartition) -> str:
        """Return what a partition has been waiting for since it was reported; "" if it waits for nothing."""
        return self._leaders.waiting_for(partition)

    async def follow_log_starts(self) -> None:
        """Raise the log starts here to those of the source."""
        await self._upkeep.follow_log_starts()

    # --- for the fetchers ---------------------------------------------------------------------------------------------

    def partitions_of(self, node: int) -> list[MirroredPartition]:
        return [each for each in self._state.partitions.values() if each.node == node and not each.is_stopped]

    def by_name(self, topic: str, topic_id: bytes, number: int) -> MirroredPartition | None:
        if topic:
            return self._state.partitions.get(TopicPartition(topic, number))
        return self._state.by_id.get((bytes(topic_id), number))

    def bytes_max(self) -> int:
        return min(FETCH_BYTES_MAX, max(FLIGHT_BYTES_MAX // 2 // max(len(self._fetchers), 1), 1 << 20))

    def node_failed(self, node: int, error: ClientError) -> None:
        self._leaders.node_failed(node, error)

    def node_answered(self, node: int) -> None:
        self._leaders.node_answered(node)

    def metadata_is_old(self) -> None:
        self._state.metadata_is_old()

    def may_have_gaps(self, partition: MirroredPartition) -> bool:
        return self._state.directory.checkpoints.is_cleaned(partition.name)

    def appended(self, partition: MirroredPartition, count: int) -> None:
        self._upkeep.appended(partition, count)

    def changed(self, partition: MirroredPartition) -> None:
        self._state.changed(partition)

    def report(self, partition: MirroredPartition, text: str) -> None:
        self._state.report(partition, text)

    # --- topics and leaders -------------------------------------------------------------------------------------------

    async def _try_refresh(self) -> None:
        try:
            await self._refresh()
        except ClientError as error:
            if not error.is_retriable:
                raise
            self._note_failing(error)
        except (StorageError, OSError) as error:  # such as a full disk: partitions that are here need no refresh
            if self._state.options.once or not self._state.is_begun:
                raise
            self._note_local_failure(sentence(error))
        else:
            if self._failing_since is not None:
                self._state.on_event("the source answers again")
            self._failing_since, self._local_failure = None, ""

    def _note_local_failure(self, text: str) -> None:
        if self._local_failure != text:
            self._state.on_event(f"topics and leaders are not followed: {text}; trying again")
        self._local_failure = text

    def _note_failing(self, error: ClientError) -> None:
        now = trio.current_time()
        if self._failing_since is None:
            self._failing_since = now
            self._state.on_event(f"{error}; trying again")
        elif self._state.options.once and now - self._failing_since > timing.PATIENCE_S:
            raise error
        self._state.asks_again = True

    async def _refresh(self) -> None:
        metadata = await self._state.client.metadata(None, refresh=True)
        known = await self._topics.follow(metadata)
        await self._starts.begin([each for each in self._state.active() if each.leader == UNKNOWN], metadata)
        self._leaders.follow(metadata)
        await self._topics.note_gone(metadata, known)
        self._is_answered = True
