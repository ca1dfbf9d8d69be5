"""The messages of AlterUserScramCredentials. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class ScramCredentialDeletion(ProtocolMessage):
    __slots__ = ("mechanism", "name")

    def __init__(self, name: str = "", mechanism: int = 0) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(ProtocolMessage):
    __slots__ = ("iterations", "mechanism", "name", "salt", "salted_password")

    def __init__(
        self, name: str = "", mechanism: int = 0, iterations: int = 0, salt: bytes = b"", salted_password: bytes = b""
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(ProtocolMessage):
    __slots__ = (
        "deletions",
        "upsertions",
    )

    def __init__(
        self, deletions: list[ScramCredentialDeletion] = NEW, upsertions: list[ScramCredentialUpsertion] = NEW
    ) -> None:
        self.deletions = [] if deletions is NEW else deletions
        self.upsertions = [] if upsertions is NEW else upsertions


class AlterUserScramCredentialsResult(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "user")

    def __init__(self, user: str = "", error_code: int = 0, error_message: str | None = "") -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(ProtocolMessage):
    __slots__ = ("results", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int = 0, results: list[AlterUserScramCredentialsResult] = NEW) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW else results
