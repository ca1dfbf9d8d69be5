"""The compiled modules, and the one place that selects them or their references in `offsetfs.storage.reference`.

Module `native/codec.pyx` has the same functions as `reference/codec.py`, and so on. `.pxd` files are shared by several
modules and have no reference of their own.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # compiled modules have no stubs; their references have the types
    avro: ModuleType
    chain: ModuleType
    codec: ModuleType
    column_json: ModuleType
    columns: ModuleType
    compaction: ModuleType
    comparison: ModuleType
    dump: ModuleType
    field_patterns: ModuleType
    index_search: ModuleType
    json_lines: ModuleType
    json_values: ModuleType
    key_hash: ModuleType
    message_set: ModuleType
    protobuf: ModuleType
    record_json: ModuleType
    record_sketch: ModuleType
    record_search: ModuleType
    valid_batches: ModuleType

LITTLE_ENDIAN_ONLY = frozenset(
    ("avro", "column_json", "json_lines", "json_values", "message_set", "protobuf", "record_json", "record_sketch")
)
"""Modules that read several bytes at once as a number: their references run on a big-endian machine."""


def select(name: str) -> ModuleType:
    """Return the compiled module, or its reference if `OFFSETFS_PURE=1` is set or the module was not compiled.

    `ImportError` if the compiled module exists but does not load, or lacks a name that is used: the reference would
    hide a broken installation.
    """
    if os.environ.get("OFFSETFS_PURE") == "1" or (sys.byteorder == "big" and name in LITTLE_ENDIAN_ONLY):
        return _reference(name)
    compiled = f"{__name__}.{name}"
    try:
        module = importlib.import_module(compiled)
    except ModuleNotFoundError as error:
        if error.name != compiled:  # it exists, and what it imports does not
            raise _of_other_sources(compiled, f"imports {error.name}, which does not exist") from error
        return _reference(name)
    module.__dict__["__getattr__"] = partial(_missing, compiled)  # PEP 562
    return module


def _missing(module: str, name: str) -> object:
    if name.startswith("__"):  # asked for by tools that look at any module
        raise AttributeError(f"module {module} has no attribute {name}")
    raise _of_other_sources(module, f"has no {name}")


def _of_other_sources(module: str, reason: str) -> ImportError:
    return ImportError(
        f"{module} {reason}: it was compiled from other sources than those that are imported; in a checkout, run "
        "scripts/setup; otherwise install offsetfs again",
        name=module,
    )


def _reference(name: str) -> ModuleType:
    return importlib.import_module(f"offsetfs.storage.reference.{name}")
