"""Repairing a log directory: what opening it for writing does, shown first, done when asked.

`plan` looks only. `carry_out` opens the directory for writing, which takes its lock, finishes swaps and recovers every
partition; makes the indexes anew that were found wrong; and closes it, with checkpoints and the mark of a clean
shutdown. Nothing is cut before the recovery point, and what is cut is kept (`recovery`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from offsetfs.storage import checkpoint, files, lock
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.directory.directory import METADATA_TOPIC, LogDirectory
from offsetfs.storage.errors import InvalidCheckpoint, LogDirectoryLocked, StorageError
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.log import Damage, Log
from offsetfs.storage.recovery.recover_all import OnProgress as OnRecovery
from offsetfs.storage.segments import segment_indexes
from offsetfs.storage.settings.topic_settings import TOPICS, TopicSettings, set_aside
from offsetfs.storage.verify.finding import DAMAGE, Finding
from offsetfs.storage.verify.repair_plan import PartitionPlan, plan_partition
from offsetfs.storage.verify.verify import Verification

_WRITTEN_ANEW = frozenset({checkpoint.RECOVERY_POINTS, checkpoint.LOG_STARTS, checkpoint.HIGH_WATERMARKS})

OnProgress = Callable[[int, int], None]


@dataclass(slots=True)
class RepairPlan:
    """What a repair of a directory would do. `partitions` holds those only to which something happens or happened."""

    path: str
    is_clean: bool
    partitions: dict[TopicPartition, PartitionPlan] = field(default_factory=dict)
    kept: list[Finding] = field(default_factory=list)
    """Damage outside of partitions that stays as it is."""
    settings_path: str | None = None
    """The file of topic settings, where it is damaged and would be set aside."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.is_clean and self.settings_path is None and not any(each.steps for each in self.partitions.values())

    @property
    def is_sound(self) -> bool:
        """Whether nothing stays damaged once it is carried out."""
        return not self.kept and not any(each.kept for each in self.partitions.values())


@dataclass(slots=True)
class RepairOutcome:
    """What a repair did. `failed`: partitions that could not be opened, and why."""

    damage: list[Damage] = field(default_factory=list)
    """What recovery cut, set aside or stepped over."""
    failed: dict[TopicPartition, str] = field(default_factory=dict)
    indexes: int = 0
    """How many segments got new indexes beyond those that recovery makes."""
    settings_copy: str | None = None
    """Where the damaged file of topic settings is kept."""


def plan(path: str, *, on_progress: OnProgress = lambda done, total: None) -> RepairPlan:
    """Return what a repair would do; changes nothing.

    Raises `LogDirectoryLocked` while somebody writes to the directory, `NotALogDirectory`, OSError.
    """
    _refuse_beside_writer(path)
    found: dict[str, list[Finding]] = defaultdict(list)
    verification = Verification(path, report=lambda finding: _file_away(finding, path, found), on_progress=on_progress)
    verification.run()
    result = RepairPlan(path, is_clean=CleanShutdown.read(path) is not None)
    recovery_points, log_starts = _offsets(path, checkpoint.RECOVERY_POINTS), _offsets(path, checkpoint.LOG_STARTS)
    may_have_gaps = _gaps_of(path)
    for partition in verification.partitions:
        if partition.topic == METADATA_TOPIC:
            continue
        partition_path, findings = os.path.join(path, str(partition)), found.pop(str(partition), [])
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
            unreadable = Finding(DAMAGE, "cannot-read", partition_path, None, None, str(error))
            partition_plan = PartitionPlan(partition_path, kept=[*findings, unreadable])
        if partition_plan.steps or partition_plan.kept:
            result.partitions[partition] = partition_plan
    rest = [finding for findings in found.values() for finding in findings if finding.severity == DAMAGE]
    # After recovery these are written for all partitions; a directory that was closed cleanly keeps them.
    result.settings_path = next((f.path for f in rest if os.path.basename(f.path) == TOPICS), None)
    rest = [finding for finding in rest if finding.path != result.settings_path]
    result.kept = [f for f in rest if result.is_clean or os.path.basename(f.path) not in _WRITTEN_ANEW]
    return result


def carry_out(plan: RepairPlan, *, on_progress: OnRecovery | None = None) -> RepairOutcome:
    """Do what `plan` says. On disk after return.

    What is done follows from the files as they are now: the plan only adds the indexes. Raises `LogDirectoryLocked`.
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
                outcome.failed[partition] = str(error)
        opened = (directory.opened(partition) for partition in directory.partitions())
        outcome.damage = [damage for log in opened if log is not None for damage in log.damage]
        outcome.failed |= {partition: str(error) for partition, error in directory.failed.items()}
    finally:
        directory.close()
    return outcome


def _rebuild_indexes(log: Log, base_offsets: Collection[int]) -> int:
    """Make the indexes of these segments anew; return how many there were."""
    wanted = [segment for segment in log.snapshot() if segment.base_offset in base_offsets]
    for segment in wanted:
        with files.opened(segment.log_path) as file:
            segment_indexes.rebuild(segment, file)
    return len(wanted)


def _gaps_of(path: str) -> Callable[[TopicPartition], bool]:
    """Return what says of a partition whether a gap between its segments may be no loss, as `LogDirectory` has it."""
    cleaned = _offsets(path, checkpoint.CLEANER_OFFSETS)
    settings = TopicSettings(path)
    if files.exists(os.path.join(path, checkpoint.META_PROPERTIES)):
        return lambda partition: True
    points = _offsets(path, checkpoint.RECOVERY_POINTS)  # our compaction leaves gaps below them only
    return lambda p: (
        not settings.is_known(p.topic)
        or (not points.get(p) and (p in cleaned or settings.config_of(p.topic).is_compacted))
    )


def _refuse_beside_writer(path: str) -> None:
    pid = lock.holder(path)
    if pid is not None:
        raise LogDirectoryLocked(f"in use by process {pid}", path=path, pid=pid)


def _file_away(finding: Finding, path: str, found: dict[str, list[Finding]]) -> None:
    """Keep a finding under the name of its partition; those of the directory's own files under theirs."""
    relative = os.path.relpath(finding.path, path)
    found[relative.split(os.sep, 1)[0]].append(finding)


def _offsets(path: str, name: str) -> dict[TopicPartition, int]:
    try:
        return checkpoint.read_offsets(os.path.join(path, name))
    except InvalidCheckpoint:
        return {}  # as LogDirectory does
