"""What a running mirror shows to other processes: how far each partition is behind, and what is wrong."""

from __future__ import annotations

from typing import Any

import trio

from offsetfs.mirror.mirror import Mirror
from offsetfs.mirror.partition import UNKNOWN, MirroredPartition


def status_of(mirror: Mirror) -> dict[str, Any]:
    """Return the state of a mirror, for JSON; on the event loop."""
    now = trio.current_time()
    return {
        "source": mirror.source,
        "failures": dict(mirror.failures),
        "partitions": {str(name): _partition(each, now) for name, each in mirror.partitions.items()},
    }


def _partition(partition: MirroredPartition, now: float) -> dict[str, Any]:
    return {
        "lag": None if partition.lag == UNKNOWN else partition.lag,
        "lag_seconds": round(partition.lag_seconds(now), 1),
        "failure": partition.failure or None,
    }
