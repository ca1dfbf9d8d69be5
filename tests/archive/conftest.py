"""A real S3 server for the tests of archives, one for each worker."""

from collections.abc import Iterator

import pytest
import s3_faults
import s3_server
from s3_faults import S3Faults
from s3_server import S3Server

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
