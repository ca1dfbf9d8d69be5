"""Batches in framings that few writers use are records like others: in a mount, for SQL, Arrow and clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from fixtures.broker.running import Running
from fixtures.logs.golden_framings import LOGS, plant_framings, values_of_framing

import offsetfs
from offsetfs.fs.mounting.in_process_tree import run
from offsetfs.fs.mounting.path_tree import Tree
from offsetfs.fs.options import MountOptions
from offsetfs.kafka.protocol import messages as m
from offsetfs.storage import LogDirectory
from offsetfs.tables.sql.session import SqlSession

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plant_framings(tmp_path_factory.mktemp("logs"))


async def read(tree: Tree, path: str) -> bytes:
    async with tree.open(path) as file:
        return bytes(await file.read(0, 1 << 20))


def test_a_mount_shows_their_values_and_each_record(logs: Path) -> None:
    async def look(tree: Tree) -> None:
        for topic in LOGS:
            values = values_of_framing(topic)
            assert await read(tree, f"{topic}-0/values") == b"".join((each or b"") + b"\n" for each in values), topic
            for offset in (0, 31, 59):
                assert await read(tree, f"{topic}-0/{offset}") == values[offset], topic
        assert not tree.errors() and not tree.has_met_damage

    run(LogDirectory.open(str(logs), read_only=True), MountOptions.parse(["ro"]), look)


def test_sql_and_the_library_read_their_records(logs: Path) -> None:
    directory = LogDirectory.open(str(logs), read_only=True)
    with SqlSession(directory) as session, offsetfs.open(logs) as data:
        for topic in LOGS:
            rows: Any = session.run(f'SELECT value FROM "{topic}" ORDER BY "offset"').rows
            assert [row[0] for row in rows] == values_of_framing(topic), topic
            (partition,) = data.partitions(topic)
            assert [each.value for each in partition.read()] == values_of_framing(topic), topic
    directory.close()


async def test_clients_get_their_bytes_as_they_are_stored(logs: Path) -> None:
    directory = LogDirectory.open(str(logs), read_only=True)
    running = Running(directory)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run)
        for topic, log in LOGS.items():
            wanted = m.FetchRequestFetchPartition(0, fetch_offset=31, partition_max_bytes=1 << 20)
            topics = [m.FetchRequestFetchTopic(topic, partitions=[wanted])]
            request = m.FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics)
            answer = (await running.send(1, "Fetch", 11, request)).responses[0].partitions[0]
            assert (answer.error_code, bytes(answer.records)) == (0, log.read_bytes()), topic
        running.broker.stop()
        nursery.cancel_scope.cancel()
    directory.close()
