"""Settings of topics: taken over, followed, and unknown without the permission to describe them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
from fixtures.broker.changed_responses import change_responses
from fixtures.broker.running import Running
from fixtures.logs.findings import findings_of
from fixtures.logs.keyed_logs import Keyed, keyed

from offsetfs.common.name_patterns import NamePattern
from offsetfs.kafka.broker.topics.configs import SETTINGS_MAX
from offsetfs.kafka.client import metadata
from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.mirror import timing, topics
from offsetfs.kafka.mirror.mirror import Mirror
from offsetfs.kafka.mirror.options import MirrorOptions
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.protocol.error_codes import ErrorCode
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.settings import TOPIC_SETTING_NAMES

pytestmark = pytest.mark.unit

ORDERS = TopicPartition("orders", 0)
ONCE = MirrorOptions(topics=(NamePattern("orders|users"),), once=True)
ARCHIVE = MirrorOptions(topics=(NamePattern("orders|users"),), once=True, keep=True)


async def mirrored(running: Running, directory: LogDirectory, options: MirrorOptions = ONCE) -> list[str]:
    """Mirror up to the ends of the source; return the events."""
    events = list[str]()
    async with ClusterClient([running.address]) as client:
        with trio.fail_after(30):
            await Mirror(directory, client, "source:9092", options, events.append).run()
    return events


BEFORE = {"segment.bytes": "5000", "max.message.bytes": "7000", "min.compaction.lag.ms": "5", "retention.ms": "1000"}
AFTER = {
    "segment.bytes": "6000",
    "max.message.bytes": None,
    "message.timestamp.type": "LogAppendTime",
    "retention.ms": "2000",
    "retention.bytes": "100000",
}
IN_EFFECT = {"segment.bytes": "6000", "min.compaction.lag.ms": "5", "message.timestamp.type": "LogAppendTime"}
NEVER = {"retention.ms": "-1", "retention.bytes": "-1"}


async def test_settings_that_change_at_the_source_are_followed(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.configure("orders", BEFORE)
    await mirrored(running, directory)
    source.configure("orders", AFTER)
    assert await mirrored(running, directory) == [
        "orders: changed at the source, and here: max.message.bytes removed, message.timestamp.type = LogAppendTime, "
        "segment.bytes = 6000"
    ]
    assert directory.settings_of("orders") == IN_EFFECT | NEVER
    assert directory.mirror is not None
    recorded = dict(directory.mirror.topics["orders"].settings)
    assert recorded == IN_EFFECT | {"retention.ms": "2000", "retention.bytes": "100000"}
    assert await mirrored(running, directory) == []


async def test_settings_are_followed_while_the_mirror_runs(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "REFRESH_S", 0.01)
    monkeypatch.setattr(timing, "SETTINGS_S", 0.01)
    async with ClusterClient([running.address]) as client, trio.open_nursery() as nursery:
        send, events = trio.open_memory_channel[str](10)
        mirror = Mirror(directory, client, "source:9092", MirrorOptions(topics=ONCE.topics), send.send_nowait)
        await mirror.begin()
        nursery.start_soon(mirror.run)
        with trio.fail_after(10):
            for text in ("5000", "6000"):
                source.configure("orders", {"segment.bytes": text})
                assert await events.receive() == f"orders: changed at the source, and here: segment.bytes = {text}"
                assert directory.config_of("orders").segment_bytes == int(text)
        nursery.cancel_scope.cancel()


async def test_an_archive_follows_settings_without_the_cleanup_policy(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    await mirrored(running, directory, ARCHIVE)
    source.configure("orders", {"segment.bytes": "5000", "cleanup.policy": "compact"})
    assert await mirrored(running, directory, ARCHIVE) == [
        "orders: changed at the source, and here: segment.bytes = 5000"
    ]
    assert directory.settings_of("orders") == NEVER | {"segment.bytes": "5000", "cleanup.policy": "delete"}


async def test_settings_that_the_user_has_set_in_the_mirror_stay(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.configure("orders", {"segment.bytes": "5000", "segment.ms": "70000"})
    await mirrored(running, directory)
    directory.configure("orders", {"segment.bytes": "5500", "max.message.bytes": "9000"})
    source.configure("orders", {"segment.bytes": "6000", "segment.ms": None, "max.message.bytes": "7000"})
    assert await mirrored(running, directory) == [
        "orders: changed at the source, and here: segment.ms removed",
        "orders: changed at the source, but set by hand here, and not changed: max.message.bytes, segment.bytes",
    ]
    assert directory.settings_of("orders") == NEVER | {"segment.bytes": "5500", "max.message.bytes": "9000"}
    assert await mirrored(running, directory) == []


async def test_a_change_that_a_kill_left_without_its_record_is_repeated(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.configure("orders", {"segment.bytes": "5000"})
    await mirrored(running, directory)
    source.configure("orders", {"segment.bytes": "6000"})
    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "set_mirror", _kill)
        with pytest.raises(_Killed):
            await mirrored(running, directory)
    assert await mirrored(running, directory) == []
    source.configure("orders", {"segment.bytes": "7000"})
    await mirrored(running, directory)
    assert directory.config_of("orders").segment_bytes == 7000


class _Killed(BaseException):
    """The end of the process."""


def _kill(*_: object) -> None:
    raise _Killed


async def test_contradicting_settings_are_reported_and_the_policy_is_followed(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.configure("orders", {"cleanup.policy": "compact"})
    await mirrored(running, directory)
    directory.configure("orders", {"max.compaction.lag.ms": "10"})
    source.configure("orders", {"min.compaction.lag.ms": "20", "cleanup.policy": None})
    events = await mirrored(running, directory)
    assert len(events) == 2
    assert events[0].startswith("orders: settings that changed at the source are not taken over: ")
    assert "min.compaction.lag.ms 20 is above max.compaction.lag.ms 10" in events[0]
    assert events[1] == "orders: changed at the source, and here: cleanup.policy removed"
    assert directory.settings_of("orders") == NEVER | {"max.compaction.lag.ms": "10"}


async def test_an_unknown_setting_of_the_source_is_recorded_and_has_no_effect(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mirrored(running, directory)
    returned = {"segment.lunar.phase": "3", "segment.bytes": "many"}
    monkeypatch.setattr(topics, "own_settings", lambda each: returned)
    assert await mirrored(running, directory) == []
    assert directory.settings_of("orders") == NEVER
    assert directory.mirror is not None and directory.mirror.topics["orders"].settings == returned


async def test_a_retention_that_is_given_counts_for_topics_that_are_here_already(
    running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    await mirrored(running, directory)
    options = MirrorOptions(topics=ONCE.topics, once=True, settings={"retention.ms": "86400000"})
    assert await mirrored(running, directory, options) == []
    assert directory.config_of("orders").retention_ms == 86_400_000
    source.configure("orders", {"retention.ms": "1000"})
    assert await mirrored(running, directory) == []  # without the option it stays as it is
    assert directory.config_of("orders").retention_ms == 86_400_000


async def test_settings_of_many_topics_are_asked_for_in_several_requests(
    running: Running, source: LogDirectory, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker may bound a response: `serve` does at 100,000 settings."""
    asked = list[list[str]]()

    def note(request: Any, _response: Any) -> None:
        if isinstance(request, m.DescribeConfigsRequest):
            asked.append([each.resource_name for each in request.resources])

    monkeypatch.setattr(metadata, "DESCRIBED_MAX", 1)
    change_responses(monkeypatch, note)
    for name in ("orders", "users"):
        source.configure(name, BEFORE)
    assert await mirrored(running, directory) == []
    assert asked == [["orders"], ["users"]]
    assert all(directory.config_of(name).segment_bytes == 5000 for name in ("orders", "users"))


def test_a_request_for_settings_stays_below_the_limit_of_serve() -> None:
    requests = metadata.settings_requests(f"t{number}" for number in range(2501))
    sizes = [len(each.resources) for each in requests]
    assert max(sizes) * len(TOPIC_SETTING_NAMES) < SETTINGS_MAX / 2
    assert sum(sizes) == 2501 and list(metadata.settings_requests([])) == []


# --- without DESCRIBE_CONFIGS -----------------------------------------------------------------------------------------


Refuse = Callable[[bool], None]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Make the source refuse to describe settings, or describe them again."""
    is_refused = [False]

    def change_response(request: Any, response: Any) -> None:
        if isinstance(request, m.DescribeConfigsRequest) and is_refused[0]:
            for each in response.results:
                each.error_code, each.configs = ErrorCode.TOPIC_AUTHORIZATION_FAILED, []

    def change(refused: bool) -> None:
        is_refused[0] = refused

    change_responses(monkeypatch, change_response)
    return change


REFUSED = (
    "orders, users: settings are not taken over: TOPIC_AUTHORIZATION_FAILED: the user of --config needs "
    "DESCRIBE_CONFIGS of the topic"
)


def with_gaps(source: LogDirectory) -> None:
    for base in (0, 10, 30):
        source.log(ORDERS).append_replicated(keyed(base, Keyed(0, b"key %d" % base, b"value")))


@pytest.mark.parametrize("keep", [False, True])
async def test_gaps_are_no_finding_where_the_source_does_not_return_the_settings(
    *, keep: bool, refuse: Refuse, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    options = ARCHIVE if keep else ONCE
    source.configure("orders", {"cleanup.policy": "compact"})
    with_gaps(source)
    refuse(True)
    assert await mirrored(running, directory, options) == [REFUSED]
    assert await mirrored(running, directory, options) == []  # it was said
    assert not directory.config_of("orders").is_compacted
    assert findings_of(directory) == []


async def test_that_gaps_are_legal_is_one_write_for_all_topics(
    refuse: Refuse, running: Running, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, plain = list[set[TopicPartition]](), LogDirectory.set_cleaner_offsets

    def counted(self: LogDirectory, offsets: Mapping[TopicPartition, int | None]) -> None:
        written.append(set(offsets))
        plain(self, offsets)

    monkeypatch.setattr(LogDirectory, "set_cleaner_offsets", counted)
    refuse(True)
    await mirrored(running, directory)
    assert written == [set(directory.partitions())]


@pytest.mark.parametrize("policy", ["compact", "delete"])
async def test_with_permission_settings_are_taken_and_gaps_follow_the_policy(
    policy: str, refuse: Refuse, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    source.configure("orders", {"cleanup.policy": policy, "segment.bytes": "5000"})
    with_gaps(source)
    refuse(True)
    await mirrored(running, directory)
    refuse(False)
    assert await mirrored(running, directory) == [
        f"orders: changed at the source, and here: cleanup.policy = {policy}, segment.bytes = 5000"
    ]
    found = findings_of(directory)
    assert len(found) == (policy == "delete")
    assert all("offset-gap" in each or "are missing" in each for each in found)


async def test_settings_that_are_refused_later_stay_and_that_is_reported_once(
    refuse: Refuse, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    for topic in ("orders", "users"):
        source.configure(topic, {"segment.bytes": "5000"})
    await mirrored(running, directory)
    refuse(True)
    assert await mirrored(running, directory) == [REFUSED]
    assert directory.config_of("orders").segment_bytes == 5000
    assert directory.mirror is not None and directory.mirror.topics["orders"].settings == {"segment.bytes": "5000"}


async def test_gaps_of_a_mirror_of_an_earlier_version_are_no_finding(
    refuse: Refuse, running: Running, source: LogDirectory, directory: LogDirectory
) -> None:
    with_gaps(source)
    await mirrored(running, directory)
    assert not directory.checkpoints.is_cleaned(ORDERS)
    refuse(True)
    assert await mirrored(running, directory) == [REFUSED]
    assert findings_of(directory) == []
