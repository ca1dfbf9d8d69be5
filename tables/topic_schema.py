"""The schemas of a topic's values and keys for a table that grows with them.

The columns are those of the newest version, which is looked up before records are read: a record cannot be older than
the schema that it names.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsetfs.schemas.decoding import DirectorySchemas, NoSchema, RecordDecoder
from offsetfs.schemas.formats import SchemaReader
from offsetfs.schemas.masks import Masks
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD
from offsetfs.schemas.registry_client import RETRY_S
from offsetfs.schemas.registry_json import RegistryError
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.storage import LogDirectory

if TYPE_CHECKING:
    from offsetfs.schemas.registry_schemas import RegistrySchemas


class TopicSchema:
    """The newest schemas of one topic."""

    reader: SchemaReader
    """Of values."""
    key_reader: SchemaReader | None
    """None for a topic without a schema of keys."""
    decoder: RecordDecoder

    def __init__(
        self,
        directory: LogDirectory,
        topic: str,
        files: Mapping[str, FileSchema],
        masks: Masks,
        registry: RegistrySchemas | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`NoSchema`, `MaskError`. `registry`: is asked for what the directory lacks."""
        self.topic = topic
        self._schemas = DirectorySchemas(directory, files, masks, registry)
        self._registry, self._now, self._asked_at = registry, now, now()
        self._schemas.refresh()
        self._schemas.check_masks()
        self.reader = self._schemas.reader(topic)
        self.key_reader = None
        self._take()

    def refresh(self) -> bool:
        """Take in a new version. Return whether `reader` and `decoder` are others; `MaskError`."""
        if not self._schemas.refresh() and not self._is_newer_in_registry():
            if self._registry is not None:
                self.decoder.forget_failures()
            return False
        with contextlib.suppress(NoSchema):  # the subject was deleted: its records keep their columns
            self.reader = self._schemas.reader(self.topic)
        self._take()
        return True

    def _take(self) -> None:
        self.key_reader = keys = self._schemas.key_reader(self.topic) or self.key_reader
        self.decoder = RecordDecoder(
            self._schemas.decoder(self.topic, self.reader),
            None if keys is None else self._schemas.decoder(self.topic, keys, field=KEY_FIELD),
        )

    def _is_newer_in_registry(self) -> bool:
        """Ask a registry for the newest version once in a while; return whether it has another one."""
        if self._registry is None or self._now() - self._asked_at < RETRY_S:
            return False
        self._asked_at = self._now()
        subjects = [f"{self.topic}-{field}" for field in (VALUE_FIELD, KEY_FIELD)]
        with contextlib.suppress(RegistryError):  # the columns stay as they are
            before = [self._registry.latest(subject) for subject in subjects]
            return before != [self._registry.latest(subject, is_fresh=True) for subject in subjects]
        return False
