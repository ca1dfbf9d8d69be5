"""The messages of DescribeDelegationToken. `scripts/protocol-schemas` writes this file."""

from __future__ import annotations

from offsetfs.kafka.protocol.message import NEW, ProtocolMessage


class DescribeDelegationTokenOwner(ProtocolMessage):
    __slots__ = ("principal_name", "principal_type")

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribeDelegationTokenRequest(ProtocolMessage):
    __slots__ = ("owners",)

    def __init__(self, owners: list[DescribeDelegationTokenOwner] | None = NEW) -> None:
        self.owners = [] if owners is NEW else owners


class DescribedDelegationTokenRenewer(ProtocolMessage):
    __slots__ = ("principal_name", "principal_type")

    def __init__(self, principal_type: str = "", principal_name: str = "") -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class DescribedDelegationToken(ProtocolMessage):
    __slots__ = (
        "expiry_timestamp",
        "hmac",
        "issue_timestamp",
        "max_timestamp",
        "principal_name",
        "principal_type",
        "renewers",
        "token_id",
        "token_requester_principal_name",
        "token_requester_principal_type",
    )

    def __init__(
        self,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] = NEW,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is NEW else renewers


class DescribeDelegationTokenResponse(ProtocolMessage):
    __slots__ = ("error_code", "throttle_time_ms", "tokens")

    def __init__(
        self, error_code: int = 0, tokens: list[DescribedDelegationToken] = NEW, throttle_time_ms: int = 0
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is NEW else tokens
        self.throttle_time_ms = throttle_time_ms
