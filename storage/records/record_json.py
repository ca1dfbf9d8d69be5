"""Records as lines of JSON and back: the compiled `_record_json` and `_json_lines`, or their plain twins.

Both do the same to every input; the docstrings are in `record_json_pure` and `json_lines_pure`. OFFSETFS_PURE=1 in the
environment asks for the twins; so does a big-endian machine.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from offsetfs.storage.records.json_line import LineFault
from offsetfs.storage.records.json_lines_pure import JsonSplit, JsonSpread, Lane, LaneFor
from offsetfs.storage.records.record_json_pure import JSON_BYTES_MAX, Buffer, line_prefix, lines_of

if TYPE_CHECKING or os.environ.get("OFFSETFS_PURE") == "1" or sys.byteorder == "big":
    from offsetfs.storage.records.json_lines_pure import split_json, spread_json
    from offsetfs.storage.records.record_json_pure import join_json, measure_json
else:
    try:
        from offsetfs.storage.records._json_lines import split_json, spread_json
        from offsetfs.storage.records._record_json import join_json, measure_json
    except ModuleNotFoundError:  # a module that is there but does not load is an error to be seen
        from offsetfs.storage.records.json_lines_pure import split_json, spread_json
        from offsetfs.storage.records.record_json_pure import join_json, measure_json

IS_COMPILED = split_json.__module__ != "offsetfs.storage.records.json_lines_pure"

__all__ = [
    "IS_COMPILED",
    "JSON_BYTES_MAX",
    "Buffer",
    "JsonSplit",
    "JsonSpread",
    "Lane",
    "LaneFor",
    "LineFault",
    "join_json",
    "line_prefix",
    "lines_of",
    "measure_json",
    "split_json",
    "spread_json",
]
