"""Values as texts of JSON, each as the schema that it names has them.

A value is not resolved with the newest schema of its topic: its text stays the same whatever versions come later, so
that files of such texts can grow.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from offsetfs.schemas.column_json import JsonColumns
from offsetfs.schemas.decoding import DECODERS_MAX, DecodedColumn, DirectorySchemas, TopicDecoder
from offsetfs.schemas.formats import DividingDecoder, SchemaReader, ValueDecoder, ValueFault, reader_of
from offsetfs.schemas.masks import Masks
from offsetfs.schemas.references import KEY_FIELD, VALUE_FIELD, NamedSchema
from offsetfs.schemas.schema_files import FileSchema
from offsetfs.schemas.schema_usage import KnownSchemas
from offsetfs.storage import AnyLogDirectory

if TYPE_CHECKING:
    from offsetfs.schemas.background_registry import BackgroundRegistry
    from offsetfs.schemas.catalog import SchemaCatalog
    from offsetfs.schemas.masks import TypeMember
    from offsetfs.schemas.schema_usage import Known

TEXT, SCHEMA = "text", "schema"

_BLANKS = bytes.maketrans(b"\r\n", b"  ")


class JsonTexts:
    """A reader of values of all formats. `is_base64`: as of `JsonColumns`."""

    format = ""
    type = pa.struct([(TEXT, pa.binary()), (SCHEMA, pa.binary())])
    """The JSON of a value, and of the schema that it names."""
    fields = None

    def __init__(self, is_base64: bool = False) -> None:
        self._is_base64 = is_base64

    def members(self) -> Iterable[TypeMember]:
        """Return no columns."""
        return ()

    def with_fields(self, names: Sequence[str]) -> SchemaReader:
        raise AssertionError("texts have no fields")

    def decoder(self, writer: Known, catalog: SchemaCatalog) -> JsonTextDecoder:
        """Return the decoder of a schema. `InvalidSchema`; `SchemasDiffer`."""
        decoder = reader_of(writer, catalog).decoder(writer, catalog)
        return JsonTextDecoder(decoder, _described(writer), self._is_base64, is_json=writer.type == "JSON")


class _MovedFault(NamedTuple):
    """A fault of values of one type among others."""

    row: int
    reason: str


class JsonTextDecoder:
    """Decodes values of one schema as texts. `is_json`: the values are JSON, and stay as they are."""

    def __init__(
        self, decoder: ValueDecoder, described: Mapping[str, object], is_base64: bool, *, is_json: bool = False
    ) -> None:
        self._is_json = is_json
        self._decoder = decoder
        self._described = described
        self._is_base64 = is_base64

    def decode(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> tuple[pa.Array, Sequence[ValueFault]]:
        """See `ValueDecoder.decode`. `DecompressionLimit` if the texts take more than 512 MiB."""
        if not isinstance(self._decoder, DividingDecoder):
            return self._decoded(self._decoder, values, rows, skip, path)
        parts, orders, faults = [pa.nulls(0, JsonTexts.type)], [np.zeros(0, np.int64)], list[_MovedFault]()
        for picks, decoder, name in self._decoder.divided(values, rows, skip, path):
            chosen = array("i", np.frombuffer(rows, np.int32)[picks].tobytes())
            part, wrong = self._decoded(decoder, values, chosen, skip, path, name)
            parts.append(part)
            orders.append(picks)
            faults += [_MovedFault(int(picks[fault.row]), decoder.reason(fault)) for fault in wrong]
        places = np.empty(len(rows), np.int64)
        places[np.concatenate(orders)] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(places)), sorted(faults)

    def _decoded(
        self,
        decoder: ValueDecoder,
        values: pa.BinaryArray,
        rows: array[int],
        skip: int,
        path: bytes | None,
        name: str = "",
    ) -> tuple[pa.Array, Sequence[ValueFault]]:
        decoded, faults = decoder.decode(values, rows, skip, path)
        if self._is_json:
            texts = _as_they_stand(values, rows, skip)
        else:
            columns = JsonColumns(self._is_base64)
            columns.add(decoded)
            texts = columns.texts()
        if len(faults):
            is_there = np.ones(len(texts), bool)
            is_there[[fault.row for fault in faults]] = False
            texts = texts.filter(pa.array(is_there)).take(_places(is_there))
        schemas = pa.repeat(pa.scalar(self._schema_of(name), pa.binary()), len(texts))
        return pa.StructArray.from_arrays([texts, schemas], fields=list(JsonTexts.type)), faults

    def _schema_of(self, name: str) -> bytes:
        """Return the JSON that names the schema of a value, and its message if that is not the first."""
        described = {**self._described, "message": name} if name else self._described
        return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode()

    def reason(self, fault: Any) -> str:
        """See `ValueDecoder.reason`."""
        return fault.reason if isinstance(fault, _MovedFault) else self._decoder.reason(fault)


def _as_they_stand(values: pa.BinaryArray, rows: array[int], skip: int) -> pa.BinaryArray:
    """Return values of JSON in one line each. A newline in JSON is between its tokens, where a blank does as well."""
    found = values.take(pa.array(np.frombuffer(rows, np.int32))).to_pylist()
    return pa.array([value[skip:].translate(_BLANKS) for value in found], pa.binary())


def _places(is_there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    """Return the positions among the rows that are there; null for others."""
    return pa.array(np.cumsum(is_there) - 1, mask=~is_there)


def _described(schema: Known) -> Mapping[str, object]:
    """Return what names a schema in a line."""
    if isinstance(schema, FileSchema):
        return {"file": schema.path}
    return {"id": schema.id, "subject": schema.subject, "version": schema.version}


# --- schemas that come later -----------------------------------------------------------------------------------------


class FollowingSchemas(DirectorySchemas):
    """The schemas of a directory for several threads."""

    def __init__(
        self,
        directory: AnyLogDirectory,
        files: Mapping[str, FileSchema],
        masks: Masks | None = None,
        registry: BackgroundRegistry | None = None,
    ) -> None:
        super().__init__(directory, files, masks, registry)
        self._background = registry
        self._changes = 0
        self._lock = threading.Lock()
        self.refresh()

    def refresh(self) -> bool:
        with self._lock:
            changes = 0 if self._background is None else self._background.changes()
            if changes != self._changes:  # what was unknown may be known now
                self._changes = changes
                self._known = KnownSchemas(self._catalog, self._files, self._background)
                super().refresh()
                return True
            return super().refresh()

    @property
    def has_registry(self) -> bool:
        """Whether a registry is asked for what is not here."""
        return self._background is not None

    def not_waiting(self) -> AbstractContextManager[None]:
        """Let this thread wait for no answer of a registry."""
        return nullcontext() if self._background is None else self._background.not_waiting()

    @property
    def known(self) -> KnownSchemas:
        """What is known now."""
        with self._lock:
            return self._known


class MaskedTexts:
    """Decodes the values of a topic with a mask as texts, by the columns of its newest schema: as SQL does."""

    is_masked = True

    def __init__(self, schemas: DirectorySchemas, topic: str, *, is_base64: bool = False) -> None:
        """`NoSchema`; `MaskError`."""
        self._decoder = schemas.decoder(topic, schemas.reader(topic))
        self._is_base64 = is_base64

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray | None = None) -> DecodedColumn:
        """Decode a column, as `TopicDecoder.decode`, with texts without schemas."""
        column = self._decoder.decode(values, headers)
        columns = JsonColumns(self._is_base64)
        columns.add(column.values)
        texts = pc.if_else(column.reasons.is_valid(), pa.scalar(None, pa.binary()), columns.texts())
        parts = [texts, pa.nulls(len(texts), pa.binary())]
        return DecodedColumn(pa.StructArray.from_arrays(parts, fields=list(JsonTexts.type)), column.reasons)


class MaskedDecoder(MaskedTexts):
    """The same for files of a mount."""

    def __init__(self, schemas: FollowingSchemas, topic: str, *, is_base64: bool = False) -> None:
        """`NoSchema`; `MaskError`."""
        self._schemas, self._checked = schemas, schemas.known
        super().__init__(schemas, topic, is_base64=is_base64)

    @property
    def has_unknown(self) -> bool:
        """Whether a value named a schema that a registry did not say."""
        return self._schemas.has_registry and self._decoder.has_failed

    def is_outdated(self) -> bool:
        """Return whether a new decoder would decode more. Without a registry, the columns stay."""
        self._schemas.refresh()
        known = self._schemas.known
        if known is self._checked:
            return False
        self._checked = known
        return self._decoder.would_decode_more(known)


class FollowingDecoder(TopicDecoder):
    """Decodes keys or values of a topic as texts. An unknown schema is looked for again, once; then it stays so."""

    def __init__(
        self, schemas: FollowingSchemas, topic: str, field: str = VALUE_FIELD, *, is_base64: bool = False
    ) -> None:
        self._schemas = schemas
        self._unknown: set[NamedSchema | None] = set()
        self._checked: KnownSchemas | None = None  # with which no unknown schema was found
        super().__init__(schemas.known, topic, field, JsonTexts(is_base64))

    @property
    def has_unknown(self) -> bool:
        """Whether a value named a schema that is unknown, or of no use."""
        return bool(self._unknown)

    def is_outdated(self) -> bool:
        """Return whether a new decoder would decode more. OSError of the disk."""
        self._schemas.refresh()
        known = self._schemas.known
        if known is self._checked:
            return False
        self._checked = known
        newer = TopicDecoder(known, self._topic, self._field, self._reader)
        return any(not isinstance(newer._made(named), str) for named in list(self._unknown))

    def _made(self, named: NamedSchema | None) -> ValueDecoder | str:
        made = super()._made(named)
        if named is None and self._field == KEY_FIELD and not self.has_schema:
            return made  # keys without schemas are no reason to look for new ones
        if isinstance(made, str):
            # A producer registers a schema before it sends a record with it.
            self._schemas.refresh()
            self._known = self._schemas.known
            made = super()._made(named)
        if isinstance(made, str) and len(self._unknown) < DECODERS_MAX:
            self._unknown.add(named)
        return made
