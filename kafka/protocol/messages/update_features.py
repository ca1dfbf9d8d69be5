"""The messages of UpdateFeatures. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class FeatureUpdateKey(ProtocolMessage):
    __slots__ = ("allow_downgrade", "feature", "max_version_level", "upgrade_type")

    def __init__(
        self, feature: str = "", max_version_level: int = 0, allow_downgrade: bool = False, upgrade_type: int = 1
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(ProtocolMessage):
    __slots__ = ("feature_updates", "timeout_ms", "validate_only")

    def __init__(
        self, timeout_ms: int = 60000, feature_updates: list[FeatureUpdateKey] = NEW, validate_only: bool = False
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is NEW else feature_updates
        self.validate_only = validate_only


class UpdatableFeatureResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "feature")

    def __init__(self, feature: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "results", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is NEW else results
