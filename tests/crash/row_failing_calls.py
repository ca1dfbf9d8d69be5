"""Row 3: the N-th call of each kind fails, for N = 1, 2, … until a life is untouched by it; once, and from then on."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random

from fault_program import Row
from sim_faults import NthCall, Step, live_with
from sim_life import ORDERS, STATE, Life, settings

_SHORT = 0
_ERRORS = {
    "open": (errno.EMFILE, errno.EIO),
    "create": (errno.ENOSPC, errno.EMFILE, errno.EIO),
    "read": (_SHORT, errno.EIO, errno.EINTR),
    "write": (_SHORT, errno.ENOSPC, errno.EIO, errno.EINTR),
    "truncate": (errno.ENOSPC, errno.EIO),
    "sync": (errno.EIO, errno.ENOSPC),
    "rename": (errno.ENOSPC, errno.EIO),
    "unlink": (errno.EIO,),
    "mkdir": (errno.ENOSPC, errno.EIO),
    "rmdir": (errno.EIO,),
    "list": (errno.EMFILE, errno.EIO),
    "stat": (errno.EIO,),
}
WAYS = [(kind, error, sticky) for sticky in (False, True) for kind, errors in _ERRORS.items() for error in errors]

EVERYTHING: Sequence[Step] = (
    lambda life: life.create(ORDERS, {}),
    lambda life: life.create(STATE, {"cleanup.policy": "compact"}),
    lambda life: life.append(ORDERS),
    lambda life: life.append(STATE, records_max=20),
    lambda life: life.roll(STATE),
    lambda life: life.append(STATE, records_max=20),
    lambda life: life.flush(ORDERS),
    lambda life: life.roll(ORDERS),
    lambda life: life.append(ORDERS),
    lambda life: life.look(ORDERS),
    lambda life: life.roll(STATE),
    lambda life: life.compact(STATE),
    lambda life: life.delete_records(ORDERS, life.log(ORDERS).log_start_offset + 1),
    lambda life: life.configure(ORDERS, {"retention.bytes": "0"}),
    Life.retain,
    Life.checkpoint,
    Life.remove_due,
    lambda life: life.reopen(),
    lambda life: life.append(ORDERS),
    lambda life: life.look(ORDERS),
    lambda life: life.delete(STATE),
)
"""A life in which every operation comes once. Later lives are drawn by chance."""


def play(seed: int, scratch: Path) -> int:
    """Let calls of one kind fail in one way, each in turn; return in how many lives."""
    kind, error, sticky = WAYS[seed % len(WAYS)]
    script = seed // len(WAYS)
    defaults = settings(Random(script))
    steps = [Life.step] * 12 if script else EVERYTHING
    for number in count(1):
        fault = NthCall(kind, number, error, sticky)
        try:
            if not live_with(fault, script, defaults, steps):
                return number - 1
        except Exception as problem:
            problem.add_note(str(fault))
            raise
    raise AssertionError("unreachable")


ROW = Row(
    3,
    "failing_calls",
    "the N-th call of each kind fails, once or from then on (simulated disk)",
    play,
    seeds_in_ci=range(len(WAYS)),
    goal=20_000,
    unit="lives",
    promises=(
        "A failed disk operation is reported to its caller with its error, loses no acknowledged "
        "record, and leaves no file open.",
        "After a failed sync, a log acknowledges no further writes.",
    ),
)
