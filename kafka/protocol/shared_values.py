"""Values in requests of several APIs."""

from __future__ import annotations

READ_COMMITTED = 1
"""The isolation level of consumers that read no open transactions; Fetch, ListOffsets."""

TOPIC_IDS_VERSION = 13
"""The version from which Produce and Fetch name topics by id (KIP-516)."""
