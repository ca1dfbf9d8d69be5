"""The consumer groups of a mount, up to date whenever they are asked for. See groups for the tree made of them."""

from __future__ import annotations

import errno
import functools
import json

import trio
from pyfuse3 import FUSEError

from offsetfs.fs.notes import Fault, Notes
from offsetfs.fs.places import Places
from offsetfs.fs.shared import Shared
from offsetfs.storage.coordinators.consumer_groups import STEP_BYTES, Commit, ConsumerGroups, Lag
from offsetfs.storage.names import TopicPartition

WAIT_S = 10.0


class Groups:
    """The groups of a mount, up to date whenever they are asked for, and the numbers they have in inodes."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.engine = ConsumerGroups(shared.directory, functools.partial(_passed_over, shared.notes))
        self.made: set[bytes] = set()
        """Groups that were made here and may have no commits yet."""
        self.groups: Places[bytes] = Places()
        self.partitions: Places[TopicPartition] = Places()

    async def refresh(self) -> None:
        """Return when all that was committed is known; EAGAIN when that takes longer than ten seconds."""
        deadline = trio.current_time() + WAIT_S
        while not await self.shared.answer(_step, self.engine):
            if trio.current_time() > deadline:
                self.shared.notes.tell(
                    Fault(errno.EAGAIN, "lookup", "groups", "commits are still being read", "ask again")
                )
                raise FUSEError(errno.EAGAIN)

    @property
    def is_writable(self) -> bool:
        """Whether offsets may be committed."""
        return not self.shared.is_read_only and (self.engine.is_there or self.may_create)

    @property
    def may_create(self) -> bool:
        """Whether the topic may be made that holds commits."""
        return self.shared.options.create and not self.shared.is_read_only

    async def names(self) -> list[bytes]:
        await self.refresh()
        return sorted({*await self.shared.answer(self.engine.names), *self.made})

    async def commits(self, group: bytes) -> list[Commit] | None:
        """Return the group's commits, None when there is no such group."""
        await self.refresh()
        commits = await self.shared.answer(self.engine.commits, group)
        return [] if commits is None and group in self.made else commits

    async def state(self, group: bytes) -> bytes | None:
        """Return type, state and members of a group as JSON; None where only its commits are known."""
        await self.refresh()
        found = await self.shared.answer(self.engine.state, group)
        return None if found is None else (json.dumps(found, indent=2) + "\n").encode()

    async def lag(self, group: bytes) -> bytes:
        await self.refresh()
        return _table(await self.shared.answer(self.engine.lag, group))


def _passed_over(notes: Notes, sentence: str) -> None:
    notes.tell(Fault(None, "read", "groups", sentence, "none needed, everything else is shown"))


def _step(engine: ConsumerGroups, *, nowait: bool) -> bool:
    return engine.refresh(nowait=nowait, bytes_max=STEP_BYTES)


def _table(lags: list[Lag]) -> bytes:
    """Return the lines of `lag`, in columns; what is not known is a minus."""
    rows: list[tuple[str, ...]] = [("PARTITION", "COMMITTED", "END", "LAG")]
    for partition, committed, end in lags:
        behind = None if end is None else end - committed
        rows.append((str(partition), *("-" if number is None else str(number) for number in (committed, end, behind))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "".join(line + "\n" for line in lines).encode()
