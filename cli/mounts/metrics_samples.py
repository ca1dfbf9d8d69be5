"""Samples of the metrics of a mount or broker, for `offsetfs top` and `offsetfs status`.

`.offsetfs/metrics` and the address of `offsetfs serve --metrics` are their only sources, so that other monitoring can
show the same figures.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from offsetfs.cli.mounts.broker_samples import BrokerSample
from offsetfs.fs.mounting.mount_table import resolved

METRICS = ".offsetfs/metrics"
PREFIX = "offsetfs_"
BROKER_PREFIX = "broker_"
MIRROR_PREFIX = "mirror_"
TIMEOUT_S = 2.0

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sample:
    """The metrics at one moment, by name without `offsetfs_`. `taken_s`: seconds of the monotonic clock.

    `labels`: of the mount. `mount`: metrics without further labels. `partitions`: metrics by partition.
    `caches`: metrics by cache. `operations`: requests by operation. `broker` is None without a broker; `mount` is empty
    without a mount.
    """

    taken_s: float
    labels: Mapping[str, str]
    mount: Values
    partitions: Mapping[str, Values]
    caches: Mapping[str, Values]
    operations: Values
    broker: BrokerSample | None = None


def read_sample(mount_point: str) -> Sample:
    """Read the metrics of a mount. OSError if it cannot be read. Blocks if the daemon hangs."""
    with open(os.path.join(mount_point, METRICS), encoding="utf-8", newline="\n") as file:
        text = file.read()
    return parse_metrics(text, time.monotonic())


def scrape_sample(url: str) -> Sample:
    """Read the metrics of a broker over HTTP; OSError if that is not possible."""
    import urllib.request  # here, because only `offsetfs top` of a broker needs it

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the address is one of this machine
    with opener.open(url, timeout=TIMEOUT_S) as response:
        text = str(response.read(), "utf-8")
    return parse_metrics(text, time.monotonic())


def read_sample_or_none(mount_point: str) -> Sample | None:
    """Read the metrics; None without permission, or if the mount does not answer within two seconds.

    A child process reads them, because a process that waits for a FUSE daemon that hangs cannot be killed.
    """
    text = read_files_or_none(mount_point, METRICS)
    return None if text is None else parse_metrics(text.decode(), time.monotonic())


def read_files_or_none(mount_point: str, *names: str) -> bytes | None:
    """Return the concatenated content of small files of a mount; None as for `read_sample_or_none`."""
    root = resolved(mount_point)
    paths = [os.path.join(root, name) for name in names]
    reader = subprocess.Popen(["cat", "--", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        content, _ = reader.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        reader.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may wait for the daemon for ever
            reader.communicate(timeout=TIMEOUT_S)
        return None
    return content if reader.returncode == 0 else None


def parse_metrics(text: str, taken_s: float) -> Sample:
    """Parse the text format of Prometheus."""
    from prometheus_client.parser import text_string_to_metric_families

    labels: dict[str, str] = {}
    mount: dict[str, float] = {}
    operations: dict[str, float] = {}
    partitions: defaultdict[str, dict[str, float]] = defaultdict(dict)
    caches: defaultdict[str, dict[str, float]] = defaultdict(dict)
    broker = BrokerSample()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removeprefix(PREFIX).removesuffix("_total")
            if name.startswith(BROKER_PREFIX):
                broker.add(name.removeprefix(BROKER_PREFIX), sample.labels, sample.value)
            elif name.startswith(MIRROR_PREFIX):
                continue  # its partitions need not be those that the mount has used
            elif name == "mount_info":
                labels = dict(sample.labels)
            elif "topic" in sample.labels:
                partitions[_partition(sample.labels)][name] = sample.value
            elif "cache" in sample.labels:
                caches[sample.labels["cache"]][name] = sample.value
            elif "operation" in sample.labels:
                operations[sample.labels["operation"]] = sample.value
            elif set(sample.labels) == {"mount"}:
                mount[name] = sample.value
    return Sample(taken_s, labels, mount, partitions, caches, operations, broker if broker.labels else None)


def _partition(labels: Mapping[str, str]) -> str:
    return f"{labels['topic']}-{labels['partition']}" if labels["partition"] else labels["topic"]
