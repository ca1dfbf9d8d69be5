"""How fast a broker sends a partition to a client that throws the bytes away: the floor of `mirror`.

    python fetch_floor.py HOST:PORT TOPIC BYTES CONNECTIONS

The requests are those of `offsetfs mirror`: one at a time for each connection, for at most BYTES from the offset behind
the last response on. Several connections share the offsets of partition 0 in equal ranges. Prints the seconds from the
first request to the last response, and the bytes that were received.
"""

from __future__ import annotations

import itertools
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent.parent / "tests"))
from fixtures.broker.running import decoded, framed

from offsetfs.kafka.protocol import messages as m
from offsetfs.storage.records import last_whole_batch

FETCH, LIST_OFFSETS = 1, 2
FETCH_VERSION, LIST_OFFSETS_VERSION = 12, 5
WAIT_MS = 500
LATEST = -1


class Fetcher:
    """A connection to one broker, and its buffer."""

    def __init__(self, address: str, topic: str, bytes_max: int) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._topic = topic
        self._bytes_max = bytes_max
        self._buffer = bytearray(2 * bytes_max)
        self.received = 0

    def end(self) -> int:
        """Return the end of partition 0."""
        partition = m.ListOffsetsPartition(0, current_leader_epoch=-1, timestamp=LATEST)
        topic = m.ListOffsetsTopic(self._topic, [partition])
        request = m.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[topic])
        response = self._call(LIST_OFFSETS, "ListOffsets", LIST_OFFSETS_VERSION, request)
        return int(response.topics[0].partitions[0].offset)

    def fetch(self, begin: int, end: int) -> None:
        """Receive the batches from `begin` to `end`."""
        for response in self._responses(begin, end):
            assert not response.error_code and not response.responses[0].partitions[0].error_code, response

    def _responses(self, offset: int, end: int) -> Iterator[Any]:
        while offset < end:
            partition = m.FetchRequestFetchPartition(
                partition=0,
                current_leader_epoch=-1,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=self._bytes_max,
            )
            request = m.FetchRequest(
                replica_id=-1,
                max_wait_ms=WAIT_MS,
                min_bytes=1,
                max_bytes=self._bytes_max,
                session_id=0,
                session_epoch=-1,
                topics=[m.FetchRequestFetchTopic(self._topic, bytes(16), [partition])],
            )
            response = self._call(FETCH, "Fetch", FETCH_VERSION, request)
            records = memoryview(response.responses[0].partitions[0].records)
            last = last_whole_batch(records)
            assert last is not None, f"no whole batch at offset {offset}"
            offset = last.next_offset
            self.received += len(records)
            yield response

    def _call(self, key: int, name: str, version: int, request: Any) -> Any:
        self._socket.sendall(framed(key, name, version, request))
        return decoded(key, name, version, self._received())  # type: ignore[arg-type]  # a view: nothing is copied

    def _received(self) -> memoryview:
        size = int.from_bytes(self._filled(4), "big")
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        return self._filled(size)

    def _filled(self, size: int) -> memoryview:
        view, position = memoryview(self._buffer), 0
        while position < size:
            count = self._socket.recv_into(view[position:size])
            assert count, "the broker closed the connection"
            position += count
        return view[:size]


def main(address: str, topic: str, bytes_max: int, connections: int) -> None:
    fetchers = [Fetcher(address, topic, bytes_max) for _ in range(connections)]
    end = fetchers[0].end()
    bounds = [end * number // connections for number in range(connections + 1)]
    threads = [
        threading.Thread(target=each.fetch, args=range_of)
        for each, range_of in zip(fetchers, itertools.pairwise(bounds), strict=True)
    ]
    began = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(time.perf_counter() - began, sum(each.received for each in fetchers))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
