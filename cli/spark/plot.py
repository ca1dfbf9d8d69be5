"""The plot of `offsetfs spark stats`: the distribution of bytes, records and keys over partitions.

An SVG file of rectangles and words, a line for each partition: left its bytes, right its records, of which the darker
part may all have the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from offsetfs.common.formatting import size

WIDTH = 960
_BYTES_LEFT, _RECORDS_LEFT, _BAR_WIDTH = 220, 600, 240
_TOP, _STEP, _BAR_HEIGHT = 58, 24, 15
_NAME_MAX = 30

_STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.bytes { fill: #a9b3bd } .records { fill: #8fc1a9 } .hottest { fill: #2f6f4f }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .bytes { fill: #59636e } .records { fill: #57ab7f } .hottest { fill: #b7e4cd }
}"""


def svg(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Return the picture of partitions, each with the fields of `PartitionStats`."""
    most_bytes = max((row["bytes"] for row in rows), default=0) or 1
    most_records = max((row["records"] for row in rows), default=0) or 1
    height = _TOP + _STEP * len(rows) + 6
    lines = [_line(_TOP + _STEP * index, row, most_bytes, most_records) for index, row in enumerate(rows)]
    heads = ((0, "partition"), (_BYTES_LEFT, "bytes"), (_RECORDS_LEFT, "records; dark: at most so many of one key"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
            f' role="img" aria-label="{escape(title)}">',
            f"<style>\n{_STYLE}\n</style>",
            f'<text class="title" x="0" y="16">{escape(title)}</text>',
            *(f'<text class="title" x="{left}" y="44">{escape(head)}</text>' for left, head in heads),
            *lines,
            "</svg>\n",
        ]
    )


def _line(top: int, row: Mapping[str, Any], most_bytes: int, most_records: int) -> str:
    name = f"{row['topic']}-{row['partition']}"
    shown = name if len(name) <= _NAME_MAX else f"…{name[1 - _NAME_MAX :]}"
    hottest = min(row["hottest_key_records"], row["keyed"])
    share = f", {hottest / row['keyed']:.0%}" if row["keyed"] else ""
    return "\n".join(
        (
            f'<text x="0" y="{top + 12}"><title>{escape(name)}</title>{escape(shown)}</text>',
            _bar("bytes", _BYTES_LEFT, top, row["bytes"] / most_bytes, size(row["bytes"])),
            _bar("records", _RECORDS_LEFT, top, row["records"] / most_records, f"{row['records']:,}{share}"),
            _bar("hottest", _RECORDS_LEFT, top, hottest / most_records),
        )
    )


def _bar(kind: str, left: int, top: int, share: float, label: str = "") -> str:
    width = share * _BAR_WIDTH
    bar = f'<rect class="{kind}" x="{left}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT}"/>'
    return f'{bar}<text x="{left + width + 6:.1f}" y="{top + 12}">{escape(label)}</text>' if label else bar
