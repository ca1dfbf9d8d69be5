"""The parts of a log beside its name, its settings and its state, and its context.

A log does not know other logs. Files that all logs of a directory share are accessed through the context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.log_producers import Load
from offsetfs.storage.partition.log_state import Damage
from offsetfs.storage.segments.deletions import Deletions


@dataclass(frozen=True, slots=True)
class LogContext:
    """The services of a directory for one log, such as clock, checkpoints, and removal of files.

    The defaults are for a log without a directory, in tests.
    """

    clock: Clock = SYSTEM
    deletions: Deletions = field(default_factory=Deletions)
    """The queue of files to unlink later."""

    before_change: Callable[[], None] = lambda: None
    """Called before each change: removes the clean shutdown file, durably, unless that was done."""

    save_log_start: Callable[[int], None] = lambda offset: None
    """Writes a log start to the checkpoint, where it only rises; durable on return."""

    save_recovery_point: Callable[[int], None] = lambda offset: None
    """Writes a recovery point to the checkpoint: everything below it is synced; durable on return."""

    cut_checkpoints: Callable[[int, int], None] = lambda offset, cleaner_offset_max: None
    """Called with the offset to which a synced log will be truncated, and the highest valid cleaner offset.

    Updates the checkpoints; durable on return.
    """

    on_damage: OnDamage = lambda error: None
    """Called with the error of each damaged position that a reader meets, once for each."""

    on_append: Callable[[], None] = lambda: None
    """Called after each append, without locks."""

    on_roll: Callable[[], None] = lambda: None
    """Called after a segment was sealed and the next one begun, without locks."""

    restart_checkpoints: Callable[[int], None] = lambda offset: None
    """Called when the log was emptied and continues at an offset; updates all checkpoints, durable on return."""

    mirrored_from: str = ""
    """The cluster whose records the log has, by the addresses of its brokers: then only `append_replicated` appends."""


@dataclass(frozen=True, slots=True)
class LogParts:
    """The result of opening the directory of a log; `log_loader.open_log` puts it together."""

    epochs: LeaderEpochCache
    load_producers: Load
    """Loads the producers at the end of the log, when they are first asked for."""

    damage: tuple[Damage, ...] = ()
    read_only: bool = False
    unrecovered: Exception | None = None
    """The error of the failed recovery, if the log is read-only in a directory that is open for writing."""

    is_compacted: bool = False
    """Whether only the latest record of each key is kept."""

    remote_start: Callable[[int], int | None] = lambda first_offset: None
    """Called with the first offset of the files; returns where the log begins if its broker keeps it in remote storage,
    too (KIP-405), else None.

    Only the broker knows what it has copied, so that nothing else may remove records from the start of the log.
    """

    context: LogContext = field(default_factory=LogContext)
