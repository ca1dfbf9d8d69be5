"""The broker of one log directory: listeners, connections, maintenance, shutdown.

    listening ── connections ── SIGTERM, SIGINT → accept nothing more → answer what was read → flush → clean mark

After `serve` has returned, every acknowledged record is on disk and the directory is marked as cleanly closed, so that
a real broker opens it without recovery.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from offsetfs.broker.cluster import BrokerNode, Cluster
from offsetfs.broker.connection import Api, Client, Connection, Handle
from offsetfs.broker.fetch import Fetching
from offsetfs.broker.group_commit import GroupCommit
from offsetfs.broker.group_coordinator import GroupCoordinator
from offsetfs.broker.offsets import Offsets, ProducerIds
from offsetfs.broker.partitions import Topics
from offsetfs.broker.produce import Producing
from offsetfs.broker.topic_admin import TopicAdmin
from offsetfs.protocol.messages import JoinGroupRequest, JoinGroupResponse
from offsetfs.storage import LogDirectory
from offsetfs.storage.maintenance import BackgroundTasks, TaskQueue, TaskResult

_log = logging.getLogger(__name__)

POSTPONED_S = 10
"""How long background tasks wait after they could not be run."""

DRAIN_S = 5.0
"""How long requests that are being answered may take when the broker ends."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The settings of a broker, by Kafka's names and with Kafka's defaults but for `num_partitions`."""

    listeners: tuple[tuple[str, int], ...] = (("127.0.0.1", 9092),)
    """Addresses and ports; port 0 is any free one."""
    advertised: tuple[str, int] | None = None
    """The address that clients get; the first listener if None."""
    node_id: int = 1
    cluster_id: str = "offsetfs"
    num_partitions: int = 1
    auto_create_topics: bool = True
    socket_request_max_bytes: int = 100 << 20
    max_connections: int = 10_000


class ListenError(Exception):
    """A listener could not be opened; the message says why."""


Ready = Callable[[Sequence[tuple[str, int]]], None]
"""Called once connections are accepted, with the addresses and ports of the listeners."""


async def serve(directory: LogDirectory, options: BrokerOptions, ready: Ready) -> None:
    """Serve `directory` until SIGTERM or SIGINT; closes it. Raises ListenError, and OSError for a failed last flush."""
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            sockets = [_listen(host, port) for host, port in options.listeners]
            try:
                async with trio.open_nursery() as nursery:
                    broker = _Broker(directory, options, sockets)
                    nursery.start_soon(broker.run)
                    ready([each.getsockname()[:2] for each in sockets])
                    async for number in signals:
                        _log.info("%s: ending", signal.Signals(number).name)
                        break
                    broker.stop()
            finally:
                for each in sockets:
                    each.close()
    finally:
        directory.close()


def _listen(host: str, port: int) -> trio.socket.SocketType:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        reasons = {
            errno.EADDRINUSE: "another process listens on this port; choose one with --listen HOST:PORT",
            errno.EADDRNOTAVAIL: "this machine does not have this address",
            errno.EACCES: "ports below 1024 need root",
        }
        raise ListenError(f"{host}:{port}: {reasons.get(error.errno or 0, os.strerror(error.errno or 0))}") from error
    return trio.socket.from_stdlib_socket(listener)


class _Broker:
    def __init__(self, directory: LogDirectory, options: BrokerOptions, sockets: list[trio.socket.SocketType]) -> None:
        self._directory = directory
        self._options = options
        self._sockets = sockets
        host, port = options.advertised or sockets[0].getsockname()[:2]
        topics = Topics(directory, options.num_partitions, creates=options.auto_create_topics)
        node = BrokerNode(options.node_id, options.cluster_id, host, port)
        self._groups = GroupCoordinator(directory, node)
        self._apis = {each.key: each for each in _apis(topics, node, self._groups, options.num_partitions)}
        self._accepting = trio.CancelScope()
        self._serving = trio.CancelScope()
        self._tasks = [] if directory.read_only else [BackgroundTasks(directory, _log_result)]
        self._connections: set[Connection] = set()
        self._is_stopping = False

    async def run(self) -> None:
        async with trio.open_nursery() as background:
            for tasks in self._tasks:
                for queue in tasks.queues:
                    background.start_soon(_keep, queue, self._directory)
            background.start_soon(self._groups.run)
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
        for each in self._connections:
            each.drain()
        for tasks in self._tasks:
            tasks.cancel()

    async def _accept(self, listener: trio.socket.SocketType, connections: trio.Nursery) -> None:
        while True:
            try:
                peer, _ = await listener.accept()
            except OSError as error:
                _log.error("a connection could not be accepted: %s", error)
                await trio.sleep(0.1)  # at the limit of open files every accept fails at once
                continue
            if len(self._connections) >= self._options.max_connections:
                _log.warning("connection refused: max.connections is %d", self._options.max_connections)
                peer.close()
                continue
            connections.start_soon(self._serve, peer)

    async def _serve(self, peer: trio.socket.SocketType) -> None:
        connection = Connection(peer, self._apis, self._options.socket_request_max_bytes)
        if self._is_stopping:  # accepted just before `stop`, which did not see it
            connection.drain()
        self._connections.add(connection)
        try:
            await connection.serve()
        except Exception:
            _log.exception("a request failed; its connection was closed")
        finally:
            self._connections.remove(connection)


def _apis(topics: Topics, node: BrokerNode, groups: GroupCoordinator, num_partitions: int) -> list[Api]:
    admin = TopicAdmin(topics, num_partitions, node.node_id, groups.forget_topic)
    producing, fetching, offsets = Producing(topics, GroupCommit()), Fetching(topics), Offsets(topics)
    versions: dict[int, tuple[int, int]] = {}
    cluster = Cluster(topics, node, versions)

    async def join(request: JoinGroupRequest, version: int, client: Client) -> JoinGroupResponse:
        return await groups.join(request, version, client.client_id, client.host)

    apis = [
        Api(0, "Produce", 3, 13, _plain(producing.produce)),
        Api(1, "Fetch", 4, 17, _plain(fetching.fetch)),
        Api(2, "ListOffsets", 1, 10, _plain(offsets.list_offsets)),
        Api(3, "Metadata", 0, 13, _plain(cluster.metadata)),
        Api(8, "OffsetCommit", 2, 9, _plain(groups.commit)),
        Api(9, "OffsetFetch", 1, 9, _plain(groups.fetch_offsets)),
        Api(10, "FindCoordinator", 0, 6, _plain(groups.find)),
        Api(11, "JoinGroup", 0, 9, join),
        Api(12, "Heartbeat", 0, 4, _plain(groups.heartbeat)),
        Api(13, "LeaveGroup", 0, 5, _plain(groups.leave)),
        Api(14, "SyncGroup", 0, 5, _plain(groups.sync)),
        Api(15, "DescribeGroups", 0, 6, _plain(groups.describe)),
        Api(16, "ListGroups", 0, 5, _plain(groups.list)),
        Api(18, "ApiVersions", 0, 4, _plain(cluster.api_versions)),
        Api(19, "CreateTopics", 2, 7, _plain(admin.create_topics)),
        Api(20, "DeleteTopics", 1, 6, _plain(admin.delete_topics)),
        Api(21, "DeleteRecords", 0, 2, _plain(admin.delete_records)),
        Api(22, "InitProducerId", 0, 5, _plain(ProducerIds().init_producer_id)),
        Api(32, "DescribeConfigs", 1, 4, _plain(admin.describe_configs)),
        Api(33, "AlterConfigs", 0, 2, _plain(admin.alter_configs)),
        Api(37, "CreatePartitions", 0, 3, _plain(admin.create_partitions)),
        Api(42, "DeleteGroups", 0, 2, _plain(groups.delete)),
        Api(44, "IncrementalAlterConfigs", 0, 1, _plain(admin.incremental_alter_configs)),
        Api(47, "OffsetDelete", 0, 0, _plain(groups.delete_offsets)),
        Api(60, "DescribeCluster", 0, 1, _plain(cluster.describe_cluster)),
    ]
    versions.update({each.key: (each.first, each.last) for each in apis})
    return apis


def _plain(handle: Callable[[Any, int], Awaitable[Any]]) -> Handle:
    """Return `handle` for requests whose client does not matter."""
    return lambda request, version, client: handle(request, version)


async def _keep(queue: TaskQueue, directory: LogDirectory) -> None:
    """Run the tasks of a queue when they are due."""
    while True:
        seconds = queue.next_due() - directory.clock.monotonic()
        if seconds > 0:
            await trio.sleep(min(seconds, 3600) if seconds < math.inf else 3600)
            continue
        try:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(queue.run_due))
        except Exception:  # memory that lacks, or a bug: the broker goes on, and tries again
            _log.exception("background tasks are postponed by %d s", POSTPONED_S)
            await trio.sleep(POSTPONED_S)


def _log_result(done: TaskResult) -> None:
    if done.error is not None:
        _log.error("%s of %s failed: %s", done.task, done.partition, done.error)
