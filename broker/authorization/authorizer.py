"""Decides what a principal may do, as Kafka's StandardAuthorizer.

    1  a super user may do everything
    2  an ACL that denies the operation decides
    3  an ACL that allows it, or one that implies it, decides
    4  without any ACL for the resource, `allow.everyone.if.no.acl.found` decides; otherwise it is denied

An ACL is for a resource if its name is that of the resource, a prefix of it (PREFIXED), or `*`. ACLs are found by
name, and for prefixes by each length that occurs, so that thousands of them cost little; answers are kept until an ACL
changes.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from offsetfs.broker.batches.fetch_session import ReadPermission
from offsetfs.broker.connections.connection import Client
from offsetfs.broker.operations import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from offsetfs.storage.security import Acl, SecurityImage

CACHED_MAX = 100_000
"""Answers that are kept: some 20 MB. Names of resources come from clients."""

_EVERYONE = "User:*"

Check = tuple[str, str, Operation, Resource, str]
"""Principal, host, operation, type and name of a resource."""


class Authorizer:
    """Answers checks by the ACLs of the latest image. Any thread may call `update`."""

    def __init__(
        self, image: SecurityImage, super_users: Iterable[str] = (), *, allows_without_acl: bool = False
    ) -> None:
        """`super_users`: as `User:alice`; `allows_without_acl`: Kafka's `allow.everyone.if.no.acl.found`."""
        self._super_users = frozenset(super_users)
        self._allows_without_acl = allows_without_acl
        self._rules = _Rules(image.acls.values())

    def update(self, image: SecurityImage) -> None:
        """Use the ACLs of a new image from now on."""
        self._rules = _Rules(image.acls.values())

    def allows(self, principal: str, host: str, operation: Operation, kind: Resource, name: str) -> bool:
        """Return whether a principal may do an operation on a resource."""
        rules = self._rules
        check = principal, host, operation, kind, name
        found = rules.answers.get(check)
        if found is None:
            found = self._decide(rules, check)
            if len(rules.answers) >= CACHED_MAX:
                rules.answers.clear()
            rules.answers[check] = found
        return found

    def _decide(self, rules: _Rules, check: Check) -> bool:
        principal, host, operation, kind, name = check
        if principal in self._super_users:
            return True
        is_allowed = is_known = False
        for acl in rules.of(kind, name):
            is_known = True
            if acl.principal in (principal, _EVERYONE) and acl.host in (WILDCARD, host) and _covers(acl, operation):
                if acl.permission != Permission.ALLOW:
                    return False
                is_allowed = True
        return is_allowed or (not is_known and self._allows_without_acl)

    def allows_on_any(self, principal: str, host: str, operation: Operation, kind: Resource) -> bool:
        """Return whether there may be a resource of a type on which a principal may do an operation.

        Kafka: `Authorizer.authorizeByResourceType`. ACLs that imply the operation do not count.
        """
        if self.allows(principal, host, operation, kind, "hardcode"):  # Kafka's name for it, too
            return True
        concerned = [
            acl
            for acl in self._rules.all_of(kind)
            if acl.principal in (principal, _EVERYONE)
            and acl.host in (WILDCARD, host)
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern_type, acl.resource_name) for acl in concerned if acl.permission != Permission.ALLOW}
        if (Pattern.LITERAL, WILDCARD) in denied:
            return False
        return any(acl.permission == Permission.ALLOW and not _is_dominated(acl, denied) for acl in concerned)

    def _allowed(self, client: Client, operation: Operation, kind: Resource) -> Callable[[str], bool]:
        """Return the function that returns whether a client may do an operation on the resource of a name."""
        identity = identity_of(client)
        principal, host = identity.principal, identity.host
        return lambda name: self.allows(principal, host, operation, kind, name)

    def read_permission(self, client: Client) -> ReadPermission:
        """Return which topics a client may read. Its state is another one after each change of ACLs."""
        state = self._rules, identity_of(client)
        return ReadPermission(self._allowed(client, Operation.READ, Resource.TOPIC), state)

    def may_describe(self, client: Client) -> Callable[[str], bool]:
        """Return the function that returns whether a client may describe a topic."""
        return self._allowed(client, Operation.DESCRIBE, Resource.TOPIC)


@dataclass(frozen=True, slots=True)
class Identity:
    """A client as ACLs name it."""

    principal: str
    host: str


def identity_of(client: Client) -> Identity:
    """Return the principal and the address of a client as ACLs have them."""
    return Identity(str(client.principal), host_text(client.host.removeprefix("/")))


@functools.lru_cache(maxsize=1024)
def host_text(host: str) -> str:
    """Return one text for each address: Java writes IPv6 in full, and IPv4 clients of IPv6 sockets as IPv4."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


class _Rules:
    """ACLs by resource, and the answers that they gave."""

    __slots__ = ("_lengths", "_literal", "_prefixed", "answers")

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._literal: dict[tuple[int, str], list[Acl]] = {}
        self._prefixed: dict[tuple[int, str], list[Acl]] = {}
        self.answers: dict[Check, bool] = {}
        for acl in acls:
            table = self._prefixed if acl.pattern_type == Pattern.PREFIXED else self._literal
            host = host_text(acl.host)
            found = acl if host == acl.host else _at_host(acl, host)
            table.setdefault((acl.resource_type, acl.resource_name), []).append(found)
        lengths: dict[int, set[int]] = {}
        for kind, name in self._prefixed:
            lengths.setdefault(kind, set()).add(len(name))
        self._lengths = {kind: sorted(found) for kind, found in lengths.items()}

    def of(self, kind: Resource, name: str) -> Iterator[Acl]:
        """Yield the ACLs for a resource."""
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for length in self._lengths.get(kind, ()):
            if length > len(name):
                return
            yield from self._prefixed.get((kind, name[:length]), ())

    def all_of(self, kind: Resource) -> Iterator[Acl]:
        """Yield the ACLs for all resources of a type."""
        for table in (self._literal, self._prefixed):
            for (resource_type, _), acls in table.items():
                if resource_type == kind:
                    yield from acls


def _at_host(acl: Acl, host: str) -> Acl:
    return Acl(
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        host,
        acl.operation,
        acl.permission,
    )


def _covers(acl: Acl, operation: Operation) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    if acl.permission != Permission.ALLOW:
        return False
    if operation == Operation.DESCRIBE:
        return acl.operation in IMPLIES_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and acl.operation in IMPLIES_DESCRIBE_CONFIGS


def _is_dominated(acl: Acl, denied: set[tuple[int, str]]) -> bool:
    """Whether all that an ACL allows is denied."""
    name = acl.resource_name
    if acl.pattern_type == Pattern.LITERAL:
        if name == WILDCARD:
            return False
        if (Pattern.LITERAL, name) in denied:
            return True
    return any((Pattern.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
