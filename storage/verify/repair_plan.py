"""Predicts what opening a log directory for writing would change in a partition, without changing anything.

The plan has the steps of `log_loader` and `recovery`, in their order, and the rebuilds of indexes with findings, which
look-ups would otherwise do one by one. Damage that no step removes is in `kept`: damage to synced records is reported,
never cut.

    swaps → segments after the swaps → recovery from the recovery point on → indexes

This module predicts; `repair` makes the changes, with the same `LogDirectory.open`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from offsetfs.storage import checkpoint, files
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import parse_segment_name, segment_name
from offsetfs.storage.partition.log_end import end_of_chain
from offsetfs.storage.recovery import overflow
from offsetfs.storage.recovery.leftover_files import PendingSwaps, pending_swaps
from offsetfs.storage.recovery.recovery_plan import RecoveryPlan
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.segments.segment_files import SegmentFiles
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.verify import walk
from offsetfs.storage.verify.finding import DAMAGE, Finding

CURED_BY_INDEXES = frozenset(
    {"offset-index", "time-index", "time-index-end", "index-shape", "index-padding", "index-missing", "index-sparse"}
)
"""The kinds of findings that disappear when the segment's indexes are rebuilt."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One step of a repair.

    `kind`: swap, recover, split, cut, set-aside, snapshot, leftover, epochs, index, begin.
    """

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
    """The changes that a repair would make to one partition."""

    path: str
    steps: list[RepairStep] = field(default_factory=list)
    kept: list[Finding] = field(default_factory=list)
    """Damage that the repair does not remove."""
    indexes: list[int] = field(default_factory=list)
    """The base offsets of segments whose indexes must also be rebuilt."""
    next_offset: int | None = None
    """The end of the log after recovery."""

    def add(
        self, kind: str, name: str, meaning: str, *, position: int | None = None, offset: int | None = None
    ) -> None:
        path = os.path.join(self.path, name) if name else self.path
        self.steps.append(RepairStep(kind, path, position, offset, meaning))


def plan_partition(
    path: str,
    findings: Iterable[Finding],
    *,
    is_clean: bool,
    recovery_point: int,
    log_start: int,
    may_have_gaps: bool = False,
) -> PartitionPlan:
    """Return what opening for writing would change; `findings` are those of a verification of this partition.

    `may_have_gaps`: a broker wrote the partition, or it is compacted without a recovery point. Costs a read of
    everything from the recovery point on if the directory was not closed cleanly. Raises OSError.
    """
    plan = PartitionPlan(path)
    logs = _Logs(path)
    pending = pending_swaps(path)
    if pending.is_swap or not is_clean:
        _plan_swaps(plan, logs, pending)
    if not logs.paths:
        meaning = "no segment: an empty one will be created" + (", after the swaps" if plan.steps else "")
        plan.add("begin", segment_name(log_start, ".log"), meaning)
    elif not is_clean or not _ends_well(plan, logs):
        recovery = RecoveryPlan(
            path,
            logs.paths,
            plan.add,
            recovery_point=recovery_point,
            log_start=log_start,
            has_gaps=may_have_gaps or (not recovery_point and pending.reaches(max(min(logs.paths), log_start))),
        )
        recovery.make()
        logs.gone |= {logs.paths[base] for base in recovery.set_aside}
        plan.next_offset = max(recovery.next_offset, recovery_point, log_start)
    _assign_findings(plan, findings, logs)
    return plan


class _Logs:
    """The log files after pending swaps, by base offset. Some still have their old names."""

    def __init__(self, path: str) -> None:
        self.gone: set[str] = set()
        parsed = ((name, parse_segment_name(name)) for name in files.names(path))
        logs = ((name, parts[0]) for name, parts in parsed if parts is not None and parts[1] == ".log")
        self.paths: dict[int, str] = {base: os.path.join(path, name) for name, base in logs}


def _plan_swaps(plan: PartitionPlan, logs: _Logs, pending: PendingSwaps) -> None:
    for name in sorted(pending.removed):
        logs.gone.add(os.path.join(plan.path, name))
        plan.add("swap", name, "will be removed")
    logs.paths = {base: path for base, path in logs.paths.items() if path not in logs.gone}
    for name in sorted(pending.renamed):
        plan.add("swap", name, "will replace the segment")
        parsed = parse_segment_name(name)
        if parsed is not None and parsed[1] == ".log.swap":
            logs.paths[parsed[0]] = os.path.join(plan.path, name)


def _ends_well(plan: PartitionPlan, logs: _Logs) -> bool:
    """Whether a cleanly closed log ends with a whole batch; otherwise it is recovered like after a crash."""
    pool: FilePool[SegmentFiles] = FilePool(1)
    try:
        segments = [_segment(plan.path, base, log_path, pool) for base, log_path in sorted(logs.paths.items())]
        end = end_of_chain(segments[-1])
        overflowed = overflow.find(segments, end) if end is not None else None
    finally:
        pool.clear()
    if overflowed is not None:
        name = segment_name(overflowed.base_offset, ".log")
        plan.add("split", name, overflow.MEANING)
    return end is not None


def _segment(path: str, base: int, log_path: str, pool: FilePool[SegmentFiles]) -> Segment:
    size = files.status(log_path).st_size
    return Segment(path, base, DEFAULTS, pool, size=size, read_only=True, log_path=log_path)


# --- what a verification found ---------------------------------------------------------------------------------------


def _assign_findings(plan: PartitionPlan, findings: Iterable[Finding], logs: _Logs) -> None:
    """Assign each finding to its remedy: an existing step, an index rebuild, or none."""
    cuts = {step.path: step.position or 0 for step in plan.steps if step.kind == "cut"}
    # Only a segment that is valid but for its span is split.
    split = {step.path for step in plan.steps if step.kind == "split"}
    recovered_from = next((base_of(step.path) for step in plan.steps if step.kind == "recover"), None)
    to_rebuild: dict[int, set[str]] = {}
    for finding in findings:
        base = base_of(finding.path)
        if finding.path in logs.gone or (finding.path in cuts and (finding.position or 0) >= cuts[finding.path]):
            continue
        if finding.kind == "offset-order" and finding.path in split:
            continue
        if finding.kind in CURED_BY_INDEXES and base is not None:
            if recovered_from is None or base < recovered_from:
                to_rebuild.setdefault(base, set()).add(finding.kind)
        elif finding.severity == DAMAGE and not (plan.steps and _is_cured_by_recovery(finding, recovered_from)):
            plan.kept.append(finding)
    for base, kinds in sorted(to_rebuild.items()):
        plan.indexes.append(base)
        plan.add("index", segment_name(base, ".log"), f"indexes will be rebuilt ({', '.join(sorted(kinds))})")


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
    """Yield the (first, last) offsets of the readable ranges of a partition, separated by damage."""
    first, last, broken = -1, -1, False

    def on_break(_error: StorageError, _position: int, _following: int) -> None:
        nonlocal broken
        broken = True

    parsed = (parse_segment_name(name) for name in files.names(path))
    for base in sorted(parts[0] for parts in parsed if parts is not None and parts[1] == ".log"):
        with files.open_file(os.path.join(path, segment_name(base, ".log"))) as log:
            for rows in walk.sound_rows(log, log.size(), on_break):
                if broken and first >= 0:
                    yield first, last
                    first = -1
                broken, last = False, rows.next_offset - 1
                first = rows.base_offset if first < 0 else first
    if first >= 0:
        yield first, last
