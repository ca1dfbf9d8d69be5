"""Rows counted by patterns, compiled or in Python. `offsetfs.storage.reference.field_patterns` has the docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetfs.storage.native import select
from offsetfs.storage.reference.field_patterns import BEYOND, NULL, OTHER, FieldPattern, PatternCount

if TYPE_CHECKING:
    from offsetfs.storage.reference import field_patterns as _field_patterns
else:
    _field_patterns = select("field_patterns")

count_patterns = _field_patterns.count_patterns

__all__ = ["BEYOND", "NULL", "OTHER", "FieldPattern", "PatternCount", "count_patterns"]
