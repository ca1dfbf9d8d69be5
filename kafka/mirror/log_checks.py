"""Compares partitions with their leaders: whether the log here is a prefix of the log of the source.

A partition is checked whenever its leader or its leader epoch changes. Records that the source has lost in an unclean
election are cut here, too. Another log stops the partition: the records of two logs are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.client.errors import ClientError, error_name
from offsetfs.kafka.mirror import last_records, positions, timing
from offsetfs.kafka.mirror.fetcher import NodeFetcher
from offsetfs.kafka.mirror.last_records import Comparison, records_at
from offsetfs.kafka.mirror.options import EARLIEST, LATEST, OnGap
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition, is_passing
from offsetfs.kafka.mirror.positions import OffsetQuery, OnFailure, SourceOffset
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError, sentence

_PROBE_BYTES = 1 << 20
"""Bytes of a request where no records are expected. Brokers before 0.10.1 send a part of a batch that is larger."""


class LogChecks:
    """The checks of the partitions of a mirror."""

    def __init__(self, state: MirrorState, on_failure: OnFailure) -> None:
        self._state = state
        self._on_failure = on_failure

    async def run(self, fetchers: Iterable[NodeFetcher]) -> None:
        """Check partitions whose leader is new, and find a position for those that are out of range. ClientError."""
        active = self._state.active
        await self._check(
            [partition for partition in active() if not partition.is_checked and partition.leader != UNKNOWN], fetchers
        )
        await self._find_range([partition for partition in active() if partition.is_out_of_range])
        await self._confirm_ends([partition for partition in active() if partition.empty_at != UNKNOWN])
        at_stop = [
            partition
            for partition in active()
            if partition.is_checked and partition.is_at_stop and not partition.is_confirmed
        ]
        await self._confirm([partition for partition in at_stop if partition.leader != UNKNOWN])

    async def _check(self, unchecked: Sequence[MirroredPartition], fetchers: Iterable[NodeFetcher]) -> None:
        """Cut records that the leader does not have, while nothing is appended to the partitions."""
        if not unchecked:
            return
        for partition in unchecked:
            partition.generation += 1
        for fetcher in fetchers:
            async with fetcher.appending:
                pass
        asked = list[OffsetQuery]()
        for partition in unchecked:
            partition.restart(max(partition.log.next_offset, partition.end if self._state.options.keep else 0))
            if partition.position_epoch != UNKNOWN:
                asked.append(
                    OffsetQuery(partition.name, partition.leader, partition.leader_epoch, partition.position_epoch)
                )
        answers = await positions.ends_of_epochs(self._state.client, asked, self._on_failure)
        differing = {query.name for query in asked if not await self._is_prefix(query, answers.get(query.name))}
        await self._compare_ends([partition for partition in unchecked if partition.name not in differing])

    async def _compare_ends(self, partitions: Sequence[MirroredPartition]) -> None:
        """Stop partitions whose last records differ from those of the source; mark the others as checked."""
        for partition, result in (await self._compared(partitions)).items():
            partition.is_checked = result is Comparison.EQUAL

    async def _compared(self, partitions: Sequence[MirroredPartition]) -> last_records.Results:
        """Compare last records; partitions of another log are stopped."""
        compared = await last_records.compare(self._state.client, partitions, self._on_failure)
        for partition, result in compared.items():
            if isinstance(result, int):
                self._state.stop(
                    partition,
                    f"the record at offset {result} differs from that of the source: it is another log, or was "
                    f"restored from a backup; mirror into another directory, or delete the topic here "
                    f"(offsetfs delete {self._state.directory.path} {partition.name.topic})",
                    is_another=True,
                )
            elif result is Comparison.NO_ANSWER:
                self._state.asks_again = True
        return compared

    async def _is_prefix(self, asked: OffsetQuery, answer: SourceOffset | None) -> bool:
        """Cut records that the source lost in an election; return whether the leader epochs of both logs now agree."""
        partition = self._state.partitions[asked.name]
        if answer is None:
            self._state.asks_again = True
            return False
        if is_passing(answer.error):
            self._state.note_error(partition, f"OffsetForLeaderEpoch: {error_name(answer.error)}")
            return False
        if answer.error == ErrorCode.UNSUPPORTED_VERSION:
            return True
        if answer.error:
            self._state.stop(partition, f"OffsetForLeaderEpoch: {error_name(answer.error)}")
            return False
        if answer.offset < 0:
            if UNKNOWN < partition.leader_epoch < asked.value:
                self._state.stop(
                    partition,
                    f"the source does not know the leader epoch {asked.value} of the last record here: it is another "
                    f"log; mirror into another directory, or delete the topic here (offsetfs delete "
                    f"{self._state.directory.path} {partition.name.topic})",
                    is_another=True,
                )
                return False
            return True
        cut = answer.offset
        if answer.epoch < asked.value:
            local = partition.log.epochs.end_of(answer.epoch, partition.log.next_offset)
            cut = min(cut, cut if local is None else local[1])
        if cut >= partition.log.next_offset:
            return True
        if asked.value == asked.leader_epoch:  # no election since the last record here, which could have lost some
            self._stop_before_end(partition, cut)
            return False
        await self._truncate(partition, cut)
        # Further back the logs may differ, too: then the epoch that is the last one now is compared.
        is_compared = answer.epoch >= asked.value or partition.position_epoch in (UNKNOWN, answer.epoch)
        return is_compared and not partition.is_stopped and partition.leader != UNKNOWN

    def _stop_before_end(self, partition: MirroredPartition, end: int) -> None:
        path = self._state.directory.path
        self._state.stop(
            partition,
            f"the source ends at offset {end}, before the end here, {partition.end}: it lost records, or is another "
            f"log; cut them here (offsetfs truncate {path} {partition.name} {end}), or mirror into another directory",
            is_another=True,
        )

    async def _truncate(self, partition: MirroredPartition, offset: int) -> None:
        end = partition.log.next_offset
        try:
            offset = await in_thread(partial(_cut, partition.log, offset))
        except (StorageError, OSError) as error:
            self._state.stop(partition, sentence(error))
            return
        partition.restart(partition.log.next_offset)
        if self._state.options.once:  # it may end before `stop_at` now: as if it had not begun, the end is asked for
            partition.leader, self._state.asks_again = UNKNOWN, True
        lost = f"the source lost the records from {offset} to {end - 1}"
        self._state.report(partition, f"{lost}; these records are cut here, too")

    async def _find_range(self, outside: Sequence[MirroredPartition]) -> None:
        """Find the range of the source for partitions whose next record the source does not have."""
        asked = [
            OffsetQuery(partition.name, partition.leader, partition.leader_epoch, EARLIEST) for partition in outside
        ]
        if not asked:
            return
        starts = await positions.offsets_at(self._state.client, asked, self._on_failure)
        ends = await positions.offsets_at(
            self._state.client, [positions.at_time(query, LATEST) for query in asked], self._on_failure
        )
        for partition in outside:
            start, end = starts.get(partition.name), ends.get(partition.name)
            if not self._state.is_answered(partition, start) or not self._state.is_answered(partition, end):
                continue
            assert start is not None and end is not None
            partition.is_out_of_range = False
            if partition.end < start.offset:
                await self._cross_gap(partition, start.offset)
            elif partition.end > end.offset:
                self._stop_before_end(partition, end.offset)
            else:
                partition.wait_until = trio.current_time() + timing.RECHECK_S

    async def _confirm_ends(self, empty: Sequence[MirroredPartition]) -> None:
        """Complete partitions, with `once`, whose last offsets at the source are without records.

        An empty response does not prove it: the source may not have read them from its remote storage yet.
        """
        asked = [OffsetQuery(partition.name, partition.leader, partition.leader_epoch, LATEST) for partition in empty]
        starts = await positions.local_starts(self._state.client, asked, self._on_failure)
        for partition in empty:
            at, answer = partition.empty_at, starts.get(partition.name)
            partition.empty_at = UNKNOWN  # the next response says it again
            if answer is None or is_passing(answer.error):
                self._state.asks_again = True
            elif at != partition.end:
                continue
            elif answer.offset > at:
                self._wait_for_remote(partition)
            # Also a broker that does not know the request for the local start.
            elif await self._has_nothing(partition, at):
                partition.end = max(partition.end, int(partition.stop_at))

    async def _has_nothing(self, partition: MirroredPartition, offset: int) -> bool:
        """Ask the leader for this partition alone; return whether it has no records from `offset` on."""
        try:
            answers = await records_at(
                self._state.client, partition.leader, {partition: offset}, {partition: _PROBE_BYTES}
            )
        except ClientError as error:
            self._on_failure(partition.leader, error)
            return False
        answer = answers.get(partition)
        return not isinstance(answer, int) and answer is not None and not answer and partition.end == offset

    async def _confirm(self, partitions: Sequence[MirroredPartition]) -> None:
        """With `once`: compare partitions that are at their end with that of the source, and the last records of both.

        The source may have lost records meanwhile, in an unclean election. Its log start is taken as well: if nothing
        is new, no response to Fetch has it.
        """
        asked = [
            OffsetQuery(partition.name, partition.leader, partition.leader_epoch, LATEST) for partition in partitions
        ]
        starts: positions.Answers = {}
        ends: positions.Answers = {}
        if asked:
            ends = await positions.offsets_at(self._state.client, asked, self._on_failure)
            earliest = [positions.at_time(query, EARLIEST) for query in asked]
            starts = await positions.offsets_at(self._state.client, earliest, self._on_failure)
        compared = list[MirroredPartition]()
        for partition in partitions:
            start, end = starts.get(partition.name), ends.get(partition.name)
            if not self._state.is_answered(partition, start) or not self._state.is_answered(partition, end):
                continue
            assert start is not None and end is not None
            partition.source_start = max(start.offset, partition.source_start)
            if end.offset < partition.log.next_offset:  # a leader may not yet know that its followers have them
                here = f"before the end here, {partition.log.next_offset}"
                self._state.note_error(partition, f"the source ends at offset {end.offset}, {here}")
                continue
            partition.note_answer()
            compared.append(partition)
        for partition, result in (await self._compared(compared)).items():
            partition.is_confirmed = result is Comparison.EQUAL

    def _wait_for_remote(self, partition: MirroredPartition) -> None:
        now = trio.current_time()
        partition.empty_since = min(partition.empty_since, now)
        if now - partition.empty_since > timing.PATIENCE_S:
            self._state.stop(
                partition,
                f"the source has sent no records from offset {partition.end} on for {timing.PATIENCE_S:.0f} seconds, "
                "which are in its remote storage; see the log of the broker, and start the mirror again",
            )

    async def _cross_gap(self, partition: MirroredPartition, start: int) -> None:
        gap = f"the source has deleted the records from {partition.end} to {start - 1}"
        if self._state.options.on_gap is OnGap.FAIL and partition.log.size_bytes:
            self._state.stop(partition, f"{gap} before they were mirrored; --on-gap=skip continues behind them")
            return
        if self._state.options.keep and partition.log.size_bytes:
            partition.restart(start)
        elif not await self.empty(partition, start):
            return
        if self._state.is_begun:
            self._state.report(partition, f"{gap}; the mirror continues behind them")

    async def empty(self, partition: MirroredPartition, start: int) -> bool:
        """Let a partition begin at `start`, without records; return whether it could. Otherwise it is stopped."""
        try:
            await in_thread(partial(partition.log.truncate_fully, start))
        except (StorageError, OSError) as error:
            self._state.stop(partition, sentence(error))
            return False
        partition.restart(partition.log.next_offset)
        return True


def _cut(log: Log, offset: int) -> int:
    """Cut a log at `offset`, or at the beginning of the batch that contains it; return where, in a thread."""
    if log.log_start_offset <= offset < log.next_offset:
        batch = log.batch_at(offset)
        if batch is not None and batch.base_offset < offset:
            offset = max(batch.base_offset, log.log_start_offset)
    log.truncate_to(offset)
    return offset
