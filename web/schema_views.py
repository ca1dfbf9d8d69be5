"""The schemas in the topic `_schemas`, as the page lists them."""

from __future__ import annotations

from typing import Any

from offsetfs.schemas.schemas_topic import SchemasTopic, read_schemas_topic
from offsetfs.storage import LogDirectories
from offsetfs.web.http_server import HttpError

VERSIONS_MAX = 10_000
"""The versions of a list."""
TEXT_CHARACTERS = 1 << 20
"""Of one schema."""


def _read(directory: LogDirectories) -> SchemasTopic:
    return read_schemas_topic(directory) or SchemasTopic()


def schemas_view(directory: LogDirectories) -> dict[str, Any]:
    """Return all versions, without their texts. StorageError; OSError."""
    found = _read(directory)
    versions = [*found.catalog]
    return {
        "versions": [
            {
                "subject": version.subject,
                "version": version.version,
                "id": version.id,
                "type": version.type,
                "state": version.state.value,
                "references": [str(reference) for reference in version.references],
            }
            for version in versions[:VERSIONS_MAX]
        ],
        "versions_left_out": max(len(versions) - VERSIONS_MAX, 0),
        "left_out": [
            *found.notes,
            *found.damage,
            *(f"{unusable.count} records: {why}" for why, unusable in found.unusable.items()),
        ],
    }


def schema_view(directory: LogDirectories, subject: str, version: int) -> dict[str, Any]:
    """Return the text of a version. `HttpError` if there is none."""
    found = _read(directory).catalog.version((subject, version))
    if found is None:
        raise HttpError(404, f"there is no version {version} of {subject}: the list of schemas has all versions")
    text = found.text[:TEXT_CHARACTERS]
    return {"subject": subject, "version": version, "id": found.id, "type": found.type, "text": text,
            "is_cut": len(text) < len(found.text)}  # fmt: skip
