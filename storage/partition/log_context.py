"""The context of a log: what it needs from its directory, such as clock, checkpoints, and removal of files.

A log does not know other logs. Files that all logs of a directory share are accessed through this interface.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.segments.deletions import Deletions


@dataclass(frozen=True, slots=True)
class LogContext:
    """The context of one log. The defaults are for a log without a directory, in tests."""

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
