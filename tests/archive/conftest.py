"""Real servers of object storage for the tests of archives, one of each kind for each worker."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from fixtures.stores import cloud_servers, hdfs_cluster, s3_faults, s3_server
from fixtures.stores.cloud_servers import CloudServer
from fixtures.stores.hdfs_cluster import HdfsCluster
from fixtures.stores.s3_faults import S3Faults
from fixtures.stores.s3_server import S3Server

from offsetfs.archive.object_store import ObjectStore, StoreSettings


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    """A server with an empty bucket, shared by the tests of a worker."""
    with s3_server.running() as found:
        yield found


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server, named by the environment variables that every client reads."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def store(s3: S3Server, request: pytest.FixtureRequest) -> ObjectStore:
    """An empty place in the bucket, of this test alone."""
    return ObjectStore(f"s3://{s3_server.BUCKET}/{abs(hash(request.node.nodeid)):x}", StoreSettings(timeout_s=10))


@pytest.fixture(scope="session")
def proxy(server: S3Server) -> Iterator[S3Faults]:
    """The proxy that injects faults before the server."""
    with s3_faults.running(server) as found:
        yield found


@pytest.fixture
def faults(proxy: S3Faults, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Faults]:
    """The proxy without rules, in the place of the server, for this process and those that it starts."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    proxy.forget()
    yield proxy
    proxy.inject()
    proxy.slow_down(0, None)


@pytest.fixture(scope="session")
def hdfs() -> Iterator[HdfsCluster]:
    """HDFS, shared by the tests of a worker."""
    with hdfs_cluster.running() as found:
        yield found


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Callable[[str], CloudServer]]:
    """The server of a scheme: s3, gs, abfs or webhdfs; started when it is asked for first."""
    found: dict[str, CloudServer] = {}
    with contextlib.ExitStack() as stack:

        def of(scheme: str) -> CloudServer:
            if scheme == "s3":
                server: S3Server = request.getfixturevalue("server")
                return CloudServer("s3", server.endpoint, server.environment())
            if scheme == "webhdfs":
                hdfs: HdfsCluster = request.getfixturevalue("hdfs")
                return CloudServer("webhdfs", f"http://{hdfs.addresses[0]}", {"HADOOP_USER_NAME": hdfs.user})
            if scheme not in found:
                found[scheme] = stack.enter_context(cloud_servers.SERVERS[scheme]())
            return found[scheme]

        yield of


@pytest.fixture(params=["s3", "gs", "abfs", "webhdfs"])
def cloud(
    servers: Callable[[str], CloudServer], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> CloudServer:
    """Each server, named by the environment variables that its clients read."""
    found = servers(request.param)
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    return found


@pytest.fixture
def cloud_store(cloud: CloudServer, request: pytest.FixtureRequest) -> ObjectStore:
    """An empty place in the bucket of each server, of this test alone."""
    return ObjectStore(cloud.url(f"{abs(hash(request.node.nodeid)):x}"), StoreSettings(timeout_s=10))
