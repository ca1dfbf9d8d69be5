"""The base class of messages and structs, with comparison and representation by fields; values of several APIs."""

from __future__ import annotations

import base64
from typing import Any

NEW: Any = object()
"""The default of arrays and structs: a new one for each message."""

Records = Any
"""A buffer with record batches; for writers also a range of a file: an object with its `size` in bytes."""

NO_ID = bytes(16)
"""The id of a topic, directory or member that has none (Uuid.ZERO_UUID)."""

READ_COMMITTED = 1
"""The isolation level of consumers that read no open transactions; Fetch, ListOffsets."""

TOPIC_IDS_VERSION = 13
"""The version from which Produce and Fetch name topics by id (KIP-516)."""

_ID_CHARACTERS = 22


def id_text(value: bytes) -> str:
    """Return an id as Kafka prints it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(value)[:_ID_CHARACTERS].decode()


class ProtocolMessage:
    """A message of Kafka's protocol, or a struct in one. `__slots__` names its fields, of all versions."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"

    __hash__ = None  # type: ignore[assignment]  # fields can change
