"""The batches of a partition on their way to its leader: which are sent next, acknowledged, sent again.

    read ─► queue ─► window of WINDOW_BATCHES ─► acknowledged, in order
                         └ again, after an error that may pass

The producer is idempotent: a broker recognizes the last five batches of a producer, and answers a repeated one with its
first answer (ProducerStateEntry). So no more are sent ahead. After an error, what was sent behind it fails too, or has
been appended: nothing else is sent until each has its answer.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import trio

from offsetfs.kafka.client.errors import ClientError, KafkaError
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.restore.translation import OffsetTranslation
from offsetfs.storage import TopicPartition
from offsetfs.storage.records import ProducedBatch

WINDOW_BATCHES = 5
QUEUED_BYTES_MAX = 1 << 20
"""So much is read ahead; a chunk more may be in the queue."""

GIVE_UP_S = 120.0
"""Kafka's delivery.timeout.ms: how long a batch is sent again after errors that may pass."""


@dataclass(eq=False, slots=True)
class SentBatch:
    """A batch in the window."""

    batch: ProducedBatch
    is_waiting: bool = True
    base_offset: int | None = None
    """Set when it is acknowledged."""


class PartitionTarget:
    """One partition that is being restored."""

    def __init__(
        self, partition: TopicPartition, translation: OffsetTranslation, end_offset: int, pause_s: float
    ) -> None:
        """`end_offset`: the end of the partition before; `pause_s`: before a batch is sent again."""
        self.partition = partition
        self.translation = translation
        self.end_offset = end_offset
        """The end of what is acknowledged, in the cluster."""
        self.records = self.bytes = 0
        """What is acknowledged."""
        self.last_offset: int | None = None
        """The source offset of the last acknowledged record."""
        self.error: Exception | None = None
        self.done = trio.Event()
        self._pause_s = pause_s
        self._queue: deque[ProducedBatch] = deque()
        self._queued_bytes = 0
        self._window: deque[SentBatch] = deque()
        self._is_read = False
        self._has_space = trio.Event()
        self._paused_until_s = -math.inf
        self._failing_since_s: float | None = None

    # --- from the reader ----------------------------------------------------------------------------------------------

    def put(self, batches: Sequence[ProducedBatch]) -> None:
        """Queue batches; an empty sequence is the end."""
        self._queue.extend(batches)
        self._queued_bytes += sum(len(each.data) for each in batches)
        self._is_read = self._is_read or not batches
        self._check_done()

    async def wait_for_space(self) -> None:
        """Return when more batches may be put, or none is needed any more."""
        while self._queued_bytes > QUEUED_BYTES_MAX and self.error is None:
            self._has_space = trio.Event()
            await self._has_space.wait()

    def fail(self, error: Exception) -> None:
        """End with an error: nothing else is sent."""
        self.error = self.error or error
        self._queue.clear()
        self._queued_bytes = 0
        self._has_space.set()
        self._check_done()

    # --- to and from the leader ---------------------------------------------------------------------------------------

    def next_sent(self, now_s: float) -> SentBatch | None:
        """Return what is to be sent now, as sent; None if nothing is."""
        if self.error is not None or now_s < self._paused_until_s:
            return None
        again = next((each for each in self._window if not each.is_waiting and each.base_offset is None), None)
        if again is not None:
            if any(each.is_waiting for each in self._window):
                return None
            again.is_waiting = True
            return again
        if not self._queue or len(self._window) >= WINDOW_BATCHES:
            return None
        if self._window and self._failing_since_s is not None:
            return None
        batch = self._queue.popleft()
        self._queued_bytes -= len(batch.data)
        if self._queued_bytes <= QUEUED_BYTES_MAX:
            self._has_space.set()
        sent = SentBatch(batch)
        self._window.append(sent)
        return sent

    def wakes_at_s(self, since_s: float) -> float:
        """Return when the pause ends that was not over at `since_s`; infinite without one."""
        return self._paused_until_s if self._paused_until_s > since_s else math.inf

    def acknowledged(self, sent: SentBatch, base_offset: int) -> None:
        """The leader has appended a batch."""
        sent.is_waiting = False
        sent.base_offset = base_offset
        while self._window and self._window[0].base_offset is not None:
            self._count(self._window.popleft())
        self._check_done()

    def _count(self, sent: SentBatch) -> None:
        assert sent.base_offset is not None
        offsets = sent.batch.offsets
        self.translation.note(offsets, sent.base_offset)
        self.end_offset = sent.base_offset + len(offsets)
        self.last_offset = offsets[-1]
        self.records += len(offsets)
        self.bytes += len(sent.batch.data)
        self._failing_since_s = None

    def refused(self, sent: SentBatch, error: ClientError, now_s: float) -> None:
        """A batch has an error: it is sent again after a pause, or the partition fails."""
        sent.is_waiting = False
        if not self._pause(now_s) or not self._may_pass(sent, error):
            self.fail(error)
            return
        self._check_done()

    def wait_for_leader(self, error: ClientError, now_s: float) -> None:
        """Nothing can be sent now: look again after a pause, or fail when there was no leader for long."""
        if not self._pause(now_s) or not error.is_retriable:
            self.fail(error)

    def _pause(self, now_s: float) -> bool:
        """Send nothing for a moment; return False if the partition has failed for so long that it is given up."""
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        self._paused_until_s = now_s + self._pause_s
        return now_s - self._failing_since_s <= GIVE_UP_S

    def _may_pass(self, sent: SentBatch, error: ClientError) -> bool:
        if isinstance(error, KafkaError) and error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return sent is not self._window[0]  # what was sent before it has failed
        if isinstance(error, KafkaError) and error.code == ErrorCode.CORRUPT_MESSAGE:
            return False  # the checksum was computed here
        return error.is_retriable

    def _check_done(self) -> None:
        is_sent = self._is_read and not self._queue and not self._window
        if is_sent or (self.error is not None and not any(each.is_waiting for each in self._window)):
            self.done.set()
