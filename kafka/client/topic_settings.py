"""Requests for the settings of topics, in portions: a broker may bound a response (`serve`: 100,000 settings)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from offsetfs.kafka.protocol import messages as m

TOPIC_RESOURCE = 2
"""Kafka: `ConfigResource.Type.TOPIC`."""

DESCRIBED_MAX = 500
"""Topics in one request for settings."""


def settings_requests(topics: Iterable[str], names: Sequence[str] | None = None) -> Iterator[m.DescribeConfigsRequest]:
    """Yield requests for settings of topics, for all of them without `names`."""
    keys = None if names is None else list(names)
    resources = [m.DescribeConfigsResource(TOPIC_RESOURCE, each, keys) for each in topics]
    for start in range(0, len(resources), DESCRIBED_MAX):
        yield m.DescribeConfigsRequest(resources[start : start + DESCRIBED_MAX])
