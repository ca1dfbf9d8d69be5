"""The file with the SCRAM credentials and ACLs of a log directory, in the format of KRaft's snapshots.

    control batch   SnapshotHeader
    batches         UserScramCredentialRecord and AccessControlEntryRecord, framed as in `__cluster_metadata`
    control batch   SnapshotFooter

The name is one that `kafka-dump-log.sh --cluster-metadata-decoder` accepts, and that brokers ignore in a log directory.
Only the owner can read the file: a credential lets an attacker test passwords. A file that is not whole is refused,
because a broker without its ACLs would permit what they deny.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct

from offsetfs.kafka.protocol import codec
from offsetfs.kafka.protocol.codec import InvalidMessage
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.records import SnapshotFooterRecord, SnapshotHeaderRecord
from offsetfs.storage import files
from offsetfs.storage.checkpoint import SECURITY_FILE
from offsetfs.storage.cluster import cluster_metadata, security_records
from offsetfs.storage.cluster.security_image import SecurityImage, SecurityState
from offsetfs.storage.cluster.security_records import acl_record, credential_record
from offsetfs.storage.errors import InvalidSecurityFile, StorageError
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import Batch, build

BYTES_MAX = 1 << 26
"""The largest file that is read or written: some 500,000 ACLs."""

_CONTROL_KEY = Struct(">hh")
_HEADER, _FOOTER = 3, 4
_RECORDS_PER_BATCH = 1000
_CURE = "restore the file from a copy, or move it away to start without credentials and ACLs"


def read_security_file(directory: str) -> SecurityImage:
    """Return what the file of a log directory has; nothing if there is none. `InvalidSecurityFile`, OSError."""
    path, state = os.path.join(directory, SECURITY_FILE), SecurityState()
    try:
        with files.open_file(path) as file:
            if file.size() > BYTES_MAX:
                raise _invalid(path, f"larger than {BYTES_MAX} bytes")
            _read(list(batch_chain.batches(file, 0, file.size())), state, path)
    except FileNotFoundError:
        return state.image()
    except InvalidSecurityFile:
        raise
    except (StorageError, InvalidMessage) as error:
        raise _invalid(path, error.reason if isinstance(error, StorageError) else str(error)) from error
    return state.image()


def write_security_file(directory: str, image: SecurityImage, now_ms: int) -> None:
    """Replace the file. Durable on return; `InvalidSecurityFile` if it would be too large, OSError."""
    path = os.path.join(directory, SECURITY_FILE)
    data = b"".join(_batches(image, now_ms))
    if len(data) > BYTES_MAX:
        raise InvalidSecurityFile(f"would be larger than {BYTES_MAX} bytes; remove some ACLs", path=path)
    files.replace_file(path, data, is_private=True)


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(batches: list[Batch], state: SecurityState, path: str) -> None:
    kinds = [_control_type(batch) for batch in batches]
    if not kinds or kinds[0] != _HEADER or kinds[-1] != _FOOTER or kinds.count(None) != len(kinds) - 2:
        raise _invalid(path, "does not begin with the header of a snapshot and end with its footer")
    for batch in batches[1:-1]:
        for record in batch.records():
            if record.value is None:
                raise _invalid(path, "a record without a value")
            head = cluster_metadata.read_head(record.value)
            if not security_records.apply(state, cluster_metadata.read_message(record.value, head)):
                raise _invalid(path, f"a {head.name}, which is neither a credential nor an ACL")


def _control_type(batch: Batch) -> int | None:
    """Return the type of the first record of a control batch; None for other batches."""
    if not batch.header.is_control:
        return None
    key = next((record.key for record in batch.records()), None)
    return int(_CONTROL_KEY.unpack(key)[1]) if key is not None and len(key) == _CONTROL_KEY.size else -1


def _invalid(path: str, reason: str) -> InvalidSecurityFile:
    return InvalidSecurityFile(f"{reason}; {_CURE}", path=path)


# --- writing ---------------------------------------------------------------------------------------------------------


def _batches(image: SecurityImage, now_ms: int) -> Iterator[bytes]:
    header = SnapshotHeaderRecord(last_contained_log_timestamp=now_ms)
    yield _control_batch(_HEADER, "SnapshotHeaderRecord", header, 0, now_ms)
    records = [(None, value, (), now_ms) for value in _values(image)]
    for start in range(0, len(records), _RECORDS_PER_BATCH):
        part = records[start : start + _RECORDS_PER_BATCH]
        yield bytes(build(part, base_offset=1 + start, leader_epoch=0))
    yield _control_batch(_FOOTER, "SnapshotFooterRecord", SnapshotFooterRecord(), 1 + len(records), now_ms)


def _control_batch(kind: int, name: str, message: ProtocolMessage, offset: int, now_ms: int) -> bytes:
    value = b"".join(codec.writer(name, 0)(message))
    record = _CONTROL_KEY.pack(0, kind), value, (), now_ms
    return bytes(build([record], control=True, base_offset=offset, leader_epoch=0))


def _values(image: SecurityImage) -> list[bytes]:
    records: list[ProtocolMessage] = [
        credential_record(*key, credential) for key, credential in image.credentials.items()
    ]
    records += [acl_record(acl_id, acl) for acl_id, acl in image.acls.items()]
    return [cluster_metadata.write_record(record) for record in records]
