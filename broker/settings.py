"""The settings of a broker, by Kafka's names (`num.partitions` is `num_partitions`) and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of one broker. Times are in the unit that ends the name."""

    listeners: tuple[tuple[str, int], ...] = (("127.0.0.1", 9092),)
    """Addresses and ports; port 0 is any free one."""
    advertised: tuple[str, int] | None = None
    """`advertised.listeners`: the address that clients get; the first listener if None."""
    metrics_listener: tuple[str, int] | None = None
    """Address and port of the metrics, over HTTP; None for no such server."""
    node_id: int = 1
    cluster_id: str = "offsetfs"
    num_partitions: int = 1
    auto_create_topics_enable: bool = True
    socket_request_max_bytes: int = 100 << 20
    max_connections: int = 10_000
    group_min_session_timeout_ms: int = 6
    """Lower than Kafka's 6,000, for tests."""
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    """Kafka's default is 3,000; its own test configurations set 0 as well."""
    offset_metadata_max_bytes: int = 4096
