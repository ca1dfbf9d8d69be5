"""Administration of ACLs: DescribeAcls, CreateAcls, DeleteAcls. Follows AclApis and AclControlManager.

A change is on disk when it is answered. ACLs of the cluster that the directory belongs to are shown, and not deleted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.authorization.acl_filter import AclFilter, refusal
from offsetfs.kafka.broker.error_codes import code_of, message_of
from offsetfs.kafka.broker.operations import Operation, Pattern, Permission, Resource
from offsetfs.kafka.broker.topics.admin_results import Rejected, completed
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.kafka.protocol.message import ProtocolMessage
from offsetfs.kafka.protocol.metadata_records import RemoveAccessControlEntryRecord
from offsetfs.storage.errors import StorageError
from offsetfs.storage.security import Acl, SecurityImage, SecurityStore, acl_record

_log = logging.getLogger(__name__)

_NO_AUTHORIZER = "No Authorizer is configured."
_INHERITED = "is in the metadata log of the cluster; delete it with Kafka's tools at one of its brokers"


class AclAdmin:
    """Answers the requests of administrators for ACLs."""

    def __init__(self, store: SecurityStore, *, has_authorizer: bool) -> None:
        self._store = store
        self._has_authorizer = has_authorizer
        self._changing = trio.Lock()

    async def describe(self, request: m.DescribeAclsRequest, version: int) -> m.DescribeAclsResponse:
        """Return the ACLs that a filter selects, by resource."""
        try:
            self._check_authorizer()
            wanted = _filter_of(request)
        except Rejected as error:
            return m.DescribeAclsResponse(error_code=error.code, error_message=str(error))
        resources = await in_thread(partial(_resources, self._store.image, wanted))
        return m.DescribeAclsResponse(error_message=None, resources=resources)

    async def create(self, request: m.CreateAclsRequest, version: int) -> m.CreateAclsResponse:
        """Add ACLs. One that is there already is no error."""
        results, acls = list[m.AclCreationResult](), list[tuple[m.AclCreationResult, Acl]]()
        for each in request.creations:
            result = m.AclCreationResult(error_message=None)
            results.append(result)
            try:
                self._check_authorizer()
                acls.append((result, _acl_of(each)))
            except Rejected as error:
                result.error_code, result.error_message = error.code, str(error)
        async with self._changing:
            known: set[Acl] = await in_thread(partial(set, self._store.image.acls.values()))
            added = {acl: os.urandom(16) for _, acl in acls if acl not in known}
            failure = await self._change(acl_record(acl_id, acl) for acl, acl_id in added.items())
        for result, acl in acls:
            if failure is not None and acl in added:
                result.error_code, result.error_message = code_of(failure), message_of(failure)
        return m.CreateAclsResponse(results=results)

    async def delete(self, request: m.DeleteAclsRequest, version: int) -> m.DeleteAclsResponse:
        """Delete the ACLs that filters select."""
        response = m.DeleteAclsResponse()
        async with self._changing:
            deleted: dict[bytes, list[m.DeleteAclsMatchingAcl]] = {}
            for each in request.filters:
                result = m.DeleteAclsFilterResult(error_message=None)
                response.filter_results.append(result)
                try:
                    self._check_authorizer()
                    wanted = _filter_of(each)
                except Rejected as error:
                    result.error_code, result.error_message = error.code, str(error)
                    continue
                for acl_id, acl in await in_thread(partial(_selected, self._store.image, wanted)):
                    matching = _matching(acl)
                    result.matching_acls.append(matching)
                    if self._store.is_inherited(acl_id):
                        matching.error_code, matching.error_message = ErrorCode.INVALID_REQUEST, _INHERITED
                    else:
                        deleted.setdefault(acl_id, []).append(matching)
            failure = await self._change(map(RemoveAccessControlEntryRecord, deleted))
        if failure is not None:
            for matching in (each for rows in deleted.values() for each in rows):
                matching.error_code, matching.error_message = code_of(failure), message_of(failure)
        return response

    def _check_authorizer(self) -> None:
        if not self._has_authorizer:
            raise Rejected(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)

    async def _change(self, records: Iterable[ProtocolMessage]) -> Exception | None:
        """Store records; return the error, which is logged, too."""
        changes = list(records)
        if not changes:
            return None
        try:
            await completed(self._store.change, changes)
        except (StorageError, OSError) as error:
            _log.error("ACLs were not changed: %s", error)
            return error
        return None


def _selected(image: SecurityImage, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
    return [(acl_id, acl) for acl_id, acl in image.acls.items() if wanted.matches(acl)]


def _resources(image: SecurityImage, wanted: AclFilter) -> list[m.DescribeAclsResource]:
    """Return the ACLs that a filter selects, by resource."""
    found: dict[tuple[int, str, int], list[m.AclDescription]] = {}
    for _, acl in _selected(image, wanted):
        shown = m.AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        found.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(shown)
    return [m.DescribeAclsResource(*resource, found[resource]) for resource in sorted(found)]


def _filter_of(asked: m.DescribeAclsRequest | m.DeleteAclsFilter) -> AclFilter:
    found = AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    _check_known(Resource, found.resource_type, "resource type")
    _check_known(Pattern, found.pattern_type, "pattern type")
    _check_known(Operation, found.operation, "operation")
    _check_known(Permission, found.permission, "permission type")
    return found


def _check_known(kind: type[Resource | Pattern | Operation | Permission], number: int, what: str) -> None:
    if number not in kind.__members__.values():
        raise Rejected(ErrorCode.INVALID_REQUEST, f"unknown {what} {number}")


def _acl_of(asked: m.AclCreation) -> Acl:
    """Return the ACL; `Rejected` for one that Kafka does not accept."""
    acl = Acl(
        asked.resource_type,
        asked.resource_name,
        asked.resource_pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )
    reason = refusal(acl)
    if reason is not None:
        raise Rejected(ErrorCode.INVALID_REQUEST, reason)
    return acl


def _matching(acl: Acl) -> m.DeleteAclsMatchingAcl:
    return m.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
