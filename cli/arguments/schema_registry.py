"""The option `--schema-registry` of commands that decode records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.cli.exit_codes import WRONG_CALL, Failure
from offsetfs.common.formatting import printable
from offsetfs.storage.errors import InvalidConfig, sentence

if TYPE_CHECKING:
    from offsetfs.schemas.registry_schemas import RegistrySchemas


def registry_of(word: str | None) -> RegistrySchemas | None:
    """Return the registry of a URL or a properties file; None without. Nothing is asked yet."""
    if word is None:
        return None
    from offsetfs.schemas.registry_schemas import open_registry

    try:
        return open_registry(word)
    except (InvalidConfig, OSError) as error:
        raise Failure(f"--schema-registry: {printable(sentence(error))}", WRONG_CALL) from error
