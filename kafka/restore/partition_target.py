"""The batches of a partition on their way to its leader: which are sent next, acknowledged, sent again.

    read ─► queue ─► window of WINDOW_BATCHES ─► acknowledged, in order
                         └ again, after an error that may pass

The producer is idempotent: a broker recognizes the last five batches of a producer, and answers a repeated one with its
first answer (ProducerStateEntry). So no more are sent ahead. After an error, what was sent behind it fails too, or has
been appended: nothing else is sent until each has its answer.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import trio

from offsetfs.kafka.client.errors import ClientError, KafkaError
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import TopicPartition
from offsetfs.storage.records import ProducedBatch

WINDOW_BATCHES = 5
QUEUED_BYTES_MAX = 1 << 20
"""Bytes that are read ahead; a chunk more may be in the queue."""

GIVE_UP_S = 120.0
"""Kafka's delivery.timeout.ms: how long a batch is sent again after errors that may pass."""


class OffsetTranslation:
    """Offsets of one partition as those of its copy, for the few that are wanted: the committed offsets of groups.

    Records get other offsets in the copy, since there are none for control batches, aborted transactions and gaps. An
    offset becomes that of the first copied record at or behind it, so that a consumer continues exactly at its place.
    Only the wanted offsets are kept, however many records there are.
    """

    def __init__(self, wanted: Iterable[int]) -> None:
        self._wanted = deque(sorted(set(wanted)))
        self._translated: dict[int, int] = {}

    def note(self, offsets: Sequence[int], base_offset: int) -> None:
        """Record that these offsets are in the copy from `base_offset` on. Call it in the order of the log."""
        while self._wanted and self._wanted[0] <= offsets[-1]:
            offset = self._wanted.popleft()
            self._translated[offset] = base_offset + bisect_left(offsets, offset)

    def finish(self, end_offset: int) -> Mapping[int, int]:
        """Return all translations; offsets behind the last record become `end_offset`, the end of the copy."""
        while self._wanted:
            self._translated[self._wanted.popleft()] = end_offset
        return self._translated


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
        """The end of the acknowledged records, in the cluster."""
        self.records = self.bytes = 0
        """The records and bytes that are acknowledged."""
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
        self._queued_bytes += sum(len(batch.data) for batch in batches)
        self._is_read = self._is_read or not batches
        self._check_done()

    async def wait_for_space(self) -> None:
        """Wait until more batches may be put, or the partition has failed."""
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
        """Return the batch to send now, marked as sent; None if there is none."""
        if self.error is not None or now_s < self._paused_until_s:
            return None
        again = next(
            (sent_batch for sent_batch in self._window if not sent_batch.is_waiting and sent_batch.base_offset is None),
            None,
        )
        if again is not None:
            if any(sent_batch.is_waiting for sent_batch in self._window):
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
        """Return the end of a pause that was not over at `since_s`; infinite without a pause."""
        return self._paused_until_s if self._paused_until_s > since_s else math.inf

    def acknowledged(self, sent: SentBatch, base_offset: int) -> None:
        """Record that the leader has appended a batch."""
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
        """Record the error of a batch: send the batch again after a pause, or fail the partition."""
        sent.is_waiting = False
        if not self._pause(now_s) or not self._may_pass(sent, error):
            self.fail(error)
            return
        self._check_done()

    def wait_for_leader(self, error: ClientError, now_s: float) -> None:
        """Wait for a leader: check again after a pause, or fail after a long time without a leader."""
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
        if is_sent or (self.error is not None and not any(sent.is_waiting for sent in self._window)):
            self.done.set()
