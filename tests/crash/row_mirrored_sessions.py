"""Row 25: a mirror of sources with every behavior of fetch sessions, whose responses are cut, damaged and refused,
while its disk takes only a part of them, or nothing.

The source (`fetch_source`) and the clock are simulated, so that the seed alone decides what happens. After each append
and each run a mirrored log has exactly the first bytes of its source; a run with `once` that reports no failure has all
that the source had.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import trio
from fault_program import Row
from fixtures.mirrors.fetch_source import FetchSource
from trio.testing import MockClock

from offsetfs.common.loop_watch import LoopAppends
from offsetfs.common.threads import Workers
from offsetfs.kafka.mirror import fetcher
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.storage import Log, LogDirectory

TOPICS = (("plain", 3), ("compacted", 2))
RUNS = 6
SECONDS_MAX = 3600
"""Of the simulated clock: a run with `once` that takes longer hangs."""


def play(seed: int, scratch: Path) -> int:
    """Mirror a source in some runs; return how many appends were checked."""
    chance = random.Random(seed)
    return _Lives(chance, scratch).play()


class _Lives:
    """The runs of one mirror."""

    def __init__(self, chance: random.Random, scratch: Path) -> None:
        self._chance = chance
        self._path = str(scratch)
        self._source = FetchSource(chance, TOPICS)
        self._disk_share = chance.choice((0.0, 0.05, 0.3))
        self._checked = 0
        if chance.random() < 0.2:
            self._damage()

    def _damage(self) -> None:
        found = self._chance.choice(list(self._source.partitions.values()))
        found.damaged = self._chance.randrange(len(found.batches))

    def play(self) -> int:
        with self._simulated():
            for _ in range(RUNS):
                self._run(once=self._chance.random() < 0.6)
            self._source.is_calm, self._disk_share = True, 0.0
            self._run(once=True)
            for each in self._source.partitions.values():
                each.damaged = -1
            assert self._run(once=True) == [], f"{self._source}: without faults, and not complete"
        return self._checked

    def _run(self, *, once: bool) -> list[str]:
        """Run the mirror; return the partitions that failed."""
        for each in self._source.partitions.values():
            each.grow(self._chance, self._chance.randrange(10))
        directory = LogDirectory.open(self._path)
        try:
            failures = trio.run(partial(self._mirrored, directory, once=once), clock=MockClock(autojump_threshold=0))
            for name, found in self._source.partitions.items():
                if not directory.has(name):
                    assert not once or name.topic in failures or str(name) in failures, f"{name} is missing"
                    continue
                data = _bytes_of(directory.log(name))
                found.check(directory.log(name), data)
                has_all = not once or str(name) in failures or found.is_held(data)
                assert has_all, f"{self._source}: {name} ends at {directory.log(name).next_offset} of {found.end}"
            return failures
        finally:
            directory.close()

    async def _mirrored(self, directory: LogDirectory, *, once: bool) -> list[str]:
        client: Any = self._source
        mirror = Mirror(directory, client, "source", MirrorOptions(once=once), lambda text: None)
        seconds = SECONDS_MAX if once else self._chance.choice((0.1, 2, 30))
        with trio.move_on_after(seconds) as scope:
            await mirror.run()
        assert not (once and scope.cancelled_caught), f"{self._source}: it does not end"
        failed = [str(name) for name, each in mirror.state.partitions.items() if each.failure]
        assert bool(failed or mirror.state.failures) == mirror.has_failed
        return [*failed, *mirror.state.failures]

    # --- the simulation -----------------------------------------------------------------------------------------------

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        trio_random: Any = trio._core._run  # the order of tasks, too, comes from the seed
        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(trio_random, "_r", random.Random(self._chance.random())))
            patches.enter_context(mock.patch("os.fsync", lambda fd: None))
            patches.enter_context(mock.patch.object(Workers, "run", self._in_turn))
            patches.enter_context(mock.patch.object(fetcher, "LOOP_BYTES_MAX", self._chance.choice((0, 1 << 16))))
            patches.enter_context(mock.patch.object(LoopAppends, "are_quick", self._are_quick))
            append = Log.append_replicated
            patches.enter_context(mock.patch.object(Log, "append_replicated", self._append(append)))
            yield

    @property
    def _in_turn(self) -> Callable[..., Any]:
        async def run(workers: Workers, work: Callable[[], Any], *_: object) -> Any:
            await trio.sleep(self._chance.choice((0.0, 0.001, 0.05)))
            return work()

        return run

    @property
    def _are_quick(self) -> property:
        """Appends change between the event loop and a thread, as on a disk that is slow at times."""
        share = self._chance.choice((0.0, 0.3, 1.0))
        return property(lambda appends: self._chance.random() >= share)

    def _append(self, append: Callable[..., int]) -> Callable[..., int]:
        """Return an append to a disk that may be full, before the first batch or behind some."""

        def appended(log: Log, data: memoryview, **options: Any) -> int:
            is_full = self._chance.random() < self._disk_share
            taken = data[: self._cut(data)] if is_full else data
            try:
                done = append(log, taken, **options) if taken else 0
                if is_full:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return done
            finally:
                self._checked += 1
                found = self._source.partitions[log.partition]
                found.check(log, _bytes_of(log))

        return appended

    def _cut(self, data: memoryview) -> int:
        ends = [0]
        while (size := 12 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big")) >= 61 and len(data) >= ends[
            -1
        ] + size:
            ends.append(ends[-1] + size)
        return self._chance.choice(ends)


def _bytes_of(log: Log) -> bytes:
    return b"".join(Path(each.log_path).read_bytes()[: each.size] for each in log.snapshot())


ROW = Row(
    25,
    "mirrored_sessions",
    "a source gives, refuses and forgets fetch sessions, and cuts and damages responses; the mirror's disk is full",
    play,
    seeds_in_ci=range(6),
    goal=25_000,
    unit="appends",
    promises=(
        "A mirrored partition has the batches of its source, byte for byte, at the same offsets.",
        "A mirror that was killed continues where each log ends: without a gap, and without a duplicate.",
        "`offsetfs mirror --once` ends without an error only if the mirror has all records that "
        "the cluster had at the start.",
    ),
)
