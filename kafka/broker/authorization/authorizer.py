"""Decides what a principal may do, as Kafka's StandardAuthorizer.

    1  a super user may do everything
    2  an ACL that denies the operation decides
    3  an ACL that allows the operation, or an operation that implies it, decides
    4  without any ACL for the resource, `allow.everyone.if.no.acl.found` decides; otherwise it is denied

An ACL is for a resource if its name is that of the resource, a prefix of it (PREFIXED), or `*`. ACLs are found by
name, and for prefixes by each length that occurs, so that thousands of them cost little; answers are kept until an ACL
changes.

A newer broker, or a controller of another maker, may have written an ACL with a number or a host that means nothing
here. Such an ACL allows nothing. If it denies, it denies all that it could mean. It counts in rule 4. Kafka passes
it over, so that what it denies is allowed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from offsetfs.kafka.broker.authorization.acls import Host, host_text, is_from, parse_host
from offsetfs.kafka.broker.batches.fetch_session import ReadPermission
from offsetfs.kafka.broker.connections.api import Client
from offsetfs.kafka.broker.operations import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from offsetfs.storage.security import Acl, SecurityImage

_log = logging.getLogger(__name__)

CACHED_MAX = 100_000
"""Answers that are kept: some 20 MB. Names of resources come from clients."""

_EVERYONE = "User:*"
_NOTHING = 0
"""The operation of a rule that covers none."""
_RESOURCES = frozenset(Resource) - {Resource.ANY}
_OPERATIONS = frozenset(Operation) - {Operation.ANY}

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
        self._unclear = frozenset[Acl]()
        self.update(image)

    def update(self, image: SecurityImage) -> None:
        """Use the ACLs of a new image from now on."""
        self._rules = _Rules(image.acls.values())
        before, self._unclear = self._unclear, self._rules.unclear
        for acl in self._unclear - before:
            effect = "allows nothing" if acl.permission == Permission.ALLOW else "denies all that it could mean"
            _log.warning("an ACL cannot be understood, and %s: %s", effect, acl)

    def allows(self, principal: str, host: str, operation: Operation, kind: Resource, name: str) -> bool:
        """Return whether a principal may do an operation on a resource."""
        rules = self._rules
        check = principal, host, operation, kind, name
        answer = rules.answers.get(check)
        if answer is None:
            answer = self._decide(rules, check)
            if len(rules.answers) >= CACHED_MAX:
                rules.answers.clear()
            rules.answers[check] = answer
        return answer

    def _decide(self, rules: _Rules, check: Check) -> bool:
        principal, host, operation, kind, name = check
        if principal in self._super_users:
            return True
        is_allowed = is_known = False
        for acl in rules.of(kind, name):
            is_known = True
            if acl.principal in (principal, _EVERYONE) and _covers(acl, operation) and is_from(acl.host, host):
                if acl.is_deny:
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
            and acl.operation in (operation, Operation.ALL)
            and is_from(acl.host, host)
        ]
        denied = {(acl.pattern_type, acl.resource_name) for acl in concerned if acl.is_deny}
        if (Pattern.LITERAL, WILDCARD) in denied:
            return False
        return any(not acl.is_deny and not _is_dominated(acl, denied) for acl in concerned)

    @staticmethod
    def identity_of(client: Client) -> Identity:
        """Return the principal and the address of a client as ACLs have them."""
        return Identity(str(client.principal), host_text(client.host.removeprefix("/")))

    def _allowed(self, client: Client, operation: Operation, kind: Resource) -> Callable[[str], bool]:
        """Return the function that returns whether a client may do an operation on the resource of a name."""
        identity = self.identity_of(client)
        principal, host = identity.principal, identity.host
        return lambda name: self.allows(principal, host, operation, kind, name)

    def read_permission(self, client: Client) -> ReadPermission:
        """Return which topics a client may read. Its state changes with each change of ACLs."""
        state = self._rules, self.identity_of(client)
        return ReadPermission(self._allowed(client, Operation.READ, Resource.TOPIC), state)

    def may_describe(self, client: Client) -> Callable[[str], bool]:
        """Return the function that returns whether a client may describe a topic."""
        return self._allowed(client, Operation.DESCRIBE, Resource.TOPIC)


@dataclass(frozen=True, slots=True)
class Identity:
    """A client as ACLs name it."""

    principal: str
    host: str


@dataclass(frozen=True, slots=True)
class _Rule:
    """An ACL as it is applied: all of it is understood."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: Host
    operation: int
    is_deny: bool


def _rules_of(acl: Acl) -> tuple[list[_Rule], bool]:
    """Return what an ACL means, and whether it is understood."""
    host = parse_host(acl.host)
    has_pattern = acl.pattern_type in (Pattern.LITERAL, Pattern.PREFIXED)
    is_understood = (
        host is not None
        and has_pattern
        and acl.resource_type in _RESOURCES
        and acl.operation in _OPERATIONS
        and ":" in acl.principal
        and acl.permission in (Permission.DENY, Permission.ALLOW)
    )
    is_deny = acl.permission != Permission.ALLOW
    operation = acl.operation if acl.operation in _OPERATIONS else Operation.ALL
    kinds = [acl.resource_type] if acl.resource_type in _RESOURCES else sorted(_RESOURCES)
    rules = [
        _Rule(
            kind,
            acl.resource_name if has_pattern else WILDCARD,
            acl.pattern_type if has_pattern else Pattern.LITERAL,
            acl.principal if ":" in acl.principal else _EVERYONE,
            WILDCARD if host is None else host,
            operation if is_deny or is_understood else _NOTHING,
            is_deny,
        )
        for kind in kinds
    ]
    return rules, is_understood


class _Rules:
    """ACLs by resource, and the answers that they gave."""

    __slots__ = ("_lengths", "_literal", "_prefixed", "answers", "unclear")

    def __init__(self, acls: Iterable[Acl]) -> None:
        self._literal: dict[tuple[int, str], list[_Rule]] = {}
        self._prefixed: dict[tuple[int, str], list[_Rule]] = {}
        self.answers: dict[Check, bool] = {}
        unclear = set[Acl]()
        for acl in acls:
            rules, is_understood = _rules_of(acl)
            if not is_understood:
                unclear.add(acl)
            for rule in rules:
                table = self._prefixed if rule.pattern_type == Pattern.PREFIXED else self._literal
                table.setdefault((rule.resource_type, rule.resource_name), []).append(rule)
        self.unclear = frozenset(unclear)
        """Those that are not understood."""
        lengths: dict[int, set[int]] = {}
        for kind, name in self._prefixed:
            lengths.setdefault(kind, set()).add(len(name))
        self._lengths = {kind: sorted(of_kind) for kind, of_kind in lengths.items()}

    def of(self, kind: Resource, name: str) -> Iterator[_Rule]:
        """Yield the rules for a resource."""
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for length in self._lengths.get(kind, ()):
            if length > len(name):
                return
            yield from self._prefixed.get((kind, name[:length]), ())

    def all_of(self, kind: Resource) -> Iterator[_Rule]:
        """Yield the rules for all resources of a type."""
        for table in (self._literal, self._prefixed):
            for (resource_type, _), acls in table.items():
                if resource_type == kind:
                    yield from acls


def _covers(acl: _Rule, operation: Operation) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    if acl.is_deny:
        return False
    if operation == Operation.DESCRIBE:
        return acl.operation in IMPLIES_DESCRIBE
    return operation == Operation.DESCRIBE_CONFIGS and acl.operation in IMPLIES_DESCRIBE_CONFIGS


def _is_dominated(acl: _Rule, denied: set[tuple[int, str]]) -> bool:
    """Return whether everything that an ACL allows is denied."""
    name = acl.resource_name
    if acl.pattern_type == Pattern.LITERAL:
        if name == WILDCARD:
            return False
        if (Pattern.LITERAL, name) in denied:
            return True
    return any((Pattern.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
