"""Records as lines of JSON and back, compiled or in Python.

`offsetfs.storage.reference.record_json` and `.json_lines` have the docstrings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.json.json_line import LineFault
from offsetfs.storage.reference.json_lines import CursorFor, JsonRules, JsonSplit, JsonSpread
from offsetfs.storage.reference.record_json import JSON_BYTES_MAX, Buffer, line_prefix, lines_of

if TYPE_CHECKING:
    from offsetfs.storage.reference import json_lines as _json_lines
    from offsetfs.storage.reference import record_json as _record_json
else:
    _json_lines = select("json_lines")
    _record_json = select("record_json")

split_json = _json_lines.split_json
spread_json = _json_lines.spread_json
join_json = _record_json.join_json
measure_json = _record_json.measure_json

REFUSE = "refuse"
TEXT = "text"
JSON_VALUES = (REFUSE, TEXT)
"""Treatment of a `value` of a line that is a number, a boolean, an object or a list.

`REFUSE`: the line is wrong. `TEXT`: the value is its text, byte by byte as in the line. The words are those of the
mount option `json-values`, of `offsetfs spark import` and of the library.
"""

__all__ = [
    "JSON_BYTES_MAX",
    "JSON_VALUES",
    "REFUSE",
    "TEXT",
    "BatchCursor",
    "Buffer",
    "CursorFor",
    "JsonRules",
    "JsonSplit",
    "JsonSpread",
    "LineFault",
    "join_json",
    "line_prefix",
    "lines_of",
    "measure_json",
    "split_json",
    "spread_json",
]
