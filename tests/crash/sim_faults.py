"""Lives on a simulated disk on which one call, or each from one on, fails: the errors, and what is left."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from fixtures.simulation.simdisk import ROOT, SimDisk
from fixtures.simulation.simsystem import SHORT, simulated
from sim_check import check, observe
from sim_life import PATH, Life

from offsetfs.storage.errors import LogFailed, StorageError
from offsetfs.storage.names import TopicPartition

Step = Callable[[Life], object]

_TOLD = (".log", ".index", ".timeindex", PATH)


@dataclass
class NthCall:
    """Lets the `number`-th call of a kind fail, and all that follow it when it is `sticky`. `error` 0: a short one."""

    kind: str
    number: int
    error: int
    sticky: bool
    count: int = 0
    paths: list[str] = field(default_factory=list)

    def __call__(self, kind: str, path: str) -> str | None:
        if kind != self.kind:
            return None
        self.count += 1
        if self.count != self.number and not (self.sticky and self.count > self.number):
            return None
        self.paths.append(path)
        if not self.error:
            return SHORT
        raise OSError(self.error, os.strerror(self.error), path)

    @property
    def was_met(self) -> bool:
        return bool(self.paths)

    def __str__(self) -> str:
        what = errno.errorcode[self.error] if self.error else "short"
        return f"{self.kind} number {self.number}{' and all after it' if self.sticky else ''}: {what} {self.paths[:1]}"


def _forget_frames(error: BaseException | None) -> None:
    """Let go of what the frames hold that an error went through: open files."""
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


class FaultyLife(Life):
    """A life that goes on after errors, as a mount does. `raised`: what each operation raised."""

    raised: list[Exception]
    failed: set[TopicPartition]
    is_doubtful = False
    """Whether a directory was opened again after a sync had failed: what is on disk is then unknown."""

    def live(self, steps: Sequence[Step]) -> None:
        """Open the directory, and take all steps; the error of one that fails is kept, and the next one is taken."""
        self.raised, self.failed = [], set()
        self._try(Life.open)
        for step in steps:
            if self.directory is None:
                self._try(FaultyLife._open_again)
            if self.directory is not None:
                self._try(step)
        if self.directory is not None:
            self._try(Life.close)

    def _try(self, step: Callable[[FaultyLife], object]) -> None:
        try:
            step(self)
        except (OSError, StorageError) as error:
            _forget_frames(error)
            self.raised.append(error)

    def reopen(self) -> None:
        self.close()
        self._open_again()

    def _open_again(self) -> None:
        self.is_doubtful = self.is_doubtful or any(change[0] == "give_up" for change in self.system.disk.history)
        self.failed.clear()
        self.open()
        assert self.directory is not None
        try:
            if not self.directory.failed:
                observe(self.directory, self.timeline, len(self.system.disk.history), was_killed=True)
        except (OSError, StorageError):  # what is there is not known: nothing is promised of it
            directory, self.directory = self.directory, None
            directory.close()
            raise
        for error in self.directory.failed.values():
            _forget_frames(error)

    def append(self, partition: TopicPartition, *, records_max: int = 5) -> None:
        try:
            super().append(partition, records_max=records_max)
        except LogFailed:
            raise
        assert partition not in self.failed, f"{partition} acknowledged an append after a sync had failed"

    def delete(self, partition: TopicPartition) -> None:
        super().delete(partition)
        self.failed.discard(partition)  # what is created under its name is another log

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        try:
            super().truncate(partition, offset)
        except (OSError, StorageError):
            if self.log(partition).failure is not None:  # half done: only an opening shows how far
                self._try(Life.close)
                self.directory = None
            raise

    def flush(self, partition: TopicPartition) -> None:
        try:
            super().flush(partition)
        except OSError:
            self.failed.add(partition)
            raise
        assert partition not in self.failed, f"{partition} acknowledged a flush after a sync had failed"


def live_with(fault: NthCall, seed: int, defaults: dict[str, str], steps: Sequence[Step]) -> bool:
    """Live once under `fault`, and assert that nothing promised is lost; return whether the fault was met."""
    random = Random(seed)
    disk = SimDisk()
    disk.do("create", ROOT, PATH.strip("/"), True)
    disk.do("sync", ROOT)
    with simulated(disk) as system:
        life = FaultyLife(system, random, {}, defaults)
        system.fault = fault
        life.live(steps)
        system.fault = lambda _kind, _path: None
        if not fault.was_met:
            assert not life.raised, f"{life.raised} without any fault"
            return False
        _check_told(life, fault)
        _check_let_go(life)
        promises = life.timeline.now
        if not life.is_doubtful:
            left = disk.crash(random)
            check(system, left, promises, defaults, random)
        check(system, disk, promises, defaults, random, was_killed=True)
    return True


def _check_told(life: FaultyLife, fault: NthCall) -> None:
    """Assert that a short call causes no error, and that a failed sync is raised with its error."""
    raised = [error.errno for error in life.raised if isinstance(error, OSError)]
    assert fault.error != 0 or not life.raised, f"{fault}: {life.raised}"
    assert set(raised) <= {fault.error}, f"{fault}: raised {raised}"
    # What else may fail to be synced ends writing to its log, which may be deleted before it is asked, or costs
    # time only: leader epochs below a log start, a map of values.
    must_be_raised = (fault.kind, fault.error) == ("sync", errno.EIO) and fault.paths[0].endswith(_TOLD)
    assert not must_be_raised or raised, f"{fault}: no error was raised"


def _check_let_go(life: FaultyLife) -> None:
    """Assert that a directory that was closed, in order or not, holds no descriptor."""
    life.directory = None
    gc.collect()
    left = life.system.open_paths(life.system.disk)
    assert left == [], f"descriptors leak: {left}"
