"""What the cluster would refuse of the records: batches that are too large, times outside of its bounds.

For `--dry-run`, which reads all records for it. Follows Kafka's LogValidator and UnifiedLog.append.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsetfs.kafka.client.cluster import ClusterClient
from offsetfs.kafka.client.retries import repeated
from offsetfs.kafka.client.topic_settings import settings_requests
from offsetfs.kafka.protocol import messages as m
from offsetfs.kafka.restore.topic_plan import TopicPlan
from offsetfs.storage import I64_MAX, TopicPartition, read_batch
from offsetfs.storage.records import ProducedBatch

_BROKER_RESOURCE = 4
_SIZE = "max.message.bytes"
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_EITHER = "message.timestamp.difference.max.ms"
_NO_TIME = -1
_OF_BROKERS = {
    _SIZE: "message.max.bytes",
    _BEFORE: f"log.{_BEFORE}",
    _AFTER: f"log.{_AFTER}",
    _EITHER: f"log.{_EITHER}",
}
"""The names of the defaults of a broker."""


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of a topic; infinite where there is none, or it is not known."""

    batch_bytes: float = math.inf
    before_ms: float = math.inf
    after_ms: float = math.inf


@dataclass(slots=True)
class _Found:
    """What a partition has beyond one limit: the first offset, how many, and what would let them pass."""

    offset: int
    count: int
    needed: int


async def limits_of(client: ClusterClient, plans: Sequence[TopicPlan]) -> dict[str, TopicLimits]:
    """Return the limits of topics, also of those that are not created yet; ClientError.

    Where the user may not see the settings, no limit is known.
    """
    existing = [each.name for each in plans if each.exists]
    known = dict[str, dict[str, str]]()
    for request in settings_requests(existing, tuple(_OF_BROKERS)):
        known |= await _described(client, request)
    metadata = await client.metadata([each.name for each in plans])
    node = str(min(metadata.brokers, default=0))
    resource = m.DescribeConfigsResource(_BROKER_RESOURCE, node, list(_OF_BROKERS.values()))
    brokers = await _described(client, m.DescribeConfigsRequest([resource]), int(node))
    defaults = {name: brokers.get(node, {}).get(of_broker, "") for name, of_broker in _OF_BROKERS.items()}
    return {
        each.name: _limits(known.get(each.name, {}) if each.exists else {**defaults, **each.settings}) for each in plans
    }


async def _described(
    client: ClusterClient, request: m.DescribeConfigsRequest, node: int | None = None
) -> dict[str, dict[str, str]]:
    async def ask() -> dict[str, dict[str, str]]:
        response = await (client.request(request) if node is None else client.request(request, node=node))
        return {
            each.resource_name: {one.name: one.value or "" for one in each.configs}
            for each in response.results
            if not each.error_code
        }

    return await repeated(ask, client.properties)


def _limits(settings: Mapping[str, str]) -> TopicLimits:
    def number(name: str) -> float:
        text = settings.get(name, "")
        return math.inf if not text.isdecimal() or int(text) == I64_MAX else int(text)

    either = number(_EITHER)
    return TopicLimits(number(_SIZE), min(number(_BEFORE), either), min(number(_AFTER), either))


class LimitCheck:
    """What one partition has that its topic in the cluster would refuse."""

    def __init__(self, partition: TopicPartition, limits: TopicLimits, now_ms: int) -> None:
        self._partition = partition
        self._limits = limits
        self._now_ms = now_ms
        self._found: dict[str, _Found] = {}

    def take(self, produced: ProducedBatch) -> None:
        """Look at a batch as it would be sent."""
        size = len(produced.data)
        if size > self._limits.batch_bytes:
            self._note(_SIZE, produced.offsets[0], size)
        header = read_batch(produced.data).header
        if header.max_timestamp - self._now_ms > self._limits.after_ms:
            self._note_times(_AFTER, produced)
        if not math.isinf(self._limits.before_ms):  # only the records have the earliest time
            self._note_times(_BEFORE, produced)

    def _note_times(self, name: str, produced: ProducedBatch) -> None:
        limit = self._limits.after_ms if name == _AFTER else self._limits.before_ms
        for offset, record in zip(produced.offsets, read_batch(produced.data).records(), strict=True):
            distance = record.timestamp - self._now_ms if name == _AFTER else self._now_ms - record.timestamp
            if record.timestamp != _NO_TIME and distance > limit:
                self._note(name, offset, distance)

    def _note(self, name: str, offset: int, needed: int) -> None:
        found = self._found.setdefault(name, _Found(offset, 0, needed))
        found.count += 1
        found.needed = max(found.needed, needed)

    def problems(self, *, exists: bool) -> list[str]:
        """Return a sentence for each limit, with the remedy."""
        return [self._text(name, each, exists=exists) for name, each in sorted(self._found.items())]

    def _text(self, name: str, found: _Found, *, exists: bool) -> str:
        what = "batches larger than" if name == _SIZE else "records with times beyond"
        limit = {_SIZE: self._limits.batch_bytes, _BEFORE: self._limits.before_ms, _AFTER: self._limits.after_ms}[name]
        needed = found.needed if name == _SIZE else I64_MAX
        remedy = f"set {name}={needed} there" if exists else f"give -o {name}={needed}"
        return (
            f"{self._partition}: {found.count} {what} {name}={limit:.0f}, the first at offset {found.offset}; {remedy}"
        )
