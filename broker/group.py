"""One classic consumer group: its members, generations and rebalances.

    Empty ─ join ─→ PreparingRebalance ─ all have joined, or time is up ─→ CompletingRebalance ─ leader's sync ─→ Stable
      ↑                     ↑────────────── join, leave, session expired ─────────────┴────────────────────────────┘
      └── the last member leaves

Follows Kafka's ClassicGroup and GroupMetadataManager. Requests that wait (JoinGroup, SyncGroup) wait for an `Answer` of
their member. Only the event loop uses this module; nothing here waits for the disk.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import trio

from offsetfs.broker.error_codes import ErrorCode
from offsetfs.broker.metrics import waiting


class GroupState(StrEnum):
    """Kafka's names of the states."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupError(Exception):
    """A request of a member that is not granted."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Answer:
    """What a waiting request gets; set once."""

    def __init__(self) -> None:
        self._ready = trio.Event()
        self.code = ErrorCode.NONE

    def set(self, code: ErrorCode = ErrorCode.NONE) -> None:
        if not self._ready.is_set():
            self.code = code
            self._ready.set()

    async def wait(self) -> None:
        with waiting():
            await self._ready.wait()


@dataclass(slots=True, eq=False)
class Member:
    """A member of a group. `protocols`: its assignors with their metadata, in its order of preference."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_s: float
    rebalance_timeout_s: float
    protocols: dict[str, bytes]
    assignment: bytes = b""
    seen_s: float = 0.0
    joining: Answer | None = None
    syncing: Answer | None = None

    def expires_s(self) -> float:
        """When the member's session ends; a member whose request waits for the others does not expire."""
        is_waiting = self.joining is not None or self.syncing is not None
        return float("inf") if is_waiting else self.seen_s + self.session_timeout_s


@dataclass(slots=True, eq=False)
class Group:
    """A group and its members."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    """Ids that were handed out and have not joined (KIP-394), with the time at which they expire."""
    rebalance_ends_s: float = float("inf")

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def member(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member. UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has its static id."""
        if instance_id is not None:
            holder = self.static_member(instance_id)
            if holder is not None and holder.member_id != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        found = self.members.get(member_id)
        if found is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    def static_member(self, instance_id: str) -> Member | None:
        return next((each for each in self.members.values() if each.instance_id == instance_id), None)

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def supports(self, protocol_type: str, protocols: Sequence[str]) -> bool:
        """Return whether a member with these assignors fits to the others: all must have one in common."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        common = set.intersection(*(set(each.protocols) for each in self.members.values()))
        return protocol_type == self.protocol_type and bool(common & set(protocols))

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member; its waiting requests end with UNKNOWN_MEMBER_ID."""
        self.members.pop(member.member_id, None)
        for answer in (member.joining, member.syncing):
            if answer is not None:
                answer.set(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def prepare_rebalance(self, now_s: float, delay_s: float = 0.0) -> None:
        """Begin a rebalance: members must join again, at the latest after the longest of their time-outs."""
        if self.state == GroupState.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    member.syncing.set(ErrorCode.REBALANCE_IN_PROGRESS)
                    member.syncing = None
        longest = max((each.rebalance_timeout_s for each in self.members.values()), default=0.0)
        self.rebalance_ends_s = now_s + (
            min(delay_s, longest) if self.state == GroupState.EMPTY and delay_s else longest
        )
        self.state = GroupState.PREPARING

    def have_all_joined(self) -> bool:
        return not self.pending and all(each.joining is not None for each in self.members.values())

    def complete_join(self, now_s: float) -> None:
        """End the first phase: a new generation of the members that have joined; the others are removed."""
        for member in [each for each in self.members.values() if each.joining is None and each.instance_id is None]:
            self.remove(member)
        self.generation += 1
        self.rebalance_ends_s = float("inf")
        if not self.members:
            self.state, self.protocol, self.leader = GroupState.EMPTY, None, None
            return
        self.state, self.protocol = GroupState.COMPLETING, self._elected()
        if self.leader not in self.members or self.members[self.leader].joining is None:
            self.leader = next((each.member_id for each in self.members.values() if each.joining), self.leader)
        self.rebalance_ends_s = now_s + max(each.rebalance_timeout_s for each in self.members.values())
        for member in self.members.values():
            member.seen_s = now_s
            if member.joining is not None:
                member.joining.set()
                member.joining = None

    def _elected(self) -> str:
        """Return the assignor that most members prefer among those that all of them have."""
        common = set.intersection(*(set(each.protocols) for each in self.members.values()))
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name in member.protocols if name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def complete_sync(self, assignments: dict[str, bytes], now_s: float) -> None:
        """End the second phase: the leader has sent what each member reads."""
        self.rebalance_ends_s = float("inf")
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                member.seen_s = now_s  # while it waited it could not send heartbeats
                member.syncing.set()
                member.syncing = None

    def fail_sync(self, now_s: float) -> None:
        """Begin a rebalance after an assignment could not be stored: waiting members join again."""
        if self.state == GroupState.COMPLETING:
            self.prepare_rebalance(now_s)

    def expire(self, now_s: float) -> tuple[bool, bool]:
        """Remove members whose session has ended, and ids that were never used; return whether any of each was."""
        expired = [member for member in self.members.values() if member.expires_s() <= now_s]
        for member in expired:
            self.remove(member)
        unused = [member_id for member_id, until_s in self.pending.items() if until_s <= now_s]
        for member_id in unused:
            del self.pending[member_id]
        return bool(expired), bool(unused)


def new_member_id(client_id: str, instance_id: str | None) -> str:
    """Return an id as Kafka makes it: the static id or client id, and a random part."""
    return f"{instance_id or client_id}-{secrets.token_hex(16)}"
