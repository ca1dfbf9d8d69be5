"""The condition of `offsetfs find` that a regular expression of RE2 matches. It is imported only for patterns.

Plain batches come as groups, because Arrow compiles a pattern for each call.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from offsetfs.answers.find_conditions import Buffer
from offsetfs.common.name_patterns import PatternError, common_prefix, compiled
from offsetfs.storage import Batch
from offsetfs.storage.records import (
    COLUMNS,
    IN_HEADERS,
    IN_KEY,
    IN_VALUE,
    KEY,
    VALUE,
    contains,
    gather,
    gather_headers,
)

ONE_BY_ONE_MAX = 50_000
"""The fields that a pattern is matched with one by one, before Arrow is imported, which takes as long as that."""

_ASSERTIONS = ("^", "$", "\\b", "\\B", "\\A", "\\z")
"""Texts of a pattern that may look at what is around a match. A batch is then not rejected as a whole."""


@dataclass(slots=True)
class HasPattern:
    """A regular expression of RE2 matches somewhere in one of the fields.

    Patterns are of Unicode; bytes that are no UTF-8 match `\\C` only.
    """

    pattern: str
    fields: int
    _program: Any = field(init=False, compare=False)
    _prefix: bytes = field(init=False, compare=False)
    """The bytes with which every match begins."""
    _sees_around: bool = field(init=False, compare=False)
    _matched: int = field(default=0, init=False, compare=False)
    """About how many fields were matched one by one: threads add to it."""

    @classmethod
    def of_text(cls, text: str, fields: int) -> HasPattern:
        """Return the condition that a field contains a text in any case; `PatternError`."""
        try:
            return cls(f"(?i){re2.escape(text)}", fields)
        except UnicodeEncodeError:
            raise PatternError("it is not Unicode text, so that its case is not known") from None

    def __post_init__(self) -> None:
        """`PatternError` if it is not a regular expression."""
        self._program = compiled(self.pattern, has_groups=False)
        self._prefix = common_prefix(self.pattern)
        self._sees_around = any(sign in self.pattern for sign in _ASSERTIONS)

    def may_be_in(self, data: Buffer, magic: int) -> bool:
        return contains(data, self._prefix) and (self._sees_around or self._program.search(data) is not None)

    def rows(self, batch: Batch, rows: array[int]) -> array[int]:
        found = set[int]()
        for flag, column in (IN_KEY, KEY), (IN_VALUE, VALUE):
            if self.fields & flag:
                found.update(self._matching(gather(batch.payload(), rows, column), len(rows) // COLUMNS))
        if self.fields & IN_HEADERS:
            headers = gather_headers(batch.payload(), rows)
            ends, count = headers.ends, headers.ends[-1]
            matching = {*self._matching(headers.names, count), *self._matching(headers.values, count)}
            if matching:
                found.update(
                    row for row in range(len(ends) - 1) if not matching.isdisjoint(range(ends[row], ends[row + 1]))
                )
        return array("q", sorted(found))

    def _matching(self, column: Any, count: int) -> Sequence[int]:
        if self._matched < ONE_BY_ONE_MAX:
            self._matched += count
            return self._matching_one_by_one(column, count)
        try:
            return self._matching_in_arrow(column, count)
        except ModuleNotFoundError:  # the extra is not installed
            return self._matching_one_by_one(column, count)

    def _matching_in_arrow(self, column: Any, count: int) -> Sequence[int]:
        import pyarrow as pa
        import pyarrow.compute as pc

        validity = None if column.validity is None else pa.py_buffer(column.validity)
        # As text, without a check: Arrow runs RE2 over binary columns as over Latin-1.
        buffers = [validity, pa.py_buffer(column.ends), pa.py_buffer(column.data)]
        texts = pa.Array.from_buffers(pa.string(), count, buffers)
        matches = pc.match_substring_regex(texts, self.pattern)
        return pc.indices_nonzero(matches).to_pylist()  # type: ignore[no-any-return]

    def _matching_one_by_one(self, column: Any, count: int) -> Sequence[int]:
        data, ends, validity = memoryview(column.data), column.ends, column.validity
        return [
            row
            for row in range(count)
            if (validity is None or validity[row >> 3] >> (row & 7) & 1)
            and self._program.search(data[ends[row] : ends[row + 1]]) is not None
        ]
