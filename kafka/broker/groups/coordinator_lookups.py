"""Counts the clients that have looked up the coordinator of a group: those that are about to join it.

A new group with `group.initial.rebalance.delay.ms=0` completes its first generation with the members that are there.
The others need a second one, of which the first members learn by their next heartbeat: three seconds later by default.
The lookups show whether there are others, so that a single consumer does not wait for them.
"""

from __future__ import annotations

from offsetfs.common.lru import Lru

Peer = tuple[str, int]
"""Host and port of a connection."""

LOOKUP_S = 5.0
"""How long a client that has looked up a coordinator is expected to join its group."""

LOOKUPS_OF_A_CLIENT = 2
"""How many connections of one client look up a coordinator: two of librdkafka (2.16), one of Kafka's consumer."""

_GROUPS_MAX, _PEERS_MAX = 256, 1000


class CoordinatorLookups:
    """The connections that have looked up coordinators, by group. Bounded, because any client may look up any name."""

    def __init__(self) -> None:
        self._times: Lru[Lru[float]] = Lru(_GROUPS_MAX)

    def note(self, group: str, peer: Peer, now_s: float) -> None:
        """Note that a client has looked up the coordinator of a group."""
        times = self._times.get(group)
        if times is None:
            times = Lru(_PEERS_MAX)
            self._times.put(group, times)
        times.put(peer, now_s)

    def count(self, group: str, now_s: float) -> int:
        """Return how many connections have looked up the coordinator of a group in the last `LOOKUP_S`."""
        times = self._times.get(group)
        return 0 if times is None else sum(each > now_s - LOOKUP_S for each in times.values())

    def forget(self, group: str) -> None:
        """Forget the lookups of a group that its members have left."""
        self._times.drop(group)
