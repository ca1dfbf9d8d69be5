"""How often what clients cause is logged: a client can cause it as often as it likes, and would fill the disk."""

from __future__ import annotations

import math

import trio

LOGGED_S = 10.0


class RareLines:
    """Says when a line is due: at most one in `LOGGED_S`."""

    def __init__(self) -> None:
        self._next_s = -math.inf
        self._count = 0

    def count(self) -> int:
        """Count one more; return how many the line that is due now is for, 0 if none is due."""
        self._count += 1
        now_s = trio.current_time()
        if now_s < self._next_s:
            return 0
        found, self._count, self._next_s = self._count, 0, now_s + LOGGED_S
        return found
