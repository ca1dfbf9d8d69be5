"""The SCRAM credentials and ACLs of a log directory: its own file, and those of the cluster that it belongs to.

Those of the cluster (`__cluster_metadata`) apply as well, and are read only: only a broker of the cluster can change
them. An ACL counts if either source has it; a credential of the cluster has precedence over one of the file
(docs/internals/decisions/0058). A change is on disk before it has an effect.

Threads: any. `image` is replaced as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable
from types import MappingProxyType

from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from offsetfs.storage import files
from offsetfs.storage.checkpoint import LOGIN_SECRET_FILE
from offsetfs.storage.clock import SYSTEM, Clock
from offsetfs.storage.cluster import security_records
from offsetfs.storage.cluster.metadata_log import MetadataLog
from offsetfs.storage.cluster.security_image import SecurityImage, SecurityState
from offsetfs.storage.errors import InheritedSecurity, ReadOnlyLog, StorageError
from offsetfs.storage.security.security_file import read_security_file, write_security_file

_SECRET_BYTES = 32

OnSecurityChange = Callable[[SecurityImage], None]
"""Called with each new image, in the thread that made the change; must return quickly and may not raise."""


class SecurityStore:
    """Credentials and ACLs of one log directory."""

    def __init__(
        self, path: str, metadata: MetadataLog | None = None, *, read_only: bool = False, clock: Clock = SYSTEM
    ) -> None:
        """Read the file of the log directory at `path`, and `metadata`, the metadata log of its cluster.

        Raises `InvalidSecurityFile`, OSError.
        """
        self._path = path
        self._metadata = metadata
        self._read_only = read_only
        self._clock = clock
        self._lock = threading.Lock()
        self._subscribers: list[OnSecurityChange] = []
        self._own = read_security_file(path)
        self._inherited = SecurityImage()
        self.image = self._own
        """The credentials and ACLs that apply now."""
        self.refresh()

    @property
    def follows_cluster(self) -> bool:
        """Whether `refresh` can find changes."""
        return self._metadata is not None

    @property
    def problem(self) -> StorageError | OSError | None:
        """Why credentials and ACLs of the cluster may be missing; None if they are known."""
        return None if self._metadata is None else self._metadata.problem

    def subscribe(self, callback: OnSecurityChange) -> None:
        """Call `callback` with each new image."""
        with self._lock:
            self._subscribers.append(callback)

    def refresh(self) -> None:
        """Read what the cluster has changed since, at most once a second. An error is in `problem`."""
        if self._metadata is None:
            return
        with self._lock:
            inherited = self._metadata.refresh().security.image()
            if inherited is not self._inherited:
                self._inherited = inherited
                self._publish()

    def login_secret(self) -> bytes:
        """Return a secret of the log directory, which stays the same; it is made at the first call.

        Of a directory that is only read, it derives from the credentials if there is none.
        """
        path = os.path.join(self._path, LOGIN_SECRET_FILE)
        with self._lock, contextlib.suppress(OSError):
            with contextlib.suppress(FileNotFoundError):
                stored = files.read_file(path, _SECRET_BYTES)
                if len(stored) == _SECRET_BYTES:
                    return stored
            if not self._read_only:
                files.replace_file(path, secret := secrets.token_bytes(_SECRET_BYTES), is_private=True)
                return secret
        keys = sorted(credential.server_key for credential in self.image.credentials.values())
        return hashlib.sha256(b"".join(keys)).digest() if keys else secrets.token_bytes(_SECRET_BYTES)

    def is_inherited(self, acl_id: bytes) -> bool:
        """Return whether an ACL is one of the cluster, which cannot be changed here."""
        return acl_id in self._inherited.acls

    def change(self, records: Iterable[ProtocolMessage]) -> SecurityImage:
        """Apply records of credentials and ACLs; on disk on return. Return the new image.

        `InheritedSecurity`, before any change, if one concerns what the cluster has; `ReadOnlyLog`; OSError.
        """
        with self._lock:
            if self._read_only:
                raise ReadOnlyLog("credentials and ACLs cannot change: it was opened for reading", path=self._path)
            state = SecurityState(self._own)
            for record in records:
                self.check_own(record)
                is_applied = security_records.apply(state, record)
                assert is_applied, record
            own = state.image()
            write_security_file(self._path, own, self._clock.now_ms())
            self._own = own
            self._publish()
            return self.image

    def check_own(self, record: ProtocolMessage) -> None:
        """Raise `InheritedSecurity` for a record that concerns what the cluster has."""
        match record:
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                is_inherited, what = (record.name, record.mechanism) in self._inherited.credentials, "the credential"
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                is_inherited, what = self.is_inherited(bytes(record.id)), "the ACL"
            case _:
                return
        if is_inherited:
            raise InheritedSecurity(
                f"{what} is in the metadata log of the cluster; change it with Kafka's tools at one of its brokers",
                path=self._path,
            )

    def _publish(self) -> None:
        own, inherited = self._own, self._inherited
        self.image = SecurityImage(
            MappingProxyType({**own.credentials, **inherited.credentials}),
            MappingProxyType({**own.acls, **inherited.acls}),
        )
        for callback in self._subscribers:
            callback(self.image)
