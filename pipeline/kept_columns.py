"""The columns of a stream of decoded values, kept over restarts in a file of `schemaLocation`.

    {"topic": "orders", "value": {"type": "struct", "fields": […]}, "key": "binary"}     types as Spark writes them

That is a directory, or a URL of object storage or HDFS, where clusters have their checkpoints. Spark asks a source for
its columns before it reads the checkpoint. With the file, they are those of the first start; without it, offsets in the
checkpoint have the types, so that another type ends the stream instead of changing it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping

from pyspark.sql import types as spark

from offsetfs.archive import urls
from offsetfs.archive.object_store import ObjectStore, StoreSettings
from offsetfs.pipeline.read_options import IN_MEMORY, OptionError
from offsetfs.storage import files
from offsetfs.storage.errors import sentence

NAME = "offsetfs-columns.json"

_BYTES_MAX = 16 << 20
_TYPE_MAX = 60


Types = tuple[spark.DataType, spark.DataType]
"""The types of values and of keys."""


def kept_types(place: str, topic: str, newest: Types, timeout_s: float = IN_MEMORY.timeout_s) -> Types:
    """Return the types that a directory or URL has; the newest ones, once written, if it has none.

    `timeout_s`: of a request to object storage. `OptionError` if the file is of another topic, or cannot be used.
    """
    value, key = newest
    content = json.dumps({"topic": topic, "value": value.jsonValue(), "key": key.jsonValue()}).encode()
    keep = _kept_in_store if urls.is_remote(place) else _kept_in_directory
    try:
        kept = keep(place, content, timeout_s)
    except OSError as error:
        raise OptionError(f"option schemaLocation: {sentence(error)}") from error
    return newest if kept is None else _parsed(kept, os.path.join(place, NAME), topic)


def _kept_in_directory(place: str, content: bytes, timeout_s: float) -> bytes | None:
    """Return what the file has; None after it was written, because there was none. OSError."""
    path = os.path.join(place, NAME)
    try:
        return files.read_file(path, _BYTES_MAX)
    except FileNotFoundError:
        os.makedirs(place, exist_ok=True)
        files.replace_file(path, content)
        return None


def _kept_in_store(place: str, content: bytes, timeout_s: float) -> bytes | None:
    """The same for a URL. Of several first starts, one writes."""
    store = ObjectStore(place, StoreSettings(timeout_s=timeout_s))
    kept = store.read_if_present(NAME, _BYTES_MAX)
    if kept is None and not store.create(NAME, content):
        kept = store.read_if_present(NAME, _BYTES_MAX)
    return kept


def _parsed(data: bytes, path: str, topic: str) -> Types:
    try:
        content = json.loads(data)
        owner, described = content["topic"], (content["value"], content.get("key", "binary"))
        fields = [{"name": "", "type": type_text, "nullable": True, "metadata": {}} for type_text in described]
        value, key = spark.StructType.fromJson({"type": "struct", "fields": fields}).fields
    except Exception as error:  # Spark's parser raises anything
        raise OptionError(f"option schemaLocation: {path} is damaged; give another directory") from error
    if owner != topic:
        raise OptionError(f"option schemaLocation: {path} has the columns of {owner}; give another directory")
    return value.dataType, key.dataType


def described_columns(value: spark.DataType) -> dict[str, str]:
    """Return the types of the fields of values, or keys, for the offsets of a stream; long ones as a digest."""
    if not isinstance(value, spark.StructType):
        return {"": _short(value)}
    return {field.name: _short(field.dataType) for field in value.fields}


def _short(kind: spark.DataType) -> str:
    text = str(kind.simpleString())
    if len(text) <= _TYPE_MAX:
        return text
    return f"{kind.typeName()} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def check_columns(before: Mapping[str, str], now: Mapping[str, str], column: str = "value") -> None:
    """Raise `OptionError` if a field has another type than before, or is gone. New fields are no change of others."""
    for name, kind in before.items():
        if now.get(name) != kind:
            place = f"{column}.{name}" if name else column
            found = f"is {now[name]} now" if name in now else "is gone"
            raise OptionError(
                f"the stream began with {place} as {kind}, which {found}: .schema(…) keeps the columns of before,"
                " and option schemaLocation keeps those of new streams"
            )
