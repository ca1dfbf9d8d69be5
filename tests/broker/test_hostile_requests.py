"""Requests that no client sends: each is answered or ends its connection, and the broker goes on.

`scripts/soak hostile` sends a million of them, and measures what other clients notice.
"""

from __future__ import annotations

import itertools

import pytest
import trio
from generated_requests import There
from hostile_requests import hostile_requests, versions_of
from running_broker import Running

from offsetfs.protocol import messages as m
from offsetfs.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit

COUNT = 100
SECONDS = 0.01
"""How long a response is waited for: some requests wait for records or for members."""


@pytest.mark.expect_log("connection closed")
@pytest.mark.parametrize("seed", range(3))
async def test_hostile_requests_are_answered_or_end_their_connection(running: Running, seed: int) -> None:
    """A handler that fails is logged as an error, which fails this test."""
    asked = m.ApiVersionsRequest("test", "1")
    versions = versions_of(await running.send(18, "ApiVersions", 3, asked))
    requests = hostile_requests(versions, There(bytes(range(16)), "member", 1, 5, 0), seed)
    for data in itertools.islice(requests, COUNT):
        stream = await trio.open_tcp_stream(*running.address)
        async with stream:
            await stream.send_all(len(data).to_bytes(4, "big") + data)
            with trio.move_on_after(SECONDS):
                await stream.receive_some()
    assert (await running.send(18, "ApiVersions", 3, asked)).error_code == ErrorCode.NONE
