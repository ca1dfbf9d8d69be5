"""Selecting ACLs, and which ACLs are legal. Follows AclBindingFilter and AclControlManager."""

from __future__ import annotations

from dataclasses import dataclass

from offsetfs.kafka.broker.authorization.acl_hosts import parse_host
from offsetfs.kafka.broker.operations import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from offsetfs.storage.security import Acl


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects ACLs, as Kafka's AclBindingFilter; None and ANY select all."""

    resource_type: int = Resource.ANY
    resource_name: str | None = None
    pattern_type: int = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (Resource.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        name, kind = self.resource_name, acl.pattern_type
        if self.pattern_type != Pattern.MATCH:
            return self.pattern_type in (Pattern.ANY, kind) and name in (None, acl.resource_name)
        if name is None:
            return True
        if kind == Pattern.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)


def refusal(acl: Acl) -> str | None:
    """Return why an ACL cannot be added; None for a legal one."""
    if acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if acl.resource_type == Resource.ANY or acl.resource_type not in list(Resource):
        return f"Invalid resourceType {acl.resource_type}"
    if acl.pattern_type not in (Pattern.LITERAL, Pattern.PREFIXED):
        return f"Invalid patternType {acl.pattern_type}"
    if acl.operation == Operation.ANY or acl.operation not in list(Operation):
        return f"Invalid operation {acl.operation}"
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {acl.permission}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    if parse_host(acl.host) is None:
        return f"Invalid host '{acl.host}': give an address, a range such as 10.0.0.0/8 or 2001:db8::/32, or *"
    return None
