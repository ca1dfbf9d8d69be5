"""Formats control records for a dump: ends of transactions, and KRaft's own records.

    key     i16 version, i16 type       value   of ABORT and COMMIT: i16 version, i32 coordinator epoch
                                                of the others: a generated message, flexible

Follows Kafka's ControlRecordType, EndTransactionMarker and ControlRecordUtils (KIP-98, KIP-595, KIP-853).
"""

from __future__ import annotations

from struct import Struct

from offsetfs.kafka.protocol import json_text, kafka_reader
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.partition.producers import ABORT, COMMIT

_KEY = Struct(">hh")
_END_OF_TRANSACTION = Struct(">hi")

_LEADER_CHANGE = 2
MESSAGES = {
    _LEADER_CHANGE: ("LeaderChange:", "LeaderChangeMessage"),
    3: ("SnapshotHeader", "SnapshotHeaderRecord"),
    4: ("SnapshotFooter", "SnapshotFooterRecord"),
    5: ("KRaftVersion", "KRaftVersionRecord"),
    6: ("KRaftVoters", "VotersRecord"),
}
"""The word before the fields, and the message, by type."""

Buffer = bytes | bytearray | memoryview

_ENDS = {ABORT: "ABORT", COMMIT: "COMMIT"}


def show(key: Buffer | None, value: Buffer | None) -> str:
    """Return the text of a control record; `MalformedBatch` for one that Kafka would not accept."""
    type_id = _type_of(key)
    if type_id in _ENDS:
        return f"endTxnMarker: {_ENDS[type_id]} coordinatorEpoch: {_coordinator_epoch(value)}"
    if type_id not in MESSAGES:
        return f"controlType: UNKNOWN({type_id})"
    word, name = MESSAGES[type_id]
    if value is None:
        raise MalformedBatch("a control record without a value")
    try:
        message, _ = kafka_reader.reader(name, 0)(memoryview(value), 0)
    except InvalidMessage as error:
        raise MalformedBatch(f"a control record of type {type_id}: {error}") from None
    # Kafka reads it as version 0 and prints it as the version that it names, with the defaults of later fields.
    version = message.version if type_id == _LEADER_CHANGE else 0
    return f"{word} {json_text.json_writer(name, version)(message)}"


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
