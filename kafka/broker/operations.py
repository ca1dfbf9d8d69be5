"""The words of ACLs and their numbers in the protocol: ResourceType, PatternType, AclOperation, AclPermissionType."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any

from offsetfs.storage import I32_MIN

WILDCARD = "*"
"""The name of all resources of a type, and the host of all hosts."""

CLUSTER_NAME = "kafka-cluster"
"""The only resource of the type CLUSTER."""


class Resource(IntEnum):
    """The type of the resource of an ACL. ANY occurs in filters only."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """The comparison of the name of an ACL with that of a resource. ANY and MATCH occur in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation of a request on a resource. ANY occurs in filters only, ALL in ACLs only."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an ACL denies or allows. ANY occurs in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


SUPPORTED: Mapping[Resource, tuple[Operation, ...]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
}
"""The operations on the resources of a type. Kafka: `AclEntry.supportedOperations`."""

IMPLIES_DESCRIBE = frozenset((Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER))
IMPLIES_DESCRIBE_CONFIGS = frozenset((Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS))
"""An ACL that allows one of these allows to describe as well. One that denies it denies nothing else."""


def bits(operations: Iterable[Operation]) -> int:
    """Return operations as responses have them: a bit for each number."""
    return sum(1 << operation for operation in operations)


UNKNOWN_OPERATIONS = I32_MIN
"""The operations of a resource where the client has not asked for them."""

TOPIC_OPERATIONS = bits(SUPPORTED[Resource.TOPIC])
GROUP_OPERATIONS = bits(SUPPORTED[Resource.GROUP])
CLUSTER_OPERATIONS = bits(SUPPORTED[Resource.CLUSTER])
"""The operations of a client without an authorizer."""


def show_group_operations(request: Any, response: Any, operations_of: Callable[[str], int]) -> None:
    """Set the operations of the groups in a response if the request asks for them."""
    for group in response.groups if request.include_authorized_operations else ():
        if not group.error_code:
            group.authorized_operations = operations_of(group.group_id)
