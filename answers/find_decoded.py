"""Records that `offsetfs find` prints with their values decoded, as the files in `decoded/` of the tree have them."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping

from offsetfs.answers.find_lines import Lines
from offsetfs.schemas.decoded_lines import DecodedLines
from offsetfs.schemas.decoding import DirectorySchemas, TopicDecoder
from offsetfs.schemas.json_texts import JsonTexts, MaskedTexts
from offsetfs.schemas.masks import Masks
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD
from offsetfs.schemas.registry_schemas import RegistrySchemas
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.schemas.schema_usage import KnownSchemas
from offsetfs.storage import AnyLogDirectory, Batch, TopicPartition


class DecodedFinds:
    """The lines of records of one directory, by the schemas that it has when this is made."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        files: Mapping[str, FileSchema],
        masks: Masks | None,
        registry: RegistrySchemas | None,
    ) -> None:
        """`files`, `masks`, `registry`: as `DirectorySchemas` takes them. `MaskError`; OSError of the disk."""
        self._schemas = schemas = DirectorySchemas(directory, files, masks, registry)
        schemas.refresh()
        schemas.check_masks()
        self._known = KnownSchemas(schemas.catalog, files, registry)
        self._lock = threading.Lock()  # decoders, and what is known, are not thread-safe
        self._lines: dict[TopicPartition, DecodedLines] = {}

    def lines_of(self, name: TopicPartition) -> Lines:
        """Return what writes records of a partition; a value that is not decoded has the reason beside it."""

        def lines(batch: Batch, rows: array[int], numbers: array[int]) -> list[bytes]:
            with self._lock:
                if name not in self._lines:
                    self._lines[name] = self._made(name)
                made = self._lines[name].records([batch])
            begins = [0, *made.ends]
            return [made.data[begins[number] : begins[number + 1]] for number in numbers]

        return lines

    def _made(self, name: TopicPartition) -> DecodedLines:
        def decoder(field: str) -> TopicDecoder:
            return TopicDecoder(self._known, name.topic, field, JsonTexts())

        is_masked = name.topic in self._schemas.masks
        values = MaskedTexts(self._schemas, name.topic) if is_masked else decoder(VALUE_FIELD)
        return DecodedLines(name, values, decoder(KEY_FIELD))
