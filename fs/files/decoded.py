"""`decoded/`: the records of a partition, or of a topic, with their values decoded by the schemas that they name.

    decoded/42                       the value of a record as a line of JSON; with .json the record
    decoded/values, records.ndjson   the whole partition
    decoded/range/A..B, last/N, follow[@A], first, latest, by-time/T
    decoded/by-key/KEY               see `decoded_by_key`

The names mean what they mean beside `decoded/`, and the files are of the same classes; only their formats differ
(schemas.decoded_lines). `decoded/` is found by name only: a listing of a partition would show each record twice.

A value is read by its own schema, so that its text stays the same when the topic gets newer ones. Whether a schema is
known is decided once for each format. If a schema of a record becomes known later, the next look-up gets a new format,
and with it new inodes.

pyarrow is imported at the first look-up.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from offsetfs.common.extras import install_command
from offsetfs.fs.attributes import NEVER_S
from offsetfs.fs.caches import RecordContent
from offsetfs.fs.files.record_parts import PartHandle, RecordParts
from offsetfs.fs.files.records import RecordFiles
from offsetfs.fs.fuse_types import EntryAttributes
from offsetfs.fs.mount_context import MountContext
from offsetfs.fs.naming.tree_table import Kind
from offsetfs.fs.nodes import Opened, Opening
from offsetfs.fs.options import BASE64
from offsetfs.fs.partitions import MountedPartition
from offsetfs.storage import Batch, TopicPartition
from offsetfs.storage.records import LineFault
from offsetfs.storage.views import LinesFormat, MadeLines, ViewFormat

if TYPE_CHECKING:
    from offsetfs.schemas.decoded_lines import DecodedLines
    from offsetfs.schemas.encoding import KeyEncoder
    from offsetfs.schemas.json_texts import FollowingDecoder, FollowingSchemas, MaskedDecoder


def _not_begun(batches: Sequence[Batch]) -> MadeLines:
    raise AssertionError("a look-up sets the format first")


DECODED_VALUES = LinesFormat("decoded/values", _not_begun)
DECODED_RECORDS = LinesFormat("decoded/records.ndjson", _not_begun)
"""The formats of growing files that nothing has looked up yet."""

LINE_KINDS = {b"": Kind.DECODED_RECORD, b".json": Kind.DECODED_LINE}
"""The kinds of files of a record, by what follows the offset in their names."""


@dataclass(frozen=True, slots=True)
class DecodedFormat:
    """What makes lines of one partition. Its lines of a record never change."""

    decoders: tuple[FollowingDecoder | MaskedDecoder, FollowingDecoder]
    """Of values, and of keys."""
    lines: DecodedLines
    values: LinesFormat
    records: LinesFormat


class MountSchemas:
    """The schemas of the directory of a mount. Methods take time: they are for threads."""

    def __init__(self, mount: MountContext) -> None:
        self._mount = mount
        self._schemas: FollowingSchemas | None = None
        self._keys: dict[str, KeyEncoder] = {}
        self._keys_lock = threading.Lock()  # of its own: who encodes a key may wait for a registry
        self._lock = threading.Lock()

    def opened(self) -> FollowingSchemas:
        """Return the schemas. OSError EOPNOTSUPP without the packages that decode."""
        try:
            from offsetfs.schemas.background_registry import open_background_registry
            from offsetfs.schemas.json_texts import FollowingSchemas
            from offsetfs.schemas.masks import parse_masks
            from offsetfs.schemas.schema_files import read_schema_files
        except ImportError as error:
            cure = f"install it: {install_command('arrow')}"
            raise OSError(errno.EOPNOTSUPP, f"decoded/ needs {error.name}; {cure}") from error
        with self._lock:
            if self._schemas is None:
                files = read_schema_files(self._mount.options.schemas)
                masks = parse_masks(self._mount.options.masks)
                registry = open_background_registry(self._mount.options.schema_registry)
                self._schemas = FollowingSchemas(self._mount.directory, files, masks, registry)
            return self._schemas

    def encoder(self, topic: str) -> Callable[[bytes], bytes | LineFault]:
        """Return what encodes lines of new records of a topic, by the schemas that are there now.

        It waits for no registry, because the event loop calls it.
        """
        schemas = self.opened()
        from offsetfs.schemas.decoding import NoSchema
        from offsetfs.schemas.encoding import LineEncoder
        from offsetfs.schemas.references import KEY_FIELD

        schemas.refresh()
        with contextlib.suppress(NoSchema):  # a line without one is refused
            schemas.has_schema(topic, KEY_FIELD)
            schemas.newest(topic)
        encoder = LineEncoder(schemas, topic)

        def encoded(line: bytes) -> bytes | LineFault:
            with schemas.not_waiting():
                return encoder.encoded(line)

        return encoded

    def keys(self, topic: str, text: bytes) -> list[bytes]:
        """Return the bytes that a key has which decoded lines show as `text`, by each schema for keys of the topic.

        OSError EREMOTEIO if a registry does not say whether there is one.
        """
        schemas = self.opened()
        from offsetfs.schemas.decoding import NoSchema
        from offsetfs.schemas.encoding import KeyEncoder

        schemas.refresh()
        with self._keys_lock:
            encoder = self._keys.setdefault(topic, KeyEncoder(schemas, topic))
            try:
                return encoder.encoded(text)
            except NoSchema as error:
                raise OSError(errno.EREMOTEIO, f"it is unknown whether keys have a schema: {error.reason}") from error

    def format_of(self, name: TopicPartition) -> DecodedFormat:
        """Return a new format for a partition."""
        schemas = self.opened()
        from offsetfs.schemas.decoded_lines import DecodedLines
        from offsetfs.schemas.decoding import NoSchema
        from offsetfs.schemas.json_texts import FollowingDecoder, MaskedDecoder
        from offsetfs.schemas.masks import MaskError
        from offsetfs.schemas.references import KEY_FIELD

        is_base64 = self._mount.options.json_bytes == BASE64
        made = MaskedDecoder if name.topic in schemas.masks else FollowingDecoder
        try:
            decoder = made(schemas, name.topic, is_base64=is_base64)
            keys = FollowingDecoder(schemas, name.topic, KEY_FIELD, is_base64=is_base64)
        except (NoSchema, MaskError) as error:  # of a topic with a mask, whose registry does not answer
            raise OSError(errno.EREMOTEIO, f"the mask cannot be applied: {error}") from error
        lines = DecodedLines(name, decoder, keys, is_base64=is_base64)
        return DecodedFormat(
            (decoder, keys),
            lines,
            LinesFormat(DECODED_VALUES.name, lines.values),
            LinesFormat(DECODED_RECORDS.name, lines.records),
        )


class PartitionFormats:
    """The current format of a partition."""

    def __init__(self, mount: MountContext, schemas: MountSchemas, name: TopicPartition) -> None:
        self._mount = mount
        self._schemas = schemas
        self._name = name
        self._format: DecodedFormat | None = None
        self._lock = trio.Lock()

    async def current(self) -> DecodedFormat:
        """Return the format for a new look-up: a new one if more values can be decoded now."""
        async with self._lock:
            current = self._format
            unknown = [decoder for decoder in current.decoders if decoder.has_unknown] if current is not None else []
            if unknown:
                is_outdated = await self._mount.executor.in_thread(
                    lambda: any(decoder.is_outdated() for decoder in unknown)
                )
                current = None if is_outdated else current
            if current is None:
                current = await self._mount.executor.in_thread(lambda: self._schemas.format_of(self._name))
            self._format = current
            return current

    async def values(self) -> ViewFormat:
        return (await self.current()).values

    async def records(self) -> ViewFormat:
        return (await self.current()).records


class DecodedRecords(RecordParts):
    """`decoded/<offset>`, or with `.json`. `number`: that of the record."""

    def __init__(
        self,
        mount: MountContext,
        partition: MountedPartition,
        records: RecordFiles,
        kind: Kind,
        formats: PartitionFormats,
    ) -> None:
        super().__init__(mount, partition, records, kind, lambda _: None)
        self._formats = formats

    async def _made(self, record_content: RecordContent) -> bytes:
        lines = (await self._formats.current()).lines
        make = lines.value_of if self.kind == Kind.DECODED_RECORD else lines.line_of
        return await self._mount.executor.in_thread(lambda: make(record_content.record))

    async def _entry(self, number: int, record_content: RecordContent) -> EntryAttributes | None:
        entry = await super()._entry(number, record_content)
        if entry is not None:  # it changes when its schema becomes known
            entry.attr_timeout = entry.entry_timeout = NEVER_S
        return entry

    async def open(self, number: int, opening: Opening) -> Opened:
        opened = await super().open(number, opening)
        assert isinstance(opened.handle, PartHandle)
        return Opened(opened.handle, direct=True)
