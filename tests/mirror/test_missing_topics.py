"""Topics that the metadata of the source does not have: deleted there, or hidden from a user without permissions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest
import trio
from fixtures.broker.changed_responses import change_responses
from fixtures.broker.running import Running

from offsetfs.common.name_patterns import NamePattern
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.mirror import timing
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import MirrorError, MirrorOptions
from offsetfs.kafka.mirror.status import status_of
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
ALL = MirrorOptions(once=True)
NEEDS = "TOPIC_AUTHORIZATION_FAILED: the user of --config needs READ and DESCRIBE of the topic"

Hide = Callable[[Collection[str]], None]


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Hide:
    """Hide topics as Kafka does without DESCRIBE: a list of all topics is without them, a request by name fails."""
    hidden = set[str]()

    def change(request: Any, response: Any) -> None:
        if not isinstance(request, m.MetadataRequest):
            return
        if request.topics is None:
            response.topics = [each for each in response.topics if each.name not in hidden]
        for each in response.topics:
            if each.name in hidden:
                each.error_code, each.partitions = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []

    def set_hidden(names: Collection[str]) -> None:
        hidden.clear()
        hidden.update(names)

    change_responses(monkeypatch, change)
    return set_hidden


async def mirrored(running: Running, directory: LogDirectory, options: MirrorOptions = ALL) -> tuple[list[str], bool]:
    """Mirror; return the events, and whether something could not be mirrored."""
    events = list[str]()
    async with ClusterClient([running.address]) as client:
        found = Mirror(directory, client, "source:9092", options, events.append)
        with trio.fail_after(30):
            await found.begin()
            await found.run()
    return events, found.has_failed


async def test_a_topic_whose_permission_was_lost_between_runs_is_an_error(
    hide: Hide, running: Running, directory: LogDirectory
) -> None:
    await mirrored(running, directory)
    hide({"orders"})
    assert await mirrored(running, directory) == ([f"orders: {NEEDS}"], True)
    others = MirrorOptions(topics=(NamePattern("users"),), once=True)
    assert await mirrored(running, directory, others) == ([], False)
    hide(())
    assert await mirrored(running, directory) == ([], False)


async def test_a_topic_that_was_deleted_between_runs_is_no_error(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    await mirrored(running, directory)
    source.delete_partition(TopicPartition("users", 0))
    assert await mirrored(running, directory) == ([], False)


@pytest.mark.parametrize("options", [ALL, MirrorOptions(needs_topic=True)])
async def test_a_cluster_without_a_visible_topic_is_an_error(
    options: MirrorOptions, hide: Hide, running: Running, directory: LogDirectory
) -> None:
    hide({"orders", "users"})
    with pytest.raises(
        MirrorError, match=r"no topic that this user may describe; .* has READ and DESCRIBE of the topics"
    ):
        await mirrored(running, directory, options)


async def test_topics_without_the_right_to_describe_do_not_count_as_deleted(
    hide: Hide, running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "REFRESH_S", 0.01)
    monkeypatch.setattr(timing, "MISSING_S", 0.0)
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        send, events = trio.open_memory_channel[str](10)
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(), send.send_nowait)
        await mirror.begin()
        nursery.start_soon(mirror.run)
        with trio.fail_after(10):
            hide({"orders"})
            assert await events.receive() == f"orders: {NEEDS}"
            assert status_of(mirror).failures == {"orders": NEEDS}
            hide(())
            while mirror.state.failures or mirror.state.partitions[ORDERS].is_stopped:
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def test_a_running_mirror_waits_for_the_first_topic_of_a_cluster(
    hide: Hide, running: Running, directory: LogDirectory
) -> None:
    hide({"orders", "users"})
    events = list[str]()
    async with ClusterClient([running.address]) as client:
        await Mirror(directory, client, "source:9092", MirrorOptions(), events.append).begin()
    assert events == ["the cluster has no topic that this user may describe; topics are mirrored as soon as they exist"]
