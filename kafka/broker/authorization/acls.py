"""ACLs: the hosts that they name, filters that select them, and the ACLs that are legal.

    *               every client
    10.0.0.7        one address; IPv6 may be written in any way
    10.0.0.0/8      the addresses with the same first bits; the bits behind them are ignored
    2001:db8::/32   the same of IPv6; no IPv4 client is in it, as in Kafka

A broker compares addresses, so that a host name matches no client. Follows CidrUtils of Kafka 4.4 (KIP-1276),
AclBindingFilter and AclControlManager.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from dataclasses import dataclass

from offsetfs.kafka.broker.operations import (
    CLUSTER_NAME,
    WILDCARD,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from offsetfs.storage.security import Acl

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Host = str | Network
"""One address or `*` as text; a range of addresses."""

_IPV4_RANGE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})\Z")
_IPV6_RANGE = re.compile(r"([0-9A-Fa-f:.]{2,45})/([0-9]{1,3})\Z")


def parse_host(text: str) -> Host | None:
    """Return the parsed host of an ACL; None if it means nothing to a broker, such as a host name."""
    if text == WILDCARD:
        return text
    try:
        return _network(text) if "/" in text else _address_text(text)
    except ValueError:
        return None


def is_from(host: Host, client: str) -> bool:
    """Return whether a client, whose address has the form of `host_text`, is one of a host."""
    if isinstance(host, str):
        return host in (WILDCARD, client)
    try:
        return ipaddress.ip_address(client.partition("%")[0]) in host
    except ValueError:
        return False


@functools.lru_cache(maxsize=1024)
def host_text(host: str) -> str:
    """Return one text for each address: Java writes IPv6 in full, and IPv4 clients of IPv6 sockets as IPv4."""
    try:
        return _address_text(host)
    except ValueError:
        return host


def _address_text(text: str) -> str:
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _network(text: str) -> Network:
    if ipv4 := _IPV4_RANGE.match(text):
        *octets, bits = map(int, ipv4.groups())  # Kafka reads 010 as ten, where Python refuses it
        return ipaddress.IPv4Network((bytes(octets), bits), strict=False)
    ipv6 = _IPV6_RANGE.match(text)
    if ipv6 is None:
        raise ValueError(text)
    address = ipaddress.IPv6Address(ipv6[1])
    if address.ipv4_mapped is not None:
        raise ValueError(text)  # Java has IPv4 addresses for them
    return ipaddress.IPv6Network((address, int(ipv6[2])), strict=False)


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
