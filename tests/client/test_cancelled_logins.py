"""A request that is cancelled while its connection logs in again."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing
from fixtures.broker.running import Running

from offsetfs.kafka.client.cluster import ClusterClient, NodeKind
from offsetfs.kafka.client.sasl import Ask
from offsetfs.kafka.protocol import messages as m

pytestmark = pytest.mark.unit


async def endless_login(_: Ask) -> int:
    await trio.sleep(60)
    return 0


async def test_the_connection_ends_and_the_next_request_has_another_one(running: Running) -> None:
    async with ClusterClient([running.address]) as client:
        first = await client.connection(NodeKind.ANY)
        first._login, first._login_again_s = endless_login, -math.inf
        async with trio.open_nursery() as asking:
            asking.start_soon(first.request, m.ListGroupsRequest())
            await trio.testing.wait_all_tasks_blocked()
            asking.cancel_scope.cancel()
        assert not first.is_open
        second = await client.connection(NodeKind.ANY)
        assert (await second.request(m.ListGroupsRequest())).error_code == 0
