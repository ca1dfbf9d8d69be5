"""Rows of credentials and ACLs for commands, in values of JSON, from the process that serves the directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple

from offsetfs.storage.security import SecurityImage

Row = tuple[str | int, ...]


def _credentials(image: SecurityImage) -> list[Row]:
    """Return name, mechanism and iterations of each credential, and no secret."""
    return [(*key, credential.iterations) for key, credential in sorted(image.credentials.items())]


def _acls(image: SecurityImage) -> list[Row]:
    """Return the id of each ACL, in hexadecimal, and its fields."""
    return [(acl_id.hex(), *astuple(acl)) for acl_id, acl in image.acls.items()]


SECURITY_ROWS: Mapping[str, Callable[[SecurityImage], list[Row]]] = {"credentials": _credentials, "acls": _acls}
"""The rows of each action of a `ControlServer`, by its name."""
