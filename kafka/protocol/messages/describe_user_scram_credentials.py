"""The messages of DescribeUserScramCredentials. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class UserName(ProtocolMessage):
    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(ProtocolMessage):
    __slots__ = ("users",)

    def __init__(self, users: list[UserName] | None = NEW) -> None:
        self.users = [] if users is NEW else users


class CredentialInfo(ProtocolMessage):
    __slots__ = ("iterations", "mechanism")

    def __init__(self, mechanism: int = 0, iterations: int = 0) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(ProtocolMessage):
    __slots__ = ("credential_infos", "error_code", "error_message", "user")

    def __init__(
        self,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] = NEW,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is NEW else credential_infos


class DescribeUserScramCredentialsResponse(ProtocolMessage):
    __slots__ = ("error_code", "error_message", "results", "throttle_time_ms")

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is NEW else results
