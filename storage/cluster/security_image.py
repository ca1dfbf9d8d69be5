"""SCRAM credentials and ACLs, as Kafka's metadata records describe them.

Follows ScramImage, AclsImage and their deltas. Numbers of mechanisms, resources, operations and permissions are those
of Kafka's protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A stored password: enough to check it, too little to log in with it."""

    salt: bytes = field(repr=False)  # nothing with which passwords can be tried is in a log
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class Acl:
    """One rule: a principal from a host may, or may not, do an operation on the resources of a pattern."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


UNREADABLE_ACL = Acl(0, "*", 0, "", "", 0, 0)
"""Stands for a record of an ACL that cannot be read. It denies everything (`Authorizer` of the broker)."""

Credentials = Mapping[tuple[str, int], ScramCredential]
"""Credentials by user and mechanism."""
Acls = Mapping[bytes, Acl]
"""ACLs by their id."""


@dataclass(frozen=True, slots=True)
class SecurityImage:
    """Credentials and ACLs at one moment: an immutable value."""

    credentials: Credentials = field(default_factory=dict)
    acls: Acls = field(default_factory=dict)


class SecurityState:
    """Credentials and ACLs as of the last record that was applied."""

    def __init__(self, image: SecurityImage | None = None) -> None:
        self._credentials = dict(image.credentials) if image else {}
        self._acls = dict(image.acls) if image else {}
        self._image: SecurityImage | None = None

    def set_credential(self, user: str, mechanism: int, credential: ScramCredential | None) -> None:
        """Set the credential of a user; None removes it."""
        if credential is None:
            self._credentials.pop((user, mechanism), None)
        else:
            self._credentials[user, mechanism] = credential
        self._image = None

    def set_acl(self, acl_id: bytes, acl: Acl | None) -> None:
        """Set an ACL; None removes it."""
        if acl is None:
            self._acls.pop(acl_id, None)
        else:
            self._acls[acl_id] = acl
        self._image = None

    def image(self) -> SecurityImage:
        """Return the state as it is now; the same object until the next change."""
        if self._image is None:
            self._image = SecurityImage(MappingProxyType(dict(self._credentials)), MappingProxyType(dict(self._acls)))
        return self._image
