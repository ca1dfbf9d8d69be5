"""The columns of a stream of decoded values, kept over restarts in a file of the directory `schemaLocation`.

    {"topic": "orders", "value": {"type": "struct", "fields": […]}}     the type as Spark writes it

Spark asks a source for its columns before it reads the checkpoint. With the file, they are those of the first start;
without it, offsets in the checkpoint have the types, so that another type ends the stream instead of changing it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping

from pyspark.sql import types as spark

from offsetfs.pipeline.read_options import OptionError
from offsetfs.storage import files
from offsetfs.storage.errors import sentence

NAME = "offsetfs-columns.json"

_BYTES_MAX = 16 << 20
_TYPE_MAX = 60


def kept_type(directory: str, topic: str, newest: spark.DataType) -> spark.DataType:
    """Return the type of decoded values that a directory has; the newest one, once it is written, if it has none.

    `OptionError` if the file is of another topic, or cannot be used.
    """
    path = os.path.join(directory, NAME)
    try:
        return _parsed(files.read_file(path, _BYTES_MAX), path, topic)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OptionError(f"option schemaLocation: {sentence(error)}") from error
    content = {"topic": topic, "value": newest.jsonValue()}
    try:
        os.makedirs(directory, exist_ok=True)
        files.replace_file(path, json.dumps(content).encode())
    except OSError as error:
        raise OptionError(f"option schemaLocation: {sentence(error)}") from error
    return newest


def _parsed(data: bytes, path: str, topic: str) -> spark.DataType:
    try:
        content = json.loads(data)
        owner, described = content["topic"], content["value"]
        fields = [{"name": "value", "type": described, "nullable": True, "metadata": {}}]
        found = spark.StructType.fromJson({"type": "struct", "fields": fields}).fields[0].dataType
    except Exception as error:  # Spark's parser raises anything
        raise OptionError(f"option schemaLocation: {path} is damaged; give another directory") from error
    if owner != topic:
        raise OptionError(f"option schemaLocation: {path} has the columns of {owner}; give another directory")
    return found


def described_columns(value: spark.DataType) -> dict[str, str]:
    """Return the types of fields for the offsets of a stream; long ones as a digest."""
    if not isinstance(value, spark.StructType):
        return {"": _short(value)}
    return {field.name: _short(field.dataType) for field in value.fields}


def _short(kind: spark.DataType) -> str:
    text = str(kind.simpleString())
    if len(text) <= _TYPE_MAX:
        return text
    return f"{kind.typeName()} {hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def check_columns(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise `OptionError` if a field has another type than before, or is gone. New fields are no change of others."""
    for name, kind in before.items():
        if now.get(name) != kind:
            place = f"value.{name}" if name else "value"
            found = f"is {now[name]} now" if name in now else "is gone"
            raise OptionError(
                f"the stream began with {place} as {kind}, which {found}: .schema(…) keeps the columns of before,"
                " and option schemaLocation keeps those of new streams"
            )
