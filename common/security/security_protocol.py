"""The security protocols of listeners, and of the clients that connect to them."""

from __future__ import annotations

import enum


class SecurityProtocol(enum.StrEnum):
    """How a connection is encrypted, and how the client authenticates. Kafka: `SecurityProtocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
