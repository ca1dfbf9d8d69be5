"""Row 10: a sync fails once, at every place of a life where there is one; the caller gets it, and the log has failed.

A sync that failed is not tried again: the kernel reports a page that it could not write once, and a second sync, which
finds nothing to do, would claim success. So nothing later is acknowledged on the log until it is opened again.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random

from fault_program import Row
from row_failing_calls import EVERYTHING
from sim_faults import NthCall, Step, live_with
from sim_life import ORDERS, STATE, Life, settings

_APPENDS: Sequence[Step] = (
    lambda life: life.create(ORDERS, {}),
    *[lambda life: life.append(ORDERS), lambda life: life.flush(ORDERS)] * 3,
    lambda life: life.roll(ORDERS),
    *[lambda life: life.append(ORDERS), lambda life: life.flush(ORDERS)] * 2,
    Life.checkpoint,
    lambda life: life.append(ORDERS),
    lambda life: life.flush(ORDERS),
)
_COMPACTIONS: Sequence[Step] = (
    lambda life: life.create(STATE, {"cleanup.policy": "compact,delete"}),
    *[lambda life: life.append(STATE, records_max=12), lambda life: life.roll(STATE)] * 3,
    lambda life: life.compact(STATE),
    lambda life: life.append(STATE),
    lambda life: life.flush(STATE),
    lambda life: life.delete_records(STATE, life.log(STATE).log_start_offset + 1),
    Life.retain,
    lambda life: life.append(STATE),
    lambda life: life.flush(STATE),
    lambda life: life.reopen(),
    lambda life: life.append(STATE),
)
LIVES = (_APPENDS, _COMPACTIONS, EVERYTHING)


def play(seed: int, scratch: Path) -> int:
    """Let each sync of a life fail in turn; return how many there are. The first seeds are the lives above."""
    steps = LIVES[seed] if seed < len(LIVES) else [Life.step] * 15
    defaults = settings(Random(seed))
    for number in count(1):
        fault = NthCall("sync", number, errno.EIO, sticky=False)
        try:
            if not live_with(fault, seed, defaults, steps):
                return number - 1
        except Exception as problem:
            problem.add_note(str(fault))
            raise
    raise AssertionError("unreachable")


ROW = Row(
    10,
    "failed_fsync",
    "a sync fails once, at every site (simulated disk)",
    play,
    # The last but one deletes the failed partition, and creates it again; the last one cuts a log to a recovery point
    # that it had before the sync behind a later one failed.
    seeds_in_ci=(*range(6), 598512850615, 8750496022),
    goal=2_000,
    unit="sites",
    promises=("After a failed sync, a log acknowledges no further writes.",),
)
