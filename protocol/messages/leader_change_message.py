"""LeaderChangeMessage. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.protocol.message import NEW, NO_ID, ProtocolMessage


class LeaderChangeMessageVoter(ProtocolMessage):
    __slots__ = ("voter_directory_id", "voter_id")

    def __init__(self, voter_id: int = 0, voter_directory_id: bytes = NO_ID) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class LeaderChangeMessage(ProtocolMessage):
    __slots__ = ("granting_voters", "leader_id", "version", "voters")

    def __init__(
        self,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeMessageVoter] = NEW,
        granting_voters: list[LeaderChangeMessageVoter] = NEW,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is NEW else voters
        self.granting_voters = [] if granting_voters is NEW else granting_voters
