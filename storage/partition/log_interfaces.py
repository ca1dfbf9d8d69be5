"""What the modules of a partition need of a `Log`, so that they need not import it.

`log` imports those modules: look-ups, changes, producers, transactions. With these interfaces no import leads back.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from offsetfs.storage.clock import Clock
from offsetfs.storage.errors import StorageError
from offsetfs.storage.partition.epochs import LeaderEpochCache
from offsetfs.storage.partition.log_context import LogContext
from offsetfs.storage.partition.log_state import LogState
from offsetfs.storage.segments.segment_map import Segments
from offsetfs.storage.settings.config import LogConfig


class ReadableLog(Protocol):
    """A log as its readers use it; see `Log` for what each member does."""

    @property
    def path(self) -> str: ...

    @property
    def state(self) -> LogState: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def remote_start_offset(self) -> int | None: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def recovery_point(self) -> int: ...

    @property
    def is_gone(self) -> bool: ...

    def snapshot(self) -> Segments: ...

    def refresh(self, *, is_forced: bool = False) -> None: ...

    def note_damage(self, error: StorageError) -> bool: ...


class ChangeableLog(ReadableLog, Protocol):
    """A log that is open for writing, as its changes use it: they hold it, and publish its next state."""

    @property
    def config(self) -> LogConfig: ...

    @property
    def context(self) -> LogContext: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def epochs(self) -> LeaderEpochCache: ...

    @property
    def read_only(self) -> bool: ...

    def changing(self) -> AbstractContextManager[None]: ...

    def fail_on_error(self) -> AbstractContextManager[None]: ...

    def publish(self, state: LogState) -> None: ...

    def publish_truncated(self, state: LogState) -> None: ...

    def raise_log_start(self, offset: int) -> None: ...

    def flush(self) -> None: ...

    def refusal(self) -> OSError | StorageError: ...
