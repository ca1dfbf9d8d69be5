"""What a log is built from, beside its name, its settings and its state: the result of opening its directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.log_context import LogContext
from offsetfs.storage.partition.log_producers import Load
from offsetfs.storage.partition.log_values import Damage


@dataclass(frozen=True, slots=True)
class LogParts:
    """The parts of a `Log`, which `log_loader.open_log` puts together."""

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
