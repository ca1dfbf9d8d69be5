"""The messages of ApiVersions. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ApiVersionsRequest(ProtocolMessage):
    __slots__ = (
        "client_software_name",
        "client_software_version",
        "cluster_id",
        "node_id",
    )

    def __init__(
        self,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id


class ApiVersion(ProtocolMessage):
    __slots__ = ("api_key", "max_version", "min_version")

    def __init__(self, api_key: int = 0, min_version: int = 0, max_version: int = 0) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(ProtocolMessage):
    __slots__ = ("max_version", "min_version", "name")

    def __init__(self, name: str = "", min_version: int = 0, max_version: int = 0) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(ProtocolMessage):
    __slots__ = ("max_version_level", "min_version_level", "name")

    def __init__(self, name: str = "", max_version_level: int = 0, min_version_level: int = 0) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(ProtocolMessage):
    __slots__ = (
        "api_keys",
        "error_code",
        "finalized_features",
        "finalized_features_epoch",
        "supported_features",
        "throttle_time_ms",
        "zk_migration_ready",
    )

    def __init__(
        self,
        error_code: int = 0,
        api_keys: list[ApiVersion] = NEW,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = NEW,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = NEW,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is NEW else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is NEW else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is NEW else finalized_features
        self.zk_migration_ready = zk_migration_ready
