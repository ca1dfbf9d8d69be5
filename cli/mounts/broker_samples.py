"""Samples of the metrics of a broker, of `offsetfs serve --metrics` or of a mount with a broker, for `offsetfs top`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

Values = dict[str, float]


def _by_label() -> defaultdict[str, Values]:
    return defaultdict(dict)


@dataclass(slots=True)
class BrokerSample:
    """The metrics at one moment, by name without `offsetfs_broker_`.

    `buckets`: the handling times of each API, as numbers of requests by the upper bound in seconds.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    broker: Values = field(default_factory=dict)
    apis: defaultdict[str, Values] = field(default_factory=_by_label)
    topics: defaultdict[str, Values] = field(default_factory=_by_label)
    groups: defaultdict[str, Values] = field(default_factory=_by_label)
    buckets: defaultdict[str, dict[float, float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add a sample. Those of one API, topic or group that differ in another label are summed."""
        if name == "info":
            self.labels = dict(labels)
        elif name == "request_handling_seconds_bucket":
            self.buckets[labels["api"]][float(labels["le"])] = value
        elif "api" in labels:
            _increase(self.apis[labels["api"]], name, value)
        elif "group" in labels:
            _increase(self.groups[labels["group"]], name, value)
        elif "topic" in labels:
            _increase(self.topics[labels["topic"]], name, value)
        elif "le" not in labels and "state" not in labels:
            self.broker[name] = value


def _increase(values: Values, name: str, value: float) -> None:
    values[name] = values.get(name, 0.0) + value
