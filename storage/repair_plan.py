"""What opening a log directory for writing would do to it, found out without changing anything.

The plan of one partition has the steps of `log_loader` and `recovery`, in their order, and beyond them the indexes that
a verification found wrong: a look-up would make them anew one by one. What neither of them cures is `kept`: damage that
was once on disk is reported, never cut.

    swaps → the segments that there would be → recovery from the recovery point on → indexes

Here everything is looked at; `repair` does it, through the very same `LogDirectory.open`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from offsetfs.storage import batch_chain, checkpoint, files, verify_batches
from offsetfs.storage.batch_header import BatchHeader
from offsetfs.storage.config import DEFAULTS
from offsetfs.storage.errors import InvalidCheckpoint, StorageError
from offsetfs.storage.leftovers import pending_swaps
from offsetfs.storage.log_end import end_of_chain
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.open_files import Pool
from offsetfs.storage.segment import RELATIVE_OFFSET_MAX, Segment, SegmentFiles
from offsetfs.storage.verify_finding import DAMAGE, Finding

CURED_BY_INDEXES = frozenset(
    {"offset-index", "time-index", "time-index-end", "index-shape", "index-padding", "index-missing"}
)
"""The kinds of finding that go away when the indexes of the segment are made anew."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that would be done. `kind`: swap, recover, cut, set-aside, snapshot, epochs, index, begin."""

    kind: str
    path: str
    position: int | None
    offset: int | None
    meaning: str

    def __str__(self) -> str:
        places = [f"position {self.position}"] * (self.position is not None)
        places += [f"offset {self.offset}"] * (self.offset is not None)
        return f"{', '.join([self.path, *places])}: {self.kind}: {self.meaning}"


@dataclass(slots=True)
class PartitionPlan:
    """What would happen to one partition."""

    path: str
    steps: list[Step] = field(default_factory=list)
    kept: list[Finding] = field(default_factory=list)
    """Damage that stays as it is."""
    indexes: list[int] = field(default_factory=list)
    """The base offsets of segments whose indexes have to be made anew besides."""
    next_offset: int | None = None
    """Where the log would end, when it is recovered."""

    def add(
        self, kind: str, name: str, meaning: str, *, position: int | None = None, offset: int | None = None
    ) -> None:
        path = os.path.join(self.path, name) if name else self.path
        self.steps.append(Step(kind, path, position, offset, meaning))


def plan_partition(
    path: str, findings: Iterable[Finding], *, is_clean: bool, recovery_point: int, log_start: int
) -> PartitionPlan:
    """Return what opening for writing would do; `findings` are those of a verification of this partition.

    Costs a read of everything from the recovery point on when the directory was not closed cleanly. Raises OSError.
    """
    plan = PartitionPlan(path)
    logs = _Logs(path)
    if not is_clean:
        _plan_swaps(plan, logs)
    if not logs.paths:
        meaning = "there is no segment: an empty one is made" + (", after the swaps" if plan.steps else "")
        plan.add("begin", segment_name(log_start, ".log"), meaning)
    elif not is_clean or not _ends_well(path, max(logs.paths)):
        _RecoveryPlan(plan, logs, recovery_point).make()
        plan.next_offset = max(plan.next_offset or 0, recovery_point, log_start)
    _sort_out(plan, findings, logs)
    return plan


class _Logs:
    """The log files that there would be, by base offset: with swaps pending, some still have another name."""

    def __init__(self, path: str) -> None:
        self.gone: set[str] = set()
        parsed = ((name, parse_segment_name(name)) for name in files.names(path))
        logs = ((name, each[0]) for name, each in parsed if each is not None and each[1] == ".log")
        self.paths: dict[int, str] = {base: os.path.join(path, name) for name, base in logs}


def _plan_swaps(plan: PartitionPlan, logs: _Logs) -> None:
    pending = pending_swaps(plan.path)
    for name in sorted(pending.removed):
        logs.gone.add(os.path.join(plan.path, name))
        plan.add("swap", name, "is removed")
    logs.paths = {base: path for base, path in logs.paths.items() if path not in logs.gone}
    for name in sorted(pending.renamed):
        plan.add("swap", name, "takes its place")
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[1] == ".log.swap":
            logs.paths[parsed[0]] = os.path.join(plan.path, name)


def _ends_well(path: str, base: int) -> bool:
    """Whether a cleanly closed log ends with a whole batch; else it is recovered all the same."""
    pool: Pool[SegmentFiles] = Pool(1)
    try:
        return end_of_chain(Segment(path, base, DEFAULTS, pool, read_only=True)) is not None
    finally:
        pool.clear()


# --- recovery --------------------------------------------------------------------------------------------------------


class _RecoveryPlan:
    """Goes the way of `recovery.Recovery`, and only takes notes."""

    def __init__(self, plan: PartitionPlan, logs: _Logs, recovery_point: int) -> None:
        self._plan = plan
        self._logs = logs
        self._bases = sorted(logs.paths)
        self._recovery_point = recovery_point
        self._next_offset: int = self._bases[0]

    def make(self) -> None:
        first = max((i for i, base in enumerate(self._bases) if base <= self._recovery_point), default=0)
        bases = self._bases[first:]
        name = segment_name(bases[0], ".log")
        meaning = f"is verified with the {len(bases) - 1} segments behind it, and their indexes are made anew"
        self._plan.add("recover", name, meaning, offset=self._recovery_point)
        for place, base in enumerate(bases):
            self._next_offset = max(self._next_offset, base)
            if self._cuts(base):
                for later in bases[place + 1 :]:
                    kept = segment_name(later, ".cut-0")
                    self._logs.gone.add(self._logs.paths[later])
                    self._plan.add(
                        "set-aside", segment_name(later, ".log"), f"follows a cut; kept as {kept}", position=0
                    )
                break
        self._plan.next_offset = self._next_offset
        self._plan_snapshots()
        self._plan_epochs()

    def _cuts(self, base: int) -> bool:
        """Walk one segment; return whether it would be cut."""
        with files.opened(self._logs.paths[base]) as log:
            position, size = 0, log.size()
            while position < size:
                position, reason = self._sound_end(log, base, position, size)
                if position == size:
                    return False
                if self._next_offset >= self._recovery_point:
                    self._note_cut(log, base, position, size, reason)
                    return True
                position = batch_chain.next_sound(log, position, size, offset_min=self._next_offset)
                if position == size:
                    self._next_offset = max(self._next_offset, self._recovery_point)
        return False

    def _sound_end(self, log: files.File, base: int, position: int, size: int) -> tuple[int, str]:
        try:
            for batch in batch_chain.batches(log, position, size):
                if not self._fits(base, batch.header):
                    return position, f"offset {batch.header.base_offset} cannot follow {self._next_offset - 1}"
                position += batch.header.size
                self._next_offset = batch.header.next_offset
        except StorageError as error:
            return position, error.reason
        return position, ""

    def _fits(self, base: int, header: BatchHeader) -> bool:
        return (
            header.base_offset >= self._next_offset
            and header.last_offset_delta >= 0
            and header.last_offset - base <= RELATIVE_OFFSET_MAX
        )

    def _note_cut(self, log: files.File, base: int, position: int, size: int, reason: str) -> None:
        blocks = range(position, size, batch_chain.BLOCK_BYTES)
        is_something = any(any(log.read(place, min(batch_chain.BLOCK_BYTES, size - place))) for place in blocks)
        where = f"kept in {segment_name(base, f'.cut-{position}')}" if is_something else "all of them zero"
        meaning = f"{reason}; {size - position} bytes are cut, {where}"
        self._plan.add("cut", segment_name(base, ".log"), meaning, position=position, offset=self._next_offset)

    def _plan_snapshots(self) -> None:
        for name in sorted(files.names(self._plan.path)):
            parsed = parse_segment_name(name)
            if parsed is not None and parsed[1] == ".snapshot" and parsed[0] > self._next_offset:
                self._plan.add("snapshot", name, f"is removed: the log ends at {self._next_offset}")

    def _plan_epochs(self) -> None:
        path = os.path.join(self._plan.path, checkpoint.LEADER_EPOCHS)
        try:
            dropped = [entry for entry in checkpoint.read_epochs(path) if entry[1] >= self._next_offset]
        except InvalidCheckpoint as error:
            self._plan.add("epochs", checkpoint.LEADER_EPOCHS, f"{error.reason}; made anew from the batches")
            return
        for epoch, start in dropped:
            meaning = f"epoch {epoch} is dropped: the log ends at {self._next_offset}"
            self._plan.add("epochs", checkpoint.LEADER_EPOCHS, meaning, offset=start)


# --- what a verification found ---------------------------------------------------------------------------------------


def _sort_out(plan: PartitionPlan, findings: Iterable[Finding], logs: _Logs) -> None:
    """Put each finding to what cures it: a step that there is already, an index made anew, or nothing."""
    cuts = {step.path: step.position or 0 for step in plan.steps if step.kind == "cut"}
    recovered_from = next((base_of(step.path) for step in plan.steps if step.kind == "recover"), None)
    anew: dict[int, set[str]] = {}
    for finding in findings:
        base = base_of(finding.path)
        if finding.path in logs.gone or (finding.path in cuts and (finding.position or 0) >= cuts[finding.path]):
            continue
        if finding.kind in CURED_BY_INDEXES and base is not None:
            if recovered_from is None or base < recovered_from:
                anew.setdefault(base, set()).add(finding.kind)
        elif finding.severity == DAMAGE and not (plan.steps and _is_cured_by_recovery(finding, recovered_from)):
            plan.kept.append(finding)
    for base, kinds in sorted(anew.items()):
        plan.indexes.append(base)
        plan.add("index", segment_name(base, ".log"), f"its indexes are made anew ({', '.join(sorted(kinds))})")


def _is_cured_by_recovery(finding: Finding, recovered_from: int | None) -> bool:
    if finding.kind == "no-log":
        return True
    is_of_epochs = os.path.basename(finding.path) == checkpoint.LEADER_EPOCHS
    return recovered_from is not None and (finding.kind == "snapshot-beyond-end" or is_of_epochs)


def base_of(path: str) -> int | None:
    """Return the base offset in the name of a segment's file."""
    parsed = parse_segment_name(os.path.basename(path))
    return parsed[0] if parsed is not None else None


# --- what remains ----------------------------------------------------------------------------------------------------


def readable_ranges(path: str) -> Iterator[tuple[int, int]]:
    """Yield (first, last) offsets of the stretches of a partition that can be read, parted by damage."""
    first, last, broken = -1, -1, False

    def on_break(_error: StorageError, _position: int, _following: int) -> None:
        nonlocal broken
        broken = True

    parsed = (parse_segment_name(name) for name in files.names(path))
    for base in sorted(each[0] for each in parsed if each is not None and each[1] == ".log"):
        with files.opened(os.path.join(path, segment_name(base, ".log"))) as log:
            for batch in verify_batches.sound_batches(log, log.size(), on_break):
                if broken and first >= 0:
                    yield first, last
                    first = -1
                broken, last = False, batch.header.last_offset
                first = batch.header.base_offset if first < 0 else first
    if first >= 0:
        yield first, last
