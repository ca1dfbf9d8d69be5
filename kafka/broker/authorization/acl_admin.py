"""Administration of ACLs: DescribeAcls, CreateAcls, DeleteAcls. Follows AclApis and AclControlManager.

A change is on disk when it is answered. ACLs of the cluster that the directory belongs to are shown, and not deleted.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.authorization.acls import AclFilter, refusal
from offsetfs.kafka.broker.errors import code_of, message_of
from offsetfs.kafka.broker.operations import Operation, Pattern, Permission, Resource
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.broker.topics.admin_results import (
    INLINE_ENTRIES_MAX,
    RECORDS_MAX,
    TOO_MANY_RECORDS,
    Rejected,
    completed,
)
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
        image = self._store.image
        work = partial(_resources, image, wanted)
        resources = work() if len(image.acls) <= INLINE_ENTRIES_MAX else await in_thread(work)
        return m.DescribeAclsResponse(error_message=None, resources=resources)

    async def create(self, request: m.CreateAclsRequest, version: int) -> m.CreateAclsResponse:
        """Add ACLs. One that is there already is no error."""
        response, wanted, slices = m.CreateAclsResponse(), dict[Acl, list[m.AclCreationResult]](), Slices()
        for creation in request.creations:
            await slices.step()
            result = m.AclCreationResult(error_message=None)
            response.results.append(result)
            try:
                self._check_authorizer()
                wanted.setdefault(_acl_of(creation), []).append(result)
            except Rejected as error:
                result.error_code, result.error_message = error.code, str(error)
        async with self._changing:
            new = await in_thread(partial(_unknown, self._store.image, wanted))
            failure = await self._change(acl_record(os.urandom(16), acl) for acl in new[: RECORDS_MAX + 1])
        if failure is not None:
            for result in (matching for acl in new for matching in wanted[acl]):
                result.error_code, result.error_message = failure
        return response

    async def delete(self, request: m.DeleteAclsRequest, version: int) -> m.DeleteAclsResponse:
        """Delete the ACLs that filters select."""
        response, wanted, slices = m.DeleteAclsResponse(), list[tuple[m.DeleteAclsFilterResult, AclFilter]](), Slices()
        for acl_filter in request.filters:
            await slices.step()
            result = m.DeleteAclsFilterResult(error_message=None)
            response.filter_results.append(result)
            try:
                self._check_authorizer()
                wanted.append((result, _filter_of(acl_filter)))
            except Rejected as error:
                result.error_code, result.error_message = error.code, str(error)
        if len(wanted) > RECORDS_MAX:
            return _refused(response, wanted)
        async with self._changing:
            filters = [acl_filter for _, acl_filter in wanted]
            selected = await in_thread(partial(_selected_by_each, self._store.image, filters))
            if selected is None:
                return _refused(response, wanted)
            deleted = await self._note_deleted([result for result, _ in wanted], selected)
            failure = await self._change(map(RemoveAccessControlEntryRecord, deleted))
        if failure is not None:
            for matching in (row for rows in deleted.values() for row in rows):
                matching.error_code, matching.error_message = failure
        return response

    async def _note_deleted(
        self, results: list[m.DeleteAclsFilterResult], selected: list[list[tuple[bytes, Acl]]]
    ) -> dict[bytes, list[m.DeleteAclsMatchingAcl]]:
        """Put the ACLs that each filter selects into its result; return those that can be deleted, by their ids."""
        deleted, slices = dict[bytes, list[m.DeleteAclsMatchingAcl]](), Slices()
        for result, acls in zip(results, selected, strict=True):
            for acl_id, acl in acls:
                await slices.step()
                matching = _matching(acl)
                result.matching_acls.append(matching)
                if self._store.is_inherited(acl_id):
                    matching.error_code, matching.error_message = ErrorCode.INVALID_REQUEST, _INHERITED
                else:
                    deleted.setdefault(acl_id, []).append(matching)
        return deleted

    def _check_authorizer(self) -> None:
        if not self._has_authorizer:
            raise Rejected(ErrorCode.SECURITY_DISABLED, _NO_AUTHORIZER)

    async def _change(self, records: Iterable[ProtocolMessage]) -> tuple[ErrorCode, str] | None:
        """Store records; return the error and its text. Errors of the disk are logged, too."""
        changes = list(records)
        if not changes:
            return None
        if len(changes) > RECORDS_MAX:
            return ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS
        try:
            await completed(self._store.change, changes)
        except (StorageError, OSError) as error:
            _log.error("ACLs were not changed: %s", error)
            return code_of(error), message_of(error)
        return None


def _selected(image: SecurityImage, wanted: AclFilter) -> list[tuple[bytes, Acl]]:
    return [(acl_id, acl) for acl_id, acl in image.acls.items() if wanted.matches(acl)]


def _selected_by_each(image: SecurityImage, filters: Sequence[AclFilter]) -> list[list[tuple[bytes, Acl]]] | None:
    """Return the ACLs that each filter selects; None if these are too many. Most filters name a resource."""
    by_name = defaultdict[str, list[tuple[bytes, Acl]]](list)
    for entry in image.acls.items():
        by_name[entry[1].resource_name].append(entry)
    everything, selected, count = list(image.acls.items()), list[list[tuple[bytes, Acl]]](), 0
    for wanted in filters:
        name = None if wanted.pattern_type == Pattern.MATCH else wanted.resource_name
        possible = everything if name is None else by_name.get(name, [])
        selected.append([entry for entry in possible if wanted.matches(entry[1])])
        count += len(selected[-1])
        if count > RECORDS_MAX:
            return None
    return selected


def _unknown(image: SecurityImage, wanted: Iterable[Acl]) -> list[Acl]:
    known = set(image.acls.values())
    return [acl for acl in wanted if acl not in known]


def _refused(
    response: m.DeleteAclsResponse, filters: Iterable[tuple[m.DeleteAclsFilterResult, AclFilter]]
) -> m.DeleteAclsResponse:
    for result, _ in filters:
        result.error_code, result.error_message = ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS
    return response


def _resources(image: SecurityImage, wanted: AclFilter) -> list[m.DescribeAclsResource]:
    """Return the ACLs that a filter selects, by resource."""
    by_resource: dict[tuple[int, str, int], list[m.AclDescription]] = {}
    for _, acl in _selected(image, wanted):
        shown = m.AclDescription(acl.principal, acl.host, acl.operation, acl.permission)
        by_resource.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(shown)
    return [m.DescribeAclsResource(*resource, by_resource[resource]) for resource in sorted(by_resource)]


def _filter_of(asked: m.DescribeAclsRequest | m.DeleteAclsFilter) -> AclFilter:
    acl_filter = AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
    _check_known(Resource, acl_filter.resource_type, "resource type")
    _check_known(Pattern, acl_filter.pattern_type, "pattern type")
    _check_known(Operation, acl_filter.operation, "operation")
    _check_known(Permission, acl_filter.permission, "permission type")
    return acl_filter


def _check_known(kind: type[Resource | Pattern | Operation | Permission], number: int, what: str) -> None:
    if number not in kind.__members__.values():
        raise Rejected(ErrorCode.INVALID_REQUEST, f"unknown {what} {number}")


def _acl_of(asked: m.AclCreation) -> Acl:
    """Return the ACL; `Rejected` for an ACL that Kafka does not accept."""
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
