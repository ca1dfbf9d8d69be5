"""The brokers of a cluster: which one gets a request, connections to them, metadata and coordinators.

    async with ClusterClient([("broker1", 9092)], properties) as client:
        metadata = await client.metadata()
        response = await client.request(FetchRequest(…), node=metadata.topics["orders"].partitions[0].leader)

Each broker has one connection, made when it is first needed and again after it has failed, with pauses that grow. A
broker that does not answer delays its own requests only. Requests are not repeated: callers know which errors they can
repeat (`ClientError.is_retriable`), and look at the metadata before; `repeated` repeats them.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import trio

from offsetfs.common.addresses import Address, address_text
from offsetfs.common.backoff import Backoff
from offsetfs.kafka.client.connect import connect, connect_any
from offsetfs.kafka.client.connection import RESPONSE_BYTES_MAX, BrokerConnection
from offsetfs.kafka.client.errors import ClientError, NoBrokerAnswers, RequestTimedOut, check_code
from offsetfs.kafka.client.metadata import ClusterMetadata, ClusterNode, cluster_metadata, metadata_request
from offsetfs.kafka.client.properties import ClientProperties
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.message import ProtocolMessage

_JITTER = 0.2

Answer = TypeVar("Answer")
"""The random share of a pause, as in Kafka, so that clients do not return all at once."""


class NodeKind(enum.Enum):
    """Brokers that are not named by their id."""

    ANY = "any"
    CONTROLLER = "controller"


class CoordinatorKind(enum.IntEnum):
    """The kinds of coordinators: for groups, for transactions."""

    GROUP = 0
    TRANSACTION = 1


class _Attempts:
    """Attempts to connect, one at a time, with pauses between them that grow with the failures."""

    def __init__(self, properties: ClientProperties) -> None:
        most_ms = max(properties.reconnect_backoff_ms, properties.reconnect_backoff_max_ms)
        self._backoff = Backoff(properties.reconnect_backoff_ms / 1000, most_ms / 1000, _JITTER)
        self._failures = 0
        self._next_s = -math.inf
        self.lock = trio.Lock()

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """Wait for the pause; the attempt is the body of the statement, and fails with ClientError."""
        await trio.sleep_until(self._next_s)
        try:
            yield
        except ClientError:
            self._failures += 1
            raise
        else:
            self._failures = 0
        finally:
            self._next_s = trio.current_time() + self._backoff.pause_s(self._failures + 1)


class _NodeState:
    """The connection to one broker."""

    def __init__(self, address: Address, properties: ClientProperties) -> None:
        self.address = address
        self.attempts = _Attempts(properties)
        self.connection: BrokerConnection | None = None

    @property
    def open_connection(self) -> BrokerConnection | None:
        return self.connection if self.connection is not None and self.connection.is_open else None


class ClusterClient:
    """A client of one cluster."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        properties: ClientProperties | None = None,
        *,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
    ) -> None:
        """`bootstrap`: the addresses of some brokers; the others are found by them."""
        self.bootstrap = tuple(bootstrap)
        self.properties = properties or ClientProperties()
        self._response_bytes_max = response_bytes_max
        self._nodes: dict[int, _NodeState] = {}
        self._unnamed: BrokerConnection | None = None
        """The connection to a broker of `bootstrap`, whose node id is not known."""
        self._bootstrapping = _Attempts(self.properties)
        self._metadata: ClusterMetadata | None = None
        self._metadata_topics: frozenset[str] | None = None
        self._metadata_s = 0.0
        self._reading_metadata = trio.Lock()
        self._tasks: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> ClusterClient:
        self._tasks = trio.open_nursery()
        self._nursery = await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._tasks is not None and self._nursery is not None
        self._nursery.cancel_scope.cancel()
        for connection in [self._unnamed, *(node.connection for node in self._nodes.values())]:
            if connection is not None:
                connection.close()
        # Without the error of the body, which a nursery would put into a group.
        await self._tasks.__aexit__(None, None, None)

    # --- metadata -----------------------------------------------------------------------------------------------------

    async def metadata(self, topics: Sequence[str] | None = None, *, refresh: bool = False) -> ClusterMetadata:
        """Return brokers and topics, all of them or `topics`; ClientError. Topics are not created by it.

        A response is used for `metadata.max.age.ms`, and not with `refresh`. Errors of topics are in the topics.
        """
        asked_s = trio.current_time()
        wanted = None if topics is None else frozenset(topics)
        async with self._reading_metadata:
            metadata = self._fresh(wanted, asked_s if refresh else None)
            if metadata is not None:
                return metadata
            connection = await self._any_connection()
            version = connection.version_of(m.MetadataRequest)
            named = None if topics is None else list(dict.fromkeys(topics))
            response = await connection.request(metadata_request(version, named), max_version=version)
            check_code(response.error_code, f"{connection}: Metadata")
            metadata = cluster_metadata(response, named)
            self._metadata, self._metadata_topics, self._metadata_s = metadata, wanted, trio.current_time()
            self._take_over(metadata)
            return metadata

    def _fresh(self, wanted: frozenset[str] | None, since_s: float | None) -> ClusterMetadata | None:
        """Return the last response if it is young enough, and has these topics."""
        if self._metadata is None or wanted != self._metadata_topics:
            return None
        oldest_s = trio.current_time() - self.properties.metadata_max_age_ms / 1000 if since_s is None else since_s
        return self._metadata if self._metadata_s >= oldest_s else None

    def _take_over(self, metadata: ClusterMetadata) -> None:
        """Close connections to brokers that have another address now, or have left the cluster."""
        for node_id, state in list(self._nodes.items()):
            broker = metadata.brokers.get(node_id)
            if broker is None or broker.address != state.address:
                del self._nodes[node_id]
                if state.connection is not None:
                    state.connection.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def request(
        self,
        message: ProtocolMessage,
        *,
        node: int | NodeKind = NodeKind.ANY,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> Any:
        """Return the response of a broker; ClientError. `max_version`, `timeout_ms`: see `BrokerConnection.request`."""
        connection = await self.connection(node)
        return await connection.request(message, max_version=max_version, timeout_ms=timeout_ms)

    async def connection(self, node: int | NodeKind) -> BrokerConnection:
        """Return an open connection to a broker; ClientError. `version_of` of it: which fields a request can have."""
        if node is NodeKind.ANY:
            return await self._any_connection()
        state = self._state(node, self._metadata) if self._metadata is not None else None
        if state is None:
            topics = self._metadata_topics if self._metadata is not None else ()
            metadata = await self.metadata(None if topics is None else tuple(topics), refresh=True)
            state = self._state(node, metadata)
            if state is None:
                cause = "the cluster has no controller" if isinstance(node, NodeKind) else f"no broker has id {node}"
                raise NoBrokerAnswers(f"{cause}; brokers: {_listed(metadata)}")
        return await self._connected(state)

    def _state(self, node: int | NodeKind, metadata: ClusterMetadata) -> _NodeState | None:
        """Return the state of a broker; None if it is not known."""
        node_id = metadata.controller_id if isinstance(node, NodeKind) else node
        broker = metadata.brokers.get(node_id)
        if broker is not None and node_id not in self._nodes:
            self._nodes[node_id] = _NodeState(broker.address, self.properties)
        return self._nodes.get(node_id)

    async def coordinator(self, key: str, kind: CoordinatorKind = CoordinatorKind.GROUP) -> int:
        """Return the node id of the coordinator of a group, or of a transactional id; ClientError.

        Waits up to `default.api.timeout.ms` for a coordinator that is not available yet.
        """
        return await repeated(lambda: self._found_coordinator(key, kind), self.properties)

    async def _found_coordinator(self, key: str, kind: CoordinatorKind) -> int:
        connection = await self._any_connection()
        version = connection.version_of(m.FindCoordinatorRequest)
        request = m.FindCoordinatorRequest(key, kind) if version < 4 else m.FindCoordinatorRequest("", kind, [key])
        response = await connection.request(request, max_version=version)
        coordinator = response if version < 4 else response.coordinators[0]
        check_code(coordinator.error_code, coordinator.error_message or f"{connection}: FindCoordinator")
        if coordinator.node_id not in self._nodes:
            self._nodes[coordinator.node_id] = _NodeState((coordinator.host, coordinator.port), self.properties)
        return int(coordinator.node_id)

    # --- connections --------------------------------------------------------------------------------------------------

    async def _connected(self, state: _NodeState) -> BrokerConnection:
        """Return the open connection of a broker, which is made if need be; ClientError."""
        if state.open_connection is not None:
            return state.open_connection
        async with state.attempts.lock:
            if state.open_connection is not None:
                return state.open_connection
            async with state.attempts.next():
                connection = await connect(state.address, self.properties, response_bytes_max=self._response_bytes_max)
            state.connection = connection
            self._start(connection)
            return connection

    async def _any_connection(self) -> BrokerConnection:
        """Return a connection to the broker with the fewest requests in flight; NoBrokerAnswers."""
        connections = self._open_connections()
        if connections:
            return min(connections, key=lambda connection: connection.in_flight)
        async with self._bootstrapping.lock:
            connections = self._open_connections()
            if connections:
                return connections[0]
            known = [] if self._metadata is None else [broker.address for broker in self._metadata.brokers.values()]
            random.shuffle(known)
            addresses = list(dict.fromkeys((*known, *self.bootstrap)))
            async with self._bootstrapping.next():
                self._unnamed = await connect_any(
                    addresses, self.properties, response_bytes_max=self._response_bytes_max
                )
            self._start(self._unnamed)
            return self._unnamed

    def _open_connections(self) -> list[BrokerConnection]:
        connections = [self._unnamed, *(node.connection for node in self._nodes.values())]
        return [connection for connection in connections if connection is not None and connection.is_open]

    def _start(self, connection: BrokerConnection) -> None:
        assert self._nursery is not None  # entered
        self._nursery.start_soon(connection.run)


def _listed(metadata: ClusterMetadata) -> str:
    return ", ".join(_node_text(broker) for broker in metadata.brokers.values()) or "none"


def _node_text(node: ClusterNode) -> str:
    return f"{node.id} at {address_text(node.address)}"


async def wait_for_cluster(client: ClusterClient, on_wait: Callable[[str], None]) -> None:
    """Return once a broker answers; ClientError after `default.api.timeout.ms`, or at once if it is not retriable.

    `on_wait` is called every second until then, and after each failure, with a sentence about what is waited for.
    """
    limit_s = client.properties.default_api_timeout_ms / 1000
    reason = f"{', '.join(map(address_text, client.bootstrap))}: no answer yet"
    failure: ClientError | None = None

    def report() -> None:
        on_wait(f"{reason}; tried for up to {limit_s:g} s (default.api.timeout.ms)")

    async def report_each_second() -> None:
        while True:
            await trio.sleep(1)
            report()

    async def ask() -> None:
        nonlocal reason
        try:
            await client.metadata([])
        except ClientError as error:
            reason = str(error)
            report()
            raise

    async with trio.open_nursery() as nursery:
        nursery.start_soon(report_each_second)
        try:
            await repeated(ask, client.properties)
        except ClientError as error:  # outside of the nursery, which would wrap it in an exception group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def repeated(request: Callable[[], Awaitable[Answer]], properties: ClientProperties) -> Answer:
    """Return the answer; a retriable ClientError is tried again for `default.api.timeout.ms` in all, and raised then.

    `request` finds leader, controller or coordinator again each time. Requests in it may be repeated themselves: the
    limit of the outermost one holds.
    """
    failure: ClientError | None = None
    with trio.move_on_after(properties.default_api_timeout_ms / 1000):
        while True:
            try:
                return await request()
            except ClientError as error:
                if not error.is_retriable:
                    raise
                failure = error
            await trio.sleep(properties.retry_backoff_ms / 1000)
    raise failure or RequestTimedOut(
        f"no answer within {properties.default_api_timeout_ms} ms (default.api.timeout.ms)"
    )
