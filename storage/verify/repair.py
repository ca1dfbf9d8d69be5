"""Repairs a log directory: predicts what opening it for writing would change, and does it on request.

`plan_repair` changes nothing. `carry_out_repair` opens the directory for writing, which takes its lock, completes swaps
and recovers every partition. Then it rebuilds the indexes with findings, and closes the directory, with checkpoints and
a clean shutdown file. Nothing is cut before the recovery point, and cut bytes are kept (`recovery`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from offsetfs.storage import checkpoint, files, lock
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import InvalidCheckpoint, LogDirectoryLocked, StorageError, sentence
from offsetfs.storage.names import METADATA_TOPIC, TopicPartition
from offsetfs.storage.partition.log import Damage, Log
from offsetfs.storage.recovery.recover_all import OnRecovery
from offsetfs.storage.segments import segment_indexes
from offsetfs.storage.settings.topic_settings import TOPICS, TopicSettings, set_aside
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.repair_plan import PartitionPlan, plan_partition
from offsetfs.storage.verify.verify import Verification

_REWRITTEN = frozenset({checkpoint.RECOVERY_POINTS, checkpoint.LOG_STARTS, checkpoint.HIGH_WATERMARKS})

OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class RepairPlan:
    """The changes that a repair would make. `partitions` has only those with changes or damage."""

    path: str
    is_clean: bool
    partitions: dict[TopicPartition, PartitionPlan] = field(default_factory=dict)
    kept: list[Finding] = field(default_factory=list)
    """Damage outside of partitions that a repair does not remove."""
    settings_path: str | None = None
    """The damaged file of topic settings, which would be set aside."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to repair."""
        return (
            self.is_clean
            and self.settings_path is None
            and not any(partition.steps for partition in self.partitions.values())
        )

    @property
    def is_sound(self) -> bool:
        """Whether no damage is left after the repair."""
        return not self.kept and not any(partition.kept for partition in self.partitions.values())


@dataclass(slots=True)
class RepairOutcome:
    """The changes that a repair made. `failed`: the partitions that could not be opened, and the errors."""

    damage: list[Damage] = field(default_factory=list)
    """The ranges that recovery cut, set aside or skipped."""
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    indexes: int = 0
    """The number of segments whose indexes were rebuilt, in addition to those that recovery rebuilds."""
    split: list[str] = field(default_factory=list)
    """The logs that were replaced with several segments."""
    settings_copy: str | None = None
    """The path of the copy of the damaged settings file."""


def plan_repair(path: str, *, on_progress: OnProgress = lambda done, total: None) -> RepairPlan:
    """Return the changes that a repair would make; changes nothing.

    Raises `LogDirectoryLocked` while a process writes to the directory, `NotALogDirectory`, OSError.
    """
    _refuse_beside_writer(path)
    findings_by_partition: dict[str, list[Finding]] = defaultdict(list)
    verification = Verification(
        path, report=lambda finding: _assign_finding(finding, path, findings_by_partition), on_progress=on_progress
    )
    verification.run()
    result = RepairPlan(path, is_clean=CleanShutdown.read(path) is not None)
    recovery_points, log_starts = _offsets(path, checkpoint.RECOVERY_POINTS), _offsets(path, checkpoint.LOG_STARTS)
    may_have_gaps = _gaps_of(path)
    for partition in verification.partitions:
        if partition.topic == METADATA_TOPIC:
            continue
        partition_path, findings = os.path.join(path, str(partition)), findings_by_partition.pop(str(partition), [])
        try:
            partition_plan = plan_partition(
                partition_path,
                findings,
                is_clean=result.is_clean,
                recovery_point=recovery_points.get(partition, 0),
                log_start=log_starts.get(partition, 0),
                may_have_gaps=may_have_gaps(partition),
            )
        except (StorageError, OSError) as error:
            unreadable = Finding(DAMAGE, "cannot-read", partition_path, None, None, sentence(error))
            partition_plan = PartitionPlan(partition_path, kept=[*findings, unreadable])
        if partition_plan.steps or partition_plan.kept:
            result.partitions[partition] = partition_plan
    rest = [
        finding for findings in findings_by_partition.values() for finding in findings if finding.severity == DAMAGE
    ]
    # Recovery writes these files for all partitions; in a cleanly closed directory they stay as they are.
    result.settings_path = next((f.path for f in rest if os.path.basename(f.path) == TOPICS), None)
    rest = [finding for finding in rest if finding.path != result.settings_path]
    result.kept = [f for f in rest if result.is_clean or os.path.basename(f.path) not in _REWRITTEN]
    return result


def carry_out_repair(plan: RepairPlan, *, on_progress: OnRecovery | None = None) -> RepairOutcome:
    """Carry out `plan`. Durable on return.

    The changes depend on the files as they are now; the plan only supplies the indexes to rebuild. Raises
    `LogDirectoryLocked`.
    """
    outcome = RepairOutcome()
    if plan.is_empty:
        return outcome
    directory = LogDirectory.open(plan.path, on_progress=on_progress)
    try:
        outcome.settings_copy = set_aside(directory.path) if plan.settings_path is not None else None
        for partition, partition_plan in plan.partitions.items():
            if partition in directory.failed or not partition_plan.steps:
                continue
            try:
                outcome.indexes += _rebuild_indexes(directory.log(partition), partition_plan.indexes)
            except (StorageError, OSError) as error:
                outcome.failed[partition] = sentence(error)
        opened = (directory.opened(partition) for partition in directory.partitions())
        outcome.damage = [damage for log in opened if log is not None for damage in log.damage]
        outcome.failed |= {partition: str(error) for partition, error in directory.failed.items()}
        outcome.split = [
            step.path
            for partition, partition_plan in plan.partitions.items()
            for step in partition_plan.steps
            if step.kind == "split" and partition not in outcome.failed
        ]
    finally:
        directory.close()
    return outcome


def _rebuild_indexes(log: Log, base_offsets: Collection[int]) -> int:
    """Rebuild the indexes of these segments; return their number."""
    wanted = [segment for segment in log.snapshot() if segment.base_offset in base_offsets]
    for segment in wanted:
        with files.open_file(segment.log_path) as file:
            segment_indexes.rebuild(segment, file, "verify found a wrong one")
    return len(wanted)


def _gaps_of(path: str) -> Callable[[TopicPartition], bool]:
    """Return a function that says whether a partition may have gaps between segments, as `LogDirectory` decides."""
    cleaned = _offsets(path, checkpoint.CLEANER_OFFSETS)
    settings = TopicSettings(path)
    # A broker's cleaner writes no recovery point before its first gap, so a gap proves no loss in its logs.
    if files.exists(os.path.join(path, checkpoint.META_PROPERTIES)):
        return lambda partition: True
    points = _offsets(path, checkpoint.RECOVERY_POINTS)  # our compaction leaves gaps only below them
    return lambda p: (
        not settings.is_known(p.topic)
        or (not points.get(p) and (p in cleaned or settings.config_of(p.topic).is_compacted))
    )


def _refuse_beside_writer(path: str) -> None:
    pid = lock.writer_of(path)
    if pid is not None:
        raise LogDirectoryLocked(f"in use by process {pid}", path=path, pid=pid)


def _assign_finding(finding: Finding, path: str, findings_by_partition: dict[str, list[Finding]]) -> None:
    """Assign a finding to its partition, or to the directory's own files."""
    relative = os.path.relpath(finding.path, path)
    findings_by_partition[relative.split(os.sep, 1)[0]].append(finding)


def _offsets(path: str, name: str) -> dict[TopicPartition, int]:
    try:
        return checkpoint.read_offsets(os.path.join(path, name))
    except InvalidCheckpoint:
        return {}  # as in LogDirectory
