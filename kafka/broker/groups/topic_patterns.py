"""The regular expressions by which consumers subscribe to topics (KIP-848, version 1 of ConsumerGroupHeartbeat), and
administrators list transactional ids (KIP-1152, version 2 of ListTransactions).

The syntax is RE2's, as in Kafka. A pattern is compiled and matched in a thread, which others need not wait for, one
pattern at a time, and for no longer than `WORK_S_MAX`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial

import trio

from offsetfs.common.name_patterns import NamePattern, PatternError
from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.groups.group import GroupError
from offsetfs.kafka.protocol.error_codes import ErrorCode

LENGTH_MAX = 1000
"""Characters of a pattern."""

WORK_S_MAX = 2.0
"""Processor time for one pattern with all topics: with 10,000 topics, common patterns take 0.05 s. The worst ones of
`LENGTH_MAX` characters take 0.08 s for each name."""

SLICE_S = 0.02
"""Processor time after which the thread ends: a broker that stops does not wait for longer."""

MayDescribe = Callable[[str], bool]
"""Returns whether a client may describe a topic: others do not match."""


class TopicPatterns:
    """Matches the patterns of all groups."""

    def __init__(self) -> None:
        self._turn = trio.CapacityLimiter(1)

    async def matching(self, pattern: str, names: Sequence[str]) -> frozenset[str]:
        """Return the names that a regular expression matches as a whole; INVALID_REGULAR_EXPRESSION."""
        if len(pattern) > LENGTH_MAX:
            raise _refused(pattern, f"it is longer than {LENGTH_MAX} characters")
        try:
            compiled = await in_thread(partial(NamePattern, pattern), limiter=self._turn)
        except PatternError as error:
            raise _refused(pattern, str(error)) from None
        matching: list[str] = []
        position, work_s = 0, 0.0
        while position < len(names):
            if work_s > WORK_S_MAX:
                raise _refused(pattern, f"it takes more than {WORK_S_MAX:.0f} s of processor time with these topics")
            work = partial(_slice, compiled, names, position, matching)
            position, used_s = await in_thread(work, limiter=self._turn)
            work_s += used_s
        return frozenset(matching)


def _slice(compiled: NamePattern, names: Sequence[str], position: int, matching: list[str]) -> tuple[int, float]:
    """Match names from `position` on for `SLICE_S`; return the position that follows, and the time that it took."""
    begun_s = time.thread_time()
    for name in itertools.islice(names, position, None):
        if compiled.fullmatch(name):
            matching.append(name)
        position += 1
        if time.thread_time() - begun_s >= SLICE_S:
            break
    return position, time.thread_time() - begun_s


def _refused(pattern: str, reason: str) -> GroupError:
    message = f"SubscribedTopicRegex `{pattern[:LENGTH_MAX]}` is not a valid regular expression: {reason}."
    return GroupError(ErrorCode.INVALID_REGULAR_EXPRESSION, message=message)
