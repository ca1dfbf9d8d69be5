"""Requests that a broker does not offer: what Kafka 4.4 and `serve` do with them, and with the connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from fixtures.broker.overtaking import received
from fixtures.broker.running import decoded, framed
from fixtures.broker.served import CLUSTERS, Cluster, served
from fixtures.kafka.broker import KafkaBroker

from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.interop

SECONDS_MAX = 60

KNOWN = framed(18, "ApiVersions", 3, m.ApiVersionsRequest("test", "1"))

VOTE, BEGIN_QUORUM_EPOCH, ALTER_CLIENT_QUOTAS, UNKNOWN = 52, 53, 49, 999
"""Keys of APIs."""

NOT_OFFERED = {
    "kafka": (VOTE, BEGIN_QUORUM_EPOCH, UNKNOWN),
    "offsetfs": (VOTE, BEGIN_QUORUM_EPOCH, UNKNOWN, ALTER_CLIENT_QUOTAS),
}
"""Those that each of them does not have."""


@pytest.fixture(scope="module", params=CLUSTERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    if request.param == "kafka":
        with KafkaBroker(folder) as kafka:
            yield Cluster("kafka", kafka.address)
        return
    with served(folder, reports="which was not offered") as broker:
        yield broker


def connected(cluster: Cluster) -> socket.socket:
    host, port = cluster.address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), SECONDS_MAX)


def changed(request: bytes, *, key: int | None = None, version: int | None = None) -> bytes:
    """Return a request with another key or version in its header."""
    found = bytearray(request)
    if key is not None:
        found[4:6] = key.to_bytes(2, "big")
    if version is not None:
        found[6:8] = version.to_bytes(2, "big")
    return bytes(found)


def is_closed(cluster: Cluster, request: bytes) -> bool:
    """Whether a request ends its connection without an answer."""
    with connected(cluster) as peer:
        peer.sendall(KNOWN)
        received(peer)
        peer.sendall(request)
        try:
            return not peer.recv(1)
        except ConnectionResetError:
            return True


def test_an_api_that_is_not_offered_ends_the_connection(cluster: Cluster) -> None:
    for key in NOT_OFFERED[cluster.name]:
        assert is_closed(cluster, changed(KNOWN, key=key, version=0)), key


def test_a_version_that_is_not_offered_ends_the_connection(cluster: Cluster) -> None:
    metadata = framed(3, "Metadata", 12, m.MetadataRequest([], False))
    assert is_closed(cluster, changed(metadata, version=99))


def test_a_later_version_of_api_versions_is_answered_and_the_connection_stays(cluster: Cluster) -> None:
    with connected(cluster) as peer:
        peer.sendall(changed(KNOWN, version=99))
        found = decoded(18, "ApiVersions", 0, received(peer))
        assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert any(each.api_key == 18 for each in found.api_keys)
        peer.sendall(KNOWN)
        assert decoded(18, "ApiVersions", 3, received(peer)).error_code == ErrorCode.NONE
