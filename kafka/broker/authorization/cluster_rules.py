"""Rules of the requests for settings, the disk, users and ACLs. Follows KafkaApis and ControllerApis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from offsetfs.kafka.broker.authorization.call import DENIED, Call
from offsetfs.kafka.broker.operations import CLUSTER_NAME, Operation, Resource
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

_NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TOPIC_SETTINGS, _GROUP_SETTINGS = 2, 32  # ConfigResource.Type


async def everyone(call: Call) -> Any:
    """Nothing: a client needs it before it has a principal."""
    return await call.answer()


def on_cluster(operation: Operation) -> Callable[[Call], Awaitable[Any]]:
    """Return the rule of a request that needs `operation` of the cluster."""

    async def rule(call: Call) -> Any:
        if call.allows(operation, Resource.CLUSTER):
            return await call.answer()
        return await call.failed(_NO_CLUSTER)

    return rule


def on_settings(operation: Operation, answered: str) -> Callable[[Call], Awaitable[Any]]:
    """Return the rule of a request that needs `operation` of each topic, group, or of the cluster for the broker."""

    async def rule(call: Call) -> Any:
        denied = defaultdict[Resource, list[Any]](list)
        allowed, slices = [], Slices()
        for resource in call.request.resources:
            await slices.step()
            kind, name = _resource_of(resource)
            if call.allows(operation, kind, name):
                allowed.append(resource)
            else:
                denied[kind].append(resource)
        if not denied:
            return await call.answer()
        response = await call.answer(call.changed(resources=allowed))
        for kind, resources in denied.items():
            errors = await call.failed(DENIED[kind], call.changed(resources=resources))
            getattr(response, answered).extend(getattr(errors, answered))
        return response

    return rule


def _resource_of(resource: Any) -> tuple[Resource, str]:
    if resource.resource_type == _TOPIC_SETTINGS:
        return Resource.TOPIC, resource.resource_name
    if resource.resource_type == _GROUP_SETTINGS:
        return Resource.GROUP, resource.resource_name
    return Resource.CLUSTER, CLUSTER_NAME


async def describe_log_dirs(call: Call) -> Any:
    """DESCRIBE of the cluster."""
    if call.allows(Operation.DESCRIBE, Resource.CLUSTER):
        return await call.answer()
    return m.DescribeLogDirsResponse(error_code=_NO_CLUSTER if call.version >= 3 else ErrorCode.NONE)


async def alter_user_scram_credentials(call: Call) -> Any:
    """ALTER of the cluster."""
    if call.allows(Operation.ALTER, Resource.CLUSTER):
        return await call.answer()
    users = [change.name for change in (*call.request.deletions, *call.request.upsertions)]
    results = [
        m.AlterUserScramCredentialsResult(name, _NO_CLUSTER, "Cluster authorization failed.")
        for name in dict.fromkeys(users)
    ]
    return m.AlterUserScramCredentialsResponse(results=results)
