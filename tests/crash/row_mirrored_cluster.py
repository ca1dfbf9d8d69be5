"""Row 24: a mirror is killed while the cluster that it mirrors loses nodes, moves leaders and changes topics.

Three real nodes, a login over TLS, all codecs, transactions of all outcomes. See `fixtures.mirrors.chaos`.
"""

from __future__ import annotations

from pathlib import Path

from fault_program import Row
from fixtures.kafka.cluster import KafkaCluster
from fixtures.mirrors.chaos import CLUSTER_SETTINGS, MirrorChaos, tls_settings

KILLS = 25


def play(seed: int, scratch: Path) -> int:
    """Kill a mirror KILLS times; return how many times."""
    with KafkaCluster(scratch / "cluster", settings=CLUSTER_SETTINGS, tls=tls_settings(scratch)) as cluster:
        MirrorChaos(cluster, scratch, seed).run(KILLS)
    return KILLS


ROW = Row(
    24,
    "mirrored_cluster",
    "a mirror is killed while nodes of its cluster die, leaders move, elections are unclean, and topics change",
    play,
    seeds_in_ci=range(0),  # tests/interop/test_mirror_of_a_cluster.py plays a shorter round, with the cluster it has
    goal=100,
    unit="kills",
    needs=("java",),
)
