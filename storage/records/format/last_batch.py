"""The last whole batch of a Fetch response, by headers alone: where the next response will begin."""

from __future__ import annotations

from typing import NamedTuple

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.records.format import chain
from offsetfs.storage.records.format.batch_header import BATCH_SIZE_MIN, Buffer, parse_header


class LastBatch(NamedTuple):
    """What the header of a batch says. `leader_epoch`: -1 in formats v0 and v1."""

    next_offset: int
    leader_epoch: int
    max_timestamp: int


def last_whole_batch(data: Buffer) -> LastBatch | None:
    """Return the last batch that `data` has as a whole; None if there is none. Nothing is verified."""
    view, position, found = memoryview(data), 0, None
    while len(view) - position >= BATCH_SIZE_MIN:
        rows, end = chain.headers(view, position, len(view), len(view), 0)
        if rows:
            last = rows[-chain.COLUMNS :]
            next_offset = last[chain.BASE_OFFSET] + last[chain.LAST_OFFSET_DELTA] + 1
            found = LastBatch(next_offset, last[chain.LEADER_EPOCH], last[chain.MAX_TIMESTAMP])
            position = end
            continue
        try:
            header = parse_header(view, position)
        except MalformedBatch:
            break
        if header.size > len(view) - position:
            break
        found = LastBatch(header.next_offset, header.leader_epoch, header.max_timestamp)
        position += header.size
    return found
