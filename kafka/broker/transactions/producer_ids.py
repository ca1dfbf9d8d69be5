"""The producer ids that InitProducerId hands out."""

from __future__ import annotations

import secrets

from offsetfs.storage import I64_MAX

ID_MIN = 1 << 40
BLOCK_SIZE = 1 << 10


class ProducerIds:
    """Hands out producer ids to idempotent and transactional producers.

    A broker counts from 0 in its metadata. Here blocks of `BLOCK_SIZE` ids begin at random from `ID_MIN` on, which no
    broker reaches. Nothing is stored, so that a directory that is restored from a backup, or copied, hands out no id
    twice either. Two of a million blocks are the same with a probability of 1 to 18,000; of the thousand that a busy
    broker takes, 1 to 18 billion.
    """

    def __init__(self) -> None:
        self._ids = iter(range(0))

    def next(self) -> int:
        """Return a new id."""
        producer_id = next(self._ids, None)
        if producer_id is None:
            producer_id = ID_MIN + secrets.randbelow((I64_MAX + 1 - ID_MIN) // BLOCK_SIZE) * BLOCK_SIZE
            self._ids = iter(range(producer_id + 1, producer_id + BLOCK_SIZE))
        return producer_id
