"""What a log asks of the directory that it lies in: the time, the checkpoints, the removal of files.

A log knows nothing of its neighbours; what concerns files that all logs of a directory share goes through here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.partition.damage_registry import OnDamage
from offsetfs.storage.segments.deletions import Deletions


@dataclass(frozen=True, slots=True)
class LogContext:
    """The surroundings of one log. The defaults are those of a log that lies on its own, for tests."""

    clock: Clock = SYSTEM
    deletions: Deletions = field(default_factory=Deletions)
    """Takes what is to be unlinked later."""

    before_change: Callable[[], None] = lambda: None
    """Called before each change: takes the mark of the clean shutdown away, on disk, unless that was done."""

    save_log_start: Callable[[int], None] = lambda offset: None
    """Puts a log start into the checkpoint, where it only rises; on disk after return."""

    save_recovery_point: Callable[[int], None] = lambda offset: None
    """Puts into the checkpoint that everything below an offset was synced; on disk after return."""

    cut_checkpoints: Callable[[int, int], None] = lambda offset, cleaner_offset_max: None
    """Called with the offset to which a log that is synced is about to be cut, and that to which it may count as
    compacted: the checkpoints say so, on disk after return."""

    on_damage: OnDamage = lambda error: None
    """Called with the error of each damaged place that a reader meets, once for each place."""

    restart_checkpoints: Callable[[int], None] = lambda offset: None
    """Called when the log was emptied, to begin anew at an offset: all checkpoints say so, on disk after return."""
