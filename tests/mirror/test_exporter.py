"""The metrics of a mirror, and the page that describes them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offsetfs.kafka.mirror.status import MirrorStatus, PartitionStatus
from offsetfs.storage import TopicPartition

pytestmark = pytest.mark.unit

STATUS = MirrorStatus(
    "broker1:9092",
    {"users": "no permission"},
    {
        TopicPartition("orders", 0): PartitionStatus(7, 1.5, None, 100),
        TopicPartition("orders", 1): PartitionStatus(None, 0.0, "a damaged batch", 0),
    },
)


def documented() -> dict[str, tuple[str, list[str]]]:
    page = Path(__file__).parents[2] / "docs" / "use" / "monitoring.md"
    rows = re.findall(r"^\| `(offsetfs_mirror_\w+)` \| (\w+) \| ([\w, ]*)\|", page.read_text(), re.MULTILINE)
    return {name: (kind, re.findall(r"\w+", labels)) for name, kind, labels in rows}


def test_the_page_describes_each_metric() -> None:
    exported = {}
    for family in STATUS.metrics():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        exported[name] = (family.type, list(family.samples[0].labels))
    assert documented() == exported


def test_a_partition_without_a_response_has_no_lag() -> None:
    samples = {family.name: family.samples for family in STATUS.metrics()}
    assert [(each.labels["partition"], each.value) for each in samples["offsetfs_mirror_lag"]] == [("0", 7)]
    assert [each.value for each in samples["offsetfs_mirror_failed"]] == [0, 1]


def test_stats_of_a_mount_have_a_summary() -> None:
    assert list(STATUS.lines()) == ["mirror      of broker1:9092: 7 offsets behind, for 1.5 s; 2 failed"]
