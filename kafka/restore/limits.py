"""Records that the cluster would refuse: in batches that are too large, or with times outside of its bounds.

For `--dry-run`, which reads all records for it. Follows Kafka's LogValidator and UnifiedLog.append.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsetfs.kafka.client.cluster import ClusterClient, repeated
from offsetfs.kafka.client.metadata import settings_requests
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
class _Excess:
    """Records or batches of a partition beyond one limit: the first offset, how many, and the limit that they need."""

    offset: int
    count: int
    needed: int


async def limits_of(client: ClusterClient, plans: Sequence[TopicPlan]) -> dict[str, TopicLimits]:
    """Return the limits of topics, also of those that are not created yet; ClientError.

    Where the user may not see the settings, no limit is known.
    """
    existing = [plan.name for plan in plans if plan.exists]
    known = dict[str, dict[str, str]]()
    for request in settings_requests(existing, tuple(_OF_BROKERS)):
        known |= await _described(client, request)
    metadata = await client.metadata([plan.name for plan in plans])
    node = str(min(metadata.brokers, default=0))
    resource = m.DescribeConfigsResource(_BROKER_RESOURCE, node, list(_OF_BROKERS.values()))
    brokers = await _described(client, m.DescribeConfigsRequest([resource]), int(node))
    defaults = {name: brokers.get(node, {}).get(of_broker, "") for name, of_broker in _OF_BROKERS.items()}
    return {
        plan.name: _limits(known.get(plan.name, {}) if plan.exists else {**defaults, **plan.settings}) for plan in plans
    }


async def _described(
    client: ClusterClient, request: m.DescribeConfigsRequest, node: int | None = None
) -> dict[str, dict[str, str]]:
    async def ask() -> dict[str, dict[str, str]]:
        response = await (client.request(request) if node is None else client.request(request, node=node))
        return {
            result.resource_name: {config.name: config.value or "" for config in result.configs}
            for result in response.results
            if not result.error_code
        }

    return await repeated(ask, client.properties)


def _limits(settings: Mapping[str, str]) -> TopicLimits:
    def number(name: str) -> float:
        text = settings.get(name, "")
        return math.inf if not text.isdecimal() or int(text) == I64_MAX else int(text)

    either = number(_EITHER)
    return TopicLimits(number(_SIZE), min(number(_BEFORE), either), min(number(_AFTER), either))


class LimitCheck:
    """A check of one partition for records that its topic in the cluster would refuse."""

    def __init__(self, partition: TopicPartition, limits: TopicLimits, now_ms: int) -> None:
        self._partition = partition
        self._limits = limits
        self._now_ms = now_ms
        self._excesses: dict[str, _Excess] = {}

    def take(self, produced: ProducedBatch) -> None:
        """Check a batch as it would be sent."""
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
        excess = self._excesses.setdefault(name, _Excess(offset, 0, needed))
        excess.count += 1
        excess.needed = max(excess.needed, needed)

    def problems(self, *, exists: bool) -> list[str]:
        """Return a sentence for each limit, with the remedy."""
        return [self._text(name, excess, exists=exists) for name, excess in sorted(self._excesses.items())]

    def _text(self, name: str, excess: _Excess, *, exists: bool) -> str:
        what = "batches larger than" if name == _SIZE else "records with times beyond"
        limit = {_SIZE: self._limits.batch_bytes, _BEFORE: self._limits.before_ms, _AFTER: self._limits.after_ms}[name]
        needed = excess.needed if name == _SIZE else I64_MAX
        remedy = f"set {name}={needed} there" if exists else f"give -o {name}={needed}"
        begin = f"{self._partition}: {excess.count} {what} {name}={limit:.0f}"
        return f"{begin}, the first at offset {excess.offset}; {remedy}"
