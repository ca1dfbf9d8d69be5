"""Replays the records of `__cluster_metadata` into a `ClusterImage`.

A transaction of the controller (KIP-868) counts from its end on; an aborted one does not. The module is loaded for the
first record: most log directories have no metadata log beside them, and reading one needs the schemas of its records.
"""

from __future__ import annotations

from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from offsetfs.storage.cluster import cluster_metadata, security_records
from offsetfs.storage.cluster.cluster_image import ClusterImage, Placement
from offsetfs.storage.cluster.security_image import UNREADABLE_ACL
from offsetfs.storage.errors import StorageError
from offsetfs.storage.records.format.batch import Batch

_NO_LEADER_CHANGE = -2
_ACL_RECORDS = (AccessControlEntryRecord.__name__, RemoveAccessControlEntryRecord.__name__)
_REPLAYED = frozenset(
    record_class.__name__
    for record_class in (
        TopicRecord,
        PartitionRecord,
        PartitionChangeRecord,
        RemoveTopicRecord,
        ConfigRecord,
        UserScramCredentialRecord,
        RemoveUserScramCredentialRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
    )
)


def replay(image: ClusterImage, batch: Batch, offset_min: int) -> StorageError | None:
    """Apply the records of a batch from `offset_min` on; return the first error of one that cannot be read.

    Records of unknown types have no effect. One of an ACL that cannot be read leaves an ACL that denies everything.
    """
    failure = None
    for record in batch.records():
        if record.offset < offset_min or record.value is None:
            continue
        try:
            _replay_one(image, record.value)
        except cluster_metadata.UnknownRecordType:
            continue
        except InvalidMessage as error:
            if _may_be_acl(record.value):
                image.security.set_acl(record.offset.to_bytes(16, "big"), UNREADABLE_ACL)
            failure = failure or StorageError(f"a metadata record: {error}", path=batch.path, offset=record.offset)
    return failure


def _may_be_acl(value: bytes) -> bool:
    try:
        return cluster_metadata.read_head(value).name in _ACL_RECORDS
    except InvalidMessage:
        return True


def _replay_one(image: ClusterImage, value: bytes) -> None:
    head = cluster_metadata.read_head(value)
    if head.name not in _REPLAYED:
        return
    record = cluster_metadata.read_message(value, head)
    match record:
        case BeginTransactionRecord():
            image.pending = []
        case AbortTransactionRecord():
            image.pending = None
        case EndTransactionRecord():
            pending, image.pending = image.pending or [], None
            for pending_record in pending:
                _apply(image, pending_record)
        case _ if image.pending is not None:
            image.pending.append(record)
        case _:
            _apply(image, record)


def _apply(image: ClusterImage, record: ProtocolMessage) -> None:
    match record:
        case TopicRecord():
            image.add_topic(record.name, record.topic_id)
        case PartitionRecord():
            placement = Placement(tuple(record.replicas), record.leader_epoch, tuple(record.directories))
            image.place(record.topic_id, record.partition_id, placement)
        case PartitionChangeRecord():
            elects = record.leader != _NO_LEADER_CHANGE
            image.move(record.topic_id, record.partition_id, record.replicas, record.directories, elects)
        case RemoveTopicRecord():
            image.remove_topic(record.topic_id)
        case ConfigRecord():
            image.configure((record.resource_type, record.resource_name), record.name, record.value)
        case _:
            security_records.apply(image.security, record)
