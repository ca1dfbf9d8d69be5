"""Protobuf as a format of `schemas.formats`.

Behind the id of a schema, Confluent's serializers write which of its messages a value is: a path of indexes, in which
one byte 0 means the first. kafkajs writes no path. A field begins with a byte of 8 or more, and a path that begins with
such a byte is one of four or more indexes: it is taken for a path only if the schema has a message there.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from offsetfs.schemas.catalog import BrokenReference, SchemaVersion
from offsetfs.schemas.formats import InvalidSchema, SchemasDiffer
from offsetfs.schemas.named_rows import NamedRows
from offsetfs.schemas.protobuf_arrow import ProtobufDecoder, ProtobufFault, protobuf_members
from offsetfs.schemas.protobuf_declarations import DEPTH_MAX, FILE_BYTES_MAX
from offsetfs.schemas.protobuf_schema import MessageType, ProtoSchema, parsed
from offsetfs.schemas.protobuf_wire import Damaged, varint, varint_bytes

if TYPE_CHECKING:
    from offsetfs.schemas.catalog import SchemaCatalog
    from offsetfs.schemas.masks import TypeMember
    from offsetfs.schemas.schema_usage import Known

FOLDERS_MAX = 8
"""Folders around a file of the user in which its imports are looked for."""

_FIRST = (0,)
_FIELD_MIN = 8
"""The smallest first byte of a message."""

_HEAD_BYTES = 5 * (DEPTH_MAX + 1)
_PREFIXES_MAX = 16
"""Paths of a batch that are found in whole columns; the rows of further ones are looked at one by one."""

Numbers: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"
Bytes: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"
_Resolved: TypeAlias = "tuple[int, MessageType | None]"
"""The bytes that a path takes, and the message to which it leads."""


class ProtobufReader:
    """The columns of a message."""

    format = "PROTOBUF"

    def __init__(self, schema: ProtoSchema, message: MessageType, names: Sequence[str] | None = None) -> None:
        """`message`: of this schema. `names`: the fields that are columns; None: all. `SchemasDiffer`."""
        self._schema, self._message, self._names = schema, message, names
        self.type = ProtobufDecoder(message, message, names).type
        self.fields = [self.type.field(at).name for at in range(self.type.num_fields)]

    def members(self) -> Iterator[TypeMember]:
        """Yield the columns."""
        return protobuf_members(self._message)

    def with_fields(self, names: Sequence[str]) -> ProtobufReader:
        """Return a reader of some fields."""
        return ProtobufReader(self._schema, self._message, names)

    @property
    def is_certain(self) -> bool:
        """Whether values can only be of this message."""
        return self._schema.is_one_message

    def of_most(
        self,
        rows: Iterable[NamedRows],
        values: pa.BinaryArray,
        find: Callable[[NamedRows], tuple[Known, SchemaCatalog] | None],
    ) -> ProtobufReader:
        """Return the reader of the message that most of some values are; this one if none of them says.

        `find` returns the schema that rows name, and the catalog that has those to which it refers.
        """
        counts = Counter[str]()
        for named in rows:
            found = find(named)
            if found is None or found[0].type != self.format or named.is_compressed:
                continue
            with contextlib.suppress(InvalidSchema):
                decoder = ProtobufValueDecoder(proto_schema(*found), self)
                counts.update(
                    decoder.messages(values, array("i", named.rows.astype(np.int32).tobytes()), named.skip, named.path)
                )
        for name, _ in counts.most_common():
            message = self._schema.named(name)
            if message is not None:
                return ProtobufReader(self._schema, message)
        return self

    def decoder(self, writer: Known, catalog: SchemaCatalog) -> ProtobufValueDecoder:
        """Return the decoder of a writer's schema. `InvalidSchema`; `SchemasDiffer`."""
        return ProtobufValueDecoder(proto_schema(writer, catalog), self)

    def decoder_of(self, writer: MessageType) -> ProtobufDecoder:
        """Return the decoder of a writer's message. `SchemasDiffer`."""
        if writer.name != self._message.name:
            raise SchemasDiffer(f"the message is {writer.name}, and the columns are those of {self._message.name}")
        return ProtobufDecoder(writer, self._message, self._names)


class ProtobufValueDecoder:
    """Decodes values of a writer's schema."""

    def __init__(self, schema: ProtoSchema, reader: ProtobufReader) -> None:
        """`SchemasDiffer` if the first message is that of the reader, and has a field that cannot be read."""
        self._schema, self._reader = schema, reader
        self._depth = schema.depth
        self._decoders: dict[str, ProtobufDecoder | str] = {}
        self._own: dict[str, ProtobufValueDecoder] = {}

    def decode(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> tuple[pa.Array, Sequence[ProtobufFault]]:
        """See `ValueDecoder.decode`."""
        parts, orders, faults = [], [], []
        for picks, skips, message in self._groups(values, rows, skip, path):
            decoder = self._decoder_of(message)
            orders.append(picks)
            if isinstance(decoder, str):
                parts.append(pa.nulls(len(picks), self._reader.type))
                faults += [ProtobufFault(row, decoder) for row in picks.tolist()]
                continue
            chosen = np.frombuffer(rows, np.int32)[picks]
            skipped = array("i", skips.astype(np.int32).tobytes())
            found, wrong = decoder.decode(values, array("i", chosen.tobytes()), skipped)
            parts.append(found)
            faults += [ProtobufFault(int(picks[fault.row]), fault.reason) for fault in wrong]
        if len(parts) == 1:
            return parts[0], faults
        joined = pa.concat_arrays(parts) if parts else pa.nulls(0, self._reader.type)
        places = np.empty(len(rows), np.int64)
        places[np.concatenate([np.zeros(0, np.int64), *orders])] = np.arange(len(rows))
        return joined.take(pa.array(places)), sorted(faults)

    def divided(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> Iterator[tuple[Numbers, ProtobufValueDecoder, str]]:
        """Yield positions in `rows`, the decoder that reads them as the message that they are, and what names it.

        The name is empty for the first message of the schema.
        """
        for picks, _, message in self._groups(values, rows, skip, path):
            name = "" if message is None else message.name
            if name not in self._own:
                reader = self._reader if message is None else ProtobufReader(self._schema, message)
                self._own[name] = ProtobufValueDecoder(self._schema, reader)
            yield picks, self._own[name], "" if message is self._schema.message(_FIRST) else name

    def messages(self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None) -> Counter[str]:
        """Return how many of the rows are of each message, by its name. Arguments as those of `decode`."""
        counts = Counter[str]()
        for picks, _, message in self._groups(values, rows, skip, path):
            if message is not None:
                counts[message.name] += len(picks)
        return counts

    def reason(self, fault: ProtobufFault) -> str:
        """Return the field, and what is wrong with it."""
        return fault.reason

    def _decoder_of(self, message: MessageType | None) -> ProtobufDecoder | str:
        if message is None:
            return "the path of the message leads to no message of its schema"
        found = self._decoders.get(message.name)
        if found is None:
            try:
                found = self._reader.decoder_of(message)
            except SchemasDiffer as error:
                found = str(error)
            self._decoders[message.name] = found
        return found

    # --- the path ----------------------------------------------------------------------------------------------------

    def _groups(
        self, values: pa.BinaryArray, rows: array[int], skip: int, path: bytes | None
    ) -> Iterator[tuple[Numbers, Numbers, MessageType | None]]:
        """Yield positions in `rows`, the bytes to skip of each, and the message that they are."""
        every = np.arange(len(rows), dtype=np.int64)
        if path is not None:
            size, message = self._resolved(path) if path else (0, self._schema.message(_FIRST))
            yield every, np.full(len(rows), skip, np.int64), message if size == len(path) else None
            return
        _, ends_held, data_held = values.buffers()
        picks = np.frombuffer(rows, np.int32)
        ends = np.frombuffer(ends_held, np.int32)
        data = np.frombuffer(data_held if data_held is not None and data_held.size else b"\0", np.uint8)
        starts = ends[picks].astype(np.int64) + skip
        stops = ends[picks + 1].astype(np.int64)
        has_path = starts < stops
        first = np.where(has_path, data[np.where(has_path, starts, 0)], 255)
        is_bare = (first >= _FIELD_MIN) & (first > 2 * self._depth)
        for chosen, size in ((first == 0, 1), (is_bare, 0)):
            if chosen.any():
                yield every[chosen], np.full(int(chosen.sum()), skip + size, np.int64), self._schema.message(_FIRST)
        left = every[(first != 0) & ~is_bare]
        if len(left):
            yield from self._by_path(data, left, starts, stops, skip)

    def _by_path(
        self, data: Bytes, left: Numbers, starts: Numbers, stops: Numbers, skip: int
    ) -> Iterator[tuple[Numbers, Numbers, MessageType | None]]:
        """Yield the same as `_groups` for rows whose path is not that of the first message."""
        for _ in range(_PREFIXES_MAX):
            at = starts[left[0]]
            size, message = self._resolved(data[at : min(at + _HEAD_BYTES, stops[left[0]])].tobytes())
            if not size:
                break
            same = stops[left] - starts[left] >= size
            for place in range(size):
                same[same] = data[starts[left[same]] + place] == data[at + place]
            yield left[same], np.full(int(same.sum()), skip + size, np.int64), message
            left = left[~same]
            if not len(left):
                return
        found: dict[str, tuple[MessageType | None, list[int], list[int]]] = {}
        for row in left.tolist():
            size, message = self._resolved(data[starts[row] : min(starts[row] + _HEAD_BYTES, stops[row])].tobytes())
            group = found.setdefault("" if message is None else message.name, (message, [], []))
            group[1].append(row)
            group[2].append(skip + size)
        for message, picks, skips in found.values():
            yield np.array(picks, np.int64), np.array(skips, np.int64), message

    def _resolved(self, head: bytes) -> _Resolved:
        """Return how many bytes the path in front of a message takes, and the message. `head` is not empty."""
        found = path_of(head)
        message = None if found is None else self._schema.message(found[0])
        if message is None and head[0] >= _FIELD_MIN:
            return 0, self._schema.message(_FIRST)
        return (0, None) if found is None else (found[1], message)


def path_of(data: bytes) -> tuple[tuple[int, ...], int] | None:
    """Return the indexes of a path in front of a message, and its size; None if there is none."""
    try:
        count, at = varint(data, 0)
        if count == 0:
            return _FIRST, at
        if count & 1 or count >> 1 > DEPTH_MAX:
            return None
        indexes = []
        for _ in range(count >> 1):
            index, at = varint(data, at)
            if index & 1:
                return None
            indexes.append(index >> 1)
        return tuple(indexes), at
    except Damaged:
        return None


def path_bytes(path: Sequence[int]) -> bytes:
    """Return the path of a message as it stands in front of a value: one byte for the first message."""
    if tuple(path) == _FIRST:
        return b"\0"
    return b"".join(varint_bytes(number << 1) for number in (len(path), *path))


# --- schemas ---------------------------------------------------------------------------------------------------------


def reader_of(known: Known, catalog: SchemaCatalog) -> ProtobufReader:
    """Return the reader of the first message of a schema. `InvalidSchema`; `SchemasDiffer`."""
    schema = proto_schema(known, catalog)
    message = schema.message(_FIRST)
    if message is None:
        raise InvalidSchema("the schema declares no message")
    return ProtobufReader(schema, message)


def proto_schema(known: Known, catalog: SchemaCatalog) -> ProtoSchema:
    """Return the messages that a schema declares. `InvalidSchema` if it does not parse, or a reference is missing."""
    if not isinstance(known, SchemaVersion):
        return parsed(known.text, _beside(known.path))
    try:
        return parsed(known.text, {reference.name: target.text for reference, target in catalog.referred(known)}.get)
    except BrokenReference as error:
        raise InvalidSchema(str(error)) from error


def _beside(path: str) -> Callable[[str], str | None]:
    """Return a function that finds the imports of a file: in its folder, or in one of those around it."""

    def find(name: str) -> str | None:
        folder = os.path.dirname(os.path.abspath(path))
        parts = name.split("/")
        if os.path.isabs(name) or any(part in ("", ".", "..") for part in parts):
            return None
        for _ in range(FOLDERS_MAX):
            try:
                with open(os.path.join(folder, *parts), "rb") as opened:
                    return opened.read(FILE_BYTES_MAX + 1).decode("utf-8", "replace")
            except OSError:
                folder = os.path.dirname(folder)
        return None

    return find
