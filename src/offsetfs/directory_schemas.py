"""The schemas by which the library decodes values, from its arguments. pyarrow is loaded with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsetfs import arguments
from offsetfs.common.extras import install_command
from offsetfs.storage import AnyLogDirectory

if TYPE_CHECKING:
    from offsetfs.schemas.decoding import DirectorySchemas, RecordDecoder


def directory_schemas(
    directory: AnyLogDirectory,
    decode: bool,
    schema_words: Sequence[str],
    mask_words: Sequence[str],
    registry_word: str | None,
) -> DirectorySchemas | None:
    """Return the schemas of a directory; None without `decode`. ValueError for a mask that hides nothing."""
    is_decoded = arguments.flag("decode", decode)
    words, masked = arguments.schema_words(schema_words), arguments.mask_words(mask_words)
    if registry_word is not None:
        arguments.text("schema_registry", registry_word, "http://localhost:8081")
    if not is_decoded:
        if masked:
            raise ValueError("mask goes with decode=True: undecoded values have no fields that can be hidden")
        return None
    try:
        from offsetfs.schemas.decoding import DirectorySchemas
    except ImportError as error:
        raise ImportError(f"decoding needs pyarrow and numpy: {install_command('arrow')}") from error
    from offsetfs.schemas.masks import parse_masks
    from offsetfs.schemas.schema_files import read_schema_files

    registry = None
    if registry_word is not None:
        from offsetfs.schemas.registry_schemas import open_registry

        registry = open_registry(registry_word)
    schemas = DirectorySchemas(directory, read_schema_files(words), parse_masks(masked), registry)
    schemas.refresh()
    schemas.check_masks()
    return schemas


def renewed(schemas: DirectorySchemas, topic: str, decoder: RecordDecoder) -> RecordDecoder:
    """Return the decoder by the newest version of a topic's subjects; the one before if the subject was deleted."""
    from offsetfs.schemas.decoding import NoSchema

    try:
        return schemas.record_decoder(topic)
    except NoSchema:
        return decoder
