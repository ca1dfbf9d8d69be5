"""`offsetfs acls`: list, add and remove ACLs, also while the directory is served.

The options are those of kafka-acls.sh.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click

from offsetfs.cli import preflight, stored_security
from offsetfs.cli.exit_codes import DONE, WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.kafka.broker.authorization.acls import AclFilter, refusal
from offsetfs.kafka.broker.operations import (
    CLUSTER_NAME,
    SUPPORTED,
    WILDCARD,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from offsetfs.kafka.protocol.metadata_records import RemoveAccessControlEntryRecord
from offsetfs.storage.security import Acl, acl_record

ADD, REMOVE = "add", "remove"

_Resource = tuple[Resource, str]


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


OPERATIONS = {_pascal(operation.name): operation for operation in Operation if operation is not Operation.ANY}
"""By Kafka's names on command lines."""
RESOURCES = {resource.name.lower().replace("_", "-"): resource for resource in Resource if resource is not Resource.ANY}
_PATTERNS = {pattern.name.lower(): pattern for pattern in Pattern}
_PERMISSIONS = {"allow": Permission.ALLOW, "deny": Permission.DENY}

_PRODUCER = (
    (Resource.TOPIC, (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)),
    (Resource.TRANSACTIONAL_ID, (Operation.WRITE, Operation.DESCRIBE)),
)
_CONSUMER = ((Resource.TOPIC, (Operation.READ, Operation.DESCRIBE)), (Resource.GROUP, (Operation.READ,)))
"""The operations that kafka-acls.sh allows with --producer and --consumer."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The values of the options."""

    resources: tuple[_Resource, ...]
    pattern: Pattern | None
    operations: tuple[Operation, ...]
    principals: tuple[str, ...]
    """The principals of list and remove, whatever the permission."""
    allowed: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    denied: tuple[str, ...]
    denied_hosts: tuple[str, ...]
    roles: tuple[tuple[tuple[Resource, tuple[Operation, ...]], ...], ...]


@click.command("acls", short_help="List, add and remove ACLs.")
@click.argument("log_directory", metavar="LOGDIR")
@click.argument("action", metavar="[add|remove]", type=click.Choice((ADD, REMOVE)), required=False)
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic; * for all.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A consumer group; * for all.")
@click.option("--transactional-id", "ids", multiple=True, metavar="NAME", help="A transactional id; * for all.")
@click.option("--cluster", is_flag=True, help="The cluster.")
@click.option("--delegation-token", "tokens", multiple=True, metavar="NAME", help="A delegation token; * for all.")
@click.option("--user-principal", "users", multiple=True, metavar="NAME", help="A user as a resource.")
@click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice(tuple(_PATTERNS)),
    help="Whether names are whole names (literal, the default of add) or beginnings (prefixed); to list and remove "
    "also match: what applies to a name.",
)
@click.option("--allow-principal", "allowed", multiple=True, metavar="USER", help="May do it, such as User:alice.")
@click.option("--deny-principal", "denied", multiple=True, metavar="USER", help="May not do it; has precedence.")
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="HOST", help="Only from this address or range.")
@click.option("--deny-host", "denied_hosts", multiple=True, metavar="HOST", help="Only from this address or range.")
@click.option(
    "--operation",
    "operations",
    multiple=True,
    type=click.Choice(tuple(OPERATIONS), case_sensitive=False),
    metavar="OPERATION",
    help=f"{', '.join(OPERATIONS)}; for add All if left out.",
)
@click.option("--producer", is_flag=True, help="For add: all that a producer needs, for --topic, --transactional-id.")
@click.option("--consumer", is_flag=True, help="For add: all that a consumer needs, for --topic and --group.")
@click.option("--principal", "principals", multiple=True, metavar="USER", help="To list and remove: ACLs of USER.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array instead of text.")
def command(
    log_directory: str,
    action: str | None,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    ids: tuple[str, ...],
    cluster: bool,
    tokens: tuple[str, ...],
    users: tuple[str, ...],
    pattern: str | None,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    allowed_hosts: tuple[str, ...],
    denied_hosts: tuple[str, ...],
    operations: tuple[str, ...],
    producer: bool,
    consumer: bool,
    principals: tuple[str, ...],
    as_json: bool,
) -> int:
    """List the ACLs of LOGDIR, add some or remove some. Options with several values may be repeated.

    A server applies ACLs if authorizer.class.name is set. Then a client may do what an ACL allows to its user, and
    nothing else; super.users may do everything. Without authentication, the user is User:ANONYMOUS.

    Options are those of kafka-acls.sh. To list and to remove, they select ACLs: without a resource those of all
    resources, without a user those of all users. Changes are on disk when the command returns. If LOGDIR is served, the
    command works through the server, and the next request of a client is checked by the new ACLs.

    \b
    offsetfs acls ~/logs
    offsetfs acls ~/logs --topic orders --resource-pattern-type match
    offsetfs acls ~/logs add --allow-principal User:alice --producer --topic orders
    offsetfs acls ~/logs add --allow-principal User:bob --consumer --topic orders --group billing
    offsetfs acls ~/logs add --allow-principal User:bob --operation Read --topic audit- --resource-pattern-type prefixed
    offsetfs acls ~/logs add --deny-principal 'User:*' --deny-host 10.0.0.7 --cluster --operation All
    offsetfs acls ~/logs remove --principal User:alice --topic orders
    offsetfs serve ~/logs -o authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer

    Exit codes: 1 wrong call or permissions, 2 system error, 32 refused; the message gives the reason.
    """
    named = (
        (Resource.TOPIC, topics),
        (Resource.GROUP, groups),
        (Resource.CLUSTER, (CLUSTER_NAME,) if cluster else ()),
        (Resource.TRANSACTIONAL_ID, ids),
        (Resource.DELEGATION_TOKEN, tokens),
        (Resource.USER, users),
    )
    wanted = _Wanted(
        tuple((kind, name) for kind, names in named for name in names),
        None if pattern is None else _PATTERNS[pattern],
        tuple(OPERATIONS[name] for name in operations),
        principals,
        allowed,
        allowed_hosts,
        denied,
        denied_hosts,
        (*((_PRODUCER,) if producer else ()), *((_CONSUMER,) if consumer else ())),
    )
    preflight.check_directory(log_directory, read_only=action is None, may_be_empty=True)
    if action == ADD:
        _add(log_directory, wanted)
    elif action == REMOVE:
        _remove(log_directory, wanted)
    else:
        _show(list(_selected(log_directory, wanted).values()), as_json)
    return DONE


# --- listing ---------------------------------------------------------------------------------------------------------


def _stored(log_directory: str) -> dict[bytes, Acl]:
    return {bytes.fromhex(acl_id): Acl(*values) for acl_id, *values in stored_security.read(log_directory, "acls")}


def _selected(log_directory: str, wanted: _Wanted) -> dict[bytes, Acl]:
    """Return the stored ACLs that the options select, by id."""
    if wanted.roles:
        raise Failure("--producer and --consumer are for add", WRONG_CALL)
    filters = list(_filters(wanted))
    return {
        acl_id: acl
        for acl_id, acl in _stored(log_directory).items()
        if any(acl_filter.matches(acl) for acl_filter in filters)
    }


def _filters(wanted: _Wanted) -> Iterator[AclFilter]:
    resources: list[tuple[Resource, str | None]] = [*wanted.resources] or [(Resource.ANY, None)]
    pattern = Pattern.ANY if wanted.pattern is None else wanted.pattern
    clients: list[tuple[Permission, Sequence[str], Sequence[str]]] = [
        (Permission.ANY, wanted.principals, ()),
        (Permission.ALLOW, wanted.allowed, wanted.allowed_hosts),
        (Permission.DENY, wanted.denied, wanted.denied_hosts),
    ]
    chosen = [client for client in clients if client[1] or client[2]] or clients[:1]
    for permission, principals, hosts in chosen:
        users: Sequence[str | None] = principals or (None,)
        addresses: Sequence[str | None] = hosts or (None,)
        for (kind, name), principal, host, operation in itertools.product(
            resources, users, addresses, wanted.operations or (Operation.ANY,)
        ):
            yield AclFilter(kind, name, pattern, principal, host, operation, permission)


def _show(acls: list[Acl], as_json: bool) -> None:
    acls.sort(key=_order)
    if as_json:
        click.echo(json.dumps([_as_json(acl) for acl in acls], indent=1))
        return
    if not acls:
        click.echo("offsetfs acls: there are none", err=True)
    rows = [_cells(acl) for acl in acls]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _order(acl: Acl) -> tuple[int, str, int, str, str, int, int]:
    return (
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.permission,
        acl.operation,
    )


def _cells(acl: Acl) -> tuple[str, ...]:
    values = _as_json(acl)
    kind, pattern = values["resource_type"], "prefixed " if acl.pattern_type == Pattern.PREFIXED else ""
    return (
        f"{kind} {pattern}{printable(acl.resource_name)}",
        printable(acl.principal),
        values["permission"],
        values["operation"],
        f"from {'any host' if acl.host == WILDCARD else printable(acl.host)}",
    )


def _as_json(acl: Acl) -> dict[str, str]:
    """Return the words for an ACL, numbers for what a later Kafka has added."""
    return {
        "resource_type": _word(RESOURCES, acl.resource_type),
        "resource_name": acl.resource_name,
        "pattern_type": _word(_PATTERNS, acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": _word(OPERATIONS, acl.operation),
        "permission": _word(_PERMISSIONS, acl.permission),
    }


def _word(words: Mapping[str, int], number: int) -> str:
    return next((word for word, value in words.items() if value == number), str(number))


# --- changing --------------------------------------------------------------------------------------------------------


def _add(log_directory: str, wanted: _Wanted) -> None:
    acls = dict.fromkeys(_new(wanted))
    known = set(_stored(log_directory).values())
    records = [acl_record(os.urandom(16), acl) for acl in acls if acl not in known]
    if records:
        stored_security.change(log_directory, records, "acls")


def _new(wanted: _Wanted) -> list[Acl]:
    """Return the ACLs to add; `Failure` for what Kafka does not accept."""
    if wanted.principals:
        raise Failure("--principal is to list and remove; give --allow-principal or --deny-principal", WRONG_CALL)
    if not wanted.resources:
        raise Failure("give a resource: --topic, --group, --cluster, --transactional-id, ...", WRONG_CALL)
    if not wanted.allowed and not wanted.denied:
        raise Failure("give --allow-principal or --deny-principal", WRONG_CALL)
    pattern = Pattern.LITERAL if wanted.pattern is None else wanted.pattern
    if pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise Failure(f"--resource-pattern-type {pattern.name.lower()} is to list and remove", WRONG_CALL)
    clients = [
        (Permission.ALLOW, wanted.allowed, wanted.allowed_hosts),
        (Permission.DENY, wanted.denied, wanted.denied_hosts),
    ]
    acls = []
    for (kind, name), (permission, principals, hosts) in itertools.product(wanted.resources, clients):
        for operation, principal, host in itertools.product(_operations(wanted, kind), principals, hosts or [WILDCARD]):
            acls.append(Acl(kind, name, pattern, principal, host, operation, permission))
    for acl in acls:
        reason = refusal(acl)
        if reason is not None:
            raise Failure(reason, WRONG_CALL)
    return acls


def _operations(wanted: _Wanted, kind: Resource) -> list[Operation]:
    """Return what is to be allowed or denied on a type of resources; `Failure` for what it does not have."""
    of_roles = [
        operation
        for role in wanted.roles
        for role_kind, operations in role
        if role_kind == kind
        for operation in operations
    ]
    for operation in wanted.operations:
        if operation != Operation.ALL and operation not in SUPPORTED[kind]:
            names = ", ".join(_pascal(supported.name) for supported in (*SUPPORTED[kind], Operation.ALL))
            raise Failure(f"a {kind.name.lower().replace('_', '-')} has the operations {names}", WRONG_CALL)
    if wanted.roles and not of_roles and not wanted.operations:
        raise Failure(f"--producer and --consumer say nothing of a {kind.name.lower()}; give --operation", WRONG_CALL)
    return list(dict.fromkeys([*of_roles, *wanted.operations])) or [Operation.ALL]


def _remove(log_directory: str, wanted: _Wanted) -> None:
    if list(_filters(wanted)) == [AclFilter()]:
        raise Failure("give what to remove, such as --principal User:alice or --topic orders", WRONG_CALL)
    acls = _selected(log_directory, wanted)
    if not acls:
        raise Failure(f"{log_directory} has no such ACL; offsetfs acls {log_directory} lists them", WRONG_CALL)
    stored_security.change(log_directory, [RemoveAccessControlEntryRecord(acl_id) for acl_id in acls], "acls")
    _show(list(acls.values()), False)
