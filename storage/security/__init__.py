"""SCRAM credentials and ACLs of a log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.lazy_names import lazy_names

if TYPE_CHECKING:
    from offsetfs.storage.cluster.security_image import Acl, Acls, Credentials, ScramCredential, SecurityImage
    from offsetfs.storage.cluster.security_records import (
        acl_record,
        credential_record,
        security_record_bytes,
        security_record_of,
    )
    from offsetfs.storage.security.security_store import OnSecurityChange, SecurityStore

__all__ = [
    "Acl",
    "Acls",
    "Credentials",
    "OnSecurityChange",
    "ScramCredential",
    "SecurityImage",
    "SecurityStore",
    "acl_record",
    "credential_record",
    "security_record_bytes",
    "security_record_of",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Acl": "cluster.security_image",
        "Acls": "cluster.security_image",
        "Credentials": "cluster.security_image",
        "OnSecurityChange": "security.security_store",
        "ScramCredential": "cluster.security_image",
        "SecurityImage": "cluster.security_image",
        "SecurityStore": "security.security_store",
        "acl_record": "cluster.security_records",
        "credential_record": "cluster.security_records",
        "security_record_bytes": "cluster.security_records",
        "security_record_of": "cluster.security_records",
    },
)
