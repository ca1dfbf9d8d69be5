"""Compares the last records here with those of the source at the same offsets.

Leader epochs do not tell two logs apart whose epochs have the same numbers, such as those of a cluster before and after
it was restored from a backup. Only the last batch of a partition is compared. Compaction at the source may have removed
records, or the batch may be gone there: what one side alone has is no difference.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice

from offsetfs.common.threads import in_thread_or_here
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.errors import ClientError
from offsetfs.kafka.mirror.fetcher import MOVED
from offsetfs.kafka.mirror.partition import MirroredPartition
from offsetfs.kafka.mirror.positions import OnFailure
from offsetfs.kafka.mirror.single_fetch import records_at
from offsetfs.storage import Batch, read_batch
from offsetfs.storage.errors import StorageError

BYTES_MAX = 16 << 20
"""How many bytes of last batches are compared at a time; one batch may have more."""
PARTITIONS_MAX = 256

_EPOCH_BYTES = slice(12, 16)
"""Where a batch has its leader epoch, which its checksum does not cover."""


class Comparison(enum.Enum):
    """The result for a partition without a difference."""

    EQUAL = enum.auto()
    """No record is known to differ."""
    NO_ANSWER = enum.auto()
    """The source does not answer now."""


Results = Mapping[MirroredPartition, Comparison | int]
"""The `Comparison` of each partition, or the first offset at which a record of its last batch differs."""


async def compare(client: ClusterClient, partitions: Iterable[MirroredPartition], on_failure: OnFailure) -> Results:
    """Compare the last batch of each partition with what its leader has there."""
    waiting = list(partitions)
    found: dict[MirroredPartition, Comparison | int] = dict.fromkeys(waiting, Comparison.EQUAL)
    waiting = [each for each in waiting if each.log.size_bytes and each.log.log_start_offset < each.log.next_offset]
    while waiting:
        own = await in_thread_or_here(partial(_last_batches, waiting))
        by_leader = defaultdict[int, dict[MirroredPartition, Batch]](dict)
        for each, batch in own.items():
            if batch is not None:
                by_leader[each.leader][each] = batch
        for leader, batches in by_leader.items():
            found |= await _compared(client, leader, batches, on_failure)
        del waiting[: len(own)]
    return found


def _last_batches(partitions: Iterable[MirroredPartition]) -> dict[MirroredPartition, Batch | None]:
    """Return the last batches of some partitions, from the first one on, in a thread; None where it is unreadable."""
    found: dict[MirroredPartition, Batch | None] = {}
    size = 0
    for each in islice(partitions, PARTITIONS_MAX):
        try:
            batch = found[each] = each.log.batch_at(each.log.next_offset - 1)
        except (StorageError, OSError):  # `verify` and the next append say more
            batch = found[each] = None
        size += 0 if batch is None else batch.header.size
        if size >= BYTES_MAX:
            break
    return found


async def _compared(
    client: ClusterClient, leader: int, own: Mapping[MirroredPartition, Batch], on_failure: OnFailure
) -> Results:
    """Compare partitions of one leader."""
    try:
        fetched = await _fetched(client, leader, own)
        for each, records in list(fetched.items()):
            # A batch that is larger than the one here is in a response only as the first one of it.
            if records is not None and not records and len(own) > 1:
                fetched |= await _fetched(client, leader, {each: own[each]})
    except ClientError as error:
        on_failure(leader, error)
        return dict.fromkeys(own, Comparison.NO_ANSWER)
    return await in_thread_or_here(
        lambda: {each: _difference(batch, fetched.get(each, _NOTHING)) for each, batch in own.items()}
    )


_NOTHING = memoryview(b"")


async def _fetched(
    client: ClusterClient, leader: int, own: Mapping[MirroredPartition, Batch]
) -> dict[MirroredPartition, memoryview | None]:
    """Return what the leader has at the last offset of each batch, b"" if it has nothing; None: it says later."""
    offsets = {each: batch.header.last_offset for each, batch in own.items()}
    answers = await records_at(client, leader, offsets, {each: batch.header.size for each, batch in own.items()})
    found: dict[MirroredPartition, memoryview | None] = dict.fromkeys(own, _NOTHING)
    for each, answer in answers.items():
        if isinstance(answer, int):
            found[each] = None if answer in MOVED else _NOTHING
        else:
            found[each] = answer
    return found


def _difference(own: Batch, records: memoryview | None) -> Comparison | int:
    if records is None:
        return Comparison.NO_ANSWER
    if not records or _without_epoch(records[: own.header.size]) == _without_epoch(own.data):
        return Comparison.EQUAL
    try:
        theirs = {each.offset: each for each in read_batch(records).records()}
        different = [each.offset for each in own.records() if theirs.get(each.offset, each) != each]
    except StorageError:  # damaged, here or there
        return Comparison.EQUAL
    return int(different[0]) if different else Comparison.EQUAL


def _without_epoch(batch: memoryview) -> tuple[memoryview, memoryview]:
    return batch[: _EPOCH_BYTES.start], batch[_EPOCH_BYTES.stop :]
