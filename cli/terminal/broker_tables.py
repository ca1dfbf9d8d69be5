"""The tables of `offsetfs top` for a broker: rates between two samples, by API and by topic, and consumer groups."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from offsetfs.cli.mounts.broker_samples import BrokerSample, Values
from offsetfs.common.formatting import count, duration, printable, size


class RateTable(NamedTuple):
    """Rows of text below their headings."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def rates(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return how much each value grew in a second; 0 for one that fell, because its process has started again."""
    return {name: max(0.0, value - before.get(name, 0.0)) / max(seconds, 1e-6) for name, value in now.items()}


_API_HEADINGS = ("API", "REQ/S", "ERR/S", "MEAN", "P99", "WAIT")
_TOPIC_HEADINGS = ("TOPIC", "IN REC/S", "IN B/S", "OUT B/S")
_GROUP_HEADINGS = ("GROUP", "MEMBERS", "LAG")
_PERCENTILE = 0.99


def broker_summary(before: BrokerSample, now: BrokerSample, seconds: float) -> Iterator[str]:
    """Yield what concerns the broker as a whole."""
    labels, values = now.labels, now.broker
    up = duration(time.time() - values["start_time_seconds"])
    yield printable(f"{labels['log_directory']} as a broker, {labels['mode']}, for {up}")
    accepted, refused = values["accepted_connections"], values["refused_connections"]
    yield f"connections {count(values['connections'])} open, {count(accepted)} accepted, {count(refused)} refused"
    changed = rates(before.broker, values, seconds)
    requests = sum(api_rates.get("requests", 0.0) for api_rates in _rates_of(before.apis, now.apis, seconds).values())
    traffic = f"in {size(changed['received_bytes'])}/s, out {size(changed['sent_bytes'])}/s"
    yield f"requests    {count(requests)}/s, {traffic}, event loop delay {_mean(changed, 'event_loop_delay_seconds')}"


def broker_tables(before: BrokerSample, now: BrokerSample, seconds: float) -> list[RateTable]:
    """Return a table of APIs, of topics and of groups; the busiest rows first, groups by their lag."""
    apis, topics = _rates_of(before.apis, now.apis, seconds), _rates_of(before.topics, now.topics, seconds)
    groups = sorted(now.groups.items(), key=lambda item: (-item[1].get("group_lag", 0.0), item[0]))
    shown_tables = [
        RateTable(
            _API_HEADINGS,
            [
                (name, *_api(changed, _percentile(before.buckets[name], now.buckets[name])))
                for name, changed in sorted(apis.items(), key=lambda item: (-item[1]["requests"], item[0]))
            ],
        ),
        RateTable(
            _TOPIC_HEADINGS,
            [
                (
                    printable(name),
                    count(changed["produced_records"]),
                    size(changed["produced_bytes"]),
                    size(changed["fetched_bytes"]),
                )
                for name, changed in sorted(topics.items(), key=lambda item: (-_bytes(item[1]), item[0]))
            ],
        ),
        RateTable(
            _GROUP_HEADINGS,
            [
                (
                    printable(name),
                    f"{values.get('group_members', 0):.0f}",
                    f"{values['group_lag']:.0f}" if "group_lag" in values else "-",
                )
                for name, values in groups
            ],
        ),
    ]
    return [table for table in shown_tables if table.rows]


def _api(changed: Values, percentile: str) -> tuple[str, ...]:
    return (
        count(changed["requests"]),
        count(changed.get("errors", 0.0)),
        _mean(changed, "request_handling_seconds"),
        percentile,
        _mean(changed, "request_wait_seconds"),
    )


def _bytes(changed: Values) -> float:
    return changed["produced_bytes"] + changed["fetched_bytes"]


def _rates_of(before: Mapping[str, Values], now: Mapping[str, Values], seconds: float) -> dict[str, Values]:
    return {name: rates(before.get(name, {}), values, seconds) for name, values in now.items()}


def _mean(changed: Values, name: str) -> str:
    number = changed.get(f"{name}_count", 0.0)
    return duration(changed[f"{name}_sum"] / number) if number else "-"


def _percentile(before: Mapping[float, float], now: Mapping[float, float]) -> str:
    """Return the bound below which 99 % of the requests between two samples were handled."""
    counts = {bound: max(0.0, number - before.get(bound, 0.0)) for bound, number in sorted(now.items())}
    total = max(counts.values(), default=0.0)
    bounds = [bound for bound, number in counts.items() if number >= _PERCENTILE * total]
    if not total:
        return "-"
    return f"≤{duration(bounds[0])}" if bounds[0] < float("inf") else f">{duration(max(list(counts)[:-1]))}"
