"""The broker of one log directory: its connections, and their end."""

from __future__ import annotations

import errno
import logging
import math
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from offsetfs.common.threads import in_thread
from offsetfs.kafka.broker.apis import BrokerParts, Dispatcher, apis
from offsetfs.kafka.broker.cluster import BrokerNode
from offsetfs.kafka.broker.connections.closed_peers import ClosedPeers
from offsetfs.kafka.broker.connections.connection import Connection, Shared
from offsetfs.kafka.broker.connections.idle_connections import (
    end_idle_connections,
    end_stalled_requests,
    end_unread_responses,
)
from offsetfs.kafka.broker.connections.listeners import ADVERTISED, Listener
from offsetfs.kafka.broker.connections.request_limits import RareLines, ReceiveBuffers, RequestLimits
from offsetfs.kafka.broker.groups.group_coordinator import GroupCoordinator
from offsetfs.kafka.broker.listener_settings import ListenerSettings
from offsetfs.kafka.broker.log_sync import LogSync
from offsetfs.kafka.broker.metrics import BrokerMetrics
from offsetfs.kafka.broker.report import BrokerReporter
from offsetfs.kafka.broker.settings import ServerSettings
from offsetfs.kafka.broker.tls.tls_context import reload_changed
from offsetfs.kafka.broker.topics.partitions import Topics
from offsetfs.kafka.broker.transactions.transaction_coordinator import TransactionCoordinator
from offsetfs.storage import LogDirectory
from offsetfs.storage.directory import cluster_id_of
from offsetfs.storage.errors import counted
from offsetfs.storage.security import ScramCredential, SecurityStore

if TYPE_CHECKING:
    from offsetfs.kafka.broker.authorization.authorizer import Authorizer
    from offsetfs.kafka.broker.sasl.logins import Logins

_log = logging.getLogger(__name__)

_CLUSTER_CHECK_S = 1.0

UNREAD_PART = 4
"""Responses that clients do not read may take this part of `queued.max.request.bytes`."""

ACCEPTED_MAX = 16
"""Clients that are accepted in one pass of the event loop, at most: each pass takes as long as the call."""

DRAIN_S = 5.0
"""The time that requests in progress have when the broker ends."""


class Broker:
    """Serves one open log directory."""

    def __init__(self, directory: LogDirectory, settings: ServerSettings, listeners: Sequence[Listener]) -> None:
        """Let clients connect to `listeners`, which `run` closes; ListenError, `StorageError`, OSError."""
        self._directory = directory
        self._settings = settings
        # Before a client can connect: a broker that cannot read its ACLs or its keys must not start.
        self._security = directory.security
        self._logins = logins_of((listener.settings for listener in listeners), self._security)
        authorizer = _authorizer(settings, self._security)
        self._listeners = [(listener.listen(), listener) for listener in listeners]
        host, port = listeners[0].advertised
        self._topics = topics = Topics(directory, settings.num_partitions, creates=settings.auto_create_topics_enable)
        node = BrokerNode(settings.node_id, cluster_id_of(directory.path), host, port)
        syncs = LogSync(waits=settings.acks_all == "disk")
        self._groups = GroupCoordinator(topics, node, settings, syncs)
        self._transactions = TransactionCoordinator(directory, self._groups, settings, syncs)
        # A mount of the directory, and commands beside the broker, delete topics, too.
        topics.changes.subscribe(self._groups.offsets.changed)
        self._metrics = BrokerMetrics()
        self.reporter = BrokerReporter(directory, self._metrics, self._groups.snapshot)
        parts = BrokerParts(
            topics,
            node,
            self._groups,
            self._transactions,
            self._security,
            authorizer,
            settings,
            syncs,
            self._metrics,
        )
        self._apis = apis(parts)
        self._closed_peers = ClosedPeers()
        limits = RequestLimits(settings.queued_max_requests, settings.queued_max_request_bytes)
        self._shared = Shared(
            self._apis,
            Dispatcher(topics, authorizer).answer,
            settings,
            limits,
            ReceiveBuffers(),
            self._closed_peers,
            self._metrics,
            RareLines(),
        )
        self._accepting = trio.CancelScope()
        self._idle_s = math.inf if settings.connections_max_idle_ms < 0 else settings.connections_max_idle_ms / 1000
        self._serving = trio.CancelScope()
        self._connections: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._refusals = RareLines()
        self._is_stopping = False

    async def run(self) -> None:
        """Accept connections and answer requests until `stop`. The caller runs the directory's background tasks."""
        try:
            async with trio.open_nursery() as background:
                self._start_background(background)
                with self._serving:
                    async with trio.open_nursery() as connections:
                        await self._accept_all(connections)
                background.cancel_scope.cancel()
        finally:
            self._closed_peers.close()

    def _start_background(self, nursery: trio.Nursery) -> None:
        """Start the tasks that run as long as clients are served."""
        nursery.start_soon(self._groups.run)
        nursery.start_soon(self._transactions.run)
        nursery.start_soon(self._topics.load)
        nursery.start_soon(self._metrics.watch_event_loop)
        nursery.start_soon(self._closed_peers.run)
        nursery.start_soon(self._follow_cluster)
        nursery.start_soon(
            reload_changed, [listener.tls for _, listener in self._listeners if listener.tls is not None]
        )
        nursery.start_soon(end_idle_connections, self._connections, self._idle_s)
        nursery.start_soon(end_stalled_requests, self._connections, self._shared.limits)
        if self._settings.queued_max_request_bytes >= 0:
            unread_bytes_max = self._settings.queued_max_request_bytes // UNREAD_PART
            nursery.start_soon(end_unread_responses, self._connections, unread_bytes_max)

    async def _accept_all(self, connections: trio.Nursery) -> None:
        """Accept clients of all listeners until `stop`; their connections are tasks of `connections`."""
        with self._accepting:
            async with trio.open_nursery() as listeners:
                for accepting, listener in self._listeners:
                    listeners.start_soon(self._accept, accepting, listener, connections)

    async def _follow_cluster(self) -> None:
        """Take over the credentials and ACLs that a controller of the cluster writes meanwhile."""
        problem = None
        while self._security.follows_cluster:
            await in_thread(self._security.refresh)
            before, problem = problem, self._security.problem
            if problem is not None and str(problem) != str(before):
                _log.error("credentials and ACLs of the cluster cannot be read; the last ones apply: %s", problem)
            await trio.sleep(_CLUSTER_CHECK_S)

    def stop(self) -> None:
        """Accept nothing more; end connections when they have been answered, after `DRAIN_S` at the latest."""
        self._is_stopping = True
        self._accepting.cancel()
        self._serving.deadline = trio.current_time() + DRAIN_S
        self._topics.close()
        for connection in self._connections:
            connection.drain()

    async def _accept(self, accepting: socket.socket, listener: Listener, connections: trio.Nursery) -> None:
        ADVERTISED.set(listener.advertised)  # the tasks of its connections inherit it
        with accepting:
            await self._accept_from(accepting, listener, connections)

    async def _accept_from(self, accepting: socket.socket, listener: Listener, connections: trio.Nursery) -> None:
        while not self._is_stopping:  # the socket may be closed by then
            await trio.lowlevel.wait_readable(accepting)
            for _ in range(ACCEPTED_MAX):
                if not await self._accept_one(accepting, listener, connections):
                    break

    async def _accept_one(self, accepting: socket.socket, listener: Listener, connections: trio.Nursery) -> bool:
        """Accept the next client; return whether further clients may wait."""
        try:
            peer, address = accepting.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            remedy = "; raise the limit of open files (ulimit -n)" if error.errno == errno.EMFILE else ""
            _log.error("a connection could not be accepted: %s%s", error.strerror, remedy)
            await trio.sleep(0.1)  # at the limit of open files every accept fails at once
            return False
        host = str(address[0])
        limit = self._limit_reached(host)
        if limit is not None:
            if count := self._refusals.count():
                refused = counted(count, "connection")
                _log.warning("%s refused, the last one from %s: %s", refused, host, limit)
            self._metrics.connections_refused += 1
            peer.close()
            return True
        # Counted before the task begins: several connections may be accepted before it runs.
        connection = self._connection(peer, listener)
        self._connections.add(connection)
        self._addresses[host] += 1
        connections.start_soon(self._serve, connection, host)
        return True

    def _connection(self, peer: socket.socket, listener: Listener) -> Connection:
        logins = self._logins.get(listener.settings.name)
        if logins is None:
            return Connection(peer, self._shared, listener)
        # A tenth of the imports of a broker without SASL.
        from offsetfs.kafka.broker.connections.authenticated_connection import AuthenticatedConnection

        return AuthenticatedConnection(peer, self._shared, listener, logins)

    def _limit_reached(self, host: str) -> str | None:
        """Return the setting that forbids another connection of `host`, with its value."""
        settings = self._settings
        if len(self._connections) >= settings.max_connections:
            return f"max.connections is {settings.max_connections}"
        if self._addresses[host] >= settings.max_connections_per_ip:
            return f"max.connections.per.ip is {settings.max_connections_per_ip}"
        return None

    async def _serve(self, connection: Connection, host: str) -> None:
        if self._is_stopping:  # accepted just before `stop`, which did not see it
            connection.drain()
        self._metrics.connections_accepted += 1
        self._metrics.connections = len(self._connections)
        try:
            await connection.serve()
        except Exception:
            _log.exception("a request failed; its connection was closed")
        finally:
            self._connections.remove(connection)
            self._addresses[host] -= 1
            if not self._addresses[host]:
                del self._addresses[host]
            self._metrics.connections = len(self._connections)


def _authorizer(settings: ServerSettings, security: SecurityStore) -> Authorizer | None:
    """Return the authorizer that the settings name; `StorageError` if the ACLs of the cluster cannot be read."""
    if not settings.authorizer_class_name:
        return None
    # Imported here, because a broker without an authorizer does without.
    from offsetfs.kafka.broker.authorization.authorizer import Authorizer

    if security.problem is not None:
        raise security.problem
    allows_without_acl = settings.allow_everyone_if_no_acl_found
    authorizer = Authorizer(security.image, settings.super_users, allows_without_acl=allows_without_acl)
    security.subscribe(authorizer.update)
    return authorizer


def logins_of(listeners: Iterable[ListenerSettings], security: SecurityStore) -> Mapping[str, Logins]:
    """Return what the clients of each listener with SASL log in with, by its name; InvalidConfig."""
    with_sasl = {listener.name: listener for listener in listeners if listener.protocol.has_sasl}
    if not with_sasl:
        return {}
    # Imported here, because a broker without SASL does without all of it.
    from offsetfs.common.security.scram_keys import ScramMechanism
    from offsetfs.kafka.broker.sasl.logins import Logins
    from offsetfs.kafka.broker.sasl.sasl_settings import sasl_settings
    from offsetfs.kafka.broker.sasl.scram_credentials import UnknownUsers

    def find(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return security.image.credentials.get((user, mechanism.value))

    unknown_users = UnknownUsers(security.login_secret(), lambda: security.image.credentials)
    return {name: Logins(sasl_settings(listener), find, unknown_users) for name, listener in with_sasl.items()}
