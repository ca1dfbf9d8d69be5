"""The broker of one log directory: its connections, and their end."""

from __future__ import annotations

import logging

import trio

from offsetfs.broker.apis import apis
from offsetfs.broker.cluster import BrokerNode
from offsetfs.broker.connection import Connection
from offsetfs.broker.group_coordinator import GroupCoordinator
from offsetfs.broker.metrics import BrokerMetrics
from offsetfs.broker.partitions import Topics
from offsetfs.broker.report import BrokerReporter
from offsetfs.broker.settings import ServerSettings
from offsetfs.storage import LogDirectory

_log = logging.getLogger(__name__)

DRAIN_S = 5.0
"""How long requests that are being answered may take when the broker ends."""


class Broker:
    """Serves one open log directory on sockets that listen already."""

    def __init__(
        self, directory: LogDirectory, settings: ServerSettings, sockets: list[trio.socket.SocketType]
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._sockets = sockets
        host, port = settings.advertised or sockets[0].getsockname()[:2]
        self._topics = topics = Topics(directory, settings.num_partitions, creates=settings.auto_create_topics_enable)
        node = BrokerNode(settings.node_id, settings.cluster_id, host, port)
        self._groups = GroupCoordinator(directory, node, settings)
        self._metrics = BrokerMetrics()
        self.reporter = BrokerReporter(directory, self._metrics, self._groups.snapshot)
        self._apis = {each.key: each for each in apis(topics, node, self._groups, settings, self._metrics)}
        self._accepting = trio.CancelScope()
        self._serving = trio.CancelScope()
        self._connections: set[Connection] = set()
        self._is_stopping = False

    async def run(self) -> None:
        """Accept connections and answer requests until `stop`. The caller runs the directory's background tasks."""
        async with trio.open_nursery() as background:
            background.start_soon(self._groups.run)
            background.start_soon(self._metrics.watch_event_loop)
            with self._serving:
                async with trio.open_nursery() as connections:
                    with self._accepting:
                        async with trio.open_nursery() as listeners:
                            for each in self._sockets:
                                listeners.start_soon(self._accept, each, connections)
            background.cancel_scope.cancel()

    def stop(self) -> None:
        """Accept nothing more; end connections when they have been answered, after `DRAIN_S` at the latest."""
        self._is_stopping = True
        self._accepting.cancel()
        self._serving.deadline = trio.current_time() + DRAIN_S
        self._topics.close()
        for each in self._connections:
            each.drain()

    async def _accept(self, listener: trio.socket.SocketType, connections: trio.Nursery) -> None:
        while True:
            try:
                peer, _ = await listener.accept()
            except OSError as error:
                _log.error("a connection could not be accepted: %s", error)
                await trio.sleep(0.1)  # at the limit of open files every accept fails at once
                continue
            if len(self._connections) >= self._settings.max_connections:
                _log.warning("connection refused: max.connections is %d", self._settings.max_connections)
                self._metrics.connections_refused += 1
                peer.close()
                continue
            connections.start_soon(self._serve, peer)

    async def _serve(self, peer: trio.socket.SocketType) -> None:
        connection = Connection(peer, self._apis, self._settings.socket_request_max_bytes, self._metrics)
        if self._is_stopping:  # accepted just before `stop`, which did not see it
            connection.drain()
        self._connections.add(connection)
        self._metrics.connections_accepted += 1
        self._metrics.connections = len(self._connections)
        try:
            await connection.serve()
        except Exception:
            _log.exception("a request failed; its connection was closed")
        finally:
            self._connections.remove(connection)
            self._metrics.connections = len(self._connections)
