"""Mirrors the chosen topics of a cluster into a log directory, until cancelled or, with `once`, up to their ends.

    metadata ──► topics, partitions, leaders ──► check what is here ──► a fetcher for each broker
        ▲                                                                     │
        └──────────── a leader has moved, a topic is new or gone ◄────────────┘

A lasting error stops one partition; the others continue. The parts, which share `state.MirrorState`:

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
from offsetfs.kafka.mirror.partition import UNKNOWN
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
        self._rate = RateLimit(options.bytes_per_s)
        self.state = state = MirrorState(directory, client, source, options, on_event)
        self.leaders = Leaders(state)
        self._checks = LogChecks(state, self.leaders.node_failed)
        self._starts = PartitionStarts(state, self._checks.empty, self.leaders.node_failed)
        self._topics = TopicFollower(state, self._starts)
        self.upkeep = Upkeep(state)
        self._fetchers: dict[int, NodeFetcher] = {}
        self._nursery: trio.Nursery | None = None
        self._is_answered = False
        """Whether the source has said once which topics it has."""
        self._failing_since: float | None = None
        self._local_failure = ""
        self._groups: GroupMirror | None = None
        if options.groups:
            self._groups = GroupMirror(directory, client, options, self._ends, on_event)

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            name: partition.log.next_offset
            for name, partition in self.state.partitions.items()
            if partition.leader != UNKNOWN and not partition.is_another
        }

    # --- begin and run ------------------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Record `keep`, and set the topics to keep all records; before the background tasks of the directory run.

        MirrorError without `keep` for a directory that was mirrored with it; StorageError, OSError.
        """
        known = self.state.directory.mirror
        if known is not None and known.keep and not self.state.options.keep:
            raise MirrorError(
                f"{self.state.directory.path} was mirrored with --keep, and would lose what the cluster deletes or "
                "compacts; give --keep (of a mount: -o keep), or mirror into another directory"
            )
        if known is not None and self.state.options.keep:
            await in_thread(partial(keep_all, self.state.directory, known))

    async def begin(self) -> None:
        """Create the topics that are chosen, if the source answers and has any. ClientError, MirrorError, OSError."""
        await self.prepare()
        await self._refresh()
        self._topics.check_patterns(await self.state.client.metadata())
        self.state.is_begun = True

    async def run(self) -> None:
        """Mirror until cancelled; with `once` until all partitions are complete. ClientError, MirrorError, OSError.

        Without `begin` before it, a source that does not answer is tried again.
        """
        if not self.state.is_begun:
            await self.prepare()
            await self._try_refresh()
            self.state.is_begun = True
        failures = list[Exception]()
        groups = self._groups
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self.upkeep.run)
            nursery.start_soon(self.upkeep.flush_large)
            if groups is not None and not self.state.options.once:
                nursery.start_soon(groups.run)
            try:
                await self._follow()
            except (ClientError, MirrorError, StorageError, OSError) as error:  # raised below: not in a group
                failures.append(error)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if groups is not None and self.state.options.once:
            await groups.sync()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to do with `once`."""
        is_ready = self.state.options.once and self._is_answered and self._topics.is_ready
        return is_ready and all(partition.is_complete for partition in self.state.partitions.values())

    @property
    def has_failed(self) -> bool:
        """Whether a topic or a partition could not be mirrored."""
        if self.state.failures or (self._groups is not None and self._groups.failures):
            return True
        is_once = self.state.options.once
        return any(
            partition.failure or (is_once and partition.is_stopped and not partition.is_at_stop)
            for partition in self.state.partitions.values()
        )

    async def _follow(self) -> None:
        next_refresh = trio.current_time() + timing.REFRESH_S
        while not self.is_complete:
            self.state.wake = trio.Event()
            self._start_fetchers()
            await self._attend()
            self.leaders.attend_silent()
            self.leaders.attend_failing()
            if self.is_complete:
                break
            now = trio.current_time()
            if self.state.asks_again or now >= next_refresh:
                self.state.asks_again = False
                await self._try_refresh()
                next_refresh = trio.current_time() + timing.REFRESH_S
                await trio.sleep(timing.REFRESH_PAUSE_S)
                continue
            is_waiting = any(
                not partition.is_checked
                or partition.is_out_of_range
                or (partition.is_at_stop and not partition.is_confirmed)
                for partition in self.state.active()
            )
            with trio.move_on_after(timing.RECHECK_S if is_waiting else next_refresh - now):
                await self.state.wake.wait()

    def _start_fetchers(self) -> None:
        assert self._nursery is not None
        for node in {partition.node for partition in self.state.active()} - {UNKNOWN} - self._fetchers.keys():
            self._fetchers[node] = NodeFetcher(node, self.state, self.leaders, self.upkeep, self._rate, self._bytes_max)
            self._nursery.start_soon(self._fetchers[node].run)
        for fetcher in self._fetchers.values():
            fetcher.wake.set()

    def _bytes_max(self) -> int:
        """Return the bytes of one response, at most: all brokers share `FLIGHT_BYTES_MAX`."""
        return min(FETCH_BYTES_MAX, max(FLIGHT_BYTES_MAX // 2 // max(len(self._fetchers), 1), 1 << 20))

    async def _attend(self) -> None:
        try:
            await self._checks.run(self._fetchers.values())
        except ClientError as error:
            self._note_failing(error)
        for fetcher in self._fetchers.values():
            fetcher.wake.set()

    # --- topics and leaders -------------------------------------------------------------------------------------------

    async def _try_refresh(self) -> None:
        try:
            await self._refresh()
        except ClientError as error:
            if not error.is_retriable:
                raise
            self._note_failing(error)
        except (StorageError, OSError) as error:  # such as a full disk: partitions that are here need no refresh
            if self.state.options.once or not self.state.is_begun:
                raise
            self._note_local_failure(sentence(error))
        else:
            if self._failing_since is not None:
                self.state.on_event("the source answers again")
            self._failing_since, self._local_failure = None, ""

    def _note_local_failure(self, text: str) -> None:
        if self._local_failure != text:
            self.state.on_event(f"topics and leaders are not followed: {text}; trying again")
        self._local_failure = text

    def _note_failing(self, error: ClientError) -> None:
        now = trio.current_time()
        if self._failing_since is None:
            self._failing_since = now
            self.state.on_event(f"{error}; trying again")
        elif self.state.options.once and now - self._failing_since > timing.PATIENCE_S:
            raise error
        self.state.asks_again = True

    async def _refresh(self) -> None:
        metadata = await self.state.client.metadata(None, refresh=True)
        known = await self._topics.follow(metadata)
        await self._starts.begin(
            [partition for partition in self.state.active() if partition.leader == UNKNOWN], metadata
        )
        self.leaders.follow(metadata)
        await self._topics.note_gone(metadata, known)
        self._is_answered = True
