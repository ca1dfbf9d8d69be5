"""The damaged places of one log: those that its opening found, and those that readers have met since.

Each place is recorded once, by path and position, and at most `DAMAGE_ENTRIES_MAX` of them, so that neither memory nor
what is shown of them grows with the damage. A place is forgotten when its segment is removed or replaced; what recovery
cut and kept stays as long as the log is open.

Threads: any number add and read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from offsetfs.storage.errors import StorageError
from offsetfs.storage.partition.log_values import Damage

DAMAGE_ENTRIES_MAX = 1000
"""Bounds the memory of a log with damage everywhere; one that is this broken is looked at with `offsetfs verify`."""

OnDamage = Callable[[StorageError], object]
"""Called from any thread with the error of each damaged place."""

_Key = tuple[str, int, int | None]


class DamageRegistry:
    """The places of one log. `on_new` is called with each place that `add` records."""

    def __init__(self, found: Iterable[Damage] = (), on_new: OnDamage = lambda error: None) -> None:
        self._on_new = on_new
        self._lock = threading.Lock()
        self._kept = tuple(damage for damage in found if damage.kept is not None)
        self._places: dict[_Key, Damage] = {_key(damage): damage for damage in found if damage.kept is None}

    def add(self, error: StorageError) -> bool:
        """Record the place that `error` names; return whether it is a new one. One without a path is not recorded."""
        if error.path is None:
            return False
        place = Damage(error.path, error.position or 0, error.offset, error.reason)
        with self._lock:
            if _key(place) in self._places or len(self._places) >= DAMAGE_ENTRIES_MAX:
                return False
            self._places[_key(place)] = place
        self._on_new(error)
        return True

    def all(self) -> tuple[Damage, ...]:
        """Return all places, those that recovery cut first."""
        with self._lock:
            return (*self._kept, *self._places.values())

    def __len__(self) -> int:
        return len(self._kept) + len(self._places)

    def keep_only(self, log_paths: Iterable[str]) -> None:
        """Forget the places in log files that are not among `log_paths`; other files stay."""
        with self._lock:
            if self._places:
                present = set(log_paths)
                kept = {key: place for key, place in self._places.items() if key[0] in present or ".log" not in key[0]}
                self._places = kept


def _key(damage: Damage) -> _Key:
    return damage.path, damage.position, None if damage.position else damage.offset
