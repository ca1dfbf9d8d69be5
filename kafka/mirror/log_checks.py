"""Compares partitions with their leaders: is the log here a prefix of that of the source, and where does that begin.

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
from offsetfs.kafka.mirror.fetcher import NodeFetcher, is_passing
from offsetfs.kafka.mirror.last_records import Comparison
from offsetfs.kafka.mirror.options import EARLIEST, LATEST, OnGap
from offsetfs.kafka.mirror.partition import UNKNOWN, MirroredPartition
from offsetfs.kafka.mirror.positions import OffsetQuery, OnFailure, SourceOffset
from offsetfs.kafka.mirror.single_fetch import records_at
from offsetfs.kafka.mirror.state import MirrorState
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import Log
from offsetfs.storage.errors import StorageError, sentence

_PROBE_BYTES = 1 << 20
"""What is asked for where nothing is expected. Brokers before 0.10.1 send no batch that is larger, but a part of it."""


class LogChecks:
    """The checks of the partitions of a mirror."""

    def __init__(self, state: MirrorState, on_failure: OnFailure) -> None:
        self._state = state
        self._on_failure = on_failure

    async def run(self, fetchers: Iterable[NodeFetcher]) -> None:
        """Check partitions whose leader is new, and find a position for those that are out of range. ClientError."""
        active = self._state.active
        await self._check([each for each in active() if not each.is_checked and each.leader != UNKNOWN], fetchers)
        await self._find_range([each for each in active() if each.is_out_of_range])
        await self._confirm_ends([each for each in active() if each.empty_at != UNKNOWN])
        at_stop = [each for each in active() if each.is_checked and each.is_at_stop and not each.is_confirmed]
        await self._confirm([each for each in at_stop if each.leader != UNKNOWN])

    async def _check(self, unchecked: Sequence[MirroredPartition], fetchers: Iterable[NodeFetcher]) -> None:
        """Cut what the leader does not have, of partitions that nothing is appended to meanwhile."""
        if not unchecked:
            return
        for each in unchecked:
            each.generation += 1
        for fetcher in fetchers:
            async with fetcher.appending:
                pass
        asked = list[OffsetQuery]()
        for each in unchecked:
            each.restart(max(each.log.next_offset, each.end if self._state.options.keep else 0))
            if each.position_epoch != UNKNOWN:
                asked.append(OffsetQuery(each.name, each.leader, each.leader_epoch, each.position_epoch))
        answers = await positions.ends_of_epochs(self._state.client, asked, self._on_failure)
        differing = {one.name for one in asked if not await self._is_prefix(one, answers.get(one.name))}
        await self._compare_ends([each for each in unchecked if each.name not in differing])

    async def _compare_ends(self, found: Sequence[MirroredPartition]) -> None:
        """Stop partitions whose last records are others than those of the source; the rest are checked."""
        for each, result in (await self._compared(found)).items():
            each.is_checked = result is Comparison.EQUAL

    async def _compared(self, found: Sequence[MirroredPartition]) -> last_records.Results:
        """Compare last records; partitions of another log are stopped."""
        compared = await last_records.compare(self._state.client, found, self._on_failure)
        for each, result in compared.items():
            if isinstance(result, int):
                self._state.stop(
                    each,
                    f"the record at offset {result} differs from that of the source: it is another log, or was "
                    f"restored from a backup; mirror into another directory, or delete the topic here "
                    f"(offsetfs delete {self._state.directory.path} {each.name.topic})",
                    is_another=True,
                )
            elif result is Comparison.NO_ANSWER:
                self._state.asks_again = True
        return compared

    async def _is_prefix(self, asked: OffsetQuery, answer: SourceOffset | None) -> bool:
        """Cut what the source lost in an election; return whether the leader epochs of log and leader now agree."""
        found = self._state.partitions[asked.name]
        if answer is None:
            self._state.asks_again = True
            return False
        if is_passing(answer.error):
            self._state.note_error(found, f"OffsetForLeaderEpoch: {error_name(answer.error)}")
            return False
        if answer.error == ErrorCode.UNSUPPORTED_VERSION:
            return True
        if answer.error:
            self._state.stop(found, f"OffsetForLeaderEpoch: {error_name(answer.error)}")
            return False
        if answer.offset < 0:
            if UNKNOWN < found.leader_epoch < asked.value:
                self._state.stop(
                    found,
                    f"the source does not know the leader epoch {asked.value} of the last record here: it is another "
                    f"log; mirror into another directory, or delete the topic here (offsetfs delete "
                    f"{self._state.directory.path} {found.name.topic})",
                    is_another=True,
                )
                return False
            return True
        cut = answer.offset
        if answer.epoch < asked.value:
            local = found.log.epochs.end_of(answer.epoch, found.log.next_offset)
            cut = min(cut, cut if local is None else local[1])
        if cut >= found.log.next_offset:
            return True
        if asked.value == asked.leader_epoch:  # no election since the last record here, which could have lost some
            self._stop_before_end(found, cut)
            return False
        await self._truncate(found, cut)
        # Further back the logs may differ, too: then the epoch that is the last one now is compared.
        is_compared = answer.epoch >= asked.value or found.position_epoch in (UNKNOWN, answer.epoch)
        return is_compared and not found.is_stopped and found.leader != UNKNOWN

    def _stop_before_end(self, found: MirroredPartition, end: int) -> None:
        path = self._state.directory.path
        self._state.stop(
            found,
            f"the source ends at offset {end}, before the end here, {found.end}: it lost records, or is another log; "
            f"cut them here (offsetfs truncate {path} {found.name} {end}), or mirror into another directory",
            is_another=True,
        )

    async def _truncate(self, found: MirroredPartition, offset: int) -> None:
        end = found.log.next_offset
        try:
            offset = await in_thread(partial(_cut, found.log, offset))
        except (StorageError, OSError) as error:
            self._state.stop(found, sentence(error))
            return
        found.restart(found.log.next_offset)
        if self._state.options.once:  # it may end before `stop_at` now: as if it had not begun, the end is asked for
            found.leader, self._state.asks_again = UNKNOWN, True
        self._state.report(found, f"the source lost the records from {offset} to {end - 1}; they are cut here, too")

    async def _find_range(self, outside: Sequence[MirroredPartition]) -> None:
        """Find out what the source has, for partitions whose next record it does not have."""
        asked = [OffsetQuery(each.name, each.leader, each.leader_epoch, EARLIEST) for each in outside]
        if not asked:
            return
        starts = await positions.offsets_at(self._state.client, asked, self._on_failure)
        ends = await positions.offsets_at(
            self._state.client, [positions.at_time(each, LATEST) for each in asked], self._on_failure
        )
        for each in outside:
            start, end = starts.get(each.name), ends.get(each.name)
            if not self._state.is_answered(each, start) or not self._state.is_answered(each, end):
                continue
            assert start is not None and end is not None
            each.is_out_of_range = False
            if each.end < start.offset:
                await self._cross_gap(each, start.offset)
            elif each.end > end.offset:
                self._stop_before_end(each, end.offset)
            else:
                each.wait_until = trio.current_time() + timing.RECHECK_S

    async def _confirm_ends(self, empty: Sequence[MirroredPartition]) -> None:
        """Complete partitions, with `once`, whose last offsets at the source are without records.

        An empty response does not prove it: the source may not have read them from its remote storage yet.
        """
        asked = [OffsetQuery(each.name, each.leader, each.leader_epoch, LATEST) for each in empty]
        starts = await positions.local_starts(self._state.client, asked, self._on_failure)
        for each in empty:
            at, answer = each.empty_at, starts.get(each.name)
            each.empty_at = UNKNOWN  # the next response says it again
            if answer is None or is_passing(answer.error):
                self._state.asks_again = True
            elif at != each.end:
                continue
            elif answer.offset > at:
                self._wait_for_remote(each)
            elif await self._has_nothing(each, at):  # also a broker that does not know the question of the local start
                each.end = max(each.end, int(each.stop_at))

    async def _has_nothing(self, found: MirroredPartition, offset: int) -> bool:
        """Ask the leader for this partition alone; return whether it has no records from `offset` on."""
        try:
            answers = await records_at(self._state.client, found.leader, {found: offset}, {found: _PROBE_BYTES})
        except ClientError as error:
            self._on_failure(found.leader, error)
            return False
        answer = answers.get(found)
        return not isinstance(answer, int) and answer is not None and not answer and found.end == offset

    async def _confirm(self, found: Sequence[MirroredPartition]) -> None:
        """With `once`: compare partitions that are at their end with that of the source, and the last records of both.

        The source may have lost records meanwhile, in an unclean election.
        """
        asked = [OffsetQuery(each.name, each.leader, each.leader_epoch, LATEST) for each in found]
        ends = await positions.offsets_at(self._state.client, asked, self._on_failure) if asked else {}
        compared = list[MirroredPartition]()
        for each in found:
            end = ends.get(each.name)
            if not self._state.is_answered(each, end):
                continue
            assert end is not None
            if end.offset < each.log.next_offset:  # a leader may not yet know that its followers have them
                here = f"before the end here, {each.log.next_offset}"
                self._state.note_error(each, f"the source ends at offset {end.offset}, {here}")
                continue
            each.note_answer()
            compared.append(each)
        for each, result in (await self._compared(compared)).items():
            each.is_confirmed = result is Comparison.EQUAL

    def _wait_for_remote(self, found: MirroredPartition) -> None:
        now = trio.current_time()
        found.empty_since = min(found.empty_since, now)
        if now - found.empty_since > timing.PATIENCE_S:
            self._state.stop(
                found,
                f"the source has sent no records from offset {found.end} on for {timing.PATIENCE_S:.0f} seconds, which "
                "are in its remote storage; see the log of the broker, and start the mirror again",
            )

    async def _cross_gap(self, found: MirroredPartition, start: int) -> None:
        gap = f"the source has deleted the records from {found.end} to {start - 1}"
        if self._state.options.on_gap is OnGap.FAIL and found.log.size_bytes:
            self._state.stop(found, f"{gap} before they were mirrored; --on-gap=skip goes on behind them")
            return
        if self._state.options.keep and found.log.size_bytes:
            found.restart(start)
        elif not await self.empty(found, start):
            return
        if self._state.is_begun:
            self._state.report(found, f"{gap}; it goes on behind them")

    async def empty(self, found: MirroredPartition, start: int) -> bool:
        """Let a partition begin at `start`, without records; return whether it could. Otherwise it is stopped."""
        try:
            await in_thread(partial(found.log.truncate_fully, start))
        except (StorageError, OSError) as error:
            self._state.stop(found, sentence(error))
            return False
        found.restart(found.log.next_offset)
        return True


def _cut(log: Log, offset: int) -> int:
    """Cut a log at `offset`, or at the beginning of the batch that contains it; return where, in a thread."""
    if log.log_start_offset <= offset < log.next_offset:
        batch = log.batch_at(offset)
        if batch is not None and batch.base_offset < offset:
            offset = max(batch.base_offset, log.log_start_offset)
    log.truncate_to(offset)
    return offset
