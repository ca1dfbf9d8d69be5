"""The known damage of one log: found when it was opened, or met by readers since.

Each damaged position is recorded once, by path and position, up to `DAMAGE_ENTRIES_MAX`, so that memory and reports do
not grow with the damage. Entries are dropped when their segment is removed or replaced. Entries of bytes that recovery
cut stay as long as the log is open.

Threads: any number add and read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from offsetfs.storage.errors import StorageError
from offsetfs.storage.partition.log_state import Damage

DAMAGE_ENTRIES_MAX = 1000
"""Limits the memory for a log with damage everywhere. Use `offsetfs verify` to see all of such damage."""

OnDamage = Callable[[StorageError], object]
"""Called from any thread with the error of each damaged position."""

_Key = tuple[str, int, int | None]


class DamageRegistry:
    """The known damage of one log. `on_new` is called with each error that `add` records."""

    def __init__(self, known: Iterable[Damage] = (), on_new: OnDamage = lambda error: None) -> None:
        self._on_new = on_new
        self._lock = threading.Lock()
        self._kept = tuple(damage for damage in known if damage.kept is not None)
        self._damage: dict[_Key, Damage] = {_key(damage): damage for damage in known if damage.kept is None}

    def add(self, error: StorageError) -> bool:
        """Record the position of `error`; return whether it is new. An error without a path is not recorded."""
        if error.path is None:
            return False
        damage = Damage(error.path, error.position or 0, error.offset, error.reason)
        with self._lock:
            if _key(damage) in self._damage or len(self._damage) >= DAMAGE_ENTRIES_MAX:
                return False
            self._damage[_key(damage)] = damage
        self._on_new(error)
        return True

    def all(self) -> tuple[Damage, ...]:
        """Return all entries, those of recovery first."""
        with self._lock:
            return (*self._kept, *self._damage.values())

    def __len__(self) -> int:
        return len(self._kept) + len(self._damage)

    def keep_only(self, log_paths: Iterable[str]) -> None:
        """Drop the entries of log files that are not among `log_paths`; those of other files stay."""
        with self._lock:
            if self._damage:
                present = set(log_paths)
                kept = {
                    key: damage for key, damage in self._damage.items() if key[0] in present or ".log" not in key[0]
                }
                self._damage = kept


def _key(damage: Damage) -> _Key:
    return damage.path, damage.position, None if damage.position else damage.offset
