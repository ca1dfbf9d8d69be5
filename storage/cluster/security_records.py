"""Kafka's records of SCRAM credentials and ACLs, from and to a `SecurityState`."""

from __future__ import annotations

from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from offsetfs.storage.cluster import cluster_metadata
from offsetfs.storage.cluster.security_image import Acl, ScramCredential, SecurityState


def apply(state: SecurityState, record: ProtocolMessage) -> bool:
    """Apply a record; return whether it is one of a credential or an ACL."""
    match record:
        case UserScramCredentialRecord():
            credential = ScramCredential(
                bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
            )
            state.set_credential(record.name, record.mechanism, credential)
        case RemoveUserScramCredentialRecord():
            state.set_credential(record.name, record.mechanism, None)
        case AccessControlEntryRecord():
            acl = Acl(
                record.resource_type,
                record.resource_name,
                record.pattern_type,
                record.principal,
                record.host,
                record.operation,
                record.permission_type,
            )
            state.set_acl(bytes(record.id), acl)
        case RemoveAccessControlEntryRecord():
            state.set_acl(bytes(record.id), None)
        case _:
            return False
    return True


def credential_record(user: str, mechanism: int, credential: ScramCredential) -> UserScramCredentialRecord:
    """Return the record that sets a credential."""
    return UserScramCredentialRecord(
        user, mechanism, credential.salt, credential.stored_key, credential.server_key, credential.iterations
    )


def acl_record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    """Return the record that adds an ACL."""
    return AccessControlEntryRecord(
        acl_id,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def security_record_bytes(record: ProtocolMessage) -> bytes:
    """Return a record as it is in the metadata log, for another process."""
    return cluster_metadata.write_record(record)


def security_record_of(value: bytes) -> ProtocolMessage:
    """Return the record in `value`; `InvalidMessage` if it is not one of a credential or an ACL."""
    record = cluster_metadata.read_message(value, cluster_metadata.read_head(value))
    if not apply(SecurityState(), record):
        raise InvalidMessage(f"a {type(record).__name__}, which is neither a credential nor an ACL")
    return record
