"""Formats control records for a dump: ends of transactions, and KRaft's own records.

    key     i16 version, i16 type       value   of ABORT and COMMIT: i16 version, i32 coordinator epoch
                                                of the others: a generated message, flexible

Follows Kafka's ControlRecordType, EndTransactionMarker and ControlRecordUtils (KIP-98, KIP-595, KIP-853).
"""

from __future__ import annotations

from struct import Struct

from offsetfs.storage.cluster.kafka_messages import Buffer, Field, MalformedMessage, Message, json_text, read
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.partition.producers import ABORT, COMMIT

_KEY = Struct(">hh")
_END_OF_TRANSACTION = Struct(">hi")

_VERSION = Field("version", "int16")
_VOTER = (Field("voterId", "int32"),)
_ENDPOINT = (Field("name", "string"), Field("host", "string"), Field("port", "uint16"))
_FEATURE = (Field("minSupportedVersion", "int16"), Field("maxSupportedVersion", "int16"))
_QUORUM_MEMBER = (
    Field("voterId", "int32"),
    Field("voterDirectoryId", "uuid"),
    Field("endpoints", _ENDPOINT, many=True),
    Field("kRaftVersionFeature", _FEATURE),
)
_LEADER_CHANGE = 2
_NO_DIRECTORY = "A" * 22  # sixteen zero bytes
MESSAGES: dict[int, tuple[str, tuple[Field, ...]]] = {
    _LEADER_CHANGE: (
        "LeaderChange:",
        (
            _VERSION,
            Field("leaderId", "int32"),
            Field("voters", _VOTER, many=True),
            Field("grantingVoters", _VOTER, many=True),
        ),
    ),
    3: ("SnapshotHeader", (_VERSION, Field("lastContainedLogTimestamp", "int64"))),
    4: ("SnapshotFooter", (_VERSION,)),
    5: ("KRaftVersion", (_VERSION, Field("kRaftVersion", "int16"))),
    6: ("KRaftVoters", (_VERSION, Field("voters", _QUORUM_MEMBER, many=True))),
}
"""By type: the word before the fields, and the fields."""

_ENDS = {ABORT: "ABORT", COMMIT: "COMMIT"}


def show(key: Buffer | None, value: Buffer | None) -> str:
    """Return the text of a control record; `MalformedBatch` for one that Kafka would not accept."""
    type_id = _type_of(key)
    if type_id in _ENDS:
        return f"endTxnMarker: {_ENDS[type_id]} coordinatorEpoch: {_coordinator_epoch(value)}"
    if type_id not in MESSAGES:
        return f"controlType: UNKNOWN({type_id})"
    name, fields = MESSAGES[type_id]
    if value is None:
        raise MalformedBatch("a control record without a value")
    try:
        message, _ = read(Message(fields, flexible_since=0), value, 0)
    except MalformedMessage as error:
        raise MalformedBatch(f"a control record of type {type_id}: {error}") from None
    if type_id == _LEADER_CHANGE:
        _add_directories(message)
    return f"{name} {json_text(message)}"


def _add_directories(message: dict[str, object]) -> None:
    """Add a field that the record does not have: Kafka decodes and prints it as version 0, whatever its version."""
    version, voters, granting = message["version"], message["voters"], message["grantingVoters"]
    assert isinstance(version, int) and isinstance(voters, list) and isinstance(granting, list)
    for voter in voters + granting if version > 0 else ():
        voter["voterDirectoryId"] = _NO_DIRECTORY


def _type_of(key: Buffer | None) -> int:
    if key is None or len(key) < _KEY.size:
        raise MalformedBatch("a control record without a type")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise MalformedBatch(f"a control record of version {version}")
    return int(type_id)


def _coordinator_epoch(value: Buffer | None) -> int:
    if value is None or len(value) < _END_OF_TRANSACTION.size:
        raise MalformedBatch("the end of a transaction without an epoch")
    version, epoch = _END_OF_TRANSACTION.unpack_from(value)
    if version < 0:
        raise MalformedBatch(f"the end of a transaction of version {version}")
    return int(epoch)
