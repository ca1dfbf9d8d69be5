"""Schemas in files of the user: for records whose registry is gone, or names schemas in a form of its own.

    NAME=FILE    NAME is what records name: an id, a GUID or UUID, a URI; or for records that name no schema a topic,
                 TOPIC:key for their keys
    FOLDER       each file of a known type in it, with its name without ending as NAME

The ending is the type: .avsc AVRO, .json JSON, .proto PROTOBUF; .desc and .pb as well, which are descriptors that
`protoc --include_imports --descriptor_set_out` writes. Avro schemas are found by their fingerprint as well.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable
from dataclasses import dataclass

TYPES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON", ".desc": "PROTOBUF", ".pb": "PROTOBUF"}
_BINARY = (".desc", ".pb")
FILE_BYTES_MAX = 16 << 20
FILES_MAX = 100_000


class SchemaFileError(Exception):
    """A file that cannot be used. Cure: the message names the file and what is wrong."""


@dataclass(frozen=True, slots=True)
class FileSchema:
    """A schema in a file."""

    name: str
    type: str
    text: str
    """That of descriptors is base64, as registries store them."""
    path: str

    def __str__(self) -> str:
        return self.path


def read_schema_files(words: Iterable[str]) -> dict[str, FileSchema]:
    """Return the schemas by name; of several with the same name, the last. `SchemaFileError`; OSError of the disk."""
    found: dict[str, FileSchema] = {}
    for word in words:
        if os.path.isdir(word):
            names = sorted(name for name in os.listdir(word) if os.path.splitext(name)[1] in TYPES)
            if not names:
                raise SchemaFileError(f"{word}: has no file that ends in {', '.join(TYPES)}")
            given = [(os.path.splitext(name)[0], os.path.join(word, name)) for name in names]
        else:
            name, equals, path = word.rpartition("=")
            if not equals or not name:
                raise SchemaFileError(f"{word}: is neither NAME=FILE nor a directory")
            given = [(name, path)]
        if len(found) + len(given) > FILES_MAX:
            raise SchemaFileError(f"{word}: more than {FILES_MAX} files")
        for name, path in given:
            found[name.lower()] = _read(name, path)
    return found


def _read(name: str, path: str) -> FileSchema:
    ending = os.path.splitext(path)[1]
    kind = TYPES.get(ending)
    if kind is None:
        raise SchemaFileError(f"{path}: the type is unknown; the ending is one of {', '.join(TYPES)}")
    with open(path, "rb") as opened:
        data = opened.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise SchemaFileError(f"{path}: is larger than {FILE_BYTES_MAX >> 20} MiB")
    if ending in _BINARY:
        return FileSchema(name, kind, base64.b64encode(data).decode(), path)
    try:
        return FileSchema(name, kind, data.decode(), path)
    except UnicodeDecodeError as error:
        raise SchemaFileError(f"{path}: is not UTF-8 at byte {error.start}") from None
