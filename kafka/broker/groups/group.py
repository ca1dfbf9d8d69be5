"""One classic consumer group: its members, generations and rebalances.

    Empty ─ join ─→ PreparingRebalance ─ all have joined, or time is up ─→ CompletingRebalance ─ leader's sync ─→ Stable
      ↑                     ↑────────────── join, leave, session expired ─────────────┴────────────────────────────┘
      └── the last member leaves

Follows Kafka's ClassicGroup and GroupMetadataManager. Requests that wait (JoinGroup, SyncGroup) wait for an `Answer` of
their member. Only the event loop uses this module; nothing here waits for the disk.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import trio

from offsetfs.common.lru import Lru
from offsetfs.kafka.broker.metrics import waiting
from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.records import GroupMetadataValue, MemberMetadata
from offsetfs.storage import I32_MAX

_ID_CHARACTERS_MAX = 8000  # of four bytes at most

CONSUMER = "consumer"
"""The protocol type of groups of consumers."""

NEVER_S = math.inf
"""The deadline of an object that waits for nothing."""

_VERSION_SIZE = 2


class GroupState(StrEnum):
    """Kafka's names of the states."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


def next_epoch(epoch: int) -> int:
    """Return the generation or epoch after `epoch`: 1 after the largest, where Kafka goes on below 0."""
    return 1 if epoch == I32_MAX else epoch + 1


class GroupError(Exception):
    """A request that is not granted. `member_id`: the id that the client gets with the error; `message`: the reason."""

    def __init__(self, code: ErrorCode, member_id: str = "", message: str = "") -> None:
        super().__init__(message or code.name)
        self.code = code
        self.message = message or None
        self.member_id = member_id


class Answer:
    """The answer to a waiting request; set once."""

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
    has_synced: bool = True
    """Whether it has asked for its assignment in this generation."""

    def expires_s(self) -> float:
        """Return the time at which the session ends; a member whose request waits for the others does not expire."""
        is_waiting = self.joining is not None or self.syncing is not None
        return NEVER_S if is_waiting else self.seen_s + self.session_timeout_s

    def offers(self, protocols: dict[str, bytes]) -> bool:
        """Return whether its assignors are exactly these, in this order."""
        return list(self.protocols.items()) == list(protocols.items())

    def end_requests(self, code: ErrorCode) -> None:
        """Answer its waiting requests with an error."""
        for answer in (self.joining, self.syncing):
            if answer is not None:
                answer.set(code)
        self.joining = self.syncing = None


@dataclass(slots=True, eq=False)
class Group:
    """A group and its members. `since_ms`: when it got its state, by the wall clock; -1 if that is not known."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    since_ms: int = -1
    members: dict[str, Member] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    """Ids that were handed out and have not joined (KIP-394), with the time at which they expire."""
    rebalance_ends_s: float = NEVER_S
    """The time at which the first phase of a rebalance ends, or members that have not synced are removed."""
    scheduled_s: float = NEVER_S
    """The time at which the group is checked next (`GroupTable.deadlines`)."""
    _initial_delay_s: float = 0.0
    _initial_left_s: float = 0.0
    _is_initial: bool = False
    _has_newcomers: bool = False
    _expected: float = 0
    _topics: tuple[int, frozenset[str] | None] = (-1, None)

    # --- look-ups ----------------------------------------------------------------------------------------------------

    def member(self, member_id: str, instance_id: str | None) -> Member:
        """Return a member. UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID if another member has its static id."""
        if instance_id is not None:
            holder = self.static_member(instance_id)
            if holder is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder.member_id != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
            return holder
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def static_member(self, instance_id: str) -> Member | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def supports(self, protocol_type: str, protocols: Sequence[str]) -> bool:
        """Return whether a member with these assignors fits to the others: all must have one in common."""
        if self.state == GroupState.EMPTY or not self.members:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and bool(self._common() & set(protocols))

    def accepts(self, member_id: str, size_max: int) -> bool:
        """Return whether a member may join: one of the group, or one more while it is smaller than `size_max`."""
        member = self.members.get(member_id)
        if self.state == GroupState.EMPTY:
            return True
        if self.state == GroupState.PREPARING:
            waiting = sum(member.joining is not None for member in self.members.values())
            return (member is not None and member.joining is not None) or waiting < size_max
        return member is not None or len(self.members) < size_max

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that its consumers subscribe to; None if the group does not say."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return frozenset()
        if self._topics[0] != self.generation:
            self._topics = self.generation, self._parsed_topics()
        return self._topics[1]

    def _parsed_topics(self) -> frozenset[str] | None:
        topics: set[str] = set()
        for member in self.members.values():
            data = memoryview(member.protocols.get(self.protocol or "", b""))
            try:
                # As ClassicGroup.computeSubscribedTopics: what a later version has behind the topics may be missing.
                topics.update(codec.reader("ConsumerProtocolSubscription", 0)(data, _VERSION_SIZE)[0].topics)
            except InvalidMessage:
                return None
        return frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Return whether its consumers read a topic; if the group does not say, whether they are consumers."""
        topics = self.subscribed_topics()
        return self.protocol_type == CONSUMER if topics is None else topic in topics

    def deadline_s(self) -> float:
        """Return when the group has to be looked at, if no request arrives before."""
        return min(
            self.rebalance_ends_s,
            min((member.expires_s() for member in self.members.values()), default=NEVER_S),
            min(self.pending.values(), default=NEVER_S),
        )

    def stored(self, assignments: dict[str, bytes] | None = None) -> GroupMetadataValue:
        """Return what is stored of the group, with the assignments that it will have."""
        given = {member.member_id: member.assignment for member in self.members.values()} | (assignments or {})
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.since_ms,
            members=[
                MemberMetadata(
                    member.member_id, member.instance_id, member.client_id, member.client_host,
                    int(member.rebalance_timeout_s * 1000), int(member.session_timeout_s * 1000),
                    member.protocols.get(self.protocol or "", b""), given[member.member_id],
                )
                for member in self.members.values()
            ],
        )  # fmt: skip

    # --- changes -----------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        self.members[member.member_id] = member
        self.pending.pop(member.member_id, None)
        if self.leader is None:
            self.leader = member.member_id
        if self.state == GroupState.PREPARING and self._is_initial:
            self._has_newcomers = True

    def remove(self, member: Member) -> None:
        """Remove a member; its waiting requests end with UNKNOWN_MEMBER_ID."""
        self.members.pop(member.member_id, None)
        member.end_requests(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def end_requests(self, code: ErrorCode) -> None:
        """Answer all waiting requests of members with an error."""
        for member in self.members.values():
            member.end_requests(code)

    def replace_static(self, member: Member, member_id: str) -> None:
        """Give a static member another id; requests that wait under the old one end with FENCED_INSTANCE_ID."""
        member.end_requests(ErrorCode.FENCED_INSTANCE_ID)
        was_leader = self.leader == member.member_id
        del self.members[member.member_id]
        member.member_id = member_id
        self.members[member_id] = member
        if was_leader:
            self.leader = member_id

    def prepare_rebalance(self, now_s: float, delay_s: float = 0.0) -> None:
        """Begin a rebalance: members must join again, at the latest after the longest of their time-outs.

        An empty group waits `delay_s` for more members, and longer while there are new ones (`group.initial.rebalance.
        delay.ms`), but no longer once it has as many as `expect` was called with.
        """
        if self.state == GroupState.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    member.syncing.set(ErrorCode.REBALANCE_IN_PROGRESS)
                    member.syncing = None
        longest_s = self._rebalance_timeout_s()
        self._is_initial, self._has_newcomers = self.state == GroupState.EMPTY and delay_s > 0, False
        self._initial_delay_s, self._initial_left_s = delay_s, max(longest_s - delay_s, 0.0)
        self._expected = NEVER_S
        self.rebalance_ends_s = now_s + (min(delay_s, longest_s) if self._is_initial else longest_s)
        self.state = GroupState.PREPARING

    def expect(self, members: float) -> None:
        """Set how many members the first rebalance of an empty group waits for, within its time."""
        self._expected = members

    def extend_initial(self, now_s: float) -> bool:
        """Wait longer if members have joined the first rebalance meanwhile; return whether it waits."""
        if not (self._is_initial and self._has_newcomers and self._initial_left_s > 0):
            return False
        self._has_newcomers = False
        self.rebalance_ends_s = now_s + min(self._initial_delay_s, self._initial_left_s)
        self._initial_left_s = max(self._initial_left_s - self._initial_delay_s, 0.0)
        return True

    def have_all_joined(self) -> bool:
        """Return whether a rebalance need not wait any longer."""
        are_there = not self.pending and all(member.joining is not None for member in self.members.values())
        return are_there and not (self._is_initial and 0 < len(self.members) < self._expected)

    def complete_join(self, now_s: float, now_ms: int) -> bool:
        """End the first phase: a new generation of the members that have joined; return whether there are none.

        Other members are removed, except static ones. If only static members are left and none has joined, it goes on.
        """
        for member in [
            member for member in self.members.values() if member.joining is None and member.instance_id is None
        ]:
            self.remove(member)
        joined = [member for member in self.members.values() if member.joining is not None]
        if self.members and not joined:
            self.rebalance_ends_s = now_s + self._rebalance_timeout_s()
            return False
        self.generation = next_epoch(self.generation)
        self.rebalance_ends_s, self.since_ms, self._is_initial = NEVER_S, now_ms, False
        if not self.members:
            self.state, self.protocol, self.leader = GroupState.EMPTY, None, None
            return True
        self.state, self.protocol = GroupState.COMPLETING, self.elected()
        if self.leader not in self.members or self.members[self.leader].joining is None:
            self.leader = joined[0].member_id
        self.rebalance_ends_s = now_s + self._rebalance_timeout_s()
        for member in joined:
            member.seen_s, member.has_synced = now_s, False
            if member.joining is not None:
                member.joining.set()
                member.joining = None
        return False

    def elected(self) -> str:
        """Return the assignor that most members prefer among those that all of them have."""
        common = self._common()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name in member.protocols if name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _common(self) -> set[str]:
        return set.intersection(*(set(member.protocols) for member in self.members.values()))

    def _rebalance_timeout_s(self) -> float:
        return max((member.rebalance_timeout_s for member in self.members.values()), default=0.0)

    def complete_sync(self, assignments: dict[str, bytes], now_s: float, now_ms: int) -> None:
        """End the second phase: the leader has sent what each member reads."""
        self.state, self.since_ms = GroupState.STABLE, now_ms
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                member.seen_s = now_s  # while it waited it could not send heartbeats
                member.syncing.set()
                member.syncing = None
        self.note_synced()

    def note_synced(self) -> None:
        """Stop waiting for members that have not synced, once all have."""
        if self.state == GroupState.STABLE and all(member.has_synced for member in self.members.values()):
            self.rebalance_ends_s = NEVER_S

    def expire(self, now_s: float) -> tuple[bool, bool]:
        """Remove members whose session has ended, and ids that were never used; return whether any of each was."""
        expired = [member for member in self.members.values() if member.expires_s() <= now_s]
        if self.state in (GroupState.COMPLETING, GroupState.STABLE) and self.rebalance_ends_s <= now_s:
            late = (member for member in self.members.values() if not member.has_synced and member not in expired)
            expired += list(late)
            self.rebalance_ends_s = NEVER_S
        for member in expired:
            self.remove(member)
        unused = [member_id for member_id, until_s in self.pending.items() if until_s <= now_s]
        for member_id in unused:
            del self.pending[member_id]
        return bool(expired), bool(unused)


def restored(name: str, value: GroupMetadataValue, now_s: float) -> Group:
    """Return a group as it was stored; the sessions of its members begin now."""
    group = Group(name, protocol_type=value.protocol_type, generation=value.generation)
    group.protocol, group.leader, group.since_ms = value.protocol, value.leader, value.current_state_timestamp
    for member in value.members:
        session_s, rebalance_s = member.session_timeout / 1000, member.rebalance_timeout / 1000
        protocols = {value.protocol or "": member.subscription}
        group.members[member.member_id] = Member(
            member.member_id, member.group_instance_id, member.client_id, member.client_host, session_s,
            session_s if rebalance_s < 0 else rebalance_s, protocols, member.assignment, now_s,
        )  # fmt: skip
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    return group


def new_member_id(client_id: str, instance_id: str | None) -> str:
    """Return an id as Kafka makes it: the static id or client id, and a random part."""
    # The longest ids would with it be longer than a string may be.
    return f"{(instance_id or client_id)[:_ID_CHARACTERS_MAX]}-{secrets.token_hex(16)}"


Peer = tuple[str, int]
"""Host and port of a connection."""

LOOKUP_S = 5.0
"""The time in which a client that has looked up a coordinator is expected to join its group."""

LOOKUPS_OF_A_CLIENT = 2
"""The connections of one client that look up a coordinator: two of librdkafka (2.16), one of Kafka's consumer."""

_GROUPS_MAX, _PEERS_MAX = 256, 1000


class CoordinatorLookups:
    """The connections that have looked up coordinators, by group: clients that are about to join it.

    A new group with `group.initial.rebalance.delay.ms=0` completes its first generation with the members that are
    there. The others need a second generation, of which the first members learn by their next heartbeat: three seconds
    later by default. The lookups show whether there are others, so that a single consumer does not wait for them.
    Bounded, because any client may look up any name.
    """

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
        """Return the number of connections that have looked up the coordinator of a group in the last `LOOKUP_S`."""
        times = self._times.get(group)
        return 0 if times is None else sum(time_s > now_s - LOOKUP_S for time_s in times.values())

    def forget(self, group: str) -> None:
        """Forget the lookups of a group that its members have left."""
        self._times.drop(group)
