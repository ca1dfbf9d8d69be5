"""The cluster id that clients are given: that of the directory, so that a mirror can tell two sources apart."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import trio
from fixtures.broker.running import Running

from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory

pytestmark = pytest.mark.unit


async def ids(path: Path, nursery: trio.Nursery) -> set[str]:
    """Return the cluster ids in the responses of a broker."""
    with contextlib.closing(LogDirectory.open(str(path))) as directory:
        running = Running(directory)
        nursery.start_soon(running.run)
        metadata = await running.send(3, "Metadata", 12, m.MetadataRequest([]))
        cluster = await running.send(60, "DescribeCluster", 1, m.DescribeClusterRequest())
        running.broker.stop()
    return {metadata.cluster_id, cluster.cluster_id}


async def test_a_directory_of_a_broker_is_served_with_the_id_of_its_cluster(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\nnode.id=3\n")
    assert await ids(tmp_path, nursery) == {"4L6g3nShT-eMCtK--X86sw"}


@pytest.mark.damages
@pytest.mark.parametrize("properties", [None, "version=1\nnode.id=3\n", "no property"])
async def test_directories_without_a_cluster_id_are_told_apart(
    tmp_path: Path, nursery: trio.Nursery, properties: str | None
) -> None:
    found = list[str]()
    for name in ("a", "b", "a"):
        path = tmp_path / name
        path.mkdir(exist_ok=True)
        if properties is not None:
            (path / "meta.properties").write_text(properties)
        found += await ids(path, nursery)
    assert len(found) == 3 and found[0] == found[2] != found[1]
