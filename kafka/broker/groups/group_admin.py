"""Administration of groups: FindCoordinator, DescribeGroups, ListGroups, DeleteGroups.

Follows Kafka's GroupCoordinatorService. Groups of the newer protocols are listed and deleted, and described as not
classic.
"""

from __future__ import annotations

from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.groups.group import CONSUMER, Group, GroupError, GroupState
from offsetfs.kafka.broker.groups.group_table import GroupTable
from offsetfs.kafka.broker.operations import GROUP_OPERATIONS, show_group_operations
from offsetfs.kafka.broker.slices import Slices
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage.coordinators import Change, describe

_GROUPS, _TRANSACTIONAL_IDS = 0, 1  # types of keys
_CLASSIC = "classic"


class GroupAdmin:
    """Answers the requests of administrators for groups."""

    def __init__(self, table: GroupTable, node: BrokerNode) -> None:
        self._table = table
        self._node = node

    async def find(self, request: m.FindCoordinatorRequest, version: int) -> m.FindCoordinatorResponse:
        """Return this broker for every group and every transactional id.

        A look-up of a group creates `__consumer_offsets`, as in Kafka.
        """
        node = self._node
        if request.key_type not in (_GROUPS, _TRANSACTIONAL_IDS):
            return self._failed(request, version, ErrorCode.INVALID_REQUEST)
        if request.key_type == _GROUPS and not self._table.directory.read_only:
            try:
                await self._table.home("")  # any name: all partitions are created at once
            except GroupError:
                return self._failed(request, version, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if version >= 4:
            response, slices = m.FindCoordinatorResponse(), Slices()
            for key in request.coordinator_keys:
                await slices.step()
                response.coordinators.append(m.Coordinator(key, node.node_id, node.host, node.port))
            return response
        return m.FindCoordinatorResponse(node_id=node.node_id, host=node.host, port=node.port)

    @staticmethod
    def _failed(request: m.FindCoordinatorRequest, version: int, code: ErrorCode) -> m.FindCoordinatorResponse:
        if version >= 4:
            failed = [m.Coordinator(key, -1, "", -1, code) for key in request.coordinator_keys]
            return m.FindCoordinatorResponse(coordinators=failed)
        return m.FindCoordinatorResponse(error_code=code, node_id=-1)

    async def describe(self, request: m.DescribeGroupsRequest, version: int) -> m.DescribeGroupsResponse:
        """Return state and members of groups."""
        response, slices = m.DescribeGroupsResponse(), Slices()
        for name in request.groups:
            await slices.step()
            response.groups.append(await self._described(name, version))
        show_group_operations(request, response, lambda _: GROUP_OPERATIONS)
        return response

    async def _described(self, name: str, version: int) -> m.DescribeGroupsResponseDescribedGroup:
        try:
            await self._table.current(name)
        except GroupError as error:
            return m.DescribeGroupsResponseDescribedGroup(error.code, group_id=name)
        group, stored = self._table.live.get(name), self._table.stored(name)
        if group is not None:
            return _classic(group, version)
        if self._table.committed(name) and not stored.newer:
            return m.DescribeGroupsResponseDescribedGroup(group_id=name, group_state=GroupState.EMPTY)
        described = m.DescribeGroupsResponseDescribedGroup(group_id=name, group_state=GroupState.DEAD)
        if version >= 6:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = (
                f"Group {name} is not a classic group." if stored.newer else f"Group {name} not found."
            )
        return described

    async def list(self, request: m.ListGroupsRequest, version: int) -> m.ListGroupsResponse:
        """Return the groups, those with committed offsets alone included."""
        states = {state.lower() for state in request.states_filter or ()}
        types = {kind.lower() for kind in request.types_filter or ()}
        response = m.ListGroupsResponse()
        try:
            await self._table.log.current_all()
        except GroupError as error:
            response.error_code = error.code
            return response
        slices = Slices()
        for name in self._table.names():
            await slices.step()
            kind, protocol_type, state = self._kind_and_state(name)
            if (states and state.lower() not in states) or (types and kind not in types):
                continue
            listed = m.ListedGroup(name, protocol_type)
            if version >= 4:
                listed.group_state = state
            if version >= 5:
                listed.group_type = kind
            response.groups.append(listed)
        return response

    def _kind_and_state(self, name: str) -> tuple[str, str, str]:
        """Return type, protocol type and state of a group."""
        group = self._table.live.get(name)
        if group is not None:
            return _CLASSIC, group.protocol_type, group.state
        consumers = self._table.consumer(name)
        if consumers is not None:
            return CONSUMER, CONSUMER, consumers.state
        description = describe(self._table.stored(name).newer)
        if description is None:
            return _CLASSIC, "", GroupState.EMPTY
        return str(description["type"]), str(description["type"]), str(description["state"])

    async def delete(self, request: m.DeleteGroupsRequest, version: int) -> m.DeleteGroupsResponse:
        """Delete empty groups with their offsets."""
        response, slices = m.DeleteGroupsResponse(), Slices()
        for name in request.groups_names:
            await slices.step()
            code = ErrorCode.NONE
            try:
                await self._delete(name)
            except GroupError as error:
                code = error.code
            response.results.append(m.DeletableGroupResult(name, code))
        return response

    async def _delete(self, name: str) -> None:
        await self._table.current(name)
        self._check_delete(name)

        def make() -> list[Change]:
            self._check_delete(name)
            return self._table.deletions(name)

        await self._table.delete(name, make)

    def _check_delete(self, name: str) -> None:
        if not self._table.is_known(name):
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND)
        group = self._table.live.get(name)
        if (group is not None and group.state != GroupState.EMPTY) or self._table.has_newer_members(name):
            raise GroupError(ErrorCode.NON_EMPTY_GROUP)
        if self._table.directory.read_only:
            raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _classic(group: Group, version: int) -> m.DescribeGroupsResponseDescribedGroup:
    is_stable = group.state == GroupState.STABLE
    return m.DescribeGroupsResponseDescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            m.DescribedGroupMember(
                member.member_id,
                member.instance_id if version >= 4 else None,
                member.client_id,
                member.client_host,
                member.protocols.get(group.protocol or "", b"") if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
