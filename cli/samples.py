"""`.offsetfs/metrics` of a mount, read by another process: what `top` and `status` show.

Nothing but the file is asked, so that everything that is shown here can be had by any other monitoring as well.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.fs.mounting.mount_table import resolved

METRICS = ".offsetfs/metrics"
PREFIX = "offsetfs_"
PATIENCE_S = 2.0

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """The metrics at one moment, by their names without `offsetfs_`. `taken_s`: on the monotonic clock.

    `labels`: those of the mount itself. `mount`: what has no other label. `partitions`: by name. `caches`: by cache.
    """

    taken_s: float
    labels: Mapping[str, str]
    mount: Values
    partitions: Mapping[str, Values]
    caches: Mapping[str, Values]
    operations: Values


def take(mount_point: str) -> Sample:
    """Read the metrics of a mount that answers; OSError when it does not."""
    with open(os.path.join(mount_point, METRICS), encoding="utf-8", newline="\n") as file:
        text = file.read()
    return parsed(text, time.monotonic())


def take_if_it_answers(mount_point: str) -> Sample | None:
    """Read the metrics; None when that is not allowed, or the mount does not answer in two seconds.

    Another process does the reading: a process that waits for a stuck file system cannot even be killed.
    """
    text = read_if_it_answers(mount_point, METRICS)
    return None if text is None else parsed(text.decode(), time.monotonic())


def read_if_it_answers(mount_point: str, *names: str) -> bytes | None:
    """Return the content of small files of a mount, joined; None where `take_if_it_answers` returns None."""
    root = resolved(mount_point)
    paths = [os.path.join(root, name) for name in names]
    reader = subprocess.Popen(["cat", "--", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        content, _ = reader.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        reader.kill()
        return None
    return content if reader.returncode == 0 else None


def parsed(text: str, taken_s: float) -> Sample:
    """Read the text format of Prometheus."""
    from prometheus_client.parser import text_string_to_metric_families

    labels: dict[str, str] = {}
    mount: dict[str, float] = {}
    operations: dict[str, float] = {}
    partitions: defaultdict[str, dict[str, float]] = defaultdict(dict)
    caches: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix(PREFIX).removesuffix("_total")
            if name == "mount_info":
                labels = dict(sample.labels)
            elif "topic" in sample.labels:
                partitions[_partition(sample.labels)][name] = sample.value
            elif "cache" in sample.labels:
                caches[sample.labels["cache"]][name] = sample.value
            elif "operation" in sample.labels:
                operations[sample.labels["operation"]] = sample.value
            elif set(sample.labels) == {"mount"}:
                mount[name] = sample.value
    return Sample(taken_s, labels, mount, partitions, caches, operations)


def _partition(labels: Mapping[str, str]) -> str:
    return f"{labels['topic']}-{labels['partition']}" if labels["partition"] else labels["topic"]
