"""A partition of a mount as lists: what was appended to it, and what its views may therefore show."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Appended(NamedTuple):
    """A record as it was written. `timestamp` None: whatever the time was."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None

    def line(self) -> bytes:
        """Return it as `append.ndjson` takes it."""
        fields: dict[str, Any] = {**_coded("key", self.key), **_coded("value", self.value)}
        fields["headers"] = [{"key": name, **_coded("value", value)} for name, value in self.headers]
        fields["timestamp"] = self.timestamp
        return json.dumps(fields).encode() + b"\n"

    def is_shown_by(self, fields: dict[str, Any]) -> bool:
        """Whether `records.ndjson` has this record."""
        found = tuple((_plain("key", each).decode(), _plain("value", each)) for each in fields["headers"])
        shown = (_plain("key", fields), _plain("value", fields), found)
        is_then = self.timestamp is None or fields["timestamp"] == self.timestamp
        return is_then and shown == (self.key, self.value, self.headers)


def _coded(name: str, data: bytes | None) -> dict[str, str | None]:
    return {name: None} if data is None else {f"{name}_b64": base64.b64encode(data).decode()}


def _plain(name: str, fields: dict[str, Any]) -> Any:
    if f"{name}_b64" in fields:
        return base64.b64decode(fields[f"{name}_b64"])
    return None if fields[name] is None else fields[name].encode()


@dataclass
class Model:
    """A partition as lists: what was appended, by offset, and where the log begins."""

    records: list[Appended] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def latest(self) -> dict[bytes, Appended]:
        """Return the last record of each key, tombstones too."""
        return {record.key: record for record in self.records if record.key is not None}
